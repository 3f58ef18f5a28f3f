// How wide streams and engines of a ring become: the smallest rectangles that keep the plan's pace, or the pace that fits the boards.
#include "fpga/conv_ce/generator/ring_engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <random>
#include <tuple>
#include <vector>

#include "core/base/files.h"
#include "core/plan/engine_period.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"
#include "tests/fpga/conv_ce/generator/whole_image_rings.h"

namespace millrace {
namespace {

std::vector<DeviceCheck> checks_of(const Plan& plan, const Graph& graph) {
  std::vector<DeviceCheck> checks;
  for (int64_t device = 0; device < plan.devices(); ++device) checks.push_back(check_device(plan, graph, device));
  return checks;
}

// Against all rectangles, those with lanes that stand still as well.
TEST(EngineSizing, TheSmallestThatKeepsUpIsTaken) {
  std::mt19937_64 random(3);
  const auto drawn = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 100; ++i) {
    ConvolutionShape shape{.inputs = drawn(1, 24), .outputs = drawn(1, 24), .height = drawn(3, 20), .width = drawn(3, 20)};
    shape.kernel_h = shape.kernel_w = drawn(1, 3);
    shape.stride_h = shape.stride_w = drawn(1, 2);
    const int64_t alone = sample_cycles(engine_of(shape, 1, 1), shape);
    const int64_t budget = drawn(alone / 60, alone);
    int64_t fewest = 0;
    for (int64_t inputs = 1; inputs <= shape.inputs; ++inputs)
      for (int64_t outputs = 1; outputs <= shape.outputs; ++outputs)
        if (sample_cycles(engine_of(shape, inputs, outputs), shape) <= budget && (fewest == 0 || inputs * outputs < fewest))
          fewest = inputs * outputs;
    const std::optional<EngineParallelism> found = smallest_engine(shape, budget);
    ASSERT_EQ(found.has_value(), fewest > 0) << i;
    if (!found) continue;
    EXPECT_EQ(found->tiles(), fewest) << i;
    EXPECT_LE(sample_cycles(*found, shape), budget) << i;
    const EngineParallelism fastest = fastest_engine(shape, found->tiles() * found->taps());
    EXPECT_LE(sample_cycles(fastest, shape), sample_cycles(*found, shape)) << i;
    EXPECT_LE(fastest.tiles(), found->tiles()) << i;
  }
}

// Whoever sizes many engines counts each number of lanes once.
TEST(BuiltMemory, BlocksOfInputAndOfOutputLanesAddUp) {
  std::mt19937_64 random(9);
  const auto drawn = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 500; ++i) {
    ConvolutionShape shape{.inputs = drawn(1, 512), .outputs = drawn(1, 512), .height = drawn(3, 60), .width = drawn(3, 60)};
    shape.kernel_h = shape.kernel_w = drawn(1, 3);
    shape.stride_h = shape.stride_w = drawn(1, 2);
    const EngineSurroundings around{.error_back = drawn(0, 1) == 1,
                                    .lanes = int64_t{1} << drawn(0, 4),
                                    .error_block_rows = drawn(1, 3),
                                    .gradient_samples = int64_t{1} << drawn(0, 5)};
    const EngineParallelism engine = engine_of(shape, drawn(1, 64), drawn(1, 64));
    const int64_t inputs = blocks_of_input_lanes(engine, shape, around), outputs = blocks_of_output_lanes(engine, shape, around);
    EXPECT_EQ(inputs + outputs, engine_blocks(engine, shape, around) + adapter_blocks(engine, shape, around)) << i;
    ConvolutionShape other = shape;
    other.outputs = drawn(1, 512);
    EXPECT_EQ(blocks_of_input_lanes(engine_of(other, engine.input_lanes, drawn(1, 64)), other, around), inputs) << i;
    other = shape;
    other.inputs = drawn(1, 512);
    EXPECT_EQ(blocks_of_output_lanes(engine_of(other, drawn(1, 64), engine.output_lanes), other, around), outputs) << i;
  }
}

