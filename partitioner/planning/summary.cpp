#include "partitioner/planning/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/cuts.h"
#include "core/plan/engine_period.h"
#include "core/plan/flow_load.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/retention.h"
#include "core/plan/schedule.h"
#include "core/plan/seats.h"

namespace millrace {
namespace {

double amount_of(const std::vector<NamedAmount>& amounts, std::string_view name) {
  for (const NamedAmount& amount : amounts)
    if (amount.name == name) return amount.amount;
  return 0;
}

const std::vector<NamedAmount>& budget_of(const Plan& plan, const std::string& device) {
  static const std::vector<NamedAmount> nothing;
  for (const DeviceBudget& budget : plan.budgets)
    if (budget.device == device) return budget.amounts;
  return nothing;
}

constexpr std::string_view kParameterPrefix = "parameter_";

double parameter_storage_of(const Shard& shard) {
  return amount_of(shard.resources, "parameter_bram_bits") + amount_of(shard.resources, "parameter_memory_bytes");
}

int64_t units_per_image(const Node& node, StreamingUnit unit, Phase phase) {
  if (unit == StreamingUnit::kSample) return 1;
  return phase == Phase::kErrorBack ? node.input_shapes[0].height : node.output.height;
}

double macs_of(const Node& node, Phase phase) {
  switch (phase) {
    case Phase::kForward: return static_cast<double>(node.work.forward_macs);
    case Phase::kErrorBack: return static_cast<double>(node.work.error_back_macs);
    case Phase::kParameterGradient: return static_cast<double>(node.work.parameter_gradient_macs);
  }
  return 0;
}

// The share of a layer's weight that the blocks hold, which is their share of its work.
double share_of(const Graph& graph, int64_t node, const std::vector<Block>& blocks) {
  const LayerExtent extent = extent_of(graph, graph.node(node).group);
  double pairs = 0;
  for (const Block& block : blocks) {
    const int64_t inputs = extent.conv_groups > 1 ? extent.inputs / extent.conv_groups : block.inputs.size();
    pairs += static_cast<double>(inputs) * static_cast<double>(block.outputs.size());
  }
  return pairs / (static_cast<double>(extent.inputs) / static_cast<double>(extent.conv_groups) * static_cast<double>(extent.outputs));
}

// Of a recurrent layer divided by kind: the blocks' share of x W, or all that steps multiply.
double share_by_kind(const Graph& graph, int64_t index, const Shard& shard) {
  const std::vector<Block>& blocks = shard.blocks;
  if (shard.after) return 0;
  double inputs = 0, states = 0;
  for (const ParameterSpec& parameter : graph.node(index).parameters)
    if (parameter.tensor.starts_with("weight"))
      (input_direction_of(parameter) >= 0 ? inputs : states) += static_cast<double>(parameter.elements());
  if (!shard.units.empty())
    states *= static_cast<double>(shard.units.size()) / static_cast<double>(std::get<Recurrent>(graph.node(index).layer.operation).hidden);
  return (blocks.empty() ? states : inputs * share_of(graph, index, blocks)) / (inputs + states);
}

SegmentPart part_of(const Graph& graph, const Group& group, int64_t node, const Shard& shard) {
  const LayerExtent extent = extent_of(graph, graph.node(node).group);
  SegmentPart part{.layer = shard.layer, .split = group.split, .begin = 0, .end = static_cast<double>(extent.inputs), .products = ""};
  if (divided_by_kind(graph, group)) part.products = shard.after ? "after" : shard.blocks.empty() ? "steps" : "x W";
  if (!shard.units.empty()) {
    part.begin = static_cast<double>(shard.units.begin);
    part.end = static_cast<double>(shard.units.end);
    part.cells = true;
  }
  if (shard.blocks.empty()) return part;
  const Block& first = shard.blocks.front();
  const Block& last = shard.blocks.back();
  if (group.split == Split::kOutputChannels || extent.conv_groups > 1) {
    part.begin = static_cast<double>(first.outputs.begin);
    part.end = static_cast<double>(last.outputs.end);
    return part;
  }
  const auto outputs = static_cast<double>(extent.outputs);
  part.begin = static_cast<double>(first.inputs.begin) + static_cast<double>(first.outputs.begin) / outputs;
  part.end = static_cast<double>(last.inputs.end - 1) + static_cast<double>(last.outputs.end) / outputs;
  return part;
}

class Summarizer {
 public:
  Summarizer(const Plan& plan, const Graph& graph) : plan_(plan), graph_(graph) {}

