// Strategy `kind`: the best of all cuts, by trying all of them on small chains; what it refuses, and why.
#include "partitioner/baseline/kind_parallel.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <random>

#include "core/base/error.h"
#include "core/device/roofline.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/validate.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"

namespace millrace {
namespace {

using testing::HasSubstr;

const Catalogue& boards() {
  static const Catalogue all = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
  return all;
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  Model model() {
    ModelBuilder net("drawn", {from_to(1, 20), from_to(2, 30), 1});
    const int64_t layers = from_to(1, 3);
    for (int64_t i = 0; i < layers; ++i) {
      if (from_to(0, 2) == 0) net.dense("dense" + std::to_string(i), from_to(1, 40));
      net.layer("rnn" + std::to_string(i),
                Recurrent{.cell = static_cast<CellKind>(from_to(0, 3)), .hidden = from_to(2, 30), .bidirectional = from_to(0, 2) == 0});
    }
    net.dense("fc", 5);
    Model model = net.finish();
    model.input_kind = InputKind::kFeatures;
    return model;
  }
  std::unique_ptr<CostModel> device() {
    return make_roofline_cost_model({.device = "drawn",
                                     .macs_per_second = 1e9 * static_cast<double>(from_to(1, 50)),
                                     .bytes_per_second = 1e9 * static_cast<double>(from_to(1, 20)),
                                     .memory_bytes = 1e4 * static_cast<double>(from_to(2, 400)),
                                     .convolution = {},
                                     .dense = {},
                                     .launch_seconds = 1e-6 * static_cast<double>(from_to(0, 5)),
                                     .step_seconds = 1e-7 * static_cast<double>(from_to(0, 20)),
                                     .on_chip_bytes = 0,
                                     .refusal = {},
                                     .constants = {}});
  }

 private:
  std::mt19937 random_;
};

// Every way to give each device a run of layers, products and steps; the least period, 0 where none fits.
class BruteForce {
 public:
  explicit BruteForce(const PlanTask& task) : task_(task) {
    for (const LayerGroup& group : task.graph->groups()) {
      heads_.push_back(group.head);
      parts_of_.push_back(role_of(task.graph->node(group.head).layer.operation) == Role::kRecurrence ? 2 : 1);
    }
  }

  double least() {
    place(0, 0, 0);
    return best_;
  }
  int64_t rings() const { return rings_; }

 private:
  // `device` takes part `part` of group `group`, or the next device does.
  void place(size_t group, int64_t part, int64_t device) {
    if (group == heads_.size()) {
      if (device == static_cast<int64_t>(task_.models.size()) - 1) weigh();
      return;
    }
    const bool last = part + 1 == parts_of_[group];
    const auto devices = static_cast<int64_t>(task_.models.size());
    const bool steps = part == 1 && is_board(device) && devices_of_.back() != device;
    devices_of_.push_back(device);
    for (const int64_t next : {device, device + 1})
      if (next < devices) {
        if (last && group + 1 == heads_.size() && next != device) continue;
        place(last ? group + 1 : group, last ? 0 : part + 1, next);
      }
    // Or with the boards behind it, whatever cells each takes.
    for (int64_t end = device + 2; steps && end <= devices && is_board(end - 1); ++end) {
      rows_.emplace_back(group, end - device);
      if (group + 1 == heads_.size())
        place(group + 1, 0, end - 1);
      else if (end < devices)
        place(group + 1, 0, end);
      rows_.pop_back();
    }
    devices_of_.pop_back();
  }

  bool is_board(int64_t device) const { return task_.models[static_cast<size_t>(device)]->dedicated_engines(); }