// All lanes tried, with channels that do not mix, without EB, and of at most some tiles: the smallest, of those the fastest, then the one
// with the narrowest streams, then the one with fewer output lanes.
TEST(EngineSizing, AFrontHasTheEngineOfEveryNumberOfCycles) {
  std::mt19937_64 random(6);
  const auto drawn = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 60; ++i) {
    const int64_t groups = drawn(1, 2);
    ConvolutionShape shape{
        .inputs = groups * drawn(1, 20), .outputs = groups * drawn(1, 20), .height = drawn(1, 12), .width = drawn(1, 12)};
    shape.groups = groups;
    shape.kernel_h = shape.kernel_w = std::min({drawn(1, 3), shape.height, shape.width});
    const bool error_back = drawn(0, 1) == 1;
    const int64_t most_tiles = drawn(0, 1) * drawn(1, 60);
    std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>> all;  // tiles, cycles, wider side, output lanes, input lanes
    for (int64_t inputs = 1; inputs <= shape.inputs / groups; ++inputs)
      for (int64_t outputs = 1; outputs <= shape.outputs / groups; ++outputs) {
        if (most_tiles > 0 && inputs * outputs > most_tiles) continue;
        if (groups > 1 && ((shape.inputs / groups) % inputs != 0 || (shape.outputs / groups) % outputs != 0)) continue;
        const EngineParallelism engine = engine_of(shape, inputs, outputs);
        all.emplace_back(engine.tiles(), sample_cycles(engine, shape, error_back), std::max(inputs, outputs), outputs, inputs);
      }
    std::ranges::sort(all);
    EngineFront front(shape, error_back, most_tiles);
    size_t next = 0;
    int64_t fastest = std::numeric_limits<int64_t>::max();
    for (const auto& [tiles, cycles, wider, outputs, inputs] : all) {
      if (cycles >= fastest) continue;
      fastest = cycles;
      ASSERT_LT(next, front.choices().size()) << i;
      const EngineFront::Choice* choice = &front.choices()[next];
      EXPECT_EQ(front.engine(*choice).input_lanes, inputs) << i;
      EXPECT_EQ(front.engine(*choice).output_lanes, outputs) << i;
      EXPECT_EQ(front.cycles(*choice).slowest(error_back), cycles) << i;
      EXPECT_EQ(front.smallest(cycles), choice) << i;
      EXPECT_EQ(front.smallest(cycles - 1), next + 1 < front.choices().size() ? choice + 1 : nullptr) << i;
      ++next;
    }
    EXPECT_EQ(next, front.choices().size()) << i;
    // All that keep up, of so many tiles.
    for (size_t place = 0; place < next; place += 3) {
      const EngineFront::Choice smallest = front.choices()[place];
      std::vector<int64_t> wanted, found;
      for (const EngineFront::Choice& choice : front.choices())
        if (choice.slowest <= smallest.slowest && choice.input_lanes * choice.output_lanes <= 2 * smallest.tiles())
          wanted.push_back(choice.tiles());
      EngineFront fresh(shape, error_back, most_tiles);
      for (const EngineFront::Choice& choice : fresh.keeping_up(smallest.slowest, 2 * smallest.tiles())) found.push_back(choice.tiles());
      EXPECT_EQ(found, wanted) << i;
    }
    // Found as far as is asked for, in whatever order.
    EngineFront as_asked(shape, error_back, most_tiles);
    for (size_t step = 0, place = next / 2; step < next; ++step, place = (place + 7) % next) {
      const EngineFront::Choice& wanted = front.choices()[place];
      const EngineFront::Choice* choice = as_asked.smallest(wanted.slowest);
      ASSERT_NE(choice, nullptr) << i;
      EXPECT_EQ(choice - as_asked.found().data(), static_cast<std::ptrdiff_t>(place)) << i;
      EXPECT_EQ(choice->input_lanes, wanted.input_lanes) << i;
      EXPECT_EQ(choice->output_lanes, wanted.output_lanes) << i;
      if (step == 0) {
        EXPECT_EQ(as_asked.found().size(), place + 1) << i;
      }
    }
  }
}

