#include "partitioner/hybrid/stretch_load.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>

#include "partitioner/hybrid/ring_solver.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace {
namespace {

using testing_support::TinyInstances;

// A board whose engines read every kernel with every row: weights lie beside them, or come from its own memory.
class StreamingBoard final : public CostModel {
 public:
  struct Settings {
    double engines = 10, memory = 40, bytes_per_second = 1e4;
    double streams_memory = 1;  // of a shard whose weights are streamed
    double blocks = 1e30;       // the same memory, counted in another way
    bool larger = false;        // engines that are larger than need be, and may take less memory
  };
  explicit StreamingBoard(const Settings& settings)
      : settings_(settings), capacities_{{"memory", settings.memory}, {"engines", settings.engines}, {"blocks", settings.blocks}} {}

  std::string device() const override { return "board"; }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return 0; }
  bool holds_parameters(size_t resource) const override { return resource != 1; }
  std::vector<Constant> constants() const override { return {}; }
  bool dedicated_engines() const override { return true; }
  bool enlarges_engines(StreamedWords) const override { return settings_.larger; }
  std::vector<NamedAmount> inventory() const override { return {{"dram_bytes_per_second", settings_.bytes_per_second}}; }

  ShardDemand demand_of(const ShardQuestion& question) const override {
    return demand_with(question, question.most_tiles > 0 ? question.most_tiles : smallest(question));
  }
  std::vector<LargerEngine> larger_engines(const ShardQuestion& question) const override {
    std::vector<LargerEngine> found;
    if (!settings_.larger) return found;
    std::vector<ShardDemand> smaller;
    for (int64_t size = smallest(question); size < 40; ++size) {
      const ShardDemand demand = demand_with(question, size);
      const auto undercuts = [&](const ShardDemand& known) {
        return known.amounts[0] <= demand.amounts[0] && known.amounts[2] <= demand.amounts[2];
      };
      if (std::ranges::any_of(smaller, undercuts)) continue;
      if (!smaller.empty()) found.push_back({size, demand});
      smaller.push_back(demand);
    }
    return found;
  }
  ShardCost cost_of(const ShardQuestion&) const override { return {}; }

 private:
  static double pairs_of(const ShardQuestion& question) {
    double pairs = 0;
    for (const Block& block : question.blocks) pairs += static_cast<double>(block.inputs.size() * block.outputs.size());
    return pairs;
  }
  static int64_t smallest(const ShardQuestion& question) {
    return static_cast<int64_t>(std::ceil(1e-3 * pairs_of(question) / question.period_seconds));
  }
  // Words of some sizes fill a memory's columns badly, whatever the shard.
  double waste_of(int64_t size) const { return settings_.larger ? static_cast<double>((size * 7 + 3) % 5) : 0; }
  double blocks_wasted(int64_t size) const { return settings_.larger ? static_cast<double>(size % 3 == 1) * 2 : 0; }

  ShardDemand demand_with(const ShardQuestion& question, int64_t engine) const {
    double pairs = 0;
    ChannelRange inputs;
    for (const Block& block : question.blocks) {
      pairs += static_cast<double>(block.inputs.size() * block.outputs.size());
      inputs = hull(inputs, block.inputs);
    }
    ShardDemand demand;
    demand.amounts[1] = static_cast<double>(engine);
    demand.amounts[0] = waste_of(engine) + 2 * static_cast<double>(inputs.size()) +
                        (question.off_chip ? settings_.streams_memory : pairs * weight_of(question));
    demand.amounts[2] = blocks_wasted(engine) + (question.off_chip ? 1 : 1 + pairs * (is_convolution(question) ? 0.25 : 2));
    // Quarters of a millisecond add up the same in any order.
    if (question.off_chip) demand.seconds = std::ceil(4096 * pairs * rows_of(question) / settings_.bytes_per_second) / 4096;
    return demand;
  }
  static bool is_convolution(const ShardQuestion& question) { return std::holds_alternative<Conv2d>(question.node->layer.operation); }
  static double weight_of(const ShardQuestion& question) { return is_convolution(question) ? 2 : 0.5; }
  // Layers differ in what their words cost.
  static double rows_of(const ShardQuestion& question) { return 1 + static_cast<double>(question.node->layer.name.size() % 3) * 2; }

  Settings settings_;
  std::vector<NamedAmount> capacities_;
};

