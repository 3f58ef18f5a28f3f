#include "partitioner/hybrid/shortage_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/index.h"

namespace millrace {
namespace {

// Rings of more devices than this are not searched for the smallest that would do.
constexpr int64_t kLargestRing = 512;

// The same task on a ring of `count` of its first device; nothing when the ring is not uniform.
std::optional<PlanTask> resized(const PlanTask& task, int64_t count) {
  const std::vector<DeviceEntry>& devices = task.cluster.devices;
  const bool uniform =
      std::all_of(devices.begin(), devices.end(), [&](const DeviceEntry& device) { return device.device == devices[0].device; });
  if (!uniform || !task.options.pins.empty() || !task.options.cuts.empty()) return std::nullopt;
  PlanTask other = task;
  const LinkEntry link =
      task.cluster.links.empty() ? LinkEntry{kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs} : task.cluster.links[0];
  other.cluster = uniform_cluster(devices[0].device, count, link);
  other.models.assign(to_size(count), task.models[0]);
  return other;
}

// Where the weights are the same forward and back.
bool recomputation_helps(const PlanTask& task, const HasPlan& has_plan) {
  const bool recurrent =
      std::ranges::any_of(task.graph->nodes(), [](const Node& node) { return std::holds_alternative<Recurrent>(node.layer.operation); });
  if (task.options.recompute || !recurrent || (task.options.alignment == Alignment::kFpdeep && task.models.size() > 1)) return false;
  PlanTask other = task;
  other.options.recompute = true;
  return has_plan(other);
}

// Doubles until it works, then halves the distance: the answer is a ring that has been planned, and the one before it, which does not work.
int64_t smallest_count(const PlanTask& task, const HasPlan& has_plan) {
  auto low = static_cast<int64_t>(task.models.size());
  if (!resized(task, low)) return 0;
  int64_t high = low;
  do {
    low = high;
    if (high >= kLargestRing) return 0;
    high = std::min(2 * high, kLargestRing);
  } while (!has_plan(*resized(task, high)));
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (has_plan(*resized(task, middle)) ? high : low) = middle;
  }
  return high;
}

std::string device_text(const PlanTask& task, int64_t device) {
  const DeviceEntry& entry = fast_item(task.cluster.devices, device);
  return fmt::format("device {} ({})", device, entry.device);
}

struct Unit {
  double size;
  const char* name;
};
constexpr std::array<Unit, 4> kByteUnits{{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "byte"}}};
constexpr std::array<Unit, 3> kBitUnits{{{1e6, "Mb"}, {1e3, "kb"}, {1, "bit"}}};

// Rounded up.
std::string whole_ones(double amount, std::string_view one) {
  const double number = std::ceil(std::min(amount, 1e15));
  return fmt::format("{:.0f} {}{}", number, one, number == 1 ? "" : "s");
}

// In the first, the largest, that shows more than nothing with two digits behind the point; whole ones of the last.
template <size_t kUnits>
std::string in_units(double amount, const std::array<Unit, kUnits>& units) {
  for (size_t i = 0; i + 1 < kUnits; ++i)
    if (amount >= 0.01 * units[i].size) return fmt::format("{:.2f} {}", amount / units[i].size, units[i].name);
  return whole_ones(amount, units.back().name);
}

}  // namespace

std::string amount_text(std::string_view resource, double amount) {
  if (resource == "bram_bits") return in_units(amount, kBitUnits) + " of on-chip memory";
  if (resource == "memory_bytes") return in_units(amount, kByteUnits) + " of memory";
  if (resource == "dram_bytes") return in_units(amount, kByteUnits) + " of off-chip memory";
  if (resource == kEngine) return "an engine that is generated";
  if (resource == "dsp") return whole_ones(amount, "DSP slice");
  if (resource == "lut") return whole_ones(amount, "LUT");
  if (resource == "ff") return whole_ones(amount, "flip-flop");
  if (resource == "seconds") return fmt::format("{:.3g} s per sample", amount);
  // Of boards that have UltraRAM, too.
  constexpr std::string_view kBlocks = "bram36_with_";
  if (resource.starts_with(kBlocks)) {
    const char rate = resource[kBlocks.size()];
    const std::string blocks = whole_ones(amount, "block") + " of block RAM";
    return rate == '0' ? blocks : fmt::format("{}, each UltraRAM counted as {}", blocks, rate);
  }
  return fmt::format("{:.4g} of {}", amount, resource);
}

// What the cuts given put onto a device for certain, that it has no engine for; nothing where there is no such layer.
struct Misplaced {
  int64_t device;
  std::string layer, why;
};
std::optional<Misplaced> misplaced_by_cuts(const PlanTask& task) {
  const Graph& graph = *task.graph;
  const auto devices = static_cast<int64_t>(task.models.size());
  for (int64_t device = 0; device < devices; ++device) {
    const auto before = task.options.cuts.find(device - 1), behind = task.options.cuts.find(device);
    const bool first = device == 0, last = device + 1 == devices, known = behind != task.options.cuts.end();
    if ((!first && before == task.options.cuts.end()) || (!last && !known)) continue;
    const auto group_of = [&](const FixedCut& cut) { return graph.node(graph.index_of(cut.layer)).group; };
    const bool inside = known && (behind->second.channel > 0 || behind->second.outputs > 0);
    const int64_t begin = first ? 0 : group_of(before->second);
    const int64_t end = last ? static_cast<int64_t>(graph.groups().size()) : group_of(behind->second) + (inside ? 1 : 0);
    for (const Node& node : graph.nodes()) {
      if (node.group < begin || node.group >= end) continue;
      if (std::string why = fast_item(task.models, device)->refusal(node); !why.empty())
        return Misplaced{.device = device, .layer = node.layer.name, .why = std::move(why)};
    }
  }
  return std::nullopt;
}

