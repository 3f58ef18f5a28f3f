// The plan: the only thing planner, trainer, simulator, RTL generator and reports share. It is complete: nobody
// re-derives a split. All ranges are half open; layers are named.
//
//   Plan plan = load_plan("plan.textproto");       // core/plan/validate.h: parsed, migrated, validated
//   save(plan, "plan.textproto");
//
// How the parts hang together (the arithmetic on them is in core/plan):
//   layer    one entry of the model. Layers with weights and much work (conv2d, dense, recurrent, embedding) are
//            computed by a GROUP of one or more consecutive devices; every other layer runs after the sum, on the
//            last device ("owner") of the group its latest operand comes from.
//   shard    what one device computes of one group: up to three blocks of input x output channels, so that a cut may
//            fall inside a channel: whole input channels for all outputs in the middle, and at each end one boundary
//            channel whose outputs are divided between the two neighbours.
//   flow     one tensor's channels crossing one link in one direction, once per sample (or per pass, for parameters).
//   home     the device that stores a slice of a shard's parameters and its optimizer state, and updates it.
// Actions are not stored: core/plan/schedule.h yields them from alignment, n = mini_batch / micro_batch and windows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/documents/cluster.h"
#include "core/documents/model.h"

namespace millrace {

struct ChannelRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool contains(const ChannelRange& other) const { return other.empty() || (begin <= other.begin && other.end <= end); }
  bool operator==(const ChannelRange&) const = default;
};
ChannelRange intersection(const ChannelRange& a, const ChannelRange& b);
// The smallest range that holds both; an empty one does not count.
ChannelRange hull(const ChannelRange& a, const ChannelRange& b);
std::string text_of(const ChannelRange& range);  // "[0, 64)"

enum class Phase { kForward, kErrorBack, kParameterGradient };  // FP, EB, PG
std::string_view name_of(Phase phase);

// A record is what the gradients of recurrent steps need of them, where another device than theirs makes these; states are what devices
// that share the steps of a layer tell each other at every step.
enum class Stream { kActivation, kPartial, kError, kParameter, kGradient, kLabel, kControl, kRecord, kState };
std::string_view name_of(Stream stream);

enum class Direction { kForward, kBackward };  // forward: from device i to i+1
std::string_view name_of(Direction direction);

enum class Alignment { kFpdeep, kFlush, kOneForwardOneBackward, kStash, kZeroBubble };
std::string_view name_of(Alignment alignment);    // "fpdeep", "flush", "1f1b", "stash", "zero-bubble"
Alignment alignment_from(std::string_view name);  // fails with kUsage
// Drained alignments finish a mini-batch everywhere before any of the next begins; they agree bitwise.
bool drains(Alignment alignment);

// Inference plans hold forward passes alone.
enum class Purpose { kTraining, kInference };

// What a prediction counts: as the paper, which has updates and weights off chip for nothing, or all of it.
enum class Accounting { kFpdeep, kFull };
std::string_view name_of(Accounting accounting);    // "fpdeep", "full"
Accounting accounting_from(std::string_view name);  // fails with kUsage

enum class OptimizerKind { kSgd, kMomentum, kNesterov, kAdam, kAdamW };
std::string_view name_of(OptimizerKind kind);
OptimizerKind optimizer_from(std::string_view name);  // fails with kUsage
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kMomentum;
  double momentum = 0.9;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // added to the gradient; adamw: taken off the weight itself
  // average = average_decay * average + (1 - average_decay) * weight, after each update; 0: no average is kept.
  double average_decay = 0;
  // Tensors per parameter that the kind itself needs: 0 (sgd), 1 (momentum, nesterov), 2 (adam, adamw).
  int kind_slots() const;
  bool averages() const { return average_decay > 0; }
  // Of the kind and, behind them, the average's.
  size_t average_slot() const { return to_size(kind_slots()); }
  int slots() const { return kind_slots() + (averages() ? 1 : 0); }
  bool operator==(const OptimizerSettings&) const = default;
};

enum class ElementType { kFloat64, kFloat32, kFloat16, kBfloat16, kFixed16 };
std::string_view name_of(ElementType type);
ElementType element_type_from(std::string_view name);  // fails with kMalformed
int64_t bits_of(ElementType type);

struct Arithmetic {
  ElementType compute = ElementType::kFloat32;
  ElementType wire = ElementType::kFloat32;  // what travels over links
  bool operator==(const Arithmetic&) const = default;
};

struct Block {
  ChannelRange inputs;
  ChannelRange outputs;
  bool operator==(const Block&) const = default;
};

enum class StreamingUnit { kRow, kStep, kSample };
std::string_view name_of(StreamingUnit unit);

// The engine that does one phase of a shard, and its integer time for one unit (row, step or sample) of the tensor
// that phase walks: the layer's output for FP and PG, its input for EB.
struct PhaseEngine {
  Phase phase = Phase::kForward;
  std::string engine;       // "conv_ce", "roofline", ...
  int64_t multipliers = 0;  // multiply-accumulates per cycle of an engine of its own, that runs beside all others;
                            // 0: phases and shards take turns on the device
  int64_t picoseconds_per_unit = 0;
  bool operator==(const PhaseEngine&) const = default;
};
struct NamedAmount {
  std::string name;  // "dsp", "lut", "bram_bits", "memory_bytes", ...
  double amount = 0;
  bool operator==(const NamedAmount&) const = default;
};