// Every cut, and every way to place weights.
class EveryWay {
 public:
  EveryWay(const RingSolver& solver, int64_t devices) : segments_(&solver.segments()), devices_(devices) {
    const Chain& chain = solver.chain();
    for (int64_t g = 0; g < chain.groups(); ++g) {
      positions_.push_back(chain.begin_of(g));
      for (const Progression& run : chain.places_inside(g, 1))
        for (int64_t place = run.begin; place <= run.end; place += run.step) positions_.push_back(place);
    }
    positions_.push_back(chain.end());
  }

  bool feasible(double period) const {
    std::vector<bool> reached(positions_.size(), false);
    reached[0] = true;
    for (int64_t d = 0; d < devices_; ++d) {
      std::vector<bool> next(positions_.size(), false);
      for (size_t from = 0; from < positions_.size(); ++from)
        for (size_t to = from + 1; reached[from] && to < positions_.size(); ++to)
          if (!next[to]) next[to] = fits(d, positions_[from], positions_[to], period);
      reached = next;
    }
    return reached.back();
  }

  // Stretches about which the search says something else.
  int64_t differences(double period) const {
    int64_t count = 0;
    for (int64_t d = 0; d < devices_; ++d)
      for (size_t from = 0; from < positions_.size(); ++from)
        for (size_t to = from + 1; to < positions_.size(); ++to)
          if (fits(d, positions_[from], positions_[to], period) != segments_->fits(d, positions_[from], positions_[to], period)) ++count;
    return count;
  }

  // Stretches whose least room the search finds otherwise, of those that fit.
  int64_t other_rooms(double period, int64_t& found) const {
    int64_t count = 0;
    for (int64_t d = 0; d < devices_; ++d)
      for (size_t from = 0; from < positions_.size(); ++from)
        for (size_t to = from + 1; to < positions_.size(); ++to) {
          const std::vector<ShardLoad> shards = shards_of(d, positions_[from], positions_[to], period);
          // Larger engines are looked at where nothing fits without.
          std::optional<double> least = least_room(d, shards, period, false);
          if (!least) least = least_room(d, shards, period, true);
          StretchLoad load(*segments_, d, period, {});
          for (const ShardLoad& shard : shards) load.add(shard);
          const std::optional<ShardDemand> smallest = load.smallest();
          found += smallest ? 1 : 0;
          if (least.has_value() != smallest.has_value() || (least && std::abs(*least - smallest->amounts[0]) > 1e-9)) ++count;
          // What is asked for in a hurry lies below it.
          const std::optional<ShardDemand> bound = load.least_of_all();
          if (least && (!bound || bound->amounts[0] > *least + 1e-9)) ++count;
        }
    return count;
  }

  bool fits(int64_t device, int64_t from, int64_t to, double period) const {
    return fits_from(device, shards_of(device, from, to, period), 0, {}, period);
  }

 private:
  std::vector<ShardLoad> shards_of(int64_t device, int64_t from, int64_t to, double period) const {
    const Chain& chain = segments_->chain();
    std::vector<ShardLoad> shards;
    for (int64_t g = chain.group_at(from); g < chain.groups() && chain.begin_of(g) < to; ++g)
      shards.push_back(segments_->load(device, g, std::max(from, chain.begin_of(g)), std::min(to, chain.end_of(g)), period));
    return shards;
  }

  std::optional<double> least_room(int64_t device, const std::vector<ShardLoad>& shards, double period, bool larger) const {
    std::optional<double> least;
    const std::function<void(size_t, const ShardDemand&)> go_on = [&](size_t next, const ShardDemand& before) {
      if (next == shards.size()) {
        if (segments_->within(device, before, period, {}) && (!least || before.amounts[0] < *least)) least = before.amounts[0];
        return;
      }
      const auto with = [&](const ShardDemand& way) {
        ShardDemand sum = before;
        go_on(next + 1, sum += way);
      };
      with(shards[next].beside);
      if (shards[next].may_stream) with(segments_->streamed_demand(device, shards[next], period));
      if (larger)
        for (const ShardLoad::Other& other : segments_->larger_engines(device, shards[next], period)) with(other.demand);
    };
    go_on(0, {});
    return least;
  }

  bool fits_from(int64_t device, const std::vector<ShardLoad>& shards, size_t next, const ShardDemand& before, double period) const {
    if (next == shards.size()) return segments_->within(device, before, period, {});
    const auto with = [&](const ShardDemand& way) {
      ShardDemand sum = before;
      sum += way;
      return fits_from(device, shards, next + 1, sum, period);
    };
    if (with(shards[next].beside)) return true;
    if (shards[next].may_stream && with(segments_->streamed_demand(device, shards[next], period))) return true;
    const auto larger = segments_->larger_engines(device, shards[next], period);
    return std::ranges::any_of(larger, [&](const ShardLoad::Other& other) { return with(other.demand); });
  }