  void weigh() {
    shared_.clear();
    divide(rows_, 0);
  }
  void divide(const std::vector<std::pair<size_t, int64_t>>& rows, size_t row) {
    if (row == rows.size()) return weigh_ring();
    const auto [group, boards] = rows[row];
    const auto& cell = std::get<Recurrent>(task_.graph->node(heads_[group]).layer.operation);
    if (cell.projection > 0 || (cell.cell == CellKind::kGru && !cell.reset_after)) return;
    std::vector<int64_t> cuts = {0};
    const std::function<void()> cut = [&] {
      const auto left = boards - static_cast<int64_t>(cuts.size());
      if (left == 0) {
        cuts.push_back(cell.hidden);
        std::vector<ChannelRange>& units = shared_[group];
        units.clear();
        for (size_t i = 0; i + 1 < cuts.size(); ++i) units.push_back({cuts[i], cuts[i + 1]});
        divide(rows, row + 1);
        cuts.pop_back();
        return;
      }
      for (int64_t c = cuts.back() + 1; c + left <= cell.hidden; ++c) {
        cuts.push_back(c);
        cut();
        cuts.pop_back();
      }
    };
    cut();
  }

  void weigh_ring() {
    const Graph& graph = *task_.graph;
    std::vector<Shard> shards;
    size_t unit = 0;
    for (size_t g = 0; g < heads_.size(); ++g) {
      const Node& head = graph.node(heads_[g]);
      const std::vector<Block> all = {{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}}};
      const int64_t first = devices_of_[unit], second = devices_of_[unit + static_cast<size_t>(parts_of_[g]) - 1];
      const std::vector<ChannelRange> units = shared_.contains(g) ? shared_[g] : std::vector<ChannelRange>{ChannelRange{}};
      unit += static_cast<size_t>(parts_of_[g]);
      Shard& here = shards.emplace_back();
      here.device = first;
      here.layer = head.layer.name;
      here.blocks = all;
      if (second == first) continue;
      for (size_t b = 0; b < units.size(); ++b) {
        Shard& steps = shards.emplace_back();
        steps.device = second + static_cast<int64_t>(b);
        steps.layer = head.layer.name;
        steps.units = units[b];
      }
    }
    PlanRequest request{.cluster = task_.cluster,
                        .alignment = task_.options.alignment,
                        .mini_batch = task_.options.mini_batch,
                        .micro_batch = task_.options.micro_batch,
                        .optimizer = task_.options.optimizer,
                        .arithmetic = task_.options.arithmetic};
    const auto board = [&](int64_t device) { return is_board(device); };
    for (const Shard& shard : shards) {
      if (!board(shard.device)) continue;
      const auto others = std::ranges::count(shards, shard.device, &Shard::device);
      const Node& head = graph.node(graph.index_of(shard.layer));
      const auto group = static_cast<size_t>(std::ranges::find(heads_, graph.index_of(shard.layer)) - heads_.begin());
      const auto above =
          shard.device - (shared_.contains(group) ? std::ranges::find(shared_[group], shard.units) - shared_[group].begin() : 0);
      if (others > 1 || !shard.blocks.empty() || board(above - 1)) return;  // steps alone, behind what multiplies
      for (ParameterHome& home :
           shared_.contains(group) ? homes_before_steps(head, above, shared_[group]) : homes_before_steps(head, above))
        if (home.user == shard.device) request.remote_homes.push_back(std::move(home));
    }
    Plan plan = assemble_plan(graph, request, shards);
    std::vector<double> memory(task_.models.size(), 0), more(task_.models.size(), 0);
    for (Shard& shard : plan.shards) {
      const LayerGroup& layers = graph.groups()[static_cast<size_t>(graph.node(graph.index_of(shard.layer)).group)];
      const Node& head = graph.node(layers.head);
      const std::vector<Block> blocks = shard.blocks.empty() ? std::vector<Block>{{{0, 0}, {0, sum_shape(head).channels}}} : shard.blocks;
      const Group& group = plan.groups[static_cast<size_t>(head.group)];
      const bool owner = &plan.shards[static_cast<size_t>(group.shards.back())] == &shard;
      std::vector<const Node*> after;
      for (const int64_t node : layers.after)
        if (owner) after.push_back(&graph.node(node));
      const auto device = static_cast<size_t>(shard.device);
      const ShardQuestion question{.node = &head,
                                   .blocks = blocks,
                                   .after = after,
                                   .units = shard.units,
                                   .owner = owner,
                                   .micro_batch = plan.micro_batch,
                                   .window = plan.windows[device],
                                   .optimizer_slots = task_.options.optimizer.slots(),
                                   .arithmetic = task_.options.arithmetic};
      if (board(shard.device)) {
        if (!task_.models[device]->steps_refusal(question).empty()) return;
        // Its x W keeps the weights and makes the gradients, as it would at home.
        Node copy = head;
        copy.input_error_needed = true;
        ShardQuestion at_home = question;
        const auto home = static_cast<size_t>(gradients_of_steps_at(plan, graph, group));
        at_home.node = &copy;
        at_home.after = {};
        at_home.units = {};
        at_home.owner = true;
        at_home.window = plan.windows[home];
        if (shard.units.begin == 0) {
          memory[home] += task_.models[home]->demand_of(at_home).parameters;
          for (const PhaseEngine& engine : task_.models[home]->cost_of(at_home).phases)
            if (engine.phase == Phase::kParameterGradient) more[home] += 1e-12 * static_cast<double>(engine.picoseconds_per_unit);
        }
      }
      const ShardDemand demand = task_.models[device]->demand_of(question);
      if (board(shard.device)) {
        for (size_t i = 0; i < task_.models[device]->capacities().size(); ++i)
          if (demand.amounts[i] > task_.models[device]->capacities()[i].amount) return;
      } else {
        memory[device] += demand.amounts[0] + demand.parameters;
      }
      const ShardCost cost = task_.models[device]->cost_of(question);
      shard.unit = cost.unit;
      shard.phases = cost.phases;
    }
    ++rings_;
    for (size_t d = 0; d < memory.size(); ++d)
      if (!board(static_cast<int64_t>(d)) && memory[d] > task_.models[d]->capacities()[0].amount) return;
    const PlanSummary summary = summarize(plan, graph);
    double period = summary.seconds_per_image;
    for (size_t d = 0; d < more.size(); ++d) period = std::max(period, summary.devices[d].seconds_per_image + more[d]);
    if (best_ == 0 || period < best_) best_ = period;
  }