  PlanSummary run() {
    begin_devices();
    for (const Group& group : plan_.groups)
      for (const int64_t shard : group.shards) add_shard(group, item(plan_.shards, shard));
    add_homes();
    add_links();
    find_period();
    add_rates();
    return std::move(summary_);
  }

 private:
  void begin_devices() {
    for (size_t d = 0; d < plan_.cluster.devices.size(); ++d) {
      const DeviceEntry& entry = plan_.cluster.devices[d];
      const std::vector<NamedAmount>& budget = budget_of(plan_, entry.device);
      DeviceFigures device;
      device.index = static_cast<int64_t>(d);
      device.name = entry.name;
      device.device = entry.device;
      device.dsp_capacity = amount_of(budget, "dsp_device");
      device.lut_capacity = amount_of(budget, "lut");
      device.ff_capacity = amount_of(budget, "ff");
      device.bram_capacity_bits = amount_of(budget, "bram_bits");
      device.bram_block_capacity = amount_of(budget, "uram") > 0 ? 0 : amount_of(budget, "bram36");
      device.memory_capacity = amount_of(budget, "memory_bytes");
      device.off_chip_capacity = amount_of(budget, "dram_bytes");
      summary_.devices.push_back(std::move(device));
    }
    dedicated_seconds_.resize(summary_.devices.size());
    macs_.resize(summary_.devices.size());
    multipliers_.resize(summary_.devices.size());
  }

  void add_shard(const Group& group, const Shard& shard) {
    const int64_t index = graph_.index_of(shard.layer);
    const Node& node = graph_.node(index);
    DeviceFigures& device = item(summary_.devices, shard.device);
    device.segment.push_back(part_of(graph_, group, index, shard));
    ShardFigures figures{.layer = shard.layer, .resources = {}};
    const bool by_kind = divided_by_kind(graph_, group);
    const double share = by_kind ? share_by_kind(graph_, index, shard) : share_of(graph_, index, shard.blocks);
    double slowest = 0;
    const double dsp_used = amount_of(shard.resources, "dsp");
    double multipliers = 0;
    for (const PhaseEngine& engine : shard.phases) {
      const double seconds =
          1e-12 * static_cast<double>(engine.picoseconds_per_unit) * static_cast<double>(units_per_image(node, shard.unit, engine.phase));
      const auto phase = static_cast<size_t>(engine.phase);
      figures.seconds[phase] = seconds;
      figures.dsp[phase] = static_cast<double>(engine.multipliers);
      figures.macs += share * macs_of(node, engine.phase);
      multipliers += static_cast<double>(engine.multipliers);
      if (engine.multipliers > 0) {
        slowest = std::max(slowest, seconds);
      } else {
        device.seconds_per_image += seconds;
      }
      timed_ = true;
    }
    // What each of its steps waits for the rows of those that share them.
    if (by_kind && !shard.units.empty()) device.seconds_per_image += exchange_seconds(plan_, graph_, group, shard.device);
    item(multipliers_, shard.device) += multipliers;
    for (double& dsp : figures.dsp) dsp = multipliers > 0 ? dsp / multipliers * dsp_used : 0;
    auto& dedicated = item(dedicated_seconds_, shard.device);
    dedicated = std::max(dedicated, slowest);
    item(macs_, shard.device) += figures.macs;
    device.dsp += dsp_used;
    device.lut += amount_of(shard.resources, "lut");
    device.ff += amount_of(shard.resources, "ff");
    device.bram_bits += amount_of(shard.resources, "bram_bits");
    device.bram_blocks += amount_of(shard.resources, "bram36");
    device.memory += amount_of(shard.resources, "memory_bytes");
    device.off_chip_bytes += amount_of(shard.resources, "dram_bytes");
    device.off_chip_parameters = device.off_chip_parameters || amount_of(shard.resources, "dram_bytes") > 0;
    figures.parameter_storage = parameter_storage_of(shard);
    for (const NamedAmount& amount : shard.resources)
      if (!amount.name.starts_with(kParameterPrefix)) figures.resources.push_back(amount);
    // The steps' weights are no slices of the first parameter; parts of a recurrent layer keep theirs.
    if (by_kind) (device.bram_capacity_bits > 0 ? device.bram_bits : device.memory) += figures.parameter_storage;
    int64_t elements = 0;
    for (const Block& block : shard.blocks)
      if (!by_kind) elements += weight_elements(graph_, index, block);
    if (elements > 0) {
      const auto count = static_cast<double>(elements);
      weights_[{shard.layer, shard.device}] = {figures.parameter_storage / count, amount_of(shard.resources, "parameter_bram36") / count};
    }
    device.shards.push_back(std::move(figures));
  }