  const SegmentLoads* segments_;
  int64_t devices_;
  std::vector<int64_t> positions_;
};

TEST(StretchLoad, BoardsStreamWhatMakesTheRingFastest) {
  TinyInstances random(17);
  int some_stream = 0, some_of_many = 0, some_larger = 0;
  int64_t rooms = 0;
  for (int draw = 0; draw < 150; ++draw) {
    const Graph graph(random.model());
    const int64_t devices = random.between(1, 3);
    std::vector<std::unique_ptr<StreamingBoard>> boards;
    PlanTask task;
    task.graph = &graph;
    task.cluster = uniform_cluster("board", devices);
    for (int64_t d = 0; d < devices; ++d) {
      if (d == 0 || random.chance(0.5))
        boards.push_back(std::make_unique<StreamingBoard>(StreamingBoard::Settings{.engines = random.real(2, 12),
                                                                                   .memory = random.real(6, 40),
                                                                                   .bytes_per_second = random.real(1e2, 1e4),
                                                                                   .streams_memory = random.real(0, 4),
                                                                                   .blocks = random.real(3, draw % 2 == 0 ? 20 : 1e6),
                                                                                   .larger = draw % 3 != 0}));
      task.models.push_back(boards.back().get());
    }
    task.options.mini_batch = 16;
    task.options.accounting = Accounting::kFull;
    task.options.balance = Balance::kNever;  // a share of the memory that is kept free would be more than the brute force asks for
    for (const Node& node : graph.nodes()) {
      const auto* convolution = std::get_if<Conv2d>(&node.layer.operation);
      if (convolution != nullptr && convolution->groups == 1) task.options.off_chip.insert(node.layer.name);
    }
    const RingSolver solver(task, 1);
    const EveryWay every(solver, devices);
    const RingSolution solution = solver.solve();
    ASSERT_EQ(solution.feasible, every.feasible(1e6)) << draw;
    if (!solution.feasible) continue;
    EXPECT_TRUE(every.feasible(solution.compute_period)) << draw;
    EXPECT_FALSE(every.feasible(solution.compute_period * (1 - 1e-6))) << draw;
    if (draw % 10 == 1) {
      EXPECT_EQ(every.differences(solution.compute_period * 0.9), 0) << draw;
    }
    if (draw % 5 == 1) {
      EXPECT_EQ(every.other_rooms(solution.compute_period, rooms), 0) << draw;
    }
    // Nor any that is shorter by more, though its engines may take less memory than those of longer ones.
    for (const double shorter : {0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3})
      EXPECT_FALSE(every.feasible(solution.compute_period * shorter)) << draw << " " << shorter;
    // What is chosen fits.
    for (int64_t d = 0; d < devices; ++d) {
      const int64_t from = d == 0 ? 0 : solution.cuts[static_cast<size_t>(d - 1)];
      const int64_t to = d + 1 == devices ? solver.chain().end() : solution.cuts[static_cast<size_t>(d)];
      const ShardWays ways = solver.segments().ways(d, from, to, solution.compute_period, false);
      ShardDemand sum;
      int64_t could = 0, stream = 0;
      for (int64_t g = solver.chain().group_at(from); g < solver.chain().groups() && solver.chain().begin_of(g) < to; ++g) {
        const ShardLoad shard = solver.segments().load(d, g, std::max(from, solver.chain().begin_of(g)),
                                                       std::min(to, solver.chain().end_of(g)), solution.compute_period);
        could += shard.may_stream ? 1 : 0;
        const auto way = std::ranges::find(ways, g, &ShardWay::group);
        if (way == ways.end()) {
          sum += shard.beside;
        } else if (way->most_tiles == 0) {
          sum += solver.segments().streamed_demand(d, shard, solution.compute_period);
        } else {
          const auto larger = solver.segments().larger_engines(d, shard, solution.compute_period);
          const auto chosen = std::ranges::find(larger, *way, &ShardLoad::Other::way);
          ASSERT_NE(chosen, larger.end());
          sum += chosen->demand;
          ++some_larger;
        }
        stream += way != ways.end() && way->streams ? 1 : 0;
      }
      EXPECT_TRUE(solver.segments().within(d, sum, solution.compute_period, {})) << draw;
      some_stream += stream > 0 ? 1 : 0;
      some_of_many += stream > 0 && stream < could ? 1 : 0;
    }
  }
  EXPECT_GT(some_stream, 20);
  EXPECT_GT(some_of_many, 5);
  EXPECT_GT(some_larger, 5);
  EXPECT_GT(rooms, 500);
}

}  // namespace
}  // namespace millrace