struct Shard {
  int64_t device = 0;
  std::string layer;
  std::vector<Block> blocks;  // one to three, ascending and disjoint
  ChannelRange units;         // of a recurrent layer whose steps several devices share: the cells whose steps this one makes
  bool after = false;         // of a recurrent layer divided by kind: the layers that follow it alone, behind the device of its steps
  StreamingUnit unit = StreamingUnit::kSample;
  std::vector<PhaseEngine> phases;  // the phases that are present; EB of the first layer often is not
  // What the shard takes of the device. Its weight's storage stands apart, as "parameter_" and the memory's name
  // ("parameter_bram_bits", "parameter_memory_bytes"): it is taken where the homes say, slice by slice.
  std::vector<NamedAmount> resources;
  std::vector<NamedAmount> buffers;  // capacities, in bits: "line", "partial", ...
  int64_t act_ram_bits = 0;          // activations held between FP and PG
  int64_t update_picoseconds = 0;    // of its parameters, once per mini-batch; with full accounting, where shards take turns
  bool operator==(const Shard&) const = default;
};

enum class Split { kWhole, kInputChannels, kOutputChannels };  // whole, ICP, OCP
std::string_view name_of(Split split);

struct Group {
  std::string layer;
  Split split = Split::kWhole;
  std::vector<int64_t> shards;     // indices into Plan::shards, in chain order: also the order of the reduction
  std::vector<std::string> after;  // the layers that run after the sum, in order, on the last shard's device
  bool operator==(const Group&) const = default;
};

struct Flow {
  int64_t link = 0;
  Direction direction = Direction::kForward;
  Stream stream = Stream::kActivation;
  std::string tensor;                 // a layer's name; "conv1:sum" for its raw partial sums; "conv1.weight" for parameters
  ChannelRange channels;              // of the tensor; for parameters: the slice of the shard's vector
  int64_t producer_shard = -1;        // who made it; -1: the network's input
  int64_t consumer_shard = -1;        // the furthest shard that uses it
  int64_t home = -1;                  // parameter, gradient: of which home, as an index into Plan::homes
  int64_t elements_per_sample = 0;    // activation, partial, error, record, state
  int64_t elements_per_pass = 0;      // parameter, gradient
  int64_t passes_per_mini_batch = 0;  // parameter, gradient: in steady state
  ElementType wire = ElementType::kFloat32;
  bool operator==(const Flow&) const = default;
};

struct Link {
  int64_t from = 0;
  int64_t to = 1;
  int64_t forward_bits_per_second = 0;
  int64_t backward_bits_per_second = 0;
  int64_t shared_bits_per_second = 0;  // 0: no shared budget
  int64_t latency_picoseconds = 0;
  bool operator==(const Link&) const = default;
};

// Elements [offset, offset + count) of the parameter vector of the shard that `user` holds of `layer`.
// That vector is the shard's blocks in order, each as [output][input][kernel row][kernel column]; a block cut out of
// the whole weight is strided, so only within the shard is a slice contiguous. Bias, scale and shift live with the
// group's last device and follow as tensors of their own.
// Where the steps of a recurrent layer divided by kind have their parameters on the device before them, that device makes
// their gradients, too, of a record of the steps (core/plan/parts.h).
struct ParameterHome {
  std::string layer;
  std::string tensor;  // "weight", "bias", ...
  int64_t offset = 0;
  int64_t count = 0;
  int64_t home = 0;
  int64_t user = 0;
  bool operator==(const ParameterHome&) const = default;
};

// What a kind of device has to give, for every reader that compares use with capacity.
struct DeviceBudget {
  std::string device;  // the catalogue's short name
  std::vector<NamedAmount> amounts;
  bool operator==(const DeviceBudget&) const = default;
};

struct Constant {
  std::string name;
  double value = 0;
  std::string origin;  // "measured", "paper", "catalogue", "fitted"
  bool operator==(const Constant&) const = default;
};

struct Plan {
  Model model;
  std::string model_digest;
  Cluster cluster;
  std::string cluster_digest;
  std::string strategy = "hybrid";
  OptimizerSettings optimizer;
  Arithmetic arithmetic;
  Alignment alignment = Alignment::kFlush;
  int64_t mini_batch = 1;   // samples between two updates
  int64_t micro_batch = 1;  // samples per action and message
  int64_t time_chunks = 1;  // parts in time that a micro-batch of sequences is taken in: F3.0 F3.1 ...
  Purpose purpose = Purpose::kTraining;
  Accounting accounting = Accounting::kFpdeep;
  std::vector<int64_t> windows;  // per device, in micro-batches
  std::vector<Link> links;
  std::vector<Shard> shards;  // by device, then by layer
  std::vector<Group> groups;  // in the model's linear order
  std::vector<ParameterHome> homes;
  std::vector<Flow> flows;
  double lower_bound_seconds_per_image = 0;
  double optimality_gap = 0;
  std::vector<DeviceBudget> budgets;
  std::vector<Constant> constants;
  bool operator==(const Plan&) const = default;

  int64_t devices() const { return static_cast<int64_t>(cluster.devices.size()); }
  int64_t micro_batches() const { return mini_batch / micro_batch; }  // n
};

// Syntax only: version, enumerations, required fields. core/plan/validate.h checks the meaning and loads files.
Plan parse_plan(std::string_view text, std::string_view origin);
std::string text_of(const Plan& plan);
void save(const Plan& plan, const std::filesystem::path& path);

}  // namespace millrace