  // The weight is the first parameter of a layer that computes; what follows it is part of the shard's own resources.
  bool is_weight(const ParameterHome& home) const {
    const Node& node = graph_.node(graph_.index_of(home.layer));
    return node.computes && !node.parameters.empty() && node.parameters.front().tensor == home.tensor;
  }

  void add_homes() {
    for (const ParameterHome& home : plan_.homes) {
      double storage = 0;
      DeviceFigures& device = item(summary_.devices, home.home);
      const auto found = is_weight(home) ? weights_.find({home.layer, home.user}) : weights_.end();
      if (found != weights_.end()) {
        storage = found->second.storage * static_cast<double>(home.count);
        device.bram_blocks += found->second.blocks * static_cast<double>(home.count);
      }
      (device.bram_capacity_bits > 0 ? device.bram_bits : device.memory) += storage;
      if (home.home == home.user) continue;
      summary_.homes.push_back(
          {home.layer, home.offset, home.offset + home.count, home.home, home.user, device.bram_capacity_bits > 0 ? storage : 8 * storage});
    }
    for (DeviceFigures& device : summary_.devices) {
      if (device.bram_capacity_bits > 0) device.memory_fraction = device.bram_bits / device.bram_capacity_bits;
      if (device.memory_capacity > 0) device.memory_fraction = device.memory / device.memory_capacity;
      summary_.storage_bits += device.bram_bits + 8 * (device.memory + device.off_chip_bytes);
    }
  }

  void add_links() {
    for (const Link& link : plan_.links) summary_.links.push_back({.from = link.from, .to = link.to});
    const auto batch = static_cast<double>(plan_.mini_batch);
    for (const Flow& flow : plan_.flows) {
      LinkFigures& link = item(summary_.links, flow.link);
      const double bits = bits_per_sample(flow, plan_);
      (flow.direction == Direction::kForward ? link.forward_bits_per_image : link.backward_bits_per_image) += bits;
      if (carries_parameters(flow)) link.parameter_bits_per_image += bits;
    }
    // Links between the same two cards share a cable.
    const std::vector<int64_t> cables = cables_of(plan_.cluster);
    std::vector<double> bits(cables.size());
    for (size_t i = 0; i < plan_.links.size(); ++i) {
      item(bits, cables[2 * i]) += summary_.links[i].forward_bits_per_image;
      item(bits, cables[2 * i + 1]) += summary_.links[i].backward_bits_per_image;
    }
    for (size_t i = 0; i < plan_.links.size(); ++i) {
      const Link& link = plan_.links[i];
      LinkFigures& figures = summary_.links[i];
      const double forward = item(bits, cables[2 * i]), backward = item(bits, cables[2 * i + 1]);
      figures.seconds_per_image = std::max(forward / static_cast<double>(link.forward_bits_per_second),
                                           backward / static_cast<double>(link.backward_bits_per_second));
      if (link.shared_bits_per_second > 0)
        figures.seconds_per_image =
            std::max(figures.seconds_per_image, (forward + backward) / static_cast<double>(link.shared_bits_per_second));
      summary_.communication_bits += (figures.forward_bits_per_image + figures.backward_bits_per_image) * batch;
    }
  }