  const PlanTask& task_;
  std::vector<int64_t> heads_, parts_of_, devices_of_;
  std::vector<std::pair<size_t, int64_t>> rows_;        // groups whose steps several boards share, and how many
  std::map<size_t, std::vector<ChannelRange>> shared_;  // the cells of each
  int64_t rings_ = 0;
  double best_ = 0;
};

TEST(KindParallel, IsTheBestOfAllCuts) {
  int64_t rings = 0, infeasible = 0, divided = 0, drawn_boards = 0, lent = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Draw draw(seed);
    const Graph graph(draw.model());
    std::vector<std::unique_ptr<CostModel>> devices;
    PlanTask task;
    task.graph = &graph;
    const int64_t count = draw.from_to(1, 4);
    for (int64_t d = 0; d < count; ++d) {
      const bool takes_steps = d > 0 && draw.from_to(0, 4) == 0;
      devices.push_back(takes_steps ? make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16}) : draw.device());
      drawn_boards += takes_steps ? 1 : 0;
    }
    for (const auto& device : devices) task.models.push_back(device.get());
    task.cluster = uniform_cluster("cpu", count);
    for (LinkEntry& link : task.cluster.links)
      link = {0.01 * static_cast<double>(draw.from_to(1, 100)), 0.01 * static_cast<double>(draw.from_to(1, 100)),
              draw.from_to(0, 1) == 0 ? 0 : 0.5, 0};
    task.options.strategy = Strategy::kKind;
    task.options.alignment = Alignment::kFlush;
    task.options.mini_batch = 4;
    task.options.micro_batch = draw.from_to(1, 2);
    BruteForce all(task);
    const double least = all.least();
    rings += all.rings();
    const Outcome outcome = plan_by_kind(task);
    ASSERT_EQ(outcome.feasible, least > 0) << "seed " << seed << ": " << outcome.reason.text;
    if (!outcome.feasible) {
      ++infeasible;
      EXPECT_FALSE(outcome.reason.text.empty());
      EXPECT_GT(outcome.reason.missing, 0);
      continue;
    }
    ASSERT_NEAR(outcome.summary.seconds_per_image, least, 1e-12 + 1e-9 * least) << "seed " << seed;
    EXPECT_NEAR(outcome.plan->lower_bound_seconds_per_image, least, 1e-12 + 1e-6 * least);
    ASSERT_NO_THROW(validate(*outcome.plan, graph, "plan")) << "seed " << seed;
    for (const Group& group : outcome.plan->groups) divided += group.shards.size() > 1 ? 1 : 0;
    for (const Group& group : outcome.plan->groups) lent += gradients_of_steps_at(*outcome.plan, graph, group) >= 0 ? 1 : 0;
  }
  EXPECT_GT(rings, 8000);
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(divided, 500);
  EXPECT_GT(drawn_boards, 300);
  EXPECT_GT(lent, 100);
}

