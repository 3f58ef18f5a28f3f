#include "partitioner/baseline/batch_ring.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/assemble.h"
#include "partitioner/hybrid/shortage_text.h"

namespace millrace {
namespace {

double inventory_of(const CostModel& model, std::string_view name) {
  for (const NamedAmount& amount : model.inventory())
    if (amount.name == name) return amount.amount;
  return 0;
}

double amount_of(const CostModel& model, std::string_view name) {
  for (const NamedAmount& amount : model.capacities())
    if (amount.name == name) return amount.amount;
  return 0;
}

// Multiply-accumulates of one sample, all phases.
double macs_per_sample(const Graph& graph) {
  double macs = 0;
  for (const Node& node : graph.nodes())
    macs += static_cast<double>(node.work.forward_macs + node.work.error_back_macs + node.work.parameter_gradient_macs);
  return macs;
}

}  // namespace

BatchRing::BatchRing(const PlanTask& task) : task_(&task) {
  if (task.models.empty() || task.models.size() != task.cluster.devices.size())
    fail(ErrorCode::kUsage, "a cluster of {} devices comes with {} cost models", task.cluster.devices.size(), task.models.size());
  if (task.options.mini_batch < 1) fail(ErrorCode::kUsage, "mini-batch {} is below 1", task.options.mini_batch);
  if (task.options.time_chunks > 1)
    fail(ErrorCode::kUsage, "strategies data and model take sequences whole, and not in {} chunks of time; plan with hybrid, layer or kind",
         task.options.time_chunks);
  for (const Link& link : links_of(task.cluster)) {
    auto rate = static_cast<double>(link.forward_bits_per_second);
    if (link.shared_bits_per_second > 0) rate = std::min(rate, static_cast<double>(link.shared_bits_per_second));
    bits_per_second_ = bits_per_second_ > 0 ? std::min(bits_per_second_, rate) : rate;
    latency_seconds_ = std::max(latency_seconds_, 1e-12 * static_cast<double>(link.latency_picoseconds));
  }
}

double BatchRing::wire_bits() const { return static_cast<double>(bits_of(task_->options.arithmetic.wire)); }

double BatchRing::all_reduce_bits(double bits) const {
  const auto count = static_cast<double>(devices());
  return 2 * (count - 1) / count * bits;
}

double BatchRing::seconds(double link_bits, double steps) const {
  return devices() > 1 ? link_bits / bits_per_second_ + steps * latency_seconds_ : 0;
}

double BatchRing::held_bits(int64_t device, int64_t samples, double parameter_share) const {
  const PlanOptions& options = task_->options;
  const bool engines = fast_item(task_->models, device)->dedicated_engines();
  const auto element = static_cast<double>(bits_of(engines ? options.arithmetic.wire : options.arithmetic.compute));
  double parameters = 0;
  double activations = 0;
  for (const Node& node : task_->graph->nodes()) {
    const int copies = node.trained ? 2 + options.optimizer.slots() : 1;
    parameters += static_cast<double>(node.work.parameters) * copies;
    if (node.computes) activations += static_cast<double>(node.work.input_elements);
  }
  return element * (parameters * parameter_share + activations * static_cast<double>(samples));
}

double BatchRing::capacity_bits(int64_t device) const {
  double bits = 0;
  for (const NamedAmount& amount : fast_item(task_->models, device)->capacities()) {
    if (amount.name.ends_with("_bits")) bits += amount.amount;
    if (amount.name.ends_with("_bytes")) bits += 8 * amount.amount;
  }
  return bits;
}

int64_t BatchRing::samples_that_fit(int64_t samples, double parameter_share) const {
  const auto fit = [&](int64_t count) {
    for (int64_t d = 0; d < devices(); ++d)
      if (held_bits(d, count, parameter_share) > capacity_bits(d)) return false;
    return true;
  };
  if (task_->options.micro_batch > 0) samples = std::min(samples, task_->options.micro_batch);
  while (samples > 1 && !fit(samples)) samples = (samples + 1) / 2;
  return fit(samples) ? samples : 0;
}

Reason BatchRing::memory_reason(double parameter_share) const {
  Reason reason;
  for (int64_t d = 0; d < devices(); ++d) {
    const double missing = held_bits(d, 1, parameter_share) - capacity_bits(d);
    if (missing <= reason.missing) continue;
    reason.device = d;
    reason.missing = missing;
  }
  reason.missing /= 8;
  reason.resource = "memory_bytes";
  reason.text = fmt::format("device {} ({}) lacks {} for {} parameters and the activations of one sample", reason.device,
                            fast_item(task_->cluster.devices, reason.device).device, amount_text(reason.resource, reason.missing),
                            parameter_share == 1 ? "all" : "its share of the");
  return reason;
}

void BatchRing::fill(const BatchStep& step, PlanSummary& summary) const {
  const Graph& graph = *task_->graph;
  const auto batch = static_cast<double>(task_->options.mini_batch);
  const double step_seconds = step.slowest_compute + step.exchange_seconds;
  summary.seconds_per_image = step_seconds / batch;
  summary.images_per_second = batch / step_seconds;
  summary.lower_bound_images_per_second = summary.images_per_second;
  const auto slowest = std::max_element(step.compute_seconds.begin(), step.compute_seconds.end());
  summary.bottleneck = {"device", slowest - step.compute_seconds.begin()};
  if (step.exchange_seconds > step.slowest_compute) summary.bottleneck = {"link", 0};

  const Graph::Macs macs = graph.macs();
  const auto count = static_cast<double>(devices());
  const double rate = summary.images_per_second;
  summary.gops_per_device = 2e-9 * 3 * static_cast<double>(macs.conv + macs.rnn) * rate / count;
  double peak = 0;
  bool all_peaks = true;  // known
  double watts = 0;
  bool all_known = true;
  for (int64_t d = 0; d < devices(); ++d) {
    const auto index = to_size(d);
    const CostModel& model = *task_->models[index];
    DeviceFigures device;
    device.index = d;
    device.name = task_->cluster.devices[index].name;
    device.device = task_->cluster.devices[index].device;
    device.dsp_capacity = inventory_of(model, "dsp_device");
    device.dsp = device.dsp_capacity > 0 ? amount_of(model, "dsp") : 0;  // one engine as large as the device allows
    device.lut_capacity = amount_of(model, "lut");
    device.ff_capacity = amount_of(model, "ff");
    device.bram_capacity_bits = amount_of(model, "bram_bits");
    device.memory_capacity = amount_of(model, "memory_bytes");
    device.off_chip_capacity = amount_of(model, "dram_bytes");
    const double held = held_bits(d, step.samples_held, step.parameter_share);
    if (device.memory_capacity > 0) {
      device.memory = held / 8;
      device.memory_fraction = device.memory / device.memory_capacity;
    } else {
      device.bram_bits = std::min(held, device.bram_capacity_bits);
      device.off_chip_bytes = (held - device.bram_bits) / 8;
      device.off_chip_parameters = device.off_chip_bytes > 0;
      if (device.bram_capacity_bits > 0) device.memory_fraction = device.bram_bits / device.bram_capacity_bits;
    }
    device.seconds_per_image = step.compute_seconds[index] / batch;
    const double engines = inventory_of(model, "multipliers") * inventory_of(model, "clock_hz");
    const double busy = engines > 0 ? step.macs[index] / (engines * step_seconds) : step.compute_seconds[index] / step_seconds;
    device.idle_fraction = std::clamp(1 - busy, 0.0, 1.0);
    device.watts = inventory_of(model, "watts_idle") + inventory_of(model, "watts_per_gops") * summary.gops_per_device;
    all_known = all_known && device.watts > 0;
    watts += device.watts;
    const double device_peak = inventory_of(model, "macs_per_second");
    all_peaks = all_peaks && device_peak > 0;
    peak += device_peak;
    summary.idle_fraction += device.idle_fraction / count;
    summary.storage_bits += held;
    summary.devices.push_back(std::move(device));
  }
  if (all_peaks && peak > 0) summary.flop_utilisation = macs_per_sample(graph) * rate / peak;
  if (all_known && watts > 0) summary.gops_per_joule = summary.gops_per_device * count / watts;

  for (const Link& link : links_of(task_->cluster)) {
    LinkFigures figures{.from = link.from, .to = link.to};
    figures.forward_bits_per_image = step.link_bits / batch;
    figures.seconds_per_image = step.exchange_seconds / batch;
    figures.gbps = figures.gbps_both = 1e-9 * figures.forward_bits_per_image * rate;
    summary.max_link_gbps = summary.max_link_gbps_both = figures.gbps;
    summary.links.push_back(figures);
  }
  summary.communication_bits = count * step.link_bits;  // the link that closes the ring is one of them
  summary.communication_gbps = 1e-9 * summary.communication_bits / step_seconds;
  summary.in_flight_samples = step.samples_held;
}

}  // namespace millrace
