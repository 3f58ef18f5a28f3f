#include "fpga/cost/fpga_cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "tests/core/cpu/allocation_counter.h"
#include "tests/fpga/cost/amounts.h"
#include "tests/fpga/cost/boards.h"

namespace millrace {

namespace {

using testing_support::amount;
using testing_support::kSixteenBits;
using testing_support::vc709;
using testing_support::with;

ShardQuestion question(const Node& node, double period, std::span<const Block> blocks = {}) {
  ShardQuestion question;
  question.node = &node;
  question.blocks = blocks;
  question.lifetime = 0.9;
  question.period_seconds = period;
  return question;
}

template <typename Call>
void expect_error(ErrorCode code, const std::string& part, Call call) {
  try {
    call();
    ADD_FAILURE() << "no error that says " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_THAT(error.message(), ::testing::HasSubstr(part));
  }
}

}  // namespace

TEST(FpgaCostModel, CapacitiesAreTheBoardsLessWhatItNeedsOnce) {
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  const std::span<const NamedAmount> capacities = model->capacities();
  ASSERT_EQ(capacities.size(), 5U);
  EXPECT_EQ(capacities[0], (NamedAmount{"dsp", 3060}));
  EXPECT_EQ(capacities[1], (NamedAmount{"lut", 433200 - 18000}));
  EXPECT_EQ(capacities[2], (NamedAmount{"ff", 866400 - 27000}));
  EXPECT_EQ(capacities[3], (NamedAmount{"bram_bits", 1470.0 * 36864}));
  EXPECT_EQ(capacities[4], (NamedAmount{"dram_bytes", 8589934592.0}));
  EXPECT_EQ(model->parameter_memory(), 3U);
  EXPECT_EQ(model->device(), "vc709");
  EXPECT_TRUE(model->dedicated_engines());
  EXPECT_EQ(amount(model->inventory(), "dsp_device"), 3600);
  EXPECT_EQ(amount(model->inventory(), "bram36"), 1470);
  EXPECT_EQ(amount(model->inventory(), "multipliers"), 3060);
  EXPECT_EQ(amount(model->inventory(), "clock_hz"), 200e6);
}

// conv3_2 of VGG-16 in 5 ms: a million cycles over 56 rows are 17,857 a row, in which 256 x 256 x 56 tile-cycles need 206
// tiles of nine multipliers, done in 17,816.
TEST(FpgaCostModel, AnEngineByHand) {
  const Graph graph(zoo_model("vgg16"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  const ShardCost cost = model->cost_of(question(graph.node(graph.index_of("conv3_2")), 5e-3));
  EXPECT_EQ(cost.unit, StreamingUnit::kRow);
  ASSERT_EQ(cost.phases.size(), 3U);
  for (const PhaseEngine& phase : cost.phases) {
    EXPECT_EQ(phase.engine, "conv_ce");
    EXPECT_EQ(phase.multipliers, 206 * 9);
    EXPECT_EQ(phase.picoseconds_per_unit, 17'816 * 5'000);
  }
  EXPECT_DOUBLE_EQ(cost.seconds_per_sample, 56 * 17'816 * 5e-9);
  EXPECT_EQ(amount(cost.resources, "dsp"), 3 * 206 * 9);
  EXPECT_EQ(amount(cost.resources, "parameter_bram_bits"), 256 * 256 * 9 * 16 * 2);
  EXPECT_EQ(cost.act_ram_bits, static_cast<int64_t>(std::ceil(256 * 56 * 16 * (0.9 * 56))));
  EXPECT_EQ(amount(cost.buffers, "act_ram"), static_cast<double>(cost.act_ram_bits));
  EXPECT_EQ(amount(cost.buffers, "lpram"), 256 * 256 * 9 * 16);
  EXPECT_EQ(amount(cost.buffers, "lgb"), 256 * 256 * 9 * 16);
  EXPECT_GE(amount(cost.resources, "bram36") * 36864, amount(cost.resources, "bram_bits"));
  EXPECT_GE(amount(cost.resources, "parameter_bram36") * 36864, amount(cost.resources, "parameter_bram_bits"));
}

TEST(FpgaCostModel, APeriodBelowACyclePerRowIsOutOfReachButAddsUp) {
  const Graph graph(zoo_model("vgg16"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  const ShardDemand demand = model->demand_of(question(graph.node(0), 1e-7));
  EXPECT_EQ(demand.amounts[0], 1e30);
  EXPECT_TRUE(std::isfinite(1000 * demand.amounts[0]));
  EXPECT_TRUE(std::isfinite(demand.amounts[1]));
  EXPECT_GT(model->cost_of(question(graph.node(0), 1e-7)).seconds_per_sample, 1e-7);
}

TEST(FpgaCostModel, OptimizersTakeTheirSlotsAndFrozenLayersNeither) {
  ModelBuilder net("net", {16, 32, 32});
  net.conv("conv", 16, {.kernel = 3, .pad = 1});
  net.conv("frozen", 16, {.kernel = 3, .pad = 1});
  Model document = net.finish();
  document.layers[1].frozen = true;
  const Graph graph(std::move(document));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  const double weights = 16 * 16 * 9 * 16;
  ShardQuestion conv = question(graph.node(0), 1e-3);
  EXPECT_EQ(model->demand_of(conv).parameters, 2 * weights);
  conv.optimizer_slots = 2;
  EXPECT_EQ(model->demand_of(conv).parameters, 4 * weights);
  EXPECT_EQ(amount(model->cost_of(conv).buffers, "optimizer"), 2 * weights);
  ShardQuestion frozen = question(graph.node(1), 1e-3);
  frozen.optimizer_slots = 2;
  EXPECT_EQ(model->demand_of(frozen).parameters, weights);
  const ShardCost cost = model->cost_of(frozen);
  ASSERT_EQ(cost.phases.size(), 2U);
  EXPECT_EQ(cost.phases[1].phase, Phase::kErrorBack);
}

TEST(FpgaCostModel, DenseLayersTellTheTrafficOfTheirWeights) {
  const Graph graph(zoo_model("vgg16"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  ShardQuestion fc6 = question(graph.node(graph.index_of("fc6")), 5e-3);
  const double weights = 25088.0 * 4096;
  const ShardCost cost = model->cost_of(fc6);
  EXPECT_EQ(cost.unit, StreamingUnit::kSample);
  EXPECT_EQ(amount(cost.resources, "dram_bytes"), weights * 2 * 2);
  EXPECT_EQ(amount(cost.resources, "parameter_bram_bits"), 0);
  EXPECT_DOUBLE_EQ(amount(cost.resources, "dram_bytes_per_second"), weights * 2 * 4 / 5e-3);
  fc6.micro_batch = 16;
  EXPECT_DOUBLE_EQ(amount(model->cost_of(fc6).resources, "dram_bytes_per_second"), weights * 2 * 4 / 5e-3 / 16);
}

TEST(FpgaCostModel, RecurrentLayersStayBesideTheirChains) {
  const Graph graph(zoo_model("char-rnn"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Recurrent>(node.layer.operation)) continue;
    const ShardCost cost = model->cost_of(question(node, 1e-3));
    EXPECT_EQ(cost.unit, StreamingUnit::kStep);
    ASSERT_EQ(cost.phases.size(), 3U);
    EXPECT_EQ(cost.phases[0].engine, "pe_chain");
    // 200,000 cycles over 100 steps: 2,000 a step.
    EXPECT_EQ(cost.phases[0].multipliers, (node.work.forward_macs / 100 + 1999) / 2000);
    EXPECT_EQ(amount(cost.resources, "parameter_bram_bits"), 0);
    EXPECT_GE(amount(cost.resources, "bram_bits"), static_cast<double>(node.work.forward_macs) / 100 * 16 * 2);
  }
}

// A layer that does not fit says so through bram_bits.
TEST(FpgaCostModel, ARecurrentLayerTooLargeForTheBoardMissesBits) {
  const Graph graph(zoo_model("rnnt-encoder"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Recurrent>(node.layer.operation)) continue;
    EXPECT_GT(model->demand_of(question(node, 1)).amounts[3], model->capacities()[3].amount);
  }
}

TEST(FpgaCostModel, LayersWithoutWeightsHaveNoEngine) {
  ModelBuilder net("pool first", {3, 64, 64});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.conv("conv", 4, {.kernel = 3, .pad = 1});
  const Graph graph(net.finish());
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  const ShardCost cost = model->cost_of(question(graph.node(0), 1e-3));
  EXPECT_TRUE(cost.phases.empty());
  EXPECT_EQ(cost.seconds_per_sample, 0);
  EXPECT_EQ(amount(cost.resources, "dsp"), 0);
  EXPECT_EQ(amount(cost.buffers, "lines"), 3 * 64 * 16);
  EXPECT_GT(amount(cost.resources, "lut"), 0);
  EXPECT_EQ(amount(cost.resources, "parameter_bram_bits"), 0);
}

TEST(FpgaCostModel, ElementsComeFromTheWireAndDspsFromTheBoard) {
  const Graph graph(zoo_model("vgg16"));
  const ShardQuestion conv = question(graph.node(graph.index_of("conv3_2")), 5e-3);
  const ShardDemand narrow = make_fpga_cost_model(vc709(), kSixteenBits)->demand_of(conv);
  const ShardDemand wide = make_fpga_cost_model(vc709(), {})->demand_of(conv);
  EXPECT_EQ(wide.amounts[0], 4 * narrow.amounts[0]);
  EXPECT_EQ(wide.parameters, 2 * narrow.parameters);
  EXPECT_EQ(make_fpga_cost_model(vc709(), {.compute = ElementType::kFloat32, .wire = ElementType::kBfloat16})->demand_of(conv).parameters,
            narrow.parameters);
}

TEST(FpgaCostModel, AlphaMovesMultipliersIntoLuts) {
  const Graph graph(zoo_model("vgg16"));
  const ShardQuestion conv = question(graph.node(graph.index_of("conv3_2")), 5e-3);
  const ShardDemand all = make_fpga_cost_model(vc709(), kSixteenBits)->demand_of(conv);
  const ShardDemand half = make_fpga_cost_model(with(vc709(), "dsp_multiplier_share", 0.5), kSixteenBits)->demand_of(conv);
  EXPECT_EQ(half.amounts[0], all.amounts[0] / 2);
  EXPECT_EQ(half.amounts[1] - all.amounts[1], all.amounts[0] / 2 * 256);
  EXPECT_EQ(make_fpga_cost_model(with(vc709(), "dsp_multiplier_share", 0), kSixteenBits)->demand_of(conv).amounts[0], 0);
}

TEST(FpgaCostModel, UltraRamCountsAsOnChipMemory) {
  const CatalogueDevice board = with(with(vc709(), "uram", 960), "hbm_bytes", 8e9);
  const auto model = make_fpga_cost_model(board, kSixteenBits);
  EXPECT_EQ(model->capacities()[3].amount, 1470.0 * 36864 + 960.0 * 294912);
  EXPECT_EQ(model->capacities()[4].amount, 8589934592.0 + 8e9);
  const Graph graph(zoo_model("vgg16"));
  const ShardCost cost = model->cost_of(question(graph.node(graph.index_of("conv1_2")), 5e-3));
  EXPECT_GT(amount(cost.resources, "uram"), 0);
  EXPECT_GE(amount(cost.resources, "uram") * 294912 + amount(cost.resources, "bram36") * 36864, amount(cost.resources, "bram_bits"));
}

TEST(FpgaCostModel, PowerIsTheFittedLine) {
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  EXPECT_DOUBLE_EQ(model->watts(0), 16.6);
  EXPECT_DOUBLE_EQ(model->watts(600e9), 16.6 + 0.01264 * 1200);
  EXPECT_EQ(make_fpga_cost_model(with(with(vc709(), "watts_idle", 0), "watts_per_gops", 0), kSixteenBits)->watts(1e12), 0);
}

TEST(FpgaCostModel, EveryConstantSaysWhereItComesFrom) {
  const std::vector<Constant> constants = make_fpga_cost_model(vc709(), kSixteenBits)->constants();
  EXPECT_GT(constants.size(), 20U);
  for (const Constant& constant : constants) {
    EXPECT_FALSE(constant.origin.empty()) << constant.name;
    for (const Constant& other : constants) EXPECT_TRUE(&other == &constant || other.name != constant.name) << constant.name;
  }
}

TEST(FpgaCostModel, RefusesPeriodsAndLifetimesThatAreNone) {
  const Graph graph(zoo_model("lenet5"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  for (const double period : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    expect_error(ErrorCode::kUsage, "period", [&] { model->demand_of(question(graph.node(0), period)); });
    expect_error(ErrorCode::kUsage, "period", [&] { model->cost_of(question(graph.node(0), period)); });
  }
  for (const double lifetime : {-0.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    ShardQuestion bad = question(graph.node(0), 1e-3);
    bad.lifetime = lifetime;
    expect_error(ErrorCode::kUsage, "live for", [&] { model->demand_of(bad); });
  }
  EXPECT_EQ(model->demand_of(question(graph.node(0), std::numeric_limits<double>::infinity())).amounts[0], 3 * 25);
}

TEST(FpgaCostModel, RefusesBoardsThatMakeNoSense) {
  CatalogueDevice without = vc709();
  std::erase_if(without.values, [](const CatalogueValue& value) { return value.name == "bram36"; });
  expect_error(ErrorCode::kMalformed, "bram36", [&] { make_fpga_cost_model(without, kSixteenBits); });
  for (const char* name : {"dsp", "lut", "clock_hz", "dsp_engine_share", "dsp_per_mac_16"})
    for (const double bad : {0.0, -5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
      expect_error(ErrorCode::kMalformed, name, [&] { make_fpga_cost_model(with(vc709(), name, bad), kSixteenBits); });
  expect_error(ErrorCode::kMalformed, "dsp_engine_share",
               [&] { make_fpga_cost_model(with(vc709(), "dsp_engine_share", 1.5), kSixteenBits); });
  expect_error(ErrorCode::kUsage, "64", [&] { make_fpga_cost_model(vc709(), {.wire = ElementType::kFloat64}); });
}

// Searches ask millions of times.
TEST(FpgaCostModel, DemandAllocatesNothing) {
  const Graph graph(zoo_model("googlenet"));
  const auto model = make_fpga_cost_model(vc709(), kSixteenBits);
  std::vector<std::vector<const Node*>> after;
  for (const LayerGroup& group : graph.groups()) {
    after.emplace_back();
    for (const int64_t node : group.after) after.back().push_back(&graph.node(node));
  }
  double sum = 0;
  const testing::AllocationCounter counter;
  for (size_t g = 0; g < graph.groups().size(); ++g) {
    ShardQuestion whole = question(graph.node(graph.groups()[g].head), 1e-3);
    whole.after = after[g];
    sum += model->demand_of(whole).amounts[0];
  }
  EXPECT_EQ(counter.count(), 0);
  EXPECT_GT(sum, 0);
}

}  // namespace millrace
