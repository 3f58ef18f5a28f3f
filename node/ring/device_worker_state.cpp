// How a worker's parameters, optimizer and carried states start, are saved and come back.
#include <algorithm>

#include "core/base/index.h"
#include "core/plan/schedule.h"
#include "core/train/segment_state.h"
#include "node/ring/device_worker.h"
#include "node/ring/slice_state.h"

namespace millrace {

namespace {

// Calls visit(node, parameter) for every parameter and statistic, in linear order.
template <typename Visit>
void for_each_parameter(const Graph& graph, Visit visit) {
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) visit(node, parameter);
}

// Statistics that F of a version needs: they have versions like weights.
bool has_versions(const Node& node, bool trained) {
  const auto* norm = std::get_if<BatchNorm>(&node.layer.operation);
  return trained || (norm != nullptr && norm->statistics == Statistics::kRunning && node.trained);
}

}  // namespace

void Worker::initialize(uint64_t seed) {
  segment_.initialize(seed);
  for (const auto& slice : slices_) initialize_slice(*slice, plan(), context_.graph(), seed);
}

void Worker::write_weights(const TensorMap& weights, std::optional<int64_t> version) {
  for_each_parameter(context_.graph(), [&](const Node& node, const ParameterSpec& parameter) {
    const auto found = weights.find(stored_name(node, parameter));
    if (found == weights.end()) return;
    const std::vector<double> values = checked_values(weights, stored_name(node, parameter), parameter);
    if (version)
      segment_.write_parameter(node.layer.name, parameter.tensor, values, *version);
    else
      segment_.write_parameter(node.layer.name, parameter.tensor, values);
  });
}

void Worker::take_weights(const TensorMap& weights) {
  write_weights(weights, std::nullopt);
  for (const auto& slice : slices_) take_slice_weights(*slice, plan(), context_.graph(), weights);
}

void Worker::restore(const CheckpointContent& content) {
  const int64_t step = content.facts.step;
  segment_.initialize(context_.task->job.seed);
  millrace::write_weights(segment_, context_.graph(), content.weights);
  segment_.set_newest_version(step);
  write_optimizer(segment_, context_.graph(), plan().optimizer, content.optimizer);
  for (const auto& slice : slices_) restore_slice(*slice, plan(), context_.graph(), content);

  // The micro-batches that were under way went forward with the weights before the last update.
  const ScheduleSpec spec = schedule_spec(plan(), index_, 1);
  if (drains(plan().alignment) || content.previous_weights.empty() || spec.window == 1) return;
  if (versions_held(spec) > 1) {
    write_weights(content.weights, step);
    write_weights(content.previous_weights, step - 1);
    TensorMap statistics;  // of which there is one copy
    for_each_parameter(context_.graph(), [&](const Node& node, const ParameterSpec& parameter) {
      const std::string name = stored_name(node, parameter);
      if (!parameter.trained && has_versions(node, false)) statistics[name] = content.weights.at(name);
    });
    if (!statistics.empty()) current_weights_ = std::move(statistics);
  } else {
    write_weights(content.previous_weights, std::nullopt);
    current_weights_ = content.weights;
  }
}

void Worker::use_current_weights(int64_t version) {
  if (version < context_.first_mini_batch) return;
  write_weights(*current_weights_, std::nullopt);
  current_weights_.reset();
}

void Worker::save_parameters(SaveWriter& writer, SaveKind kind) {
  std::vector<double> full, part;
  for (const Step& step : segment_.program().steps)
    for (const ParameterSlice& slice : parameter_slices_of(context_.graph(), step)) {
      const Node& node = context_.graph().node(slice.node);
      if (kind == SaveKind::kPrevious && !has_versions(node, slice.trained)) continue;
      const auto parameter = std::ranges::find(node.parameters, slice.tensor, &ParameterSpec::tensor);
      full.assign(to_size(parameter->elements()), 0.0);
      if (!segment_.read_parameter(node.layer.name, slice.tensor, full)) continue;
      part.resize(to_size(slice.elements));
      extract_slice(slice, full, part);
      writer.slice(kind, stored_name(node, *parameter), slice, part);
    }
  for (const auto& slice : slices_) save_slice_weights(*slice, context_.graph(), writer, kind);
}

void Worker::save_optimizer(SaveWriter& writer) {
  std::vector<double> full, part;
  for (const Step& step : segment_.program().steps)
    for (const ParameterSlice& slice : parameter_slices_of(context_.graph(), step)) {
      const Node& node = context_.graph().node(slice.node);
      if (!slice.trained || !node.trained) continue;
      const auto parameter = std::ranges::find(node.parameters, slice.tensor, &ParameterSpec::tensor);
      for (int slot = 0; slot < plan().optimizer.slots(); ++slot) {
        full.assign(to_size(parameter->elements()), 0.0);
        if (!segment_.read_slot(node.layer.name, slice.tensor, slot, full)) continue;
        part.resize(to_size(slice.elements));
        extract_slice(slice, full, part);
        writer.slice(SaveKind::kOptimizer, slot_name(stored_name(node, *parameter), plan().optimizer, slot), slice, part);
      }
    }
  for (const CarriedState& state : segment_.carried_states()) {
    part.resize(to_size(elements_of(state)));
    segment_.read_carried(state, part);
    if (state.columns.size() == state.dimensions[1]) {
      writer.whole(SaveKind::kOptimizer, carried_name(state), state.dimensions, part);
      continue;
    }
    ParameterSlice columns;
    columns.dimensions = state.dimensions;
    columns.block = {state.columns, {0, state.dimensions[0]}};
    columns.divided = true;
    columns.elements = state.columns.size() * state.dimensions[0];
    full = part;
    part.resize(to_size(columns.elements));
    extract_slice(columns, full, part);
    writer.slice(SaveKind::kOptimizer, carried_name(state), columns, part);
  }
  for (const auto& slice : slices_) save_slice_optimizer(*slice, plan(), context_.graph(), writer);
}

}  // namespace millrace
