// The figures of a plan: what JSON, tables, reports and studies print. Derived from the plan alone.
//
//   PlanSummary summary = summarize(plan, graph);
//   fmt::print("{:.1f} images/s, limited by {} {}\n", summary.images_per_second, summary.bottleneck.kind, summary.bottleneck.index);
//
// All of it is modelled, by the cost models whose constants the plan lists with their origin.
// A figure that does not apply (dsp of a GPU) is 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

struct SegmentPart {
  std::string layer;
  Split split = Split::kWhole;
  // The share of the layer, in channels of the split (input channels for whole and ICP); fractions where the cut falls
  // inside a channel. Of steps that devices share: the cells.
  double begin = 0;
  double end = 0;
  std::string products = {};  // of a recurrent layer divided by kind "x W", "steps", or "after": what follows alone; else empty
  bool cells = false;         // steps of the cells from begin to end, of a layer whose steps devices share
};

// One layer's share of one device, for drawings.
struct ShardFigures {
  std::string layer;
  double macs = 0;                     // per image, all phases
  double dsp[3] = {0, 0, 0};           // FP, EB, PG
  double seconds[3] = {0, 0, 0};       // per image
  std::vector<NamedAmount> resources;  // as in the plan, parameters not included
  double parameter_storage = 0;        // of this shard's weights, wherever they live; unit of the memory
};

struct DeviceFigures {
  int64_t index = 0;
  std::string name;
  std::string device;  // the catalogue's short name
  std::vector<SegmentPart> segment;
  std::vector<ShardFigures> shards;
  double dsp = 0, dsp_capacity = 0;  // capacity: of the device, engines may take a share only
  double lut = 0, lut_capacity = 0;
  double ff = 0, ff_capacity = 0;
  double bram_bits = 0, bram_capacity_bits = 0;  // on-chip memory: activations, buffers and the parameters homed here
  // The same, packed into blocks of the widths its buffers need; capacity 0: blocks of two kinds stand in for each other.
  double bram_blocks = 0, bram_block_capacity = 0;
  double memory = 0, memory_capacity = 0;  // bytes, of devices with one large memory
  double off_chip_bytes = 0, off_chip_capacity = 0;
  double memory_fraction = 0;        // of the memory that parameters share: bram_bits or memory
  double seconds_per_image = 0;      // the least period it could hold
  double idle_fraction = 0;          // of the time of its engines' multipliers (FPGA) or of its own (CPU, GPU)
  double watts = 0;                  // 0: not known
  bool off_chip_parameters = false;  // holds layers that keep their weights off chip
};

struct LinkFigures {
  int64_t from = 0;
  int64_t to = 0;
  double forward_bits_per_image = 0;
  double backward_bits_per_image = 0;
  double gbps = 0;                      // the fuller direction, at the plan's rate
  double gbps_both = 0;                 // the sum
  double seconds_per_image = 0;         // the least period it could hold
  double parameter_bits_per_image = 0;  // of the above, both directions: balanced parameters and their gradients
};

// A card that fills several places.
struct SeatFigures {
  std::string name;
  std::string device;
  std::vector<int64_t> places;
  double seconds_per_image = 0;  // of all of them, one behind the other
  double idle_fraction = 0;
};

struct HomeFigures {
  std::string layer;
  int64_t begin = 0;  // elements of the user's slice
  int64_t end = 0;
  int64_t home = 0;
  int64_t user = 0;
  double bits = 0;  // storage moved
};

struct Bottleneck {
  std::string kind;  // "device", "link"
  int64_t index = 0;
};

// The constant of a plan with full accounting that says what a mini-batch takes.
inline constexpr std::string_view kMiniBatchSeconds = "mini_batch_seconds";

// Between updates, where windows at an update are smaller.
inline constexpr std::string_view kInFlightSamples = "in_flight_samples";

// Samples a second, between updates, of another plan that was looked at and takes longer for whole mini-batches: the bound, which is of
// paces between updates, then says nothing about the one that was chosen.
inline constexpr std::string_view kFasterBetweenUpdates = "faster_between_updates_samples_per_second";

struct PlanSummary {
  Accounting accounting = Accounting::kFpdeep;
  double seconds_per_image = 0;  // between updates
  // With full accounting over whole mini-batches; else of a full pipeline, less what draining at each update costs.
  double images_per_second = 0;
  double mini_batch_seconds = 0;  // with full accounting
  Bottleneck bottleneck;
  double idle_fraction = 0;
  double gops_per_device = 0;  // convolution and recurrent work only, 2 per MAC, FP + EB + PG; FP alone where nothing is trained
  double gops_per_joule = 0;   // 0: some device's power is not known
  double max_link_gbps = 0;
  double max_link_gbps_both = 0;
  double lower_bound_images_per_second = 0;
  double optimality_gap = 0;
  double faster_between_updates = 0;  // samples a second of another plan (kFasterBetweenUpdates); 0: of none
  int64_t in_flight_samples = 0;
  std::vector<DeviceFigures> devices;
  std::vector<SeatFigures> seats;  // empty where every device is a card of its own
  std::vector<LinkFigures> links;
  std::vector<HomeFigures> homes;  // slices stored away from their user
  // The four metrics of FPDeep's Fig 5.
  double flop_utilisation = 0;    // of all devices' peaks; 0: some device's is not known
  double storage_bits = 0;        // over all devices
  double communication_bits = 0;  // over all links, for one mini-batch
  double communication_gbps = 0;  // the same over the time of a mini-batch

  double hours_per_epoch(double images) const { return images_per_second > 0 ? images / images_per_second / 3600 : 0; }
};

// The card of a device that is one of several places; nothing where every device is a card of its own.
const SeatFigures* card_of(const PlanSummary& summary, int64_t device);

// Fails with kMalformed when the plan carries no engine times (a plan assembled without cost models).
PlanSummary summarize(const Plan& plan, const Graph& graph);

// Not where engines are counted as they are built: those of a shorter period may take less memory than those of a longer one, which the
// search takes for impossible.
bool bound_is_proven(const Plan& plan);
// Whether a gap is none: what a search rules out is known to 0.01%.
bool meets_bound(const Plan& plan, double gap);
// What a plan's bound counts, in words: "in this model", or "with memory as a search reserves it" where engines are counted as they are
// built, whose memories may then take less than that.
std::string_view bound_counts(const Plan& plan);
// Why a plan has no gap, in words, where another is faster between updates; `samples`: what they are called. Empty: it has one.
std::string no_gap_text(const PlanSummary& summary, std::string_view samples);
// The plan of `chosen` is taken before that of `other`, which is slower over whole mini-batches: both say so where that one is faster
// between updates.
void choose_before(const PlanSummary& other, PlanSummary& chosen, Plan& plan);

}  // namespace millrace
