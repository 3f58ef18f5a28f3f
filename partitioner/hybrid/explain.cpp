#include "partitioner/hybrid/explain.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/plan/off_chip.h"
#include "core/plan/seats.h"
#include "core/plan/words_outside.h"
#include "partitioner/hybrid/hybrid_planner.h"
#include "partitioner/hybrid/shortage_text.h"
#include "partitioner/planning/sample_word.h"

namespace millrace {
namespace {

// What-ifs plan again, so they are for rings that are planned in a second or so. By size, not by time: every machine says the same.
bool is_quickly_planned(const PlanTask& task) {
  constexpr int64_t kMost = 4'000;  // devices times layers
  return std::ssize(task.cluster.devices) * std::ssize(task.graph->nodes()) <= kMost;
}

std::string change_text(const Graph& graph, double before, double after) {
  const std::string change = fmt::format("{:+.1f}%", 100 * (after / before - 1));
  return fmt::format("{:.4g} {}/s ({})", after, sample_word(graph).many, change == "-0.0%" || change == "+0.0%" ? "the same" : change);
}

double off_chip_bandwidth_of(const Plan& plan, const std::string& device) {
  for (const DeviceBudget& budget : plan.budgets)
    if (budget.device == device) return off_chip_bandwidth(budget.amounts);
  return 0;
}

struct OffChip {
  double bytes = 0, bytes_of_convolutions = 0;
  double moved = 0;   // bytes of an image
  int64_t waits = 0;  // layers before which rows wait there for their errors
};

OffChip off_chip_of(const Plan& plan, const Graph& graph, int64_t device) {
  OffChip sum;
  for (const Shard& shard : plan.shards) {
    if (shard.device != device) continue;
    sum.moved += words_outside(shard, graph.node(graph.index_of(shard.layer)), plan.micro_batch);
    sum.waits += keeps_act_ram_outside(shard) ? 1 : 0;
    for (const NamedAmount& amount : shard.resources) {
      if (amount.name != "dram_bytes") continue;
      sum.bytes += amount.amount;
      sum.bytes_of_convolutions += shard.unit == StreamingUnit::kRow ? amount.amount : 0;
    }
  }
  return sum;
}

std::string limit_text(const PlanTask& task, const Outcome& outcome) {
  const PlanSummary& summary = outcome.summary;
  const auto index = to_size(summary.bottleneck.index);
  if (summary.bottleneck.kind == "link") {
    const LinkFigures& link = summary.links[index];
    const LinkEntry& entry = task.cluster.links[index];
    const bool shared = entry.shared_gbps > 0 && (link.forward_bits_per_image + link.backward_bits_per_image) / (entry.shared_gbps * 1e9) >=
                                                     link.seconds_per_image * (1 - 1e-9);
    return fmt::format("the link from device {} to {} sets the pace: {:.4g} Mb forward and {:.4g} Mb back per {} take {} at {:.4g} Gb/s{}",
                       link.from, link.to, link.forward_bits_per_image / 1e6, link.backward_bits_per_image / 1e6,
                       sample_word(*task.graph).one, duration(link.seconds_per_image),
                       shared ? entry.shared_gbps : std::min(entry.forward_gbps, entry.backward_gbps),
                       shared ? " for both directions together" : " per direction");
  }
  const DeviceFigures& device = summary.devices[index];
  if (outcome.plan && outcome.plan->accounting == Accounting::kFull) {
    const double bandwidth = off_chip_bandwidth_of(*outcome.plan, device.device);
    const double moved = off_chip_of(*outcome.plan, *task.graph, device.index).moved;
    if (bandwidth > 0 && moved / bandwidth >= device.seconds_per_image * (1 - 1e-6))
      return fmt::format("memory off chip sets the pace: device {} ({}) needs {} for the {:.4g} MB that one {} moves", device.index,
                         device.device, duration(device.seconds_per_image), moved / 1e6, sample_word(*task.graph).one);
  }
  if (const SeatFigures* const card = card_of(summary, device.index))
    return fmt::format("arithmetic sets the pace: card {} ({}) needs {} per {} for its {} places of the ring", card->name, card->device,
                       duration(card->seconds_per_image), sample_word(*task.graph).one, card->places.size());
  std::string text = fmt::format("arithmetic sets the pace: device {} ({}) needs {} per {}", device.index, device.device,
                                 duration(device.seconds_per_image), sample_word(*task.graph).one);
  if (device.dsp_capacity > 0) text += fmt::format(" with {:.0f} of {:.0f} DSP slices in engines", device.dsp, device.dsp_capacity);
  return text;
}

std::string memory_text(const PlanSummary& summary) {
  const auto fullest = std::max_element(summary.devices.begin(), summary.devices.end(), [](const DeviceFigures& a, const DeviceFigures& b) {
    return a.memory_fraction < b.memory_fraction;
  });
  std::string text = fmt::format("device {} has the fullest memory, {:.1f}%", fullest->index, 100 * fullest->memory_fraction);
  if (summary.homes.empty()) return text + "; every parameter lives with its user";
  double bits = 0;
  for (const HomeFigures& home : summary.homes) bits += home.bits;
  return text + fmt::format("; {:.1f} Mb of parameters and gradients live upstream of the device that uses them, in {} slices", bits / 1e6,
                            summary.homes.size());
}

constexpr double kShownBytes = 5e4;  // of fewer, a tenth of a megabyte says nothing
constexpr double kShownRate = 5e7;   // below it a tenth of a gigabyte a second says nothing

// The paper does not count this traffic, nor do the figures of a plan that follows it.
void add_off_chip(const Graph& graph, const Plan& plan, const PlanSummary& summary, std::vector<std::string>& sentences) {
  int64_t act_rams_alone = 0;  // devices that have nothing else there
  for (const DeviceFigures& device : summary.devices) {
    const double bandwidth = off_chip_bandwidth_of(plan, device.device);
    if (!device.off_chip_parameters || bandwidth <= 0) {
      act_rams_alone += off_chip_of(plan, graph, device.index).waits > 0 ? 1 : 0;
      continue;
    }
    const OffChip held = off_chip_of(plan, graph, device.index);
    const double demand = held.moved / summary.seconds_per_image;  // between updates, as the plan's own figures have it
    if (plan.accounting == Accounting::kFull) {
      const bool forward_alone = plan.purpose == Purpose::kInference;
      if (forward_alone && held.bytes < kShownBytes) continue;
      std::string text = fmt::format("device {} keeps {:.1f} MB of {} off chip", device.index, held.bytes / 1e6,
                                     forward_alone ? "weights" : "weights and gradients");
      if (held.waits > 0) text += fmt::format(" and the Act-RAMs of {} {}", held.waits, held.waits == 1 ? "layer" : "layers");
      if (demand >= kShownRate)  // tables of which a row is read at a time stay below
        text +=
            fmt::format(": {:.1f} GB/s of {:.1f}, at one pass over weights per {}", demand / 1e9, bandwidth / 1e9, sample_word(graph).one);
      sentences.push_back(std::move(text));
      continue;
    }
    if (demand <= bandwidth) continue;
    std::string text = fmt::format("device {} keeps {:.1f} MB of weights and gradients off chip", device.index, held.bytes / 1e6);
    if (held.bytes_of_convolutions > 0) text += fmt::format(", {:.3g} MB of them of convolutions", held.bytes_of_convolutions / 1e6);
    sentences.push_back(fmt::format(
        "{}: at one pass per {}{} that is {:.0f} GB/s of {:.1f}; they have to be reused over {:.0f} {} a pass (as the paper, the "
        "figures here do not count this traffic)",
        text, sample_word(graph).one, held.bytes_of_convolutions > 0 ? ", and one per row of a convolution," : "", demand / 1e9,
        bandwidth / 1e9, std::ceil(demand / bandwidth), sample_word(graph).many));
  }
  if (act_rams_alone > 0)
    sentences.push_back(fmt::format("the Act-RAMs of {} lie off chip and leave room for all {} weights on chip",
                                    act_rams_alone == 1 ? "a device" : fmt::format("{} devices", act_rams_alone),
                                    act_rams_alone == 1 ? "its" : "their"));
}

void add_packing(const PlanSummary& summary, std::vector<std::string>& sentences) {
  for (const DeviceFigures& device : summary.devices) {
    if (device.bram_block_capacity <= 0 || device.bram_blocks <= device.bram_block_capacity) continue;
    sentences.push_back(
        fmt::format("counted in bits the memory of device {} suffices; packed into blocks of the widths its buffers need it "
                    "takes {:.0f} BRAM36 of {:.0f}",
                    device.index, device.bram_blocks, device.bram_block_capacity));
    return;  // one says enough
  }
}

void add_what_ifs(const PlanTask& task, const Outcome& outcome, const WhatIfs& what_ifs, std::vector<std::string>& sentences) {
  if (outcome.replicas > 1) return;
  const PlanSummary& summary = outcome.summary;
  const double rate = summary.images_per_second;
  if (!task.cluster.links.empty()) {
    PlanTask faster = task;
    for (LinkEntry& link : faster.cluster.links) {
      link.forward_gbps *= 2;
      link.backward_gbps *= 2;
      link.shared_gbps *= 2;
    }
    const Outcome other = what_ifs.planner(faster);
    if (other.feasible && other.summary.images_per_second > rate * 1.005)
      sentences.push_back("with links twice as fast: " + change_text(*task.graph, rate, other.summary.images_per_second));
    else if (other.feasible)
      sentences.push_back("links twice as fast would change nothing");
  }
  const std::vector<DeviceEntry>& devices = task.cluster.devices;
  const bool uniform =
      std::all_of(devices.begin(), devices.end(), [&](const DeviceEntry& device) { return device.device == devices[0].device; });
  if (uniform && task.options.cuts.empty()) {
    PlanTask larger = task;
    const LinkEntry link = task.cluster.links.empty() ? what_ifs.link : task.cluster.links.back();
    larger.cluster = uniform_cluster(devices[0].device, static_cast<int64_t>(devices.size()) + 1, link);
    larger.models.push_back(task.models.back());
    for (size_t i = 0; i < task.cluster.links.size(); ++i) larger.cluster.links[i] = task.cluster.links[i];
    const Outcome other = what_ifs.planner(larger);
    if (other.feasible)
      sentences.push_back(
          fmt::format("with one {} more: {}", devices[0].device, change_text(*task.graph, rate, other.summary.images_per_second)));
  }
}

std::string segment_text(const DeviceFigures& device) {
  if (device.segment.empty()) return "nothing";
  const std::string& first = device.segment.front().layer;
  const std::string& last = device.segment.back().layer;
  return first == last ? first : first + " to " + last;
}

}  // namespace

std::string advice_to_leave_devices_empty(const PlanTask& task, const Outcome& outcome,
                                          const std::function<Outcome(const PlanTask&)>& planner) {
  constexpr double kWorthSaying = 1.1;
  const std::vector<DeviceEntry>& devices = task.cluster.devices;
  const bool several =
      std::any_of(devices.begin(), devices.end(), [&](const DeviceEntry& d) { return d.device != devices.front().device; });
  const bool tried = task.options.allow_empty || !task.options.pins.empty() || !task.options.cuts.empty() || folds(task.cluster);
  // Strategy kind has no devices to leave empty that way.
  if (!several || tried || task.options.strategy == Strategy::kKind || !outcome.feasible || !is_quickly_planned(task)) return "";
  PlanTask freer = task;
  freer.options.allow_empty = true;
  const Outcome other = planner(freer);
  if (!other.feasible || other.summary.images_per_second < kWorthSaying * outcome.summary.images_per_second) return "";
  std::string idle;
  for (const DeviceFigures& device : other.summary.devices)
    if (device.shards.empty()) idle += fmt::format("{}{} ({})", idle.empty() ? "" : ", ", device.index, device.device);
  if (idle.empty()) return "";
  return fmt::format("--allow-empty would give {}, with nothing to do for device {}",
                     change_text(*task.graph, outcome.summary.images_per_second, other.summary.images_per_second), idle);
}

// Whose machine a pace was taken from: of devices whose figures a machine measures, and another's may be quite different.
void add_origins(const Plan& plan, std::vector<std::string>& sentences) {
  constexpr std::string_view kPace = ".macs_per_second", kOfShapes = ".efficiency_conv_", kMeasured = "measured";
  for (const Constant& pace : plan.constants) {
    if (!pace.name.ends_with(kPace) || !pace.origin.starts_with(kMeasured)) continue;
    const std::string device = pace.name.substr(0, pace.name.size() - kPace.size());
    const std::string of_shapes = device + std::string(kOfShapes);
    const auto is_shape = [&](const Constant& c) {
      return c.name.starts_with(of_shapes) && c.name.size() > of_shapes.size() && std::isdigit(c.name[of_shapes.size()]) != 0;
    };
    const bool by_shape = std::ranges::any_of(plan.constants, is_shape);
    const auto shipped = std::ranges::find(plan.constants, device + ".shapes_of_avx", &Constant::name);
    const std::string of_shipped =
        shipped == plan.constants.end() ? "" : fmt::format("; that of convolutions by shape {}", shipped->origin);
    sentences.push_back(
        fmt::format("the pace of {} is {}{}{}", device, pace.origin, by_shape ? ", convolutions by shape" : "", of_shipped));
  }
}

std::vector<std::string> explain(const PlanTask& task, const Outcome& outcome, const WhatIfs& what_ifs) {
  const PlanSummary& summary = outcome.summary;
  std::vector<std::string> sentences{limit_text(task, outcome)};
  const bool proven = bound_is_proven(*outcome.plan);
  if (const std::string no_gap = no_gap_text(summary, sample_word(*task.graph).many); !no_gap.empty())
    sentences.push_back("how far it is from the best is not known: " + no_gap);
  else if (!meets_bound(*outcome.plan, summary.optimality_gap))
    sentences.push_back(fmt::format("{} {:.4g} {}/s {} {}; the plan is {:.2f}% below that bound", proven ? "at most" : "cuts for more than",
                                    summary.lower_bound_images_per_second, sample_word(*task.graph).many,
                                    proven ? "are possible" : "are ruled out", bound_counts(*outcome.plan), 100 * summary.optimality_gap));
  else
    sentences.push_back(proven ? "no other cuts are faster in this model: the plan meets its lower bound"
                               : fmt::format("no faster cuts found {}: the plan meets the search's bound, which "
                                             "counts some memories above what is built",
                                             bound_counts(*outcome.plan)));
  sentences.push_back(memory_text(summary));
  sentences.push_back(fmt::format("{:.1f}% of the engines' capacity is idle, on average over the devices", 100 * summary.idle_fraction));
  add_off_chip(*task.graph, *outcome.plan, summary, sentences);
  add_packing(summary, sentences);
  add_origins(*outcome.plan, sentences);
  if (is_quickly_planned(task)) add_what_ifs(task, outcome, what_ifs, sentences);
  return sentences;
}

std::vector<std::string> compare(const Plan& before, const PlanSummary& was, const Plan& after, const PlanSummary& is) {
  std::vector<std::string> sentences;
  const Graph graph(after.model);
  if (before.model_digest != after.model_digest)
    sentences.push_back(fmt::format("the plans are of different models: {} and {}", before.model.name, after.model.name));
  if (before.cluster_digest != after.cluster_digest)
    sentences.push_back(
        fmt::format("the clusters differ: {} and {} devices, or other devices or links", before.devices(), after.devices()));
  sentences.push_back(fmt::format("{:.4g} {}/s before, now {}", was.images_per_second, sample_word(graph).many,
                                  change_text(graph, was.images_per_second, is.images_per_second)));
  const auto limit = [](const PlanSummary& summary) { return fmt::format("{} {}", summary.bottleneck.kind, summary.bottleneck.index); };
  sentences.push_back(fmt::format("limited by {} before, now by {}", limit(was), limit(is)));
  sentences.push_back(fmt::format("idle {:.1f}%, now {:.1f}%; fullest link {:.4g} Gb/s, now {:.4g}", 100 * was.idle_fraction,
                                  100 * is.idle_fraction, was.max_link_gbps, is.max_link_gbps));
  double bits_before = 0;
  double bits_now = 0;
  for (const HomeFigures& home : was.homes) bits_before += home.bits;
  for (const HomeFigures& home : is.homes) bits_now += home.bits;
  if (bits_before > 0 || bits_now > 0)
    sentences.push_back(fmt::format("parameters stored away from their user: {:.1f} Mb, now {:.1f} Mb", bits_before / 1e6, bits_now / 1e6));
  const size_t devices = std::min(was.devices.size(), is.devices.size());
  for (size_t d = 0; d < devices; ++d) {
    const std::string old_segment = segment_text(was.devices[d]);
    const std::string new_segment = segment_text(is.devices[d]);
    if (old_segment != new_segment) sentences.push_back(fmt::format("device {}: {}, now {}", d, old_segment, new_segment));
  }
  return sentences;
}

}  // namespace millrace
