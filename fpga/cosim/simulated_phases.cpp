#include "fpga/cosim/simulated_phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/square_kernel.h"

namespace millrace {

namespace {

bool is_dense(const ConvolutionShape& s) { return s.height == 1 && s.width == 1 && s.kernel_h == 1 && s.kernel_w == 1; }

std::string text_of(const ConvolutionShape& s) {
  return fmt::format("{} -> {} channels, {} x {}, kernel {} x {}, stride {} x {}, padding {} x {}", s.inputs, s.outputs, s.height, s.width,
                     s.kernel_h, s.kernel_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w);
}

// The phase's shape as `engine` computes it; nothing where it cannot.
std::optional<ConvolutionShape> shape_on(const PlannedEngine& engine, const ConvolutionShape& s) {
  const ConvolutionShape& whole = engine.shape;
  ConvolutionShape shape = s;
  const bool flattens = is_dense(s) && whole.kernel_h == whole.height && whole.kernel_w == whole.width && whole.pad_h == 0;
  if (flattens) {
    const int64_t plane = whole.height * whole.width;
    shape = whole;
    shape.inputs = divided_up(s.inputs, plane);
    shape.outputs = s.outputs;
  }
  // A part of a layer whose channels come in groups computes them as one; one that is dilated or not square is a larger one
  // with zeros.
  if (whole.groups == 1) shape.groups = 1;
  if (!flattens) {
    const std::optional<ConvolutionShape> square = with_square_kernel(shape);
    if (!square) return std::nullopt;
    shape = *square;
  }
  ConvolutionShape of_layer = whole;
  of_layer.inputs = shape.inputs;
  of_layer.outputs = shape.outputs;
  if (shape != of_layer || shape.inputs > whole.inputs || shape.outputs > whole.outputs) return std::nullopt;
  return shape;
}

// Kernels have another form on the engine.
bool reshapes(const PhaseShape& phase, const PhaseShape& on_engine) {
  const ConvolutionShape &own = phase.convolution, &other = on_engine.convolution;
  return own.groups != other.groups || (!is_dense(own) && (own.kernel_h != other.kernel_h || own.kernel_w != other.kernel_w));
}

// Rows of `from` elements each, as rows of `to`: longer ones end with zeros.
template <typename Element>
std::vector<Element> with_rows_of(std::span<const Element> elements, size_t from, size_t to) {
  std::vector<Element> rows(elements.size() / from * to);
  for (size_t row = 0; row < elements.size() / from; ++row)
    std::copy_n(elements.begin() + static_cast<std::ptrdiff_t>(row * from), std::min(from, to),
                rows.begin() + static_cast<std::ptrdiff_t>(row * to));
  return rows;
}

// visit(weight, its place) for every weight of `s` on an engine that computes it as `e`: of one group, or with a square kernel.
template <typename Element, typename Visit>
void for_each_weight(const ConvolutionShape& s, const ConvolutionShape& e, std::span<Element> weights, Visit visit) {
  const int64_t inputs = s.inputs / s.groups, outputs = s.outputs / s.groups, held = e.inputs / e.groups;
  size_t at = 0;
  for (int64_t output = 0; output < s.outputs; ++output)
    for (int64_t input = 0; input < inputs; ++input)
      for (int64_t row = 0; row < s.kernel_h; ++row)
        for (int64_t column = 0; column < s.kernel_w; ++column, ++at) {
          const int64_t channel = e.groups == s.groups ? input : output / outputs * inputs + input;
          visit(weights[at], to_size((output * held + channel) * e.kernel_h * e.kernel_w + square_place(s, e, row, column)));
        }
}
// Zero where the layer has no weight.
template <typename Element>
std::vector<Element> on_shape(const ConvolutionShape& s, const ConvolutionShape& e, std::span<const Element> weights) {
  std::vector<Element> all(e.weight_elements());
  for_each_weight(s, e, weights, [&all](Element element, size_t place) { all[place] = element; });
  return all;
}

template <typename Element>
void require_same(const char* what, const PhaseShape& phase, std::span<const Element> expected, std::span<const Element> found) {
  const auto [wanted, got] = std::ranges::mismatch(expected, found);
  if (wanted == expected.end() && got == found.end()) return;
  fail(ErrorCode::kMismatch, "{} of the RTL differs from the functional model at element {}: {} instead of {} ({}, {} samples)", what,
       wanted - expected.begin(), got == found.end() ? 0 : *got, wanted == expected.end() ? 0 : *wanted, text_of(phase.convolution),
       phase.samples);
}

bool can_do(const ConvolutionShape& s) {
  const std::optional<ConvolutionShape> square = with_square_kernel(s);
  return square && square->pad_h <= square->kernel_h / 2;
}

[[noreturn]] void refuse(const ConvolutionShape& s) {
  fail(ErrorCode::kUnavailable, "the engine's RTL cannot do this convolution: {}, {} groups; train on emulated-fpga instead", text_of(s),
       s.groups);
}

}  // namespace

PlannedEngine small_engine(const ConvolutionShape& of, int64_t lanes) {
  if (!can_do(of)) refuse(of);
  const ConvolutionShape shape = *with_square_kernel(of);
  // Lanes divide the channels of a group.
  const int64_t input_lanes = shape.groups == 1 ? lanes : std::gcd(lanes, shape.inputs / shape.groups);
  const int64_t output_lanes = shape.groups == 1 ? lanes : std::gcd(lanes, shape.outputs / shape.groups);
  const EngineParallelism engine{.kernel = shape.kernel_h,
                                 .stride = shape.stride_h,
                                 .input_lanes = input_lanes,
                                 .output_lanes = output_lanes,
                                 .kernels_per_word = kernels_per_word(input_lanes * output_lanes, shape.out_width()),
                                 .channel_groups = shape.groups};
  return {.layer = "", .hardware = {engine, engine_memories(engine, shape), 0}, .shape = shape, .blocks = {}};
}

std::vector<PlannedEngine> planned_engines(const DeviceDesign& design) {
  std::vector<PlannedEngine> engines;
  for (const ShardDesign& shard : design.shards)
    engines.push_back({.layer = shard.layer,
                       .hardware = {shard.engine, shard.memories, shard.streams ? shard.streams->beat_bits : 0},
                       .shape = shard.shape,
                       .blocks = {shard.error_first_block_rows(), shard.error_block_rows()}});
  return engines;
}

// An engine, opened when it is first needed.
struct SimulatedPhases::Served {
  PlannedEngine planned;
  std::unique_ptr<SimulatedEngine> engine;
};

SimulatedPhases::SimulatedPhases(SimulatedPhasesOptions options) : options_(std::move(options)) {
  for (const PlannedEngine& planned : options_.planned)
    served_.push_back(
        std::make_unique<Served>(Served{planned, std::make_unique<SimulatedEngine>(planned.hardware, planned.blocks, options_.build)}));
}
SimulatedPhases::~SimulatedPhases() = default;

SimulatedPhases::Served& SimulatedPhases::engine_for(const ConvolutionShape& shape) {
  // The smallest that can.
  Served* best = nullptr;
  for (const auto& served : served_)
    if (shape_on(served->planned, shape) &&
        (best == nullptr || served->planned.shape.weight_elements() < best->planned.shape.weight_elements()))
      best = served.get();
  if (best != nullptr) return *best;
  const bool reshaped = can_do(shape) && *with_square_kernel(shape) != shape;
  if (!can_do(shape) || (reshaped && options_.planned.empty())) refuse(shape);
  if (!options_.planned.empty()) fail(ErrorCode::kUnavailable, "no engine of the plan's device does this convolution: {}", text_of(shape));
  const PlannedEngine planned = small_engine(shape, options_.lanes);
  served_.push_back(
      std::make_unique<Served>(Served{planned, std::make_unique<SimulatedEngine>(planned.hardware, planned.blocks, options_.build)}));
  return *served_.back();
}

std::vector<int16_t> SimulatedPhases::forward(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters) {
  Served& served = engine_for(phase.convolution);
  const PhaseShape on_engine{*shape_on(served.planned, phase.convolution), phase.samples, phase.shift};
  const size_t from = phase.convolution.input_elements(), to = on_engine.convolution.input_elements();
  const std::vector<int16_t> expected = forward_phase(phase, data, counters);
  std::vector<int16_t> found;
  if (reshapes(phase, on_engine)) {
    ForwardData one = data;
    const std::vector<int16_t> weight = on_shape(phase.convolution, on_engine.convolution, data.weight);
    one.weight = weight;
    found = served.engine->forward(on_engine, one);
  } else if (from == to) {
    found = served.engine->forward(on_engine, data);
  } else {
    ForwardData wider = data;
    const std::vector<int16_t> input = with_rows_of(data.input, from, to);
    const std::vector<int16_t> weight = with_rows_of(data.weight, from, to);
    wider.input = input;
    wider.weight = weight;
    found = served.engine->forward(on_engine, wider);
  }
  require_same<int16_t>("FP", phase, expected, found);
  return found;
}

std::vector<int16_t> SimulatedPhases::error_back(const PhaseShape& phase, std::span<const int16_t> output_error,
                                                 std::span<const int16_t> weight, ArithmeticCounters& counters) {
  Served& served = engine_for(phase.convolution);
  const PhaseShape on_engine{*shape_on(served.planned, phase.convolution), phase.samples, phase.shift};
  const size_t from = phase.convolution.input_elements(), to = on_engine.convolution.input_elements();
  std::vector<int16_t> found;
  if (reshapes(phase, on_engine)) {
    found = served.engine->error_back(on_engine, output_error, on_shape(phase.convolution, on_engine.convolution, weight));
  } else if (from == to) {
    found = served.engine->error_back(on_engine, output_error, weight);
  } else {
    const std::vector<int16_t> wide = served.engine->error_back(on_engine, output_error, with_rows_of(weight, from, to));
    found = with_rows_of<int16_t>(wide, to, from);
  }
  require_same<int16_t>("EB", phase, error_back_phase(phase, output_error, weight, counters), found);
  return found;
}

void SimulatedPhases::add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                                   std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters) {
  Served& served = engine_for(phase.convolution);
  const PhaseShape on_engine{*shape_on(served.planned, phase.convolution), phase.samples, phase.shift};
  const size_t from = phase.convolution.input_elements(), to = on_engine.convolution.input_elements();
  std::vector<int32_t> expected(weight.begin(), weight.end());
  std::vector<int32_t> expected_bias(bias.begin(), bias.end());
  gradient_phase(phase, input, output_error, expected, expected_bias, counters);
  if (reshapes(phase, on_engine)) {
    std::vector<int32_t> one = on_shape<int32_t>(phase.convolution, on_engine.convolution, weight);
    served.engine->add_gradient(on_engine, input, output_error, one, bias);
    for_each_weight(phase.convolution, on_engine.convolution, weight, [&one](int32_t& sum, size_t place) { sum = one[place]; });
  } else if (from == to) {
    served.engine->add_gradient(on_engine, input, output_error, weight, bias);
  } else {
    std::vector<int32_t> wide = with_rows_of<int32_t>(weight, from, to);
    served.engine->add_gradient(on_engine, with_rows_of(input, from, to), output_error, wide, bias);
    std::ranges::copy(with_rows_of<int32_t>(wide, to, from), weight.begin());
  }
  require_same<int32_t>("PG", phase, expected, weight);
  require_same<int32_t>("PG's bias", phase, expected_bias, bias);
}

SimulatedCycles SimulatedPhases::cycles() const {
  SimulatedCycles all;
  for (const auto& served : served_) {
    all.forward += served->engine->cycles().forward;
    all.error_back += served->engine->cycles().error_back;
    all.gradient += served->engine->cycles().gradient;
  }
  return all;
}

}  // namespace millrace
