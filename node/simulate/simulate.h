// A plan in virtual time: every row through every engine, every message over every link.
//
//   const Graph graph(plan.model);
//   const SimulationResult result = simulate(plan, graph, {.samples = 64});
//   fmt::print("{:.1f} images/s (simulated)\n", result.images_per_second);
//
// Reads the plan alone: shards with engines of their own (PhaseEngine::multipliers > 0) work row by row, side by side, in order
// per engine; devices whose shards take turns run the schedule's list, micro-batch by micro-batch. The network's input is fed
// at the pace of the plan's slowest stage, so that nothing piles up before it. Links send message after message in the order
// in which they begin; a budget for both directions is divided as the plan loads them. Weights switch at micro-batch
// boundaries, as the schedule says. An update takes what the plan says of devices that take turns (Shard::update_picoseconds), or what
// was measured, and what replicas take to agree on it (scenario.h): with measured times of a training's actions a simulation predicts that
// training.
//
// The same plan and options give the same result, to the bit, however the devices are divided among ranks
// (simulate_parallel.h). Time is int64_t picoseconds: runs that could pass 2^62 of them (53 days) are refused.
// Fails with kUsage on options that make no sense, kMismatch when the plan cannot be simulated, kStandstill when it deadlocks, naming
// who waits for what. A device that takes turns takes sequences in the plan's chunks of time, as core/plan/time_chunking.h divides them;
// what follows a layer on its device is counted with that layer. Rows are finer than chunks, so engines side by side know none. Limits:
// micro-batches are whole; models end in a loss.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "node/simulate/scenario.h"

namespace millrace {

// Picoseconds, measured: what a device's actions take for a micro-batch and an update for a mini-batch, and what its rank does
// besides, per action.
struct MeasuredActions {
  int64_t forward = 0, error_back = 0, parameter_gradient = 0, update = 0, between = 0;
};

// How FARNN's boards take recurrent layers that are divided by kind and load their parameters for every F and E. No training here does.
struct PairPace {
  // A board fetches chunks as it has room for so many of a flow; until then they lie with who made them. 0: they are sent as they are made.
  int64_t chunks_fetched = 0;
  // A board has memory for one layer's weights, in one order: a load begins when the card is through with the F or E before. Of cards that
  // fill several places, and of one micro-batch between updates; all else is refused with kUnavailable.
  bool single_memory = false;
  int64_t load_picoseconds = 0;  // of a load, beside what its words take on the link
};

struct SimulationOptions {
  int64_t samples = 64;
  // Flattened maps are waited for; else fully connected layers stream with the map's rows, as FPDeep's formulas have it.
  bool fc_barrier = false;
  // Act-RAM holds so many times the plan's bits, in whole rows; of a plan with FPDeep's accounting one row more, the one being filled,
  // which full accounting counts. 0: it grows, and its peak is reported.
  double act_ram = 0;
  // Rows that a FIFO holds beyond the row in use; 0: what links' latency asks for.
  int64_t fifo_rows = 0;
  bool paced = true;  // false: the input comes as fast as it is taken
  bool trace = false;
  bool pace_alone = false;  // memories' and FIFOs' peaks are left out, and the run is the sooner over
  // By device: every device takes turns, at these durations instead of the plan's. Empty: the plan's.
  std::vector<MeasuredActions> measured = {};
  // As a trainer on one machine: so many cores serve its ranks, and of a rank's devices one acts at a time. 0: as many cores as
  // ranks; a rank for every device. Simulated by one rank, for cores leave nothing to look ahead by.
  int64_t cores = 0;
  int64_t trainer_ranks = 0;
  std::vector<int64_t> trainer_rank_of = {};  // by device; empty: ranks have blocks of devices
  SimulationScenario scenario = {};
  PairPace pair = {};
};

// Shares of a stage's time in the steady part, which add up to 1 with the time it works.
struct IdleShares {
  double input = 0;       // waits for rows, errors
  double output = 0;      // waits for room
  double parameters = 0;  // waits for weights stored elsewhere
  double update = 0;      // waits for the update of a mini-batch
  double core = 0;        // waits for a core that is shared