// EB of a dense layer makes all pixels of the map at once, as FP reads them at once.
TEST(EngineSizing, ADenseLayerTakesASweepPerPairOfGroups) {
  const Graph graph(four_layers(12, 12));
  ConvolutionShape dense = *layer_shape(graph, graph.node(graph.index_of("fc")));
  EXPECT_EQ(dense.kernel_h, 3);
  dense.outputs = 32;
  const EngineCycles cycles = engine_cycles(engine_of(dense, 1, 1), dense);
  EXPECT_EQ(cycles.forward, 5 * 32 * 2);
  EXPECT_EQ(cycles.gradient, 5 * 32 * 2);
  EXPECT_EQ(cycles.error_back, 3 * 107);  // as plans count it: whole cycles of three rows
}

TEST(RingEngines, KeepThePlansPace) {
  const Graph graph(four_layers(12, 12));
  for (const int64_t cycles : {300, 900, 4000}) {
    const std::vector<DeviceCheck> checks = checks_of(ring_in_time(graph, cycles), graph);
    for (const DeviceCheck& check : checks) {
      EXPECT_TRUE(check.fits()) << check.lacks;
      EXPECT_LE(check.built_seconds, 1.01 * static_cast<double>(cycles) / kTwoHundredMegahertz) << check.slowest;
    }
    EXPECT_GE(*pace_ratio(checks), 0.99) << cycles;
  }
}

TEST(RingEngines, AreSmallerForALongerPeriod) {
  const Graph graph(four_layers(12, 12));
  int64_t before = INT64_MAX;
  for (const int64_t cycles : {300, 900, 4000}) {
    int64_t all = 0;
    for (const DeviceCheck& check : checks_of(ring_in_time(graph, cycles), graph)) all += check.built.all();
    EXPECT_LT(all, before) << cycles;
    before = all;
  }
}

// Processors in the ring have no clock, and take no pace from the boards.
TEST(RingEngines, KeepThePaceBesideProcessors) {
  const Graph graph(four_layers(12, 12));
  Plan plan = ring_in_time(graph, 900);
  const RingPace of_boards = ring_pace(plan, graph);
  plan.cluster.devices.back().device = "h200";
  plan.budgets.push_back({"h200", {{"memory_bytes", 1e11}}});
  const RingPace pace = ring_pace(plan, graph);
  EXPECT_EQ(pace.lanes, of_boards.lanes);
  EXPECT_DOUBLE_EQ(pace.period_seconds, of_boards.period_seconds);
  EXPECT_GT(pace.cycles_of(plan, "vc709"), 0);
}

// The plan has counted channels as wide as the slowest board's clock wants them, whether that board has work or not.
TEST(RingEngines, StreamsAreAsWideAsForTheSlowestBoard) {
  const Graph graph(four_layers(12, 12));
  Plan plan = ring_in_time(graph, 900);
  const int64_t lanes = ring_pace(plan, graph).lanes;
  plan.cluster.devices.push_back(plan.cluster.devices.back());
  plan.cluster.devices.back().device = "slow";
  plan.budgets.push_back({"slow", {{"clock_hz", kTwoHundredMegahertz / 8}}});
  EXPECT_GT(ring_pace(plan, graph).lanes, lanes);
  // Unless it says that it has counted for the others.
  plan.constants.push_back({std::string(kStreamClock), kTwoHundredMegahertz, "modelled"});
  EXPECT_EQ(ring_pace(plan, graph).lanes, lanes);
}

// A joined map that only a pooling reads is around no engine, and wider than all that are.
TEST(RingEngines, StreamsAreWideEnoughForWhatIsJoined) {
  ModelBuilder net("joined", {3, 12, 12});
  net.conv("conv1", 6, {.kernel = 3, .pad = 1});
  const std::string input = net.relu("relu1");
  const std::string first = net.conv("branch1", 6, {.kernel = 1});
  net.continue_from(input);
  const std::string second = net.conv("branch2", 6, {.kernel = 1});
  net.concat("joined", {first, second});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  const Graph graph(net.finish());
  constexpr int64_t kOneChannelAtATime = 12 * 12 * 12;
  EXPECT_EQ(joined_and_pooled_cycles(graph, 1), kOneChannelAtATime);
  for (const int64_t period : {kOneChannelAtATime, kOneChannelAtATime - 1}) {
    const Plan plan = ring_in_time(graph, period, 3600, {{4, 0, 0}});
    EXPECT_EQ(ring_pace(plan, graph).lanes, period == kOneChannelAtATime ? 1 : 2);
    for (const DeviceCheck& check : checks_of(plan, graph))
      EXPECT_LE(check.built_seconds, 1.001 * static_cast<double>(period) / kTwoHundredMegahertz) << check.slowest;
  }
}

