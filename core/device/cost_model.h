// What a shard would cost on a device, without the device: the partitioner's and the simulator's view of it.
//
//   std::unique_ptr<CostModel> model = make_cpu_cost_model(profile);
//   ShardQuestion question{.node = &graph.node(3), .blocks = blocks, .micro_batch = 8, .period_seconds = 1e-3};
//   ShardDemand demand = model->demand_of(question);     // sums and limits alone: millions of times in a search
//   ShardCost cost = model->cost_of(question);           // what the plan records
//
// A device takes a segment when, over its shards, the seconds add up to at most one period and each amount adds up to
// at most its capacity. Devices whose shards take turns (CPU, GPU) answer with seconds; devices whose shards have
// engines of their own (FPGA) answer with the engines that finish a sample in one period, and no seconds.
// Every answer must be monotone: a shard that contains another never demands less, and a longer period never more.
// Pure: the same question gives the same answer on every machine. Every constant carries its origin.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

// How a search counts the words of streamed weights, which an engine's lanes leave empty in part, and the memory of engines. A cost is
// always the engine's own.
enum class StreamedWords {
  kFull,   // the fewest that any engine moves, in steps of channels rounded down; memory as the most that any part of a shard takes
  kLeast,  // the same, with larger engines counted as the least they may take: what does not fit so fits for no shorter period either
  // The engines that keep up, as they are built, of the shard and of all larger parts of its layer, in small steps of channels: what does
  // not fit so fits in no plan. Takes longer.
  kLeastBuilt,
  kReserved,  // as kFull in steps rounded up: what is found moves no more when it is built
  kOfEngine,  // as kReserved with the words of the engine that moves the fewest: fewer, but a part of a layer may move more than the whole
  kBuilt,     // as it is built, words and memory: of one shard, whatever a part of it would take, so that a larger one may take less
};

struct ShardQuestion {
  const Node* node = nullptr;
  std::span<const Block> blocks;       // empty: the whole layer
  std::span<const Node* const> after;  // on the owner: the layers that run after the sum
  ChannelRange units = {};             // of the steps of a recurrent layer alone: the cells whose steps it makes; empty: all
  bool owner = true;                   // ends the group: keeps bias and the parameters of `after`
  bool off_chip = false;               // the device keeps weights off chip anyway (keeps_off_chip), these too
  bool on_chip = false;                // beside the engine, or stored elsewhere, though the device would keep them off chip
  bool act_ram_outside = false;        // what waits before the layer for its errors lies in the device's own memory, if it may
  // Samples that share a pass over gradients off chip (core/plan/off_chip.h); 0: what moves between a device and its memory is free.
  int64_t gradient_samples = 0;
  // Of them so many take memory; 0: all. Fewer for what no number of them can do.
  int64_t gradient_samples_held = 0;
  StreamedWords streamed_words = StreamedWords::kFull;
  // Of engines that keep the period the largest of up to so many tiles, as larger_engines() has them; 0: the smallest.
  int64_t most_tiles = 0;
  int64_t micro_batch = 1;
  int64_t time_chunks = 1;    // parts of a sequence that F and E take one by one, of a layer that can: each a kernel of its own
  bool recompute = false;     // what recurrent layers keep is made again before E (core/plan/recomputation.h), where shards take turns
  int64_t window = 1;         // micro-batches held, from F to G; devices with engines of their own do not read it
  int64_t errors_held = 1;    // likewise, from E to G
  double lifetime = 1;        // samples that pass between an input row's FP and its PG, in a pipeline of rows
  double period_seconds = 0;  // one sample every so often; devices that take turns do not read it
  int optimizer_slots = 0;
  Arithmetic arithmetic;
};

inline constexpr size_t kMostResources = 13;

struct ShardDemand {
  double seconds = 0;                            // per sample, of a device whose shards take turns
  std::array<double, kMostResources> amounts{};  // in the order of capacities(), without `parameters`
  // What the layer's weight, its gradient and optimizer slots take of the resource parameter_memory(). They may be
  // stored on another device. Weights that cannot leave are part of `amounts`.
  double parameters = 0;
  // Of amounts[0]: a place that the shards of a device share, the largest of theirs.
  double shared = 0;

  ShardDemand& operator+=(const ShardDemand& part) {
    seconds += part.seconds;
    for (size_t i = 0; i < amounts.size(); ++i) amounts[i] += part.amounts[i];
    amounts[0] -= std::min(shared, part.shared);
    shared = std::max(shared, part.shared);
    parameters += part.parameters;
    return *this;
  }
};