std::unique_ptr<CostModel> large_device() {
  return make_roofline_cost_model({.device = "large",
                                   .macs_per_second = 1e13,
                                   .bytes_per_second = 1e12,
                                   .memory_bytes = 1e12,
                                   .convolution = {},
                                   .dense = {},
                                   .launch_seconds = 0,
                                   .step_seconds = 0,
                                   .on_chip_bytes = 0,
                                   .refusal = {},
                                   .constants = {}});
}

// Boards side by side share steps: as many of them, and whichever cells on each, as is best, on unlike boards and links.
TEST(KindParallel, SharesStepsAsTheBestOfAllDivisions) {
  int64_t rings = 0, infeasible = 0, shared = 0, uneven = 0, three = 0;
  constexpr const char* kBoards[] = {"vc709", "zc706", "u280"};
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Draw draw(7000 + seed);
    ModelBuilder net("drawn", {draw.from_to(1, 9), draw.from_to(2, 12), 1});
    const bool two = draw.from_to(0, 3) == 0;
    for (int i = 0; i < (two ? 2 : 1); ++i) {
      Recurrent cell{.cell = static_cast<CellKind>(draw.from_to(0, 3)),
                     .hidden = draw.from_to(2, two ? 6 : 11),
                     .bidirectional = draw.from_to(0, 2) == 0};
      cell.reset_after = cell.cell == CellKind::kGru && draw.from_to(0, 3) != 0;
      net.layer("rnn" + std::to_string(i), cell);
    }
    net.dense("fc", 5);
    Model model = net.finish();
    model.input_kind = InputKind::kFeatures;
    const Graph graph(model);
    std::vector<std::unique_ptr<CostModel>> devices;
    PlanTask task;
    task.graph = &graph;
    const auto add_boards = [&](int64_t count) {
      for (int64_t b = 0; b < count; ++b) {
        CatalogueDevice board = boards().find(kBoards[draw.from_to(0, 2)]);
        for (CatalogueValue& value : board.values)
          if (value.name == "dsp" && draw.from_to(0, 2) == 0) value.value = static_cast<double>(draw.from_to(1, 5)) * 100;
        devices.push_back(make_fpga_cost_model(board, {.wire = ElementType::kFixed16}));
      }
    };
    devices.push_back(draw.device());
    add_boards(draw.from_to(2, two ? 2 : 3));
    devices.push_back(draw.device());
    if (two && draw.from_to(0, 1) == 0) {
      add_boards(draw.from_to(1, 2));
      devices.push_back(draw.device());
    }
    for (const auto& device : devices) task.models.push_back(device.get());
    task.cluster = uniform_cluster("cpu", static_cast<int64_t>(devices.size()));
    for (LinkEntry& link : task.cluster.links)
      link = {0.05 * static_cast<double>(draw.from_to(1, 100)), 0.05 * static_cast<double>(draw.from_to(1, 100)),
              draw.from_to(0, 2) == 0 ? 2.0 : 0.0, 0.01 * static_cast<double>(draw.from_to(0, 30))};
    task.options.strategy = Strategy::kKind;
    task.options.alignment = draw.from_to(0, 1) == 0 ? Alignment::kFlush : Alignment::kFpdeep;
    task.options.mini_batch = 4;
    task.options.micro_batch = draw.from_to(1, 2);
    task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
    BruteForce all(task);
    const double least = all.least();
    rings += all.rings();
    const Outcome outcome = plan_by_kind(task);
    ASSERT_EQ(outcome.feasible, least > 0) << "seed " << seed << ": " << outcome.reason.text;
    if (!outcome.feasible) {
      ++infeasible;
      EXPECT_FALSE(outcome.reason.text.empty());
      continue;
    }
    ASSERT_NEAR(outcome.summary.seconds_per_image, least, 1e-12 + 1e-9 * least) << "seed " << seed;
    ASSERT_NO_THROW(validate(*outcome.plan, graph, "plan")) << "seed " << seed;
    for (const Group& group : outcome.plan->groups) {
      if (!shares_steps(*outcome.plan, graph, group)) continue;
      ++shared;
      three += group.shards.size() > 3 ? 1 : 0;
      const auto cells = [&](int64_t shard) { return outcome.plan->shards[static_cast<size_t>(shard)].units.size(); };
      uneven += std::abs(cells(group.shards[1]) - cells(group.shards.back())) > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(rings, 2000);
  EXPECT_GT(infeasible, 10);
  EXPECT_GT(shared, 150);
  EXPECT_GT(uneven, 10);
  EXPECT_GT(three, 30);
}

// One direction of LSTM-1024 in sixteen bits: one VC709 is too small, three gain next to nothing over two, four are fastest of one to six.
TEST(KindParallel, MoreBoardsAreNotAlwaysFaster) {
  ModelBuilder net("lstm", {64, 576, 1});
  net.layer("lstm", Recurrent{.hidden = 1024});
  net.layer("last", LastStep{});
  net.dense("fc", 5);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  const auto gpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {ElementType::kFixed16, ElementType::kFixed16});
  std::map<int, double> seconds;
  for (int count = 1; count <= 6; ++count) {
    PlanTask task;
    task.graph = &graph;
    task.cluster = parse_cluster_shorthand("cpu+vc709x" + std::to_string(count) + "+cpu");
    task.models.push_back(gpu.get());
    for (int b = 0; b < count; ++b) task.models.push_back(board.get());
    task.models.push_back(gpu.get());
    task.options.strategy = Strategy::kKind;
    task.options.mini_batch = 1;
    task.options.micro_batch = 1;
    task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
    const Outcome outcome = plan_by_kind(task);
    ASSERT_EQ(outcome.feasible, count > 1) << outcome.reason.text;
    if (count == 1) {
      EXPECT_THAT(outcome.reason.text, HasSubstr("more of them in a row"));
    }
    if (!outcome.feasible) continue;
    seconds[count] = outcome.summary.seconds_per_image;
    // Divided evenly three are slower than two (BoardRow.MoreBoardsAreNotAlwaysFaster): whoever is in the middle waits less, and takes
    // more.
    const std::vector<Shard>& shards = outcome.plan->shards;
    if (count == 3) {
      EXPECT_EQ(shards[1].units.size(), shards[3].units.size());
      EXPECT_GT(shards[2].units.size(), shards[1].units.size());
    }
  }
  EXPECT_GT(seconds[3], 0.97 * seconds[2]);
  for (const int count : {2, 3, 5, 6}) EXPECT_LT(seconds[4], seconds[count]) << count;
}

