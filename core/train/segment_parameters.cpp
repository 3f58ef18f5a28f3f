// Parameters, statistics, gradients, optimizer slots and carried states of a segment, as full canonical tensors.
#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/parts.h"
#include "core/plan/schedule.h"
#include "core/train/initialize.h"
#include "core/train/segment_parts.h"

namespace millrace {

void SegmentExecutor::initialize(uint64_t seed) {
  std::vector<double> full;
  for (StepRun& run : runs_) {
    for (const ParameterSlice& slice : run.slices) {
      const Node& node = graph_.node(slice.node);
      const auto& parameters = node.parameters;
      const auto parameter = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.tensor == slice.tensor; });
      full.resize(to_size(parameter->elements()));
      InitialValues(node.layer, *parameter, fans_of(parameters.front()), seed).fill(std::span<double>(full));
      write_parameter(node.layer.name, slice.tensor, full);
    }
    for (const auto& slots : run.optimizer)
      for (const TensorPointer& slot : slots) device_.zero(*slot);
    for (const TensorPointer& gradient : run.gradients) device_.zero(*gradient);
  }
  for (StepRun& run : runs_) {
    run.gradients_in_back = 0;
    if (run.carries)
      for (const TensorPointer& state : run.state) device_.zero(*state);
    if (run.gathers) device_.zero(*run.state.back());
  }
  gradients_summed_ = 0;
  newest_version_ = 0;
}

template <typename Visit>
bool SegmentExecutor::for_each_slice(std::string_view layer, std::string_view tensor, Visit visit) {
  bool any = false;
  for (StepRun& run : runs_) {
    size_t trained = 0;
    size_t state = 0;
    for (const ParameterSlice& slice : run.slices) {
      const size_t position = slice.trained ? trained++ : state++;
      if (slice.tensor != tensor || graph_.name_of(slice.node) != layer) continue;
      visit(run, slice, position);
      any = true;
    }
  }
  return any;
}

template <typename Select>
bool SegmentExecutor::write_slices(std::string_view layer, std::string_view tensor, std::span<const double> full, Select select) {
  bool any = false;
  for_each_slice(layer, tensor, [&](StepRun& run, const ParameterSlice& slice, size_t position) {
    Tensor* target = select(run, slice, position);
    if (target == nullptr) return;
    any = true;
    std::vector<double> part(to_size(slice.elements));
    extract_slice(slice, full, part);
    device_.write(*target, whole(*target), std::span<const double>(part));
  });
  return any;
}

template <typename Select>
bool SegmentExecutor::read_slices(std::string_view layer, std::string_view tensor, std::span<double> full, Select select) {
  bool any = false;
  for_each_slice(layer, tensor, [&](StepRun& run, const ParameterSlice& slice, size_t position) {
    const Tensor* source = select(run, slice, position);
    if (source == nullptr) return;
    std::vector<double> part(to_size(slice.elements));
    device_.read(*source, whole(*source), std::span<double>(part));
    insert_slice(slice, part, full);
    any = true;
  });
  return any;
}

namespace {

// Lambdas that pick the tensor of a slice from its step; null where the device has none.
constexpr auto kGradient = [](auto& run, const ParameterSlice& slice, size_t position) {
  return slice.trained && run.trained ? run.gradients[position].get() : nullptr;
};
auto parameter_of(int64_t version) {
  return [version](auto& run, const ParameterSlice& slice, size_t position) -> Tensor* {
    if (!slice.trained) return run.state[position].get();
    return run.remote ? nullptr : run.version(version).parameters[position].get();
  };
}
auto optimizer_slot(int slot) {
  return [slot](auto& run, const ParameterSlice& slice, size_t position) {
    return slice.trained && run.trained && !run.remote ? item(run.optimizer[position], slot).get() : nullptr;
  };
}

}  // namespace

bool SegmentExecutor::write_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full) {
  bool any = false;
  for (int64_t back = versions_held(schedule_spec(plan_, program_.device, 1)); back-- > 0;)
    any = write_parameter(layer, tensor, full, newest_version_ + back) || any;
  return any;
}
bool SegmentExecutor::write_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full, int64_t version) {
  if (!write_slices(layer, tensor, full, parameter_of(version))) return false;
  for (StepRun& run : runs_)
    if (run.runs() && !run.remote && !run.slices.empty() && graph_.name_of(run.slices.front().node) == layer)
      run.version(version).kernel->parameters_changed(run.version(version).pointers);
  return true;
}
bool SegmentExecutor::read_parameter(std::string_view layer, std::string_view tensor, std::span<double> full) {
  return read_slices(layer, tensor, full, parameter_of(newest_version_));
}
bool SegmentExecutor::write_slot(std::string_view layer, std::string_view tensor, int slot, std::span<const double> full) {
  return write_slices(layer, tensor, full, optimizer_slot(slot));
}
bool SegmentExecutor::read_slot(std::string_view layer, std::string_view tensor, int slot, std::span<double> full) {
  return read_slices(layer, tensor, full, optimizer_slot(slot));
}
bool SegmentExecutor::read_gradient(std::string_view layer, std::string_view tensor, std::span<double> full) {
  return read_slices(layer, tensor, full, kGradient);
}