  void find_period() {
    if (!timed_) fail(ErrorCode::kMalformed, "the plan carries no engine times, so nothing can be said about its speed; plan it anew");
    const std::vector<int64_t> seats = seats_of(plan_.cluster);
    seat_seconds_.assign(seats.size(), 0);
    for (DeviceFigures& device : summary_.devices) {
      device.seconds_per_image = std::max(device.seconds_per_image, item(dedicated_seconds_, device.index));
      item(seat_seconds_, item(seats, device.index)) += device.seconds_per_image;
    }
    for (DeviceFigures& device : summary_.devices) {
      const double seconds = item(seat_seconds_, item(seats, device.index));
      if (seconds <= summary_.seconds_per_image) continue;
      summary_.seconds_per_image = seconds;
      summary_.bottleneck = {"device", device.index};
    }
    if (!folds(plan_.cluster)) return find_slowest_link();
    for (size_t d = 0; d < seats.size(); ++d) {
      const auto seat = to_size(seats[d]);
      if (seat == summary_.seats.size())
        summary_.seats.push_back({.name = plan_.cluster.devices[d].seat,
                                  .device = plan_.cluster.devices[d].device,
                                  .places = {},
                                  .seconds_per_image = seat_seconds_[seat]});
      summary_.seats[seat].places.push_back(static_cast<int64_t>(d));
    }
    find_slowest_link();
  }

  void find_slowest_link() {
    for (const LinkFigures& link : summary_.links) {
      if (link.seconds_per_image <= summary_.seconds_per_image) continue;
      summary_.seconds_per_image = link.seconds_per_image;
      summary_.bottleneck = {"link", link.from};
    }
  }

  // What draining at each update adds to a mini-batch, in micro-batches of the slowest stage.
  double drained_micro_batches() const {
    if (!drains(plan_.alignment)) return 0;
    const auto bubble = static_cast<double>(plan_.windows.front() - 1);
    return plan_.alignment == Alignment::kZeroBubble ? bubble / 3 : bubble;  // gradients fill two thirds of it
  }

  // Of the pace that the slowest stage sets: 1 where the pipeline stays full.
  double share_of_pace(double period) {
    summary_.accounting = plan_.accounting;
    if (plan_.accounting == Accounting::kFull)
      for (const Constant& constant : plan_.constants)
        if (constant.name == kMiniBatchSeconds) summary_.mini_batch_seconds = constant.value;
    if (summary_.mini_batch_seconds > 0) return static_cast<double>(plan_.mini_batch) * period / summary_.mini_batch_seconds;
    const auto n = static_cast<double>(plan_.micro_batches());
    return n / (n + drained_micro_batches());
  }

  void add_rates() {
    const double period = summary_.seconds_per_image;
    const double pace = share_of_pace(period);
    summary_.images_per_second = pace / period;
    summary_.optimality_gap = plan_.optimality_gap;
    if (plan_.lower_bound_seconds_per_image > 0) {
      // What updates take depends on homes: the bound has them for nothing.
      const double bound_pace = summary_.mini_batch_seconds > 0 ? 1 : pace;
      summary_.lower_bound_images_per_second = bound_pace / plan_.lower_bound_seconds_per_image;
    }
    // Where gradients wait, micro-batches stay that others are let in for; the last one waited for is through by then.
    const HeldByDevice held = held_by_devices(plan_.alignment, plan_.micro_batches(), plan_.windows);
    const int64_t waits = std::max<int64_t>(0, std::ranges::max(held.errors) - 2);  // errors held: one more than wait
    summary_.in_flight_samples = (plan_.windows.front() + waits) * plan_.micro_batch;
    for (const Constant& constant : plan_.constants) {
      if (constant.name == kInFlightSamples) summary_.in_flight_samples = static_cast<int64_t>(constant.value);
      if (constant.name == kFasterBetweenUpdates) summary_.faster_between_updates = constant.value;
    }

    const Graph::Macs macs = graph_.macs();
    const bool trains = std::ranges::any_of(graph_.nodes(), &Node::trained);  // else there are forward passes alone
    const double counted = (trains ? 3 : 1) * static_cast<double>(macs.conv + macs.rnn);
    const auto devices = static_cast<double>(summary_.devices.size());
    summary_.gops_per_device = 2e-9 * counted * summary_.images_per_second / devices;
    double watts = 0;
    bool all_known = true;
    bool all_peaks = true;
    double peak = 0;
    double done = 0;
    double idle = 0;
    for (DeviceFigures& device : summary_.devices) {
      const std::vector<NamedAmount>& budget = budget_of(plan_, device.device);
      const double device_macs = item(macs_, device.index);
      const double engine_rate = item(multipliers_, device.index) * amount_of(budget, "clock_hz");
      if (engine_rate > 0) {
        device.idle_fraction = 1 - pace * device_macs / (engine_rate * period);
      } else {
        device.idle_fraction = 1 - pace * device.seconds_per_image / period;
      }
      device.idle_fraction = std::clamp(device.idle_fraction, 0.0, 1.0);
      idle += device.idle_fraction;
      device.watts = amount_of(budget, "watts_idle") + amount_of(budget, "watts_per_gops") * summary_.gops_per_device;
      all_known = all_known && device.watts > 0;
      watts += device.watts;
      const double device_peak = amount_of(budget, "macs_per_second");
      all_peaks = all_peaks && device_peak > 0;
      peak += device_peak;
      done += device_macs * summary_.images_per_second;
    }
    for (SeatFigures& seat : summary_.seats) seat.idle_fraction = std::clamp(1 - pace * seat.seconds_per_image / period, 0.0, 1.0);
    summary_.idle_fraction = idle / devices;
    if (!summary_.seats.empty()) {
      summary_.idle_fraction = 0;
      for (const SeatFigures& seat : summary_.seats)
        summary_.idle_fraction += seat.idle_fraction / static_cast<double>(summary_.seats.size());
    }
    summary_.flop_utilisation = all_peaks && peak > 0 ? done / peak : 0;
    if (all_known && watts > 0) summary_.gops_per_joule = summary_.gops_per_device * devices / watts;
    for (LinkFigures& link : summary_.links) {
      link.gbps = 1e-9 * std::max(link.forward_bits_per_image, link.backward_bits_per_image) * summary_.images_per_second;
      link.gbps_both = 1e-9 * (link.forward_bits_per_image + link.backward_bits_per_image) * summary_.images_per_second;
      summary_.max_link_gbps = std::max(summary_.max_link_gbps, link.gbps);
      summary_.max_link_gbps_both = std::max(summary_.max_link_gbps_both, link.gbps_both);
    }
    summary_.communication_gbps = 1e-9 * summary_.communication_bits / static_cast<double>(plan_.mini_batch) * summary_.images_per_second;
  }

