// What searches rely on, over every model of the zoo and random shards: the short answer is the long one, a shard inside
// another never asks for more, a longer period never asks for more, and what adds up adds up.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "core/graph/zoo.h"
#include "fpga/cost/fpga_cost_model.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"
#include "tests/fpga/cost/line_of_units.h"

namespace millrace {

namespace {

using testing_support::amount;
using testing_support::LineOfUnits;
using testing_support::vc709;
using testing_support::with;

class Drawer {
 public:
  explicit Drawer(uint64_t seed) : generator_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator_); }
  double logarithmic(double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(generator_));
  }
  // Every third draw sits on a border, where cuts tend to be.
  int64_t position(const LineOfUnits& line, size_t group) {
    return between(0, 2) == 0 ? (between(0, 1) == 0 ? line.begin_of(group) : line.end_of(group))
                              : between(line.begin_of(group), line.end_of(group));
  }

 private:
  std::mt19937_64 generator_;
};

ShardDemand demand_between(const CostModel& model, const LineOfUnits& line, int64_t from, int64_t to, double period, int slots) {
  ShardDemand sum;
  line.for_each_shard(from, to, period, slots, [&](const ShardQuestion& question) {
    const ShardDemand demand = model.demand_of(question);
    for (size_t i = 0; i < sum.amounts.size(); ++i) sum.amounts[i] += demand.amounts[i];
    sum.parameters += demand.parameters;
    sum.seconds += demand.seconds;
  });
  return sum;
}

void expect_no_more(const ShardDemand& less, const ShardDemand& more, const std::string& where) {
  EXPECT_LE(less.parameters, more.parameters) << where;
  for (size_t i = 0; i < less.amounts.size(); ++i) EXPECT_LE(less.amounts[i], more.amounts[i]) << where << ", amount " << i;
}

template <typename Use>
void for_each_model(Use use) {
  for (const std::string& name : zoo_names()) {
    const Graph graph(zoo_model(name));
    use(name, LineOfUnits(graph));
  }
}

}  // namespace

TEST(FpgaCostProperties, TheShortAnswerIsTheLongOne) {
  const auto narrow = make_fpga_cost_model(vc709(), {.wire = ElementType::kFixed16});
  const auto wide = make_fpga_cost_model(with(vc709(), "uram", 960), {});
  Drawer draw(1);
  for_each_model([&](const std::string& name, const LineOfUnits& line) {
    for (const CostModel* model : {narrow.get(), wide.get()})
      for (int trial = 0; trial < 4; ++trial) {
        const size_t group = static_cast<size_t>(draw.between(0, static_cast<int64_t>(line.groups()) - 1));
        const int64_t a = draw.position(line, group);
        const int64_t b = draw.position(line, group);
        line.for_each_shard(std::min(a, b), std::max(a, b), draw.logarithmic(1e-9, 10), trial % 3, [&](const ShardQuestion& question) {
          const ShardDemand demand = model->demand_of(question);
          const ShardCost cost = model->cost_of(question);
          const std::span<const NamedAmount> capacities = model->capacities();
          ASSERT_LE(capacities.size(), kMostResources);
          for (size_t i = 0; i < capacities.size(); ++i)
            EXPECT_EQ(demand.amounts[i], amount(cost.resources, capacities[i].name)) << name << " " << question.node->layer.name;
          EXPECT_EQ(demand.parameters, amount(cost.resources, "parameter_bram_bits"));
          EXPECT_EQ(demand.seconds, 0);
          double buffers = 0;
          for (const NamedAmount& buffer : cost.buffers) buffers += buffer.amount;
          EXPECT_GE(buffers + 1, demand.amounts[3] + demand.parameters);
        });
      }
  });
}

TEST(FpgaCostProperties, AShardInsideAnotherNeverDemandsMore) {
  const auto model = make_fpga_cost_model(with(vc709(), "dsp_multiplier_share", 0.7), {.wire = ElementType::kFixed16});
  Drawer draw(2);
  for_each_model([&](const std::string& name, const LineOfUnits& line) {
    for (size_t group = 0; group < line.groups(); ++group)
      for (int trial = 0; trial < 12; ++trial) {
        std::array<int64_t, 4> ends{};
        for (int64_t& end : ends) end = draw.position(line, group);
        std::sort(ends.begin(), ends.end());
        const double period = draw.logarithmic(1e-7, 1);
        const int slots = trial % 3;
        expect_no_more(demand_between(*model, line, ends[1], ends[2], period, slots),
                       demand_between(*model, line, ends[0], ends[3], period, slots),
                       name + " " + line.head(group).layer.name + " [" + std::to_string(ends[1]) + ", " + std::to_string(ends[2]) + ")");
      }
  });
}