// Whichever command asked: the others take the plan that this one writes.
constexpr const char* kLeaveEmpty = "plan it with `millrace plan --allow-empty`, which may leave devices without work";

Reason reason_of(const PlanTask& task, const Shortage& shortage, const HasPlan& has_plan) {
  Reason reason;
  reason.device = shortage.device;
  reason.resource = shortage.resource;
  reason.missing = shortage.missing;
  const auto devices = static_cast<int64_t>(task.models.size());
  const std::string& model = task.graph->model().name;
  const bool by_hand = !task.options.pins.empty() || !task.options.cuts.empty(), empty = task.options.allow_empty;
  switch (shortage.kind) {
    case Shortage::Kind::kNone: reason.text = "no micro-batch divides the mini-batch into enough pieces for the ring"; return reason;
    case Shortage::Kind::kTooManyDevices:
      reason.text = fmt::format("{} has {} parts to share out, {} fewer than there are devices; use a smaller ring, or {}", model,
                                devices - static_cast<int64_t>(shortage.missing), static_cast<int64_t>(shortage.missing), kLeaveEmpty);
      return reason;
    case Shortage::Kind::kOrders:
      for (const auto& [layer, device] : task.options.pins)
        if (const std::string why = fast_item(task.models, device)->refusal(task.graph->node(task.graph->index_of(layer))); !why.empty()) {
          reason.device = device;
          reason.text = fmt::format("{}: layer \"{}\", which is pinned there, {}", device_text(task, device), layer, why);
          return reason;
        }
      if (const std::optional<Misplaced> misplaced = misplaced_by_cuts(task)) {
        reason.device = misplaced->device;
        reason.text = fmt::format("{}: layer \"{}\", which the cuts given put there, {}", device_text(task, misplaced->device),
                                  misplaced->layer, misplaced->why);
        return reason;
      }
      if (!by_hand)
        reason.text = fmt::format(
            "no cuts give each of {} devices a part: some layers stay whole, others are cut at multiples of the devices' channel "
            "granularity "
            "only; use a smaller ring{}",
            devices, empty ? "" : fmt::format(", or {}", kLeaveEmpty));
      else if (empty)
        reason.text = "the pins and cuts given leave some device with more than it can hold; drop or move one";
      else
        reason.text = fmt::format(
            "the pins and cuts given leave some device without work, or with more than it can hold; drop or move one, or {}", kLeaveEmpty);
      return reason;
    case Shortage::Kind::kOneDeviceTooSmall:
      reason.text = !shortage.refusal.empty()
                        ? fmt::format("{}: layer \"{}\" {}", device_text(task, shortage.device), shortage.layer, shortage.refusal)
                    : shortage.one_part && shortage.whole
                        ? fmt::format("{} lacks {} for layer \"{}\", which layer parallelism does not divide",
                                      device_text(task, shortage.device), amount_text(shortage.resource, shortage.missing), shortage.layer)
                    : shortage.one_part
                        ? fmt::format("{} lacks {} for the smallest part of layer \"{}\", with what runs after it",
                                      device_text(task, shortage.device), amount_text(shortage.resource, shortage.missing), shortage.layer)
                        : fmt::format("{} lacks {} for what is left from layer \"{}\" on", device_text(task, shortage.device),
                                      amount_text(shortage.resource, shortage.missing), shortage.layer);
      break;
    case Shortage::Kind::kTogetherTooSmall:
      reason.text =
          shortage.device < 0
              ? "no cuts leave room for all parameters"
              : fmt::format("{} lacks {} for parameters and activations, and no device upstream has room, wherever the ring is cut",
                            device_text(task, shortage.device), amount_text(shortage.resource, shortage.missing));
      break;
    case Shortage::Kind::kNotDecided:
      reason.text = "no cuts were found that leave room for all parameters, though none of what was tried shows that there are none";
      break;
  }
  if (!has_plan) return reason;
  if (shortage.resource == "memory_bytes" && recomputation_helps(task, has_plan))
    reason.text += "; with --recompute it fits: what recurrent layers keep is made again before errors come back";
  // A part that is too large for one such device is too large for any number of them, unless more of them may hold it otherwise.
  const bool may_do = !shortage.one_part || task.options.accounting == Accounting::kFull;
  if (may_do) reason.smallest_count = smallest_count(task, has_plan);
  const std::string& kind = task.cluster.devices.front().device;
  if (reason.smallest_count > 0) {
    reason.text += fmt::format("; {} {} would do", reason.smallest_count, kind);
  } else if (shortage.kind == Shortage::Kind::kNotDecided) {
    reason.text += "; leave devices empty, or give cuts by hand";
  } else if (resized(task, devices)) {
    reason.text += shortage.one_part ? fmt::format("; more {} would not help", kind)
                                     : fmt::format("; no number of {} up to {} would do", kind, kLargestRing);
  }
  return reason;
}

}  // namespace millrace