template <typename Visit>
void SegmentExecutor::for_each_averaged(int64_t version, Visit visit) {
  for (StepRun& run : runs_) {
    if (!run.trained || run.remote) continue;
    StepRun::Version& own = run.version(version);
    for (size_t p = 0; p < run.optimizer.size(); ++p) visit(*own.parameters[p], *run.optimizer[p].back());
    own.kernel->parameters_changed(own.pointers);
  }
}

void SegmentExecutor::use_averages(int64_t version) {
  if (uses_averages() && averaged_version_ == version) return;
  use_own_weights();
  averaged_version_ = version;
  std::vector<double> sums, offsets;
  for_each_averaged(version, [&](Tensor& weights, const Tensor& average) {
    sums.resize(to_size(weights.elements()));
    offsets.resize(sums.size());
    device_.read(weights, whole(weights), std::span<double>(sums));
    own_weights_.push_back(sums);
    device_.read(average, whole(average), std::span<double>(offsets));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += offsets[i];
    device_.write(weights, whole(weights), std::span<const double>(sums));
  });
}

void SegmentExecutor::use_own_weights() {
  if (!uses_averages()) return;
  size_t next = 0;
  for_each_averaged(averaged_version_, [&](Tensor& weights, const Tensor&) {
    device_.write(weights, whole(weights), std::span<const double>(own_weights_[next++]));
  });
  own_weights_.clear();
}

void SegmentExecutor::write_remote(size_t index, ConstHostNumbers values) {
  StepRun::Version& version = runs_[remote_places_[index].step].versions.front();
  Tensor& tensor = *version.parameters[remote_places_[index].position];
  device_.write(tensor, whole(tensor), values);
}

void SegmentExecutor::remote_parameters_written() {
  for (StepRun& run : runs_)
    if (run.remote) run.kernel().parameters_changed(run.versions.front().pointers);
}

void SegmentExecutor::read_remote_gradient(size_t index, HostNumbers values) {
  const Tensor& tensor = *runs_[remote_places_[index].step].gradients[remote_places_[index].position];
  device_.read(tensor, whole(tensor), values);
}

int64_t SegmentExecutor::gradient_elements() const {
  int64_t elements = 0;
  for (const StepRun& run : runs_) run.for_each_summed([&](const Tensor& tensor) { elements += tensor.elements(); });
  return elements;
}

void SegmentExecutor::read_gradients(HostNumbers values) {
  for (StepRun& run : runs_)
    run.for_each_summed([&](Tensor& tensor) {
      device_.read(tensor, whole(tensor), values.first(tensor.elements()));
      values = values.behind(tensor.elements());
    });
}

void SegmentExecutor::write_gradients(ConstHostNumbers values) {
  for (StepRun& run : runs_)
    run.for_each_summed([&](Tensor& tensor) {
      device_.write(tensor, whole(tensor), values.first(tensor.elements()));
      values = values.behind(tensor.elements());
    });
}

namespace {

// In the order of RecurrentShape::state_shapes.
constexpr std::string_view kCarriedNames[] = {"hidden", "cell"};

}  // namespace

std::vector<CarriedState> SegmentExecutor::carried_states() const {
  std::vector<CarriedState> states;
  for (size_t i = 0; i < runs_.size(); ++i)
    for (size_t t = 0; runs_[i].carries && t < runs_[i].state.size(); ++t) {
      const Shape& shape = runs_[i].state[t]->shape();
      states.push_back(
          {graph_.name_of(program_.steps[i].node), std::string(kCarriedNames[t]), {shape.channels, shape.height}, {0, shape.height}});
      // A device that shares the steps has h of all, and what is in the cells of its own.
      const ChannelRange& units = program_.steps[i].units;
      const auto& cell = std::get<Recurrent>(graph_.node(program_.steps[i].node).layer.operation);
      if (!units.empty()) states.back().columns = t == 0 ? features_of(cell, units) : units;
    }
  return states;
}

Tensor* SegmentExecutor::find_carried(const CarriedState& state) {
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (!runs_[i].carries || graph_.name_of(program_.steps[i].node) != state.layer) continue;
    const size_t t = state.tensor == kCarriedNames[0] ? 0 : 1;
    MILLRACE_CHECK(t < runs_[i].state.size(), "layer \"{}\" carries no {}", state.layer, state.tensor);
    return runs_[i].state[t].get();
  }
  MILLRACE_CHECK(false, "no layer \"{}\" that carries a state", state.layer);
}

void SegmentExecutor::read_carried(const CarriedState& state, std::span<double> values) {
  const Tensor& tensor = *find_carried(state);
  device_.read(tensor, whole(tensor), values);
}

void SegmentExecutor::write_carried(const CarriedState& state, std::span<const double> values) {
  Tensor& tensor = *find_carried(state);
  device_.write(tensor, whole(tensor), values);
}

}  // namespace millrace