  double all() const { return input + output + parameters + update + core; }
};

struct SimulatedStage {  // one engine, or a device that takes turns
  int64_t device = 0;
  int64_t shard = -1;  // of the plan; -1: the whole device
  Phase phase = Phase::kForward;
  int64_t multipliers = 0;
  int64_t busy = 0;                 // picoseconds in the steady part
  int64_t window = 0;               // of so many
  std::array<int64_t, 5> waited{};  // input, output, parameters, update, core
  int64_t weight_words = 0;         // fetched from the memory outside for the steps it took, of an engine that streams its weights
};

struct SimulatedShard {
  int64_t shard = 0;
  int64_t peak_bits = 0;  // of its Act-RAM; a row under way counts as far as it is
  int64_t plan_bits = 0;
};

struct SimulatedDevice {
  int64_t index = 0;
  IdleShares idle;
  double idle_fraction = 0;
  int64_t act_ram_peak_bits = 0;  // sum of its shards' peaks
  int64_t act_ram_plan_bits = 0;
  int64_t fifo_peak_bits = 0;  // sum of the peaks
  int64_t buffer_peak_bits() const { return act_ram_peak_bits + fifo_peak_bits; }
};

struct SimulatedFlow {
  int64_t flow = 0;  // of the plan
  int64_t messages = 0;
  int64_t elements = 0;
};

struct SimulatedLink {
  int64_t from = 0, to = 0;
  int64_t forward_bits = 0, backward_bits = 0;  // of the whole run
  // Per image of a whole mini-batch: what belongs to filling the pipeline is not in it.
  double forward_bits_per_image = 0, backward_bits_per_image = 0;
  double utilisation = 0;  // of the fuller direction, over the run
};

// Measured: what each rank did for the result.
struct SimulatedRank {
  int64_t first_device = 0;
  int64_t events = 0;
  int64_t messages = 0;          // that it sent to other ranks
  double seconds = 0;            // from the first event to the last
  double waiting_seconds = 0;    // of those, for other ranks
  double processor_seconds = 0;  // of those, on a core
};

// Of a device that takes turns.
struct SimulatedUpdate {
  int64_t device = 0;
  int64_t mini_batch = 0;
  int64_t time = 0;  // picoseconds, as it ends
};

struct TraceSpan {
  int32_t device = 0;
  int32_t shard = -1;
  uint8_t phase = 0;   // 0 FP, 1 EB, 2 PG
  int64_t cycle = 0;   // sample or micro-batch
  int64_t chunk = -1;  // of its time; -1: all of it
  int64_t start = 0, end = 0;
  auto operator<=>(const TraceSpan&) const = default;
};

struct SimulationResult {
  int64_t samples = 0;
  double images_per_second = 0;  // slope over the second half
  double idle_fraction = 0;      // of the engines' time, on average over the cards (plan/seats.h)
  std::vector<SimulatedDevice> devices;
  std::vector<SimulatedLink> links;
  std::vector<SimulatedFlow> flows;
  std::vector<SimulatedStage> stages;
  std::vector<SimulatedShard> shards;
  std::vector<int64_t> begun, finished;  // by sample, picoseconds
  int64_t in_flight_samples = 0;         // at most, in the second half
  int64_t picoseconds = 0;               // until the last sample
  int64_t fill_picoseconds = 0;          // from the beginning of the first to its end
  int64_t events = 0;
  int64_t state_bytes = 0;
  double wall_seconds = 0;           // measured; all else is simulated
  std::vector<SimulatedRank> ranks;  // but for these
  std::vector<TraceSpan> trace;
  std::vector<SimulatedUpdate> updates;
};

SimulationResult simulate(const Plan& plan, const Graph& graph, const SimulationOptions& options = {});

// Some device has engines of its own, so that rows stream, FIFOs and Act-RAM fill, and the input has a pace; else every device
// takes turns, a micro-batch at a time.
bool streams_rows(const Plan& plan, const Graph& graph);

// Samples that show a steady rate: 64, or four mini-batches where updates cost time (they drain the pipeline, or replicas agree) or
// samples come in micro-batches.
int64_t enough_samples(const Plan& plan, bool replicas = false);

// The same, and of a plan with full accounting, which promises whole mini-batches, as many of them as mini_batch_rate reads best, unless
// that takes long.
int64_t samples_of_mini_batches(const Plan& plan, const Graph& graph, bool replicas = false);

// Rows that a sample moves through links and engines, and how many take a few seconds.
double rows_of_sample(const Plan& plan, const Graph& graph);
inline constexpr double kMostSimulatedRows = 20e6;

// Images per second over whole mini-batches, updates included: from the end of the first to the end of the last that is whole; of four
// or more from the end of the second, for long pipelines fill and settle that long; where devices take turns and run ahead, from the end
// of the first behind those that a window holds, which are made early, to the end of the last that has a whole window behind it, and, with
// a window of more than a mini-batch, no faster than the slowest device makes updates. 0 where the run has fewer than two.
double mini_batch_rate(const Plan& plan, const SimulationResult& result);

// Mini-batches at the end of a run that no rate counts: where a device takes turns and runs ahead it has less to do while the run's last
// window returns, for nothing goes forward behind it. 0 where nobody runs ahead, or the run is too short to leave them out.
int64_t mini_batches_of_window_behind(const Plan& plan, const SimulationResult& result);

// From so many samples on a run is long enough to leave out how a ring that runs ahead fills and ends; 0: of any length.
int64_t samples_to_settle(const Plan& plan, const SimulationResult& result);

// Picoseconds per sample of the plan's slowest engine, device or link: the pace at which the input is fed.
int64_t slowest_stage(const Plan& plan, const Graph& graph);

}  // namespace millrace