// The steps of every layer on a board, and what that takes: the elements of LSTM-128, loads, gradients and records on the CPUs.
TEST(KindParallel, BoardsMakeSteps) {
  const Graph graph(zoo_model("char-rnn"));
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  PlanTask task;
  task.graph = &graph;
  task.cluster = parse_cluster_shorthand("cpu+vc709+cpu+vc709+cpu");
  task.models = {cpu.get(), board.get(), cpu.get(), board.get(), cpu.get()};
  task.options.strategy = Strategy::kKind;
  task.options.mini_batch = 8;
  task.options.micro_batch = 2;
  task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
  const Outcome outcome = plan_by_kind(task);
  ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
  validate(*outcome.plan, graph, "plan");
  EXPECT_TRUE(loads_every_pass(*outcome.plan, 1));
  EXPECT_TRUE(loads_every_pass(*outcome.plan, 3));
  for (const Shard& shard : outcome.plan->shards) {
    if (shard.device % 2 == 0) continue;
    EXPECT_TRUE(shard.blocks.empty());
    ASSERT_EQ(shard.phases.size(), 2u);
    EXPECT_EQ(shard.phases[0].engine, "pe_chain");
  }
  task.cluster = parse_cluster_shorthand("cpu+vc709");
  task.models.resize(2);
  const Outcome open = plan_by_kind(task);
  EXPECT_FALSE(open.feasible);
  EXPECT_THAT(open.reason.text, HasSubstr("one behind it for the layers that follow"));
  task.cluster = parse_cluster_shorthand("vc709+cpu");
  task.models = {board.get(), cpu.get()};
  EXPECT_THAT(plan_by_kind(task).reason.text, HasSubstr("takes a CPU or GPU before it"));
}

