// FPDeep's mappings onto fifteen VC709 boards: the storage and the rounding losses of its table, from this cost model.
// The convolutional part is boards 1 to 14; the last holds the dense layers, off chip.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/zoo.h"
#include "fpga/cost/fpga_cost_model.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"
#include "tests/fpga/cost/line_of_units.h"

namespace millrace {

namespace {

using testing_support::kSixteenBits;
using testing_support::LineOfUnits;
using testing_support::vc709;

constexpr int64_t kBoards = 15;

struct Storage {
  double largest = 0;  // share of a board
  double total = 0;    // share of the boards 1 to 14
};

double clock_period(const LineOfUnits& line) { return 3 * line.macs() / (kBoards * 3060 * 200e6); }

Storage storage_of_equal_work(const std::string& model_name, const Arithmetic& arithmetic) {
  const Graph graph(zoo_model(model_name));
  const LineOfUnits line(graph);
  const auto model = make_fpga_cost_model(vc709(), arithmetic);
  const double capacity = model->capacities()[model->parameter_memory()].amount;
  Storage storage;
  for (int64_t board = 0; board + 1 < kBoards; ++board) {
    const int64_t from = line.position_after(line.macs() * static_cast<double>(board) / kBoards);
    const int64_t to = line.position_after(line.macs() * static_cast<double>(board + 1) / kBoards);
    double bits = 0;
    line.for_each_shard(from, to, clock_period(line), 0, [&](const ShardQuestion& question) {
      const ShardDemand demand = model->demand_of(question);
      bits += demand.amounts[model->parameter_memory()] + demand.parameters;
    });
    storage.largest = std::max(storage.largest, bits / capacity);
    storage.total += bits / capacity / (kBoards - 1);
  }
  return storage;
}

constexpr Arithmetic k32{};

// DSP slices of the segment; the other capacities are left aside: weights would first have to be balanced.
double dsps(const CostModel& model, const LineOfUnits& line, int64_t from, int64_t to, double period) {
  double sum = 0;
  line.for_each_shard(from, to, period, 0, [&](const ShardQuestion& question) { sum += model.demand_of(question).amounts[0]; });
  return sum;
}

bool boards_suffice(const CostModel& model, const LineOfUnits& line, double period, int64_t boards) {
  int64_t from = 0;
  for (int64_t board = 0; board < boards && from < line.end(); ++board) {
    int64_t low = from;
    int64_t high = line.end() + 1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (dsps(model, line, from, middle, period) <= model.capacities()[0].amount ? low : high) = middle;
    }
    from = low;
  }
  return from == line.end();
}

double idle_share(const std::string& model_name) {
  const Graph graph(zoo_model(model_name));
  const LineOfUnits line(graph);
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  double slow = 2 * clock_period(line);
  double fast = clock_period(line);
  EXPECT_TRUE(boards_suffice(*model, line, slow, kBoards));
  while (slow / fast > 1.00001) {
    const double middle = (slow + fast) / 2;
    (boards_suffice(*model, line, middle, kBoards) ? slow : fast) = middle;
  }
  return 1 - clock_period(line) / slow;
}

}  // namespace

TEST(FpdeepStorage, LifetimesOfTheFirstLayer) {
  EXPECT_NEAR(LineOfUnits(Graph(zoo_model("alexnet"))).lifetime(0), 0.92, 0.005);
  EXPECT_NEAR(LineOfUnits(Graph(zoo_model("vgg16"))).lifetime(0), 0.94, 0.005);
  EXPECT_NEAR(LineOfUnits(Graph(zoo_model("vgg19"))).lifetime(0), 1.19, 0.005);
}

// FPDeep: none needed, needed, needed. Its formulas give 28, 192 and 257 % for the largest, 17, 61 and 85 % in total.
TEST(FpdeepStorage, AlexNetFitsWithoutBalancing) {
  const Storage storage = storage_of_equal_work("alexnet", kSixteenBits);
  EXPECT_NEAR(storage.largest, 0.28, 0.015);
  EXPECT_NEAR(storage.total, 0.17, 0.015);
}

TEST(FpdeepStorage, Vgg16NeedsItsWeightsBalanced) {
  const Storage storage = storage_of_equal_work("vgg16", kSixteenBits);
  EXPECT_NEAR(storage.largest, 1.92, 0.03);
  EXPECT_NEAR(storage.total, 0.61, 0.015);
}

TEST(FpdeepStorage, Vgg19NeedsItsWeightsBalanced) {
  const Storage storage = storage_of_equal_work("vgg19", kSixteenBits);
  EXPECT_NEAR(storage.largest, 2.57, 0.03);
  EXPECT_NEAR(storage.total, 0.85, 0.015);
}

TEST(FpdeepStorage, NeitherVggFitsOnChipAtThirtyTwoBits) {
  EXPECT_NEAR(storage_of_equal_work("vgg16", k32).total, 1.23, 0.02);
  EXPECT_NEAR(storage_of_equal_work("vgg19", k32).total, 1.70, 0.03);
}

TEST(FpdeepRounding, FewMultipliersIdle) {
  EXPECT_LT(idle_share("alexnet"), 0.032);
  EXPECT_LT(idle_share("vgg16"), 0.02);
  EXPECT_LT(idle_share("vgg19"), 0.02);
}

TEST(FpdeepFabric, TheLogicOfEveryMappingFits) {
  for (const char* name : {"alexnet", "vgg16", "vgg19"}) {
    const Graph graph(zoo_model(name));
    const LineOfUnits line(graph);
    const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
    for (const int64_t boards : {5, 8, 15, 50, 100})
      for (int64_t board = 0; board < boards; ++board) {
        const double part = line.macs() / static_cast<double>(boards);
        double luts = 0;
        double flip_flops = 0;
        line.for_each_shard(line.position_after(part * static_cast<double>(board)),
                            line.position_after(part * static_cast<double>(board + 1)),
                            clock_period(line) * kBoards / static_cast<double>(boards), 0, [&](const ShardQuestion& question) {
                              const ShardDemand demand = model->demand_of(question);
                              luts += demand.amounts[1];
                              flip_flops += demand.amounts[2];
                            });
        EXPECT_LT(luts, 0.7 * model->capacities()[1].amount) << name << " on " << boards << ", board " << board;
        EXPECT_LT(flip_flops, 0.7 * model->capacities()[2].amount) << name << " on " << boards << ", board " << board;
      }
  }
}

}  // namespace millrace
