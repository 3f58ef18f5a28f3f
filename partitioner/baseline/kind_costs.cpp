#include "partitioner/baseline/kind_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"

namespace millrace::by_kind {

KindCosts::Asked KindCosts::question(size_t device, const Unit& unit) const {
  const LayerGroup& group = fast_item(graph_.groups(), unit.group);
  const Node& head = graph_.node(group.head);
  Asked made;
  const int64_t sums = sum_shape(head).channels;
  // The steps read all sums and no input.
  made.blocks = {{{0, unit.part == Part::kSteps ? 0 : head.input_shapes[0].channels}, {0, sums}}};
  made.asked.owner = unit.part != Part::kProducts;
  for (const int64_t node : group.after)
    if (unit.ends) made.after.push_back(&graph_.node(node));
  made.asked.node = &head;
  if (unit.part == Part::kAfter) {
    made.asked.node = made.after.front();
    made.after.erase(made.after.begin());
    made.blocks.clear();
  }
  made.asked.blocks = made.blocks;
  made.asked.after = made.after;
  made.asked.micro_batch = request_.micro_batch;
  made.asked.window = held_.micro_batches[device];
  made.asked.errors_held = held_.errors[device];
  made.asked.optimizer_slots = task_.options.optimizer.slots();
  made.asked.arithmetic = task_.options.arithmetic;
  made.asked.recompute = task_.options.recompute;
  return made;
}

KindCosts::Asked KindCosts::shared_question(size_t device, const Unit& steps, size_t last, const ChannelRange& units) const {
  Asked made = question(device, steps);
  made.asked.blocks = made.blocks;
  made.asked.units = units;
  made.asked.owner = device == last;
  if (device != last) made.after.clear();
  made.asked.after = made.after;
  made.asked.window = held_.micro_batches[last];
  made.asked.errors_held = held_.errors[last];
  return made;
}

ShardCost KindCosts::gradients_of(size_t device, const Unit& steps) const {
  Node behind = graph_.node(fast_item(graph_.groups(), steps.group).head);
  behind.input_error_needed = true;  // or the way back through time would be among them
  Asked made = question(device, steps);
  made.asked.node = &behind;
  made.asked.after = {};
  ShardCost cost = task_.models[device]->cost_of(made.asked);
  std::erase_if(cost.phases, [](const PhaseEngine& engine) { return engine.phase != Phase::kParameterGradient; });
  return cost;
}

double KindCosts::board_seconds(size_t device, const Unit& steps, size_t last, int64_t units) {
  const auto key = std::tuple{task_.models[device], request_.windows[last], device == last, steps.ends, steps.group, units};
  const auto [found, fresh] = shares_.try_emplace(key, kNever);
  if (!fresh) return found->second;
  const CostModel& model = *task_.models[device];
  const Asked made = shared_question(device, steps, last, {0, units});
  if (!model.steps_refusal(made.asked).empty()) return kNever;
  for (const Node* const node : made.after)
    if (!model.refusal(*node).empty()) return kNever;
  const ShardDemand taken = model.demand_of(made.asked);
  const std::span<const NamedAmount> capacities = model.capacities();
  for (size_t i = 0; i < capacities.size(); ++i)
    if (taken.amounts[i] > capacities[i].amount) return kNever;
  return found->second = model.cost_of(made.asked).seconds_per_sample;
}

const ShardDemand& KindCosts::demand(size_t device, const Unit& unit) {
  const auto key = std::pair{device, 8 * unit.group + 2 * static_cast<int64_t>(unit.part) + (unit.ends ? 1 : 0)};
  const auto [found, fresh] = demands_.try_emplace(key);
  if (fresh) found->second = task_.models[device]->demand_of(question(device, unit).asked);
  return found->second;
}

double KindCosts::segment_seconds(size_t device, size_t begin, size_t end, Amounts& amounts) {
  const CostModel& model = *task_.models[device];
  double seconds = 0, shared = 0;
  for (const Unit& unit : parts_between(units_, begin, end)) {
    const ShardDemand& taken = demand(device, unit);
    seconds += taken.seconds;
    for (size_t i = 0; i < amounts.size(); ++i) amounts[i] += taken.amounts[i];
    amounts[0] -= std::min(shared, taken.shared);
    shared = std::max(shared, taken.shared);
    amounts[model.parameter_memory()] += taken.parameters;
  }
  if (is_board(device)) {
    const Unit steps = parts_between(units_, begin, end).front();
    const Asked asked = question(device, steps);
    if (const std::string why = model.steps_refusal(asked.asked); !why.empty()) {
      refuse_steps(device, steps, why);
      return kNever;
    }
    for (const Node* const node : asked.after)
      if (const std::string why = model.refusal(*node); !why.empty()) {
        // Else somebody behind the board may have it.
        if (end == units_.size())
          refuse(device, "hardware", 1,
                 fmt::format("device {} ({}) would end the ring with layer \"{}\", which {}; have a CPU or GPU behind it", device,
                             task_.cluster.devices[device].device, node->layer.name, why));
        return kNever;
      }
  }
  if (lends(device, end)) {
    const ShardDemand& steps = demand(device, units_[end]);
    amounts[model.parameter_memory()] += steps.parameters;
    for (const PhaseEngine& gradients : gradients_of(device, units_[end]).phases)
      seconds += 1e-12 * static_cast<double>(gradients.picoseconds_per_unit);
  }
  const std::span<const NamedAmount> capacities = model.capacities();
  for (size_t i = 0; i < capacities.size(); ++i) {
    const double missing = amounts[i] - capacities[i].amount;
    if (missing <= 0) continue;
    const std::string& first = graph_.node(fast_item(graph_.groups(), units_[begin].group).head).layer.name;
    refuse(
        device, capacities[i].name, missing,
        fmt::format("device {} ({}) would need {} {} for what begins with layer \"{}\", and has {}; use more devices", device,
                    task_.cluster.devices[device].device, counted(amounts[i]), capacities[i].name, first, counted(capacities[i].amount)));
    return kNever;
  }
  return seconds;
}

void KindCosts::refuse_steps(size_t device, const Unit& steps, const std::string& why) {
  const Node& head = graph_.node(fast_item(graph_.groups(), steps.group).head);
  const auto* cell = std::get_if<Recurrent>(&head.layer.operation);
  refuse(device, "weight_words", 1,
         fmt::format("device {} ({}): layer \"{}\" {}; take a larger board, {}or leave the layer to a CPU or GPU", device,
                     task_.cluster.devices[device].device, head.layer.name, why,
                     cell != nullptr && cell->hidden == grain_of(*cell) ? "" : "more of them in a row, "));
}

void KindCosts::refuse(size_t device, const std::string& resource, double missing, std::string text) {
  if (!lack_.text.empty() && missing >= lack_.missing) return;
  lack_ = {};
  lack_.device = static_cast<int64_t>(device);
  lack_.resource = resource;
  lack_.missing = missing;
  lack_.text = std::move(text);
}

}  // namespace millrace::by_kind