  const Plan& plan_;
  const Graph& graph_;
  PlanSummary summary_;
  bool timed_ = false;
  std::vector<double> dedicated_seconds_;
  std::vector<double> seat_seconds_;  // of a card, all its places
  std::vector<double> macs_;
  std::vector<double> multipliers_;  // in engines
  // Of one element of a layer's weight on the device that uses it.
  struct WeightStorage {
    double storage = 0;
    double blocks = 0;
  };
  std::map<std::pair<std::string, int64_t>, WeightStorage> weights_;
};

}  // namespace

const SeatFigures* card_of(const PlanSummary& summary, int64_t device) {
  const auto has = [device](const SeatFigures& card) { return std::ranges::find(card.places, device) != card.places.end(); };
  const auto found = std::ranges::find_if(summary.seats, has);
  return found == summary.seats.end() ? nullptr : &*found;
}

PlanSummary summarize(const Plan& plan, const Graph& graph) { return Summarizer(plan, graph).run(); }

bool bound_is_proven(const Plan& plan) { return engine_period_of(plan) <= 0; }

bool meets_bound(const Plan& plan, double gap) { return gap <= (bound_is_proven(plan) ? 1e-6 : 1e-4); }

std::string_view bound_counts(const Plan& plan) { return bound_is_proven(plan) ? "in this model" : "with memory as a search reserves it"; }

void choose_before(const PlanSummary& other, PlanSummary& chosen, Plan& plan) {
  constexpr double kFaster = 1e-3;
  const double between = std::max(other.faster_between_updates, other.seconds_per_image > 0 ? 1 / other.seconds_per_image : 0);
  if (between * chosen.seconds_per_image <= 1 + kFaster || between <= chosen.faster_between_updates) return;
  chosen.faster_between_updates = between;
  std::erase_if(plan.constants, [](const Constant& constant) { return constant.name == kFasterBetweenUpdates; });
  plan.constants.push_back({std::string(kFasterBetweenUpdates), between, "modelled"});
}

std::string no_gap_text(const PlanSummary& summary, std::string_view samples) {
  if (summary.faster_between_updates <= 0) return "";
  return fmt::format("chosen by whole mini-batches; another plan makes {:.4g} {}/s between updates, and takes longer with them",
                     summary.faster_between_updates, samples);
}

}  // namespace millrace