// The whole ring slows down with its smallest board.
TEST(RingEngines, FitTheBoardsSlices) {
  const Graph graph(four_layers(12, 12));
  const Plan plan = ring_in_time(graph, 300, 250);
  const std::vector<DeviceCheck> checks = checks_of(plan, graph);
  for (const DeviceCheck& check : checks) EXPECT_LE(check.built_amounts.dsp, 250);
  EXPECT_LT(*pace_ratio(checks), 0.9);
  EXPECT_GT(ring_pace(plan, graph).period_seconds, 300 / kTwoHundredMegahertz);
}

TEST(RingEngines, OfAPlanWithoutTimesStayWithinItsMultipliers) {
  const Graph graph(four_layers(12, 12));
  const Plan plan = cut_plan(graph, {{1, 5, 3}, {2, 4, 0}}, /*tiles=*/5);
  EXPECT_EQ(ring_pace(plan, graph).period_seconds, 0);
  for (int64_t device = 0; device < plan.devices(); ++device)
    for (const ShardDesign& shard : device_design(plan, graph, device, nullptr).shards)
      EXPECT_LE(shard.engine.tiles() * shard.engine.taps(), shard.planned_multipliers);
}

// Every shard with other lanes, adapters on all streams, cuts in a channel.
using RingEnginesInSimulation = DeviceChecks;
TEST_F(RingEnginesInSimulation, OfAnyLanesPassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  const Graph graph(four_layers(8, 8));
  const Plan plan = ring_in_time(graph, 120);
  for (int64_t device = 0; device < plan.devices(); ++device) {
    const auto place = folder_.path() / std::to_string(device);
    const DeviceDesign design = device_design(plan, graph, device, some_weights);
    EXPECT_TRUE(std::ranges::any_of(design.shards, [](const ShardDesign& s) { return s.adapts_inputs() || s.adapts_outputs(); }));
    write_device(design, place, {.test_samples = 1});
    EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
    EXPECT_TRUE(!succeeds("verilator --version") || succeeds("make -C " + place.string() + " lint")) << "device " << device;
  }
}

Graph flattened_input() {
  ModelBuilder net("flattened", {3, 5, 4});
  net.flatten("flat");
  net.dense("fc1", 11);
  net.relu("relu1");
  net.dense("fc2", 4);
  return Graph(net.finish());
}

// A kernel as large as the image would have a multiplier for every pixel, however slow the plan.
TEST(RingEngines, ANetworkThatFlattensItsInputReadsItFlat) {
  const Graph graph = flattened_input();
  EXPECT_EQ(streamed_input(graph), (Shape{60, 1, 1}));
  const ConvolutionShape first = *layer_shape(graph, graph.node(graph.index_of("fc1")));
  EXPECT_EQ(first.inputs, 60);
  EXPECT_EQ(first.kernel_h * first.kernel_w, 1);
  const Plan plan = ring_in_time(graph, 2000, 3600, {{1, 23, 0}});
  for (const DeviceCheck& check : checks_of(plan, graph)) EXPECT_LE(check.built.all(), 6) << check.slowest;

  ModelBuilder both("both", {3, 5, 4});
  both.conv("conv", 2, {.kernel = 3, .pad = 1});
  both.flatten("flat");
  both.dense("fc", 4);
  const Graph convolved(both.finish());
  EXPECT_EQ(streamed_input(convolved), (Shape{3, 5, 4}));
  EXPECT_EQ(layer_shape(convolved, convolved.node(convolved.index_of("fc")))->kernel_h, 5);
}

TEST_F(RingEnginesInSimulation, OfAFlattenedInputPassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  const Graph graph = flattened_input();
  const Plan plan = ring_in_time(graph, 120, 3600, {{1, 23, 0}});
  for (int64_t device = 0; device < plan.devices(); ++device) {
    const auto place = folder_.path() / std::to_string(device);
    write_device(device_design(plan, graph, device, some_weights), place, {.test_samples = 2});
    EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
  }
}

