#include "core/device/kernel_spec.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"

namespace millrace {
bool runs_kernel(const Step& step) {
  return step.kind == StepKind::kCompute || step.kind == StepKind::kFinish || step.kind == StepKind::kApply;
}

KernelSpec kernel_spec_of(const Plan& plan, const Graph& graph, const SegmentProgram& program, const Step& step) {
  MILLRACE_CHECK(runs_kernel(step), "a step of kind {} runs no kernel", static_cast<int>(step.kind));
  const Node& node = graph.node(step.node);
  const auto value = [&program](int64_t index) -> const Value& { return item(program.values, index); };
  KernelSpec spec;
  spec.layer = node.layer.name;
  spec.operation = node.layer.operation;
  spec.micro_batch = plan.micro_batch;
  spec.micro_batches = plan.micro_batches();
  spec.trained = node.trained;
  spec.steps = step_map_of(graph, node.inputs[0]);
  spec.bias = step.bias;
  spec.output = value(step.output).shape;
  if (step.activation >= 0) spec.activation = std::get<Activation>(graph.node(step.activation).layer.operation);
  switch (step.kind) {
    case StepKind::kCompute: {
      if (step.direction >= 0) {
        spec.operation = Dense{.out_features = step.block.outputs.size(), .bias = false};
        spec.in_parts = true;
      } else {
        spec.operation = block_of(node.layer.operation, node.input_shapes[0].channels, step.block.inputs.size(), step.block.outputs.size());
      }
      Shape input = value(step.inputs[0]).shape;
      input.channels = step.block.inputs.size();
      spec.inputs = {input};
      if (node.divides || step.direction >= 0) spec.output.channels = step.block.outputs.size();
      // Adding into part of a sum goes through a tensor of its own: sub-tensors with offsets are slow on some devices.
      spec.adds_to_output = step.adds && step.block.outputs == value(step.output).channels;
      spec.input_error_needed = node.input_error_needed;
      break;
    }
    case StepKind::kFinish:
      spec.finish = true;
      spec.units = step.units;
      spec.inputs = {value(step.inputs[0]).shape};
      spec.input_error_needed = node.error_needed;
      break;
    default:
      for (const int64_t input : step.inputs) spec.inputs.push_back(value(input).shape);
      spec.input_error_needed = node.input_error_needed;
      break;
  }
  return spec;
}

KernelSpec steps_spec_of(const Plan& plan, const Graph& graph, int64_t node) {
  SegmentProgram program;
  const auto add = [&](const Shape& shape) {
    program.values.push_back({.node = node, .channels = {0, shape.channels}, .shape = shape});
    return static_cast<int64_t>(program.values.size()) - 1;
  };
  Step step;
  step.kind = StepKind::kFinish;
  step.node = node;
  step.bias = true;
  step.inputs = {add(sum_shape(graph.node(node)))};
  step.output = add(graph.shape_of(node));
  return kernel_spec_of(plan, graph, program, step);
}

ParameterSlice rows_of_units(const Node& recurrent, const ParameterSpec& parameter, const ChannelRange& units) {
  ParameterSlice slice;
  slice.tensor = parameter.tensor;
  slice.dimensions = parameter.dimensions;
  slice.trained = parameter.trained;
  const auto& cell = std::get<Recurrent>(recurrent.layer.operation);
  const bool projects = parameter.tensor.starts_with("weight_hr");
  slice.units = projects ? features_of(cell, units) : units;
  slice.cells = projects ? cell.features() : cell.hidden;
  slice.elements = parameter.elements() / slice.cells * slice.units.size();
  return slice;
}

std::vector<ParameterSlice> parameter_slices_of(const Graph& graph, const Step& step) {
  std::vector<ParameterSlice> trained;
  std::vector<ParameterSlice> state;
  if (!runs_kernel(step)) return trained;
  const Node& node = graph.node(step.node);
  for (size_t p = 0; p < node.parameters.size(); ++p) {
    const ParameterSpec& parameter = node.parameters[p];
    const bool recurrent = role_of(node.layer.operation) == Role::kRecurrence;
    const bool weight = recurrent ? input_direction_of(parameter) >= 0 : p == 0;
    // Of a recurrent layer divided by kind each product has its direction's weight, the steps have the rest.
    if (recurrent && step.direction >= 0 && input_direction_of(parameter) != step.direction) continue;
    if (recurrent && step.kind == StepKind::kFinish && weight) continue;
    // A divided layer's weight belongs to its compute steps, the rest to whoever finishes the sum.
    if (node.divides) {
      if (step.kind == StepKind::kFinish && weight) continue;
      if (step.kind == StepKind::kCompute && !weight && !step.bias) continue;
    }
    ParameterSlice slice;
    slice.node = step.node;
    slice.tensor = parameter.tensor;
    slice.dimensions = parameter.dimensions;
    slice.trained = parameter.trained;
    slice.divided = weight && step.kind == StepKind::kCompute && (node.divides || step.direction >= 0);
    slice.block = step.direction >= 0 ? *within_direction(node, step.direction, step.block) : step.block;
    slice.elements = !slice.divided        ? parameter.elements()
                     : step.direction >= 0 ? slice.block.inputs.size() * slice.block.outputs.size()
                                           : weight_elements(graph, step.node, step.block);
    if (recurrent && !step.units.empty()) {
      slice = rows_of_units(node, parameter, step.units);
      slice.node = step.node;
    }
    (parameter.trained ? trained : state).push_back(std::move(slice));
  }
  trained.insert(trained.end(), state.begin(), state.end());
  return trained;
}

namespace {

// Calls visit(full offset, part offset, count) for every contiguous run of the slice.
template <typename Visit>
void for_each_run(const ParameterSlice& slice, Visit visit) {
  if (!slice.units.empty()) {
    int64_t row = 1;
    for (size_t d = 1; d < slice.dimensions.size(); ++d) row *= slice.dimensions[d];
    const int64_t count = slice.units.size() * row;
    for (int64_t gate = 0; gate * slice.cells < slice.dimensions[0]; ++gate)
      visit((gate * slice.cells + slice.units.begin) * row, gate * count, count);
    return;
  }
  if (!slice.divided) return visit(int64_t{0}, int64_t{0}, slice.elements);
  const int64_t full_inputs = slice.dimensions[1];
  int64_t kernel = 1;
  for (size_t d = 2; d < slice.dimensions.size(); ++d) kernel *= slice.dimensions[d];
  // A grouped convolution's weight has the inputs of one group only: its blocks take all of them.
  const int64_t inputs = slice.elements / (slice.block.outputs.size() * kernel);
  const int64_t first_input = inputs == full_inputs ? 0 : slice.block.inputs.begin;
  for (int64_t o = 0; o < slice.block.outputs.size(); ++o)
    visit(((slice.block.outputs.begin + o) * full_inputs + first_input) * kernel, o * inputs * kernel, inputs * kernel);
}

int64_t full_elements(const ParameterSlice& slice) {
  int64_t elements = 1;
  for (const int64_t dimension : slice.dimensions) elements *= dimension;
  return elements;
}

void check_sizes(const ParameterSlice& slice, size_t full, size_t part) {
  MILLRACE_CHECK(static_cast<int64_t>(full) == full_elements(slice) && static_cast<int64_t>(part) == slice.elements,
                 "slice of {}: {} and {} elements given, {} and {} expected", slice.tensor, full, part, full_elements(slice),
                 slice.elements);
}

}  // namespace

void extract_slice(const ParameterSlice& slice, std::span<const double> full, std::span<double> part) {
  check_sizes(slice, full.size(), part.size());
  for_each_run(slice, [&](int64_t from, int64_t to, int64_t count) { std::copy_n(full.begin() + from, count, part.begin() + to); });
}

void insert_slice(const ParameterSlice& slice, std::span<const double> part, std::span<double> full) {
  check_sizes(slice, full.size(), part.size());
  for_each_run(slice, [&](int64_t to, int64_t from, int64_t count) { std::copy_n(part.begin() + from, count, full.begin() + to); });
}

std::vector<int64_t> slice_indices(const ParameterSlice& slice) {
  std::vector<int64_t> indices(to_size(slice.elements));
  for_each_run(slice, [&](int64_t full, int64_t part, int64_t count) {
    for (int64_t i = 0; i < count; ++i) item(indices, part + i) = full + i;
  });
  return indices;
}

}  // namespace millrace