// A shard with an engine that is larger than need be, since it takes less memory.
struct LargerEngine {
  int64_t most_tiles = 0;  // as a question says it
  ShardDemand demand;
};

struct ShardCost {
  StreamingUnit unit = StreamingUnit::kSample;
  std::vector<PhaseEngine> phases;     // integer picoseconds per unit
  std::vector<NamedAmount> resources;  // as Shard::resources: `amounts` by name, and parameters as "parameter_<memory>"
  std::vector<NamedAmount> buffers;
  int64_t act_ram_bits = 0;
  double shared_bytes = 0;        // of the memory, as ShardDemand::shared
  double seconds_per_sample = 0;  // all phases together where they take turns, else the slowest
  double update_seconds = 0;      // once per mini-batch, where they take turns
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string device() const = 0;  // the catalogue's short name
  // The same device in a ring where these alone work, it among them: boards keep step with the slowest clock of those. The model's own.
  virtual const CostModel& among(std::span<const CostModel* const> working) const {
    static_cast<void>(working);
    return *this;
  }
  virtual ShardDemand demand_of(const ShardQuestion& question) const = 0;
  virtual ShardCost cost_of(const ShardQuestion& question) const = 0;
  // Of the same question: every engine after the smallest that takes less memory than all smaller ones, in some way to count it, by size;
  // of those that are built also who leaves fewer words empty. A longer period has no fewer of them, and none takes more memory there, but
  // where parts do not count (kBuilt). Nothing of devices without a choice.
  virtual std::vector<LargerEngine> larger_engines(const ShardQuestion& question) const {
    static_cast<void>(question);
    return {};
  }
  // Periods of one kind are those between which a longer one asks for no more to the letter.
  virtual size_t kind_of_period(double seconds) const { return static_cast<void>(seconds), 0; }
  // Whether a search that counts words so may weigh the memory that they save. Of blocks of two kinds what is reserved says too little of
  // it: there only what is built does, and what nothing takes less of counts them all.
  virtual bool enlarges_engines(StreamedWords words) const { return static_cast<void>(words), false; }
  // Whether what waits before layers for their errors may lie in the device's own memory (ShardQuestion::act_ram_outside).
  virtual bool may_wait_outside() const { return false; }
  // What resources may add up to; at most kMostResources.
  virtual std::span<const NamedAmount> capacities() const = 0;
  // Index into capacities() of the memory that holds parameters.
  virtual size_t parameter_memory() const = 0;
  // Whether this resource, by its index, is one way to count the memory that a layer takes less of where its weights are streamed from off
  // chip, or its engine is larger: a device may count one memory in several ways.
  virtual bool holds_parameters(size_t resource) const { return resource == parameter_memory(); }
  // Layers whose weights live in the device's off-chip memory and stream from there, as FPDeep's fully connected ones.
  virtual bool keeps_off_chip(const Node& head) const { return static_cast<void>(head), false; }
  // What else a report wants to know: "dsp_device" (engines may take a share of it only), "bram36", ...
  virtual std::vector<NamedAmount> inventory() const { return {}; }
  virtual std::vector<Constant> constants() const = 0;  // with their origin
  // Why the device can have no part in this layer at all, and what to do about it, as the end of a sentence; "" where it can.
  virtual std::string refusal(const Node& node) const { return static_cast<void>(node), ""; }
  // Of the steps of a recurrent layer alone, a question whose block has no inputs: likewise, with what is lacking.
  virtual std::string steps_refusal(const ShardQuestion& question) const { return static_cast<void>(question), ""; }
  virtual int64_t channel_quantum() const { return 1; }  // 16 for blocked CPU layouts
  // Whether the device may hold a part of this layer, which others hold the rest of.
  virtual bool divides(const Node& head) const { return static_cast<void>(head), true; }
  virtual bool dedicated_engines() const { return false; }  // shards run side by side, each phase with an engine of its own
  // Power of the board while it does so many multiply-accumulates a second; 0: not known.
  virtual double watts(double macs_per_second) const { return 0 * macs_per_second; }
};

// Of the boards among them; 0 without any.
inline double slowest_clock(std::span<const CostModel* const> models) {
  double slowest = 0;
  for (const CostModel* model : models)
    for (const NamedAmount& amount : model->inventory())
      if (model->dedicated_engines() && amount.name == "clock_hz") slowest = slowest > 0 ? std::min(slowest, amount.amount) : amount.amount;
  return slowest;
}

}  // namespace millrace
