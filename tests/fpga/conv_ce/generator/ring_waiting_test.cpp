// The ring's pace with the room that its memories have: against cycles that the RTL took, devices alone and rings as a whole.
#include "fpga/conv_ce/generator/ring_waiting.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/plan/engine_period.h"
#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/generator/ring_designs.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "fpga/conv_ce/generator/ring_streams.h"
#include "tests/core/documents/expect_error.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/ring_bench.h"
#include "tests/fpga/conv_ce/generator/whole_image_rings.h"

namespace millrace {
namespace {

struct Network {
  Model model;
  int64_t period = 0;
  std::vector<Cut> cuts;
};
Network four_layers_cut() { return {four_layers(8, 8), 500, {{1, 5, 3}, {2, 4, 0}}}; }
Network residual_blocks_cut() { return {residual_blocks(), 1500, {{2, 2, 1}, {3, 0, 0}}}; }
Network whole_map_cut() { return {whole_map(), 1500, {{1, 3, 0}, {2, 0, 0}}}; }
Network dense_over_map_cut() { return {dense_over_map(), 1500, {{1, 3, 0}, {2, 400, 0}}}; }
Network sorted_rows_alone() { return {sorted_rows(), 144, {}}; }
Network many_sums_cut() { return {many_sums(), 576, {{1, 4, 0}}}; }
Network inception_block_cut() { return {inception_block(), 2100, {{4, 0, 0}, {7, 0, 0}}}; }

// Samples that no ring here waits for.
constexpr int64_t kEnough = 20;

// `room`: samples that can wait between FP and their errors; the generator makes room for one.
std::vector<DeviceDesign> designs_of(const Network& network, int64_t room, const WeightSource& weights = nullptr) {
  const Graph graph(network.model);
  const Plan plan = ring_in_time(graph, network.period, 3600, network.cuts);
  std::vector<DeviceDesign> designs;
  for (int64_t device = 0; device < plan.devices(); ++device) {
    DeviceDesign& design = designs.emplace_back(device_design(plan, graph, device, weights));
    for (size_t i = 0; i < design.units(); ++i) {
      ShardDesign& unit = i < design.shards.size() ? design.shards[i] : design.tails[i - design.shards.size()];
      for (int64_t* beats : {&unit.act_ram_beats, &unit.mask_beats, &unit.kept_beats}) *beats *= room;
    }
  }
  return designs;
}

std::vector<PlacedDesign> placed(const std::vector<DeviceDesign>& designs) {
  std::vector<PlacedDesign> all;
  for (const DeviceDesign& design : designs) all.push_back({&design, 1});
  return all;
}

// Simulated: tests/benchmarks/results/whole_images.json has them.
constexpr double kTwoPercent = 0.02;
TEST(RingWaiting, DevicesAloneTakeTheCyclesOfTheRtl) {
  struct Case {
    Network network;
    int64_t room;
    std::vector<double> simulated;  // of four samples, by device
  };
  for (const Case& one : {Case{residual_blocks_cut(), 3, {5670, 5238, 5724}}, Case{residual_blocks_cut(), 1, {5670, 5238, 9018}},
                          Case{inception_block_cut(), 3, {6858, 8046, 6102}}}) {
    const std::vector<DeviceDesign> designs = designs_of(one.network, one.room);
    for (size_t i = 0; i < designs.size(); ++i) {
      const RingStreams alone({{&designs[i], 1}}, /*closed=*/false);
      const double cycles = 4 * alone.timing.run({.samples = 16}).period;
      EXPECT_NEAR(cycles, one.simulated[i], kTwoPercent * one.simulated[i]) << "device " << i << ", room for " << one.room;
    }
  }
}

// A concatenation is timed as if every row waited for all maps at once, and in a loop of samples that counts: 2.1%.
constexpr double kOfRings = 0.025;
TEST(RingWaiting, RingsTakeTheCyclesOfTheRtl) {
  struct Case {
    Network network;
    int64_t room;
    double simulated;  // from score to score
  };
  for (const Case& one : {Case{residual_blocks_cut(), 1, 4545}, Case{four_layers_cut(), 1, 1121}, Case{inception_block_cut(), 1, 4992}}) {
    const std::vector<DeviceDesign> designs = designs_of(one.network, one.room);
    EXPECT_NEAR(ring_waiting(placed(designs)).seconds, one.simulated, kOfRings * one.simulated) << "room for " << one.room;
  }
}

// Where every cycle of a row counts, nothing is lost from row to row: simulated by the cases below.
TEST(RingWaiting, RowsThatFillTheirTimeLoseNone) {
  for (const Network& network : {sorted_rows_alone(), many_sums_cut()}) {
    const std::vector<DeviceDesign> designs = designs_of(network, kEnough);
    EXPECT_EQ(engines_seconds(placed(designs)), static_cast<double>(network.period));
    EXPECT_NEAR(ring_waiting(placed(designs)).seconds, static_cast<double>(network.period), 1e-3 * static_cast<double>(network.period));
  }
}

// One memory with room for a sample, all others for five: simulated by tests/benchmarks/ring_waiting.cpp, which draws rooms. The row that a
// full memory keeps from leaving holds up the engine behind it, not only the rows after it.
constexpr double kOfASingleMemory = 0.05;
TEST(RingWaiting, EveryMemoryThatIsTooSmallCostsTheCyclesOfTheRtl) {
  struct Case {
    size_t device;
    RoomPlace::Kind kind;
    size_t unit;
    double simulated;
  };
  using enum RoomPlace::Kind;
  const std::vector<DeviceDesign> easy = designs_of(residual_blocks_cut(), 5);
  for (const Case& one : {Case{0, kActRam, 0, 4545},  Case{0, kNorm, 0, 4494},    Case{0, kWinners, 0, 4415}, Case{0, kActRam, 1, 3911},
                          Case{0, kNorm, 1, 3904},    Case{0, kWinners, 1, 3801}, Case{0, kActRam, 2, 3361},  Case{1, kActRam, 0, 3313},
                          Case{1, kNorm, 0, 3073},    Case{1, kWinners, 0, 2994}, Case{1, kWinners, 1, 2915}, Case{2, kActRam, 0, 2203},
                          Case{2, kNorm, 0, 2040},    Case{2, kWinners, 0, 1979}, Case{2, kActRam, 1, 2026},  Case{2, kNorm, 1, 2269},
                          Case{2, kWinners, 1, 2208}, Case{2, kActRam, 2, 1572},  Case{2, kNorm, 2, 1601},    Case{2, kWinners, 2, 1540},
                          Case{2, kMasks, 4, 1520},   Case{2, kActRam, 3, 1440},  Case{2, kWinners, 3, 1440}}) {
    std::vector<DeviceDesign> designs = easy;
    room_at(designs[one.device], {one.kind, one.unit}) /= 5;
    EXPECT_NEAR(ring_waiting(placed(designs)).seconds, one.simulated, kOfASingleMemory * one.simulated)
        << "device " << one.device << ", unit " << one.unit << ", memory " << static_cast<int>(one.kind);
  }
}

double engines_cycles(const std::vector<DeviceDesign>& designs) {
  int64_t slowest = 0;
  for (const DeviceDesign& design : designs) slowest = std::max(slowest, slowest_stage(device_cycles(design)).cycles);
  return static_cast<double>(slowest);
}

TEST(RingWaiting, SaysWhichMemoryIsTooSmallAndWhatWouldDo) {
  const std::vector<DeviceDesign> tight = designs_of(residual_blocks_cut(), 1);
  const RingWaiting waiting = ring_waiting(placed(tight));
  ASSERT_TRUE(waiting.waits);
  EXPECT_EQ(waiting.waits->device, 0);
  EXPECT_EQ(waiting.waits->layer, "conv1");
  EXPECT_NEAR(waiting.waits->room_samples, 1, 0.02);
  EXPECT_GT(waiting.waits->enough_samples, 2.5);
  EXPECT_EQ(waiting_text(*waiting.waits),
            fmt::format("forward propagation waits in the {} of conv1 on device 0, which has room for 1.0 samples; {:.1f} would do",
                        waiting.waits->memory, waiting.waits->enough_samples));
  // With as much nothing waits any more, and a sample less is too little.
  const auto enough = static_cast<int64_t>(std::ceil(waiting.waits->enough_samples));
  const std::vector<DeviceDesign> easy = designs_of(residual_blocks_cut(), enough), less = designs_of(residual_blocks_cut(), enough - 2);
  EXPECT_LT(ring_waiting(placed(easy)).seconds, 1.01 * engines_cycles(easy));
  EXPECT_FALSE(ring_waiting(placed(easy)).waits);
  EXPECT_GT(ring_waiting(placed(less)).seconds, 1.1 * engines_cycles(less));
  EXPECT_TRUE(ring_waiting(placed(less)).waits);
}

// Cycles are the same, whatever the clock; a slower board's count for more.
TEST(RingWaiting, TakesEveryBoardsClock) {
  const std::vector<DeviceDesign> designs = designs_of(four_layers_cut(), 1);
  std::vector<PlacedDesign> boards = placed(designs);
  const double before = ring_waiting(boards).seconds;
  boards[1].cycle_seconds = 2;
  EXPECT_GT(ring_waiting(boards).seconds, 1.1 * before);
  for (PlacedDesign& board : boards) board.cycle_seconds = 2;
  EXPECT_NEAR(ring_waiting(boards).seconds, 2 * before, 1e-9 * before);
}

TEST(RingWaiting, IsOfAllDevicesOfAPlanOrUnknown) {
  const Network network = residual_blocks_cut();
  const Graph graph(network.model);
  Plan plan = ring_in_time(graph, network.period, 3600, network.cuts);
  const std::vector<DeviceDesign> designs = designs_of(network, 1);
  std::vector<int64_t> devices;
  for (const DeviceDesign& design : designs) devices.push_back(design.index);
  const TimedRing timed = time_ring(plan, graph, devices);
  EXPECT_EQ(timed.waiting.reason, "");
  EXPECT_EQ(std::ssize(timed.boards), std::ssize(devices));
  EXPECT_NEAR(timed.waiting.seconds * kTwoHundredMegahertz, ring_waiting(placed(designs)).seconds, 1e-6);
  EXPECT_EQ(time_ring(plan, graph, {}).waiting.reason, "no board computes");
  plan.budgets.clear();
  EXPECT_EQ(ring_designs(Placement(plan, graph), {}).reason, "the plan does not say the clock of vc709");
}

// A layer without hardware leaves a ring unknown; a plan that contradicts the generator is told by name.
TEST(RingWaiting, APlanThatContradictsItselfIsNoRingWithoutHardware) {
  const Network network = residual_blocks_cut();
  const Graph graph(network.model);
  Plan plan = ring_in_time(graph, network.period, 3600, network.cuts);
  const double period = static_cast<double>(network.period) / kTwoHundredMegahertz;
  plan.constants.push_back({std::string(kEnginePeriod), period, "modelled"});
  plan.arithmetic.wire = ElementType::kFixed16;
  for (Shard& shard : plan.shards)
    for (PhaseEngine& phase : shard.phases) ++phase.multipliers;
  const RingPace pace = ring_pace(plan, graph);
  expect_error(ErrorCode::kMismatch, "plan again", [&] { ring_designs(Placement(plan, graph), pace); });
  expect_error(ErrorCode::kMismatch, "plan again", [&] { waiting_words(plan, graph); });
}

// A GPU behind, between or before the boards takes micro-batches: with room for as many samples as are on their way the ring keeps the
// slower one's pace, and with room for a sample nothing moves.
TEST(RingWaiting, DevicesOfMicroBatchesNeedRoomForThem) {
  constexpr int64_t kMicroBatch = 4;
  for (const size_t place : {size_t{0}, size_t{1}, size_t{3}}) {
    const std::vector<DeviceDesign> easy = designs_of(four_layers_cut(), 24), tight = designs_of(four_layers_cut(), 1);
    const auto with = [&](const std::vector<DeviceDesign>& designs, double cycles_of_sample) {
      std::vector<PlacedDesign> ring = placed(designs);
      ring.insert(ring.begin() + static_cast<int64_t>(place), PlacedDesign::of_micro_batches(kMicroBatch, kMicroBatch * cycles_of_sample));
      return ring_waiting(ring);
    };
    const double engines = engines_cycles(easy);
    EXPECT_NEAR(with(easy, engines / 2).seconds, engines, 0.02 * engines) << "at place " << place;
    EXPECT_NEAR(with(easy, 2 * engines).seconds, 2 * engines, 0.02 * engines) << "at place " << place;
    const RingWaiting still = with(tight, engines / 2);
    EXPECT_EQ(still.stands_still, place > 0) << "at place " << place;  // before all boards, errors of single samples come back to it
    if (!still.stands_still) continue;
    ASSERT_TRUE(still.waits);
    EXPECT_LT(still.waits->room_samples, kMicroBatch);
    EXPECT_GE(still.waits->enough_samples, kMicroBatch);
  }
}

// Boards that share a layer: partial sums reach the last one late, and the map's rows, which pass all boards at once, wait for its line
// buffer. Where maps are small that is longer than a line buffer lasts, unless rows have room on their way.
Network shared_by_four() { return {shared_layer(), 300, {{1, 4, 0}, {1, 8, 0}, {1, 12, 0}, {2, 0, 0}}}; }

void give_passing_room(std::vector<DeviceDesign>& designs, int64_t beats) {
  for (DeviceDesign& design : designs)
    for (MapDesign& map : design.maps)
      for (MapReader& reader : map.readers)
        if (reader.next && map.readers.size() > 1) reader.waiting_beats = beats;
}

// RTL takes 376 cycles without (whole rows are timed, and beats are a little ahead of them) and, in RingWaitingInSimulationLong, 256 with.
TEST(RingWaiting, RowsThatWaitForTheNextBoardNeedRoomOnTheirWay) {
  std::vector<DeviceDesign> designs = designs_of(shared_by_four(), kEnough);
  EXPECT_EQ(engines_cycles(designs), 256);
  EXPECT_NEAR(ring_waiting(placed(designs)).seconds, 427, 1);
  give_passing_room(designs, 64);
  EXPECT_NEAR(ring_waiting(placed(designs)).seconds, 256, 1);
}

// The whole ring under Verilator, from score to score.
class RingWaitingInSimulationLong : public DeviceChecks {
 protected:
  // `outside`: samples for which there is room in the memory outside, of all that may lie there.
  // `more`: samples, where the way back is hardly slower than the way there, and room is full late.
  void take_the_timed_cycles(const Network& network, int64_t room, int64_t outside = 0, int64_t passing = 0, int64_t more = 0) {
    if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
    std::vector<DeviceDesign> designs = designs_of(network, room, normalising_weights);
    if (passing > 0) give_passing_room(designs, passing);
    if (outside > 0)
      for (DeviceDesign& design : designs)
        for (const OutsideFifo& fifo : movable_fifos(design)) give_outside_room(design, fifo.of, outside);
    const int64_t samples = (outside > 0 || room >= kEnough ? 16 : 8) + more;  // until a ring with more room is full
    const RingBench bench(designs, samples);
    bench.write(folder_.path(), /*pauses=*/false);
    ASSERT_EQ(bench.run(folder_.path(), /*verilated=*/outside == 0), "PASS");
    const std::vector<int64_t> scores = RingBench::score_cycles(folder_.path());
    ASSERT_EQ(std::ssize(scores), samples);
    const double simulated = static_cast<double>(scores.back() - scores[scores.size() - 5]) / 4,
                 timed = ring_waiting(placed(designs)).seconds;
    EXPECT_NEAR(timed, simulated, kOfRings * simulated);
    RecordProperty(fmt::format("room_{}", room), fmt::format("{} simulated, {} timed", simulated, timed));
  }
};
TEST_F(RingWaitingInSimulationLong, FourLayers) { take_the_timed_cycles(four_layers_cut(), 1); }
TEST_F(RingWaitingInSimulationLong, ResidualBlocks) { take_the_timed_cycles(residual_blocks_cut(), 1); }
TEST_F(RingWaitingInSimulationLong, ResidualBlocksWithMoreRoom) { take_the_timed_cycles(residual_blocks_cut(), 2); }
TEST_F(RingWaitingInSimulationLong, ResidualBlocksOutside) { take_the_timed_cycles(residual_blocks_cut(), 3, 3); }
TEST_F(RingWaitingInSimulationLong, ALayerOnFourBoardsWithRoomOnTheWay) { take_the_timed_cycles(shared_by_four(), kEnough, 0, 64); }
TEST_F(RingWaitingInSimulationLong, AnInceptionBlock) { take_the_timed_cycles(inception_block_cut(), 1); }
TEST_F(RingWaitingInSimulationLong, AnAverageOfTheWholeMap) { take_the_timed_cycles(whole_map_cut(), 1); }
TEST_F(RingWaitingInSimulationLong, AnAverageOfTheWholeMapWithMoreRoom) { take_the_timed_cycles(whole_map_cut(), 3); }

TEST_F(RingWaitingInSimulationLong, RowsThatAreSorted) { take_the_timed_cycles(sorted_rows_alone(), 4, 0, 0, 56); }
TEST_F(RingWaitingInSimulationLong, PartialSumsThatTakeAllTheTime) { take_the_timed_cycles(many_sums_cut(), 4, 0, 0, 56); }
TEST_F(RingWaitingInSimulationLong, ADenseLayerOverAFlatMap) { take_the_timed_cycles(dense_over_map_cut(), 1); }
TEST_F(RingWaitingInSimulationLong, ADenseLayerOverAFlatMapWithMoreRoom) { take_the_timed_cycles(dense_over_map_cut(), 3); }

TEST(RingWaiting, SaysHowMuchMoreRoomWouldDo) {
  const WaitingPlace far{.device = 2, .layer = "conv1", .memory = "winners", .room_samples = 1.5, .enough_samples = 3};
  EXPECT_NE(waiting_text(far).find("room for 1.5 samples; 3.0 would do"), std::string::npos) << waiting_text(far);
  const WaitingPlace near{.device = 2, .layer = "conv1", .memory = "winners", .room_samples = 7.38, .enough_samples = 7.41};
  EXPECT_NE(waiting_text(near).find("room for 7.38 samples; 7.41 would do"), std::string::npos) << waiting_text(near);
}

}  // namespace
}  // namespace millrace