// Of whole images without pauses, by the device's own testbench.
int64_t simulated_cycles(const DeviceDesign& design, const std::filesystem::path& place, int64_t samples) {
  write_device(design, place, {.test_rows = design.maps.front().height, .test_samples = samples});
  std::string text = read_text(place / "testbench.sv");
  const std::string pause = "random[1:0] != 2'd0";
  for (size_t at = text.find(pause); at != std::string::npos; at = text.find(pause)) text.replace(at, pause.size(), "1'b1");
  write_atomically(place / "testbench.sv", std::string_view(text));
  const bool passes = succeeds("make -C " + place.string() + " icarus");
  const std::string out = read_text(place / "icarus.out");
  const std::string before = " rows in ";
  EXPECT_TRUE(passes) << out.substr(0, 2000);
  if (!passes) return 0;
  return std::stoll(out.substr(out.find(before) + before.size()));
}

// The device's cycle model is what samples that follow each other take: within two percent, and the testbench's step of fifty cycles. The
// plan's period is kept as well.
class RingEnginesInSimulationLong : public DeviceChecks {
 protected:
  // `room`: samples that can wait between FP and their errors; the generator makes room for one.
  void take_the_modelled_cycles(const Graph& graph, int64_t period, const std::vector<Cut>& cuts, int devices, int64_t room) {
    if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
    const Plan plan = ring_in_time(graph, period, 3600, cuts);
    int compared = 0;
    for (int64_t device = 0; device < plan.devices(); ++device) {
      DeviceDesign design = device_design(plan, graph, device, normalising_weights);
      for (size_t i = 0; i < design.units(); ++i) {
        ShardDesign& unit = i < design.shards.size() ? design.shards[i] : design.tails[i - design.shards.size()];
        for (int64_t* beats : {&unit.act_ram_beats, &unit.mask_beats, &unit.kept_beats}) *beats *= room;
      }
      const std::vector<StageCycles> stages = device_cycles(design);
      const StageCycles slowest = slowest_stage(stages);
      if (slowest.cycles < period / 2) continue;  // maps of 2 x 2: what fills the pipelines counts
      ++compared;
      std::string all;
      for (const StageCycles& stage : stages) all += fmt::format("{} of {}: {}\n", stage.stage, stage.layer, stage.cycles);
      constexpr int64_t kMore = 4;
      const int64_t few = simulated_cycles(design, folder_.path() / "few", 2);
      const int64_t many = simulated_cycles(design, folder_.path() / "many", 2 + kMore);
      const auto simulated = static_cast<double>(many - few);
      const double modelled = static_cast<double>(kMore * slowest.cycles);
      EXPECT_NEAR(simulated, modelled, 0.02 * modelled + 50) << "device " << device << "\n" << all;
      EXPECT_LE(simulated, 1.02 * static_cast<double>(kMore * period) + 50) << "device " << device << "\n" << all;
      RecordProperty(fmt::format("device_{}", device), fmt::format("{} simulated, {} modelled", many - few, kMore * slowest.cycles));
      std::filesystem::remove_all(folder_.path() / "few");
      std::filesystem::remove_all(folder_.path() / "many");
    }
    EXPECT_GE(compared, devices);
  }
};

TEST_F(RingEnginesInSimulationLong, TakeTheModelledCyclesForWholeImages) {
  take_the_modelled_cycles(Graph(four_layers(8, 8)), 500, {{1, 5, 3}, {2, 4, 0}}, 2, 1);
}

// An average over the whole map holds errors back for more than a sample: with room for one, the last device takes 57% longer.
TEST_F(RingEnginesInSimulationLong, TakeTheModelledCyclesForWholeImagesOfResidualBlocks) {
  take_the_modelled_cycles(Graph(residual_blocks()), 1500, {{2, 2, 1}, {3, 0, 0}}, 3, 3);
}

// The joined map alone, 14 channels of 12 x 12, takes 2016 cycles to pass, one channel at a time.
TEST_F(RingEnginesInSimulationLong, TakeTheModelledCyclesForWholeImagesOfAnInceptionBlock) {
  take_the_modelled_cycles(Graph(inception_block()), 2100, {{4, 0, 0}, {7, 0, 0}}, 3, 3);
}

}  // namespace
}  // namespace millrace