// The same at steps of a single unit, where rounding bites.
TEST(FpgaCostProperties, OneMoreChannelPairNeverDemandsLess) {
  const Graph graph(zoo_model("lenet5"));
  const LineOfUnits line(graph);
  const auto model = make_fpga_cost_model(vc709(), {.wire = ElementType::kFixed16});
  for (const double period : {1e-6, 1e-5, 1e-4, 1e-3})
    for (size_t group = 0; group < 2; ++group)
      for (int64_t to = line.begin_of(group); to < line.end_of(group); ++to) {
        expect_no_more(demand_between(*model, line, line.begin_of(group), to, period, 0),
                       demand_between(*model, line, line.begin_of(group), to + 1, period, 0), "up to " + std::to_string(to));
        expect_no_more(demand_between(*model, line, to + 1, line.end_of(group), period, 0),
                       demand_between(*model, line, to, line.end_of(group), period, 0), "from " + std::to_string(to));
      }
}

TEST(FpgaCostProperties, ALongerPeriodNeverDemandsMore) {
  const auto model = make_fpga_cost_model(with(vc709(), "dsp_multiplier_share", 0.3), {.wire = ElementType::kFixed16});
  Drawer draw(3);
  for_each_model([&](const std::string& name, const LineOfUnits& line) {
    for (size_t group = 0; group < line.groups(); ++group)
      for (int trial = 0; trial < 12; ++trial) {
        const int64_t a = draw.position(line, group);
        const int64_t b = draw.position(line, group);
        const double period = draw.logarithmic(1e-9, 1);
        expect_no_more(demand_between(*model, line, std::min(a, b), std::max(a, b), period * draw.logarithmic(1, 3), 0),
                       demand_between(*model, line, std::min(a, b), std::max(a, b), period, 0), name);
      }
  });
}

TEST(FpgaCostProperties, WeightsAndEnginesAddUpOverAnyCut) {
  const auto model = make_fpga_cost_model(vc709(), {.wire = ElementType::kFixed16});
  Drawer draw(4);
  for_each_model([&](const std::string& name, const LineOfUnits& line) {
    for (size_t group = 0; group < line.groups(); ++group) {
      const int64_t begin = line.begin_of(group);
      const int64_t end = line.end_of(group);
      const int64_t cut = draw.between(begin, end);
      const double period = draw.logarithmic(1e-5, 1);
      const ShardDemand left = demand_between(*model, line, begin, cut, period, 1);
      const ShardDemand right = demand_between(*model, line, cut, end, period, 1);
      const ShardDemand whole = demand_between(*model, line, begin, end, period, 1);
      EXPECT_EQ(left.parameters + right.parameters, whole.parameters) << name;
      EXPECT_EQ(left.amounts[4] + right.amounts[4], whole.amounts[4]) << name;
      // Rounding up to tiles never helps, and costs less than a tile per phase.
      const auto* conv = std::get_if<Conv2d>(&line.head(group).layer.operation);
      const double tile = conv == nullptr ? 1 : static_cast<double>(conv->kernel_h * conv->kernel_w);
      if (whole.amounts[0] >= 1e30) continue;
      EXPECT_GE(left.amounts[0] + right.amounts[0] + 3 * tile, whole.amounts[0]) << name;
      EXPECT_LE(left.amounts[0] + right.amounts[0], whole.amounts[0] + 2 * 3 * tile) << name;
    }
  });
}

// Engines keep to the period they were sized for, to the picosecond that rounding up adds per row.
TEST(FpgaCostProperties, EnginesKeepToTheirPeriodAndAreNoLargerThanNeeded) {
  const auto model = make_fpga_cost_model(vc709(), {.wire = ElementType::kFixed16});
  Drawer draw(5);
  for_each_model([&](const std::string& name, const LineOfUnits& line) {
    for (size_t group = 0; group < line.groups(); ++group) {
      const double period = draw.logarithmic(1e-5, 1);
      line.for_each_shard(line.begin_of(group), line.end_of(group), period, 0, [&](const ShardQuestion& question) {
        const ShardCost cost = model->cost_of(question);
        if (amount(cost.resources, "dsp") >= 1e30) return;
        EXPECT_LE(cost.seconds_per_sample, period) << name;
        const Node& node = *question.node;
        for (const PhaseEngine& phase : cost.phases) {
          // At 200 MHz a cycle is 5,000 ps to the last bit, and a row a whole number of them.
          EXPECT_EQ(phase.picoseconds_per_unit % 5000, 0);
          const int64_t rows = cost.unit == StreamingUnit::kSample ? 1
                               : phase.phase == Phase::kErrorBack  ? node.input_shapes[0].height
                                                                   : node.output.height;
          const auto cycles = static_cast<double>(phase.picoseconds_per_unit / 5000 * rows);
          EXPECT_GE(cycles * static_cast<double>(phase.multipliers), static_cast<double>(node.work.forward_macs)) << name;
        }
      });
    }
  });
}

}  // namespace millrace