TEST(KindParallel, BoardsThatAreTooSmallSayWhat) {
  const Graph graph(zoo_model("deepspeech2-lstm"));
  const auto cpu = large_device();
  const auto board = make_fpga_cost_model(boards().find("vc709"), {.wire = ElementType::kFixed16});
  PlanTask task;
  task.graph = &graph;
  task.cluster = parse_cluster_shorthand("cpu+vc709+cpu");
  task.models = {cpu.get(), board.get(), cpu.get()};
  task.options.strategy = Strategy::kKind;
  task.options.mini_batch = 2;
  task.options.arithmetic = {ElementType::kFloat32, ElementType::kFixed16};
  const Outcome outcome = plan_by_kind(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_THAT(outcome.reason.text, HasSubstr("device 1 (vc709): layer \"rnn"));
  EXPECT_THAT(outcome.reason.text, HasSubstr("weights an element"));
}

TEST(KindParallel, RefusesWhatItDoesNotDo) {
  const Graph cnn(zoo_model("lenet5")), rnn(zoo_model("char-rnn"));
  Draw draw(1);
  const auto device = draw.device();
  PlanTask task;
  task.graph = &cnn;
  task.cluster = uniform_cluster("cpu", 1);
  task.models = {device.get()};
  task.options.strategy = Strategy::kKind;
  task.options.mini_batch = 4;
  const auto message = [&] {
    try {
      plan_by_kind(task);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(), HasSubstr("lenet5 has none; plan with hybrid"));
  task.graph = &rnn;
  task.options.pins = {{"lstm1", 0}};
  EXPECT_THAT(message(), HasSubstr("leave --pin and --cut out"));
  task.options.pins.clear();
  task.cluster = uniform_cluster("cpu", 9);
  task.models.assign(9, device.get());
  const Outcome outcome = plan_by_kind(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_THAT(outcome.reason.text, HasSubstr("char-rnn has 8 of them for 9 devices; use 8 devices at most"));
}

}  // namespace
}  // namespace millrace
