// Random operations for testing devices: shapes, options, fused activations, accumulate flags and the data to go with
// them. The reference device's gradient checks and the comparisons of other devices with it use the same cases.
//
//   for (const OperationCase& c : operation_cases({.per_kind = 40, .seed = 7})) {
//     SCOPED_TRACE(c.name);
//     const CaseData data = data_of(c);
//     const CaseResult mine = run_case(*device, c, data);      // tests/core/operation_runner.h
//   }
//
// A pure function of the limits. All values are exact in fp32, so that fp32 and fp64 devices see the same numbers.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/random.h"
#include "core/device/device.h"
#include "core/device/recurrent_shape.h"

namespace millrace::testing {

struct CaseLimits {
  int64_t per_kind = 20;  // cases of each operation
  int64_t most_channels = 5;
  int64_t most_extent = 6;  // rows and columns
  int64_t most_batch = 3;
  uint64_t seed = 1;
  bool hard_gates = true;  // cells with hard sigmoids too
};

struct OperationCase {
  std::string name;
  KernelSpec spec;
  bool training = true;
  std::vector<uint8_t> adds;   // per input: E adds to what is there
  bool short_samples = false;  // samples end before the last row
  uint64_t seed = 0;           // of the data
};

// Draws one number after the other.
class CaseDraw {
 public:
  CaseDraw(uint64_t seed, std::string_view purpose) : draw_(seed, stream_id("operation case", purpose)) {}

  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(draw_.below(next_++, static_cast<uint64_t>(most - least + 1)));
  }
  bool one_in(int64_t count) { return between(1, count) == 1; }
  double exact_in_float(double mean = 0, double deviation = 1) {
    return static_cast<double>(static_cast<float>(mean + deviation * draw_.normal(next_++)));
  }
  std::vector<double> values(int64_t count, double mean = 0, double deviation = 1) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& value : values) value = exact_in_float(mean, deviation);
    return values;
  }

 private:
  Philox draw_;
  uint64_t next_ = 0;
};

namespace detail {

inline Activation random_activation(CaseDraw& draw) {
  return {.kind = kActivationKinds[static_cast<size_t>(draw.between(0, std::ssize(kActivationKinds) - 1))],
          .slope = draw.one_in(2) ? 0.01 : 0.25};
}

// The operation and the shapes of its inputs; compute kernels may add to their output and have a bias.
struct Drawn {
  Operation operation;
  std::vector<Shape> inputs;
  bool bias = false;
  bool finish = false;
};

inline Shape random_shape(CaseDraw& draw, const CaseLimits& limits) {
  return {draw.between(1, limits.most_channels), draw.between(1, limits.most_extent), draw.between(1, limits.most_extent)};
}

inline Drawn random_conv2d(CaseDraw& draw, const CaseLimits& limits) {
  Conv2d conv{.kernel_h = draw.between(1, 3),
              .kernel_w = draw.between(1, 3),
              .stride_h = draw.between(1, 2),
              .stride_w = draw.between(1, 2),
              .dilation_h = draw.between(1, 2),
              .dilation_w = draw.between(1, 2),
              .groups = draw.one_in(3) ? draw.between(2, 3) : 1,
              .bias = !draw.one_in(3)};
  const int64_t per_group = std::max<int64_t>(limits.most_channels / conv.groups, 1);
  conv.out_channels = conv.groups * draw.between(1, per_group);
  conv.pad_h = draw.between(0, conv.kernel_h);
  conv.pad_w = draw.between(0, conv.kernel_w);
  const auto extent = [&](int64_t kernel, int64_t dilation, int64_t pad) {
    const int64_t least = std::max<int64_t>(dilation * (kernel - 1) + 1 - 2 * pad, 1);
    return draw.between(least, std::max(least, limits.most_extent));
  };
  const Shape input{conv.groups * draw.between(1, per_group), extent(conv.kernel_h, conv.dilation_h, conv.pad_h),
                    extent(conv.kernel_w, conv.dilation_w, conv.pad_w)};
  return {conv, {input}, conv.bias};
}

inline Drawn random_dense(CaseDraw& draw, const CaseLimits& limits) {
  const Dense dense{.out_features = draw.between(1, 2 * limits.most_channels), .bias = !draw.one_in(3)};
  const int64_t steps = draw.one_in(3) ? draw.between(2, limits.most_extent) : 1;
  return {dense, {{draw.between(1, 4 * limits.most_channels), steps, 1}}, dense.bias};
}

inline Drawn random_pool2d(CaseDraw& draw, const CaseLimits& limits) {
  Pool2d pool{.kind = draw.one_in(2) ? PoolKind::kMax : PoolKind::kAverage,
              .kernel_h = draw.between(1, 3),
              .kernel_w = draw.between(1, 3),
              .stride_h = draw.between(1, 3),
              .stride_w = draw.between(1, 3),
              .ceil_mode = draw.one_in(2),
              .count_include_pad = draw.one_in(2)};
  pool.pad_h = draw.between(0, pool.kernel_h / 2);
  pool.pad_w = draw.between(0, pool.kernel_w / 2);
  return {pool,
          {{draw.between(1, limits.most_channels), draw.between(pool.kernel_h, std::max(pool.kernel_h, limits.most_extent)),
            draw.between(pool.kernel_w, std::max(pool.kernel_w, limits.most_extent))}}};
}

inline Drawn random_add(CaseDraw& draw, const CaseLimits& limits) {
  return {Add{}, std::vector<Shape>(static_cast<size_t>(draw.between(2, 4)), random_shape(draw, limits))};
}

inline Drawn random_concat(CaseDraw& draw, const CaseLimits& limits) {
  std::vector<Shape> inputs(static_cast<size_t>(draw.between(2, 4)), random_shape(draw, limits));
  for (Shape& input : inputs) input.channels = draw.between(1, limits.most_channels);
  return {Concat{}, inputs};
}

inline Recurrent random_cell(CaseDraw& draw, const CaseLimits& limits) {
  Recurrent cell{.cell = static_cast<CellKind>(draw.between(0, 3)), .hidden = draw.between(1, limits.most_channels)};
  if (cell.cell == CellKind::kLstm && cell.hidden > 1 && draw.one_in(3)) cell.projection = draw.between(1, cell.hidden - 1);
  cell.reset_after = cell.cell == CellKind::kGru && draw.one_in(2);
  cell.bidirectional = draw.one_in(3);
  cell.stateful = !cell.bidirectional && draw.one_in(3);
  if (limits.hard_gates && gates_of(cell.cell) > 1 && draw.one_in(3)) {
    cell.gate_activation = GateActivation::kHardSigmoid;
    cell.gate_slope = draw.one_in(2) ? 0.2 : 1.0 / 6;
  }
  return cell;
}

// Whole, or only what follows the input's product.
inline Drawn random_recurrent(CaseDraw& draw, const CaseLimits& limits) {
  const Recurrent cell = random_cell(draw, limits);
  const bool finish = draw.one_in(4);
  const int64_t gates = cell.cell == CellKind::kLstm ? 4 : cell.cell == CellKind::kGru ? 3 : 1;
  const int64_t sums = gates * cell.hidden * (cell.bidirectional ? 2 : 1);
  return {cell, {{finish ? sums : draw.between(1, limits.most_channels), draw.between(1, limits.most_extent), 1}}, false, finish};
}

// What follows the raw sum of a divided layer.
inline Drawn random_finish(CaseDraw& draw, const CaseLimits& limits) {
  const Shape sum = random_shape(draw, limits);
  return {Conv2d{.out_channels = sum.channels}, {sum}, true, true};
}

using Draw = Drawn (*)(CaseDraw&, const CaseLimits&);

inline const std::vector<Draw>& kinds() {
  static const std::vector<Draw> kinds = {
      random_conv2d,
      random_dense,
      random_finish,
      random_pool2d,
      random_add,
      random_concat,
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{GlobalPool{draw.one_in(2) ? PoolKind::kMax : PoolKind::kAverage}, {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{random_activation(draw), {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        BatchNorm norm{.epsilon = draw.one_in(2) ? 1e-5 : 0.1, .momentum = draw.one_in(2) ? 0.1 : 0.5};
        if (draw.one_in(3)) norm.statistics = Statistics::kRunning;
        return Drawn{norm, {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{
            LocalResponseNorm{.size = 2 * draw.between(0, 2) + 1, .alpha = draw.one_in(2) ? 1e-4 : 0.5, .k = draw.one_in(2) ? 1.0 : 2.0},
            {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{Dropout{static_cast<double>(draw.between(0, 9)) / 10}, {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{Flatten{}, {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{ToSequence{}, {random_shape(draw, limits)}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{LastStep{}, {{draw.between(1, limits.most_channels), draw.between(1, limits.most_extent), 1}}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{SoftmaxCrossEntropy{},
                     {{draw.between(2, 2 * limits.most_channels), draw.one_in(2) ? 1 : draw.between(1, limits.most_extent), 1}}};
      },
      random_recurrent,
      [](CaseDraw& draw, const CaseLimits& limits) {
        return Drawn{Embedding{.vocabulary = draw.between(1, 6), .dimension = draw.between(1, limits.most_channels)},
                     {{1, draw.between(1, limits.most_extent), 1}}};
      },
      [](CaseDraw& draw, const CaseLimits& limits) {
        const int64_t classes = draw.between(2, limits.most_channels + 2);
        return Drawn{CtcLoss{.blank = draw.between(0, classes - 1)}, {{classes, draw.between(1, 2 * limits.most_extent), 1}}};
      },
  };
  return kinds;
}

// Operations that leave out what lies behind a sample's last row.
inline bool knows_lengths(const Operation& operation) {
  return std::holds_alternative<Recurrent>(operation) || std::holds_alternative<Embedding>(operation) ||
         std::holds_alternative<BatchNorm>(operation) || std::holds_alternative<LastStep>(operation) ||
         std::holds_alternative<CtcLoss>(operation);
}

inline OperationCase finish_case(CaseDraw& draw, const CaseLimits& limits, Drawn drawn) {
  OperationCase c;
  KernelSpec& spec = c.spec;
  spec.operation = drawn.operation;
  spec.inputs = drawn.inputs;
  spec.output = infer_shape(drawn.operation, drawn.inputs, "case");
  spec.micro_batch = draw.between(1, limits.most_batch);
  spec.bias = drawn.bias;
  const bool loss = std::holds_alternative<SoftmaxCrossEntropy>(spec.operation) || std::holds_alternative<CtcLoss>(spec.operation);
  spec.finish = drawn.finish;
  const bool computes = !spec.finish && (std::holds_alternative<Conv2d>(spec.operation) || std::holds_alternative<Dense>(spec.operation));
  spec.adds_to_output = computes && draw.one_in(3);
  if (!loss && draw.one_in(3)) spec.activation = random_activation(draw);
  // Dropout scales what it keeps, far enough to saturate the others: fp32 then has no derivative left to compare.
  if (std::holds_alternative<Dropout>(spec.operation) && spec.activation) spec.activation->kind = ActivationKind::kLeakyRelu;
  if (std::holds_alternative<BatchNorm>(spec.operation)) {
    spec.trained = !draw.one_in(4);  // frozen ones use the running statistics
    // Two or three values per channel lie too close together too often for a comparison to be well conditioned.
    if (spec.trained && spec.micro_batch * spec.output.plane() < 4) spec.micro_batch = 4;
  }
  for (size_t i = 0; i < spec.inputs.size(); ++i) c.adds.push_back(draw.one_in(3) ? 1 : 0);
  if (std::holds_alternative<Recurrent>(spec.operation)) spec.micro_batches = draw.between(1, 3);
  return c;
}

}  // namespace detail

// Operations come in kinds 0, 1, ...: conv2d, dense, and so on.
inline size_t operation_kinds() { return detail::kinds().size(); }

inline std::vector<OperationCase> operation_cases_of(size_t kind, const CaseLimits& limits) {
  std::vector<OperationCase> cases;
  CaseDraw draw(limits.seed, std::to_string(kind));
  for (int64_t i = 0; i < limits.per_kind; ++i) {
    OperationCase c = detail::finish_case(draw, limits, detail::kinds()[kind](draw, limits));
    const bool recurrent = std::holds_alternative<Recurrent>(c.spec.operation);
    const std::string word =
        fmt::format("{}{}", recurrent || !c.spec.finish ? name_of(c.spec.operation) : "", c.spec.finish ? "finish" : "");
    c.spec.layer = fmt::format("{}{}", word, i);
    c.seed = limits.seed + static_cast<uint64_t>(i);
    c.short_samples = detail::knows_lengths(c.spec.operation) && CaseDraw(c.seed, "short samples").one_in(2);
    c.name = fmt::format("{} #{}: {} x {} -> {}{}{}", word, i, c.spec.micro_batch, text_of(c.spec.inputs[0]), text_of(c.spec.output),
                         c.spec.adds_to_output ? ", adds" : "", c.spec.activation ? ", fused activation" : "");
    if (c.short_samples) c.name += ", short samples";
    cases.push_back(std::move(c));
  }
  return cases;
}

inline std::vector<OperationCase> operation_cases(const CaseLimits& limits) {
  std::vector<OperationCase> cases;
  for (size_t kind = 0; kind < operation_kinds(); ++kind)
    for (OperationCase& c : operation_cases_of(kind, limits)) cases.push_back(std::move(c));
  return cases;
}

// What a case works on, canonical. `before` is what an accumulating result adds to.
struct CaseData {
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<double>> parameters;
  std::vector<std::vector<double>> state;
  std::vector<double> output_before;
  std::vector<double> output_error;
  std::vector<std::vector<double>> input_errors_before;
  std::vector<std::vector<double>> gradients_before;
  std::vector<int64_t> sample_ids;
  std::vector<int32_t> labels;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> fresh;
};

namespace detail {

// At least four rows of all samples together for batch norm (see finish_case); a sample may be empty, the first is not.
inline void draw_lengths(CaseDraw& draw, const OperationCase& c, CaseData& data) {
  const int64_t rows = c.spec.inputs[0].height;
  const bool norm = std::holds_alternative<BatchNorm>(c.spec.operation);
  for (int64_t n = 0; n < c.spec.micro_batch; ++n) {
    const int64_t least = norm ? std::min(rows, (4 + c.spec.micro_batch - 1) / c.spec.micro_batch) : n == 0 ? 1 : 0;
    data.lengths.push_back(static_cast<int32_t>(draw.between(least, rows)));
  }
}

// Labels of the CTC loss: as many as the sample's steps can say, none for some samples.
inline void draw_ctc_labels(CaseDraw& draw, const OperationCase& c, CaseData& data) {
  const int64_t blank = std::get<CtcLoss>(c.spec.operation).blank;
  const int64_t most = c.spec.inputs[0].height;
  for (int64_t n = 0; n < c.spec.micro_batch; ++n) {
    int64_t left = data.lengths.empty() ? most : data.lengths[static_cast<size_t>(n)];
    std::vector<int32_t> row;
    int64_t wanted = draw.between(n == 0 ? 1 : 0, most);
    while (wanted-- > 0) {
      int64_t label = draw.between(0, c.spec.output.channels - 2);
      if (label >= blank) ++label;
      left -= !row.empty() && row.back() == label ? 2 : 1;
      if (left < 0) break;
      row.push_back(static_cast<int32_t>(label));
    }
    row.resize(static_cast<size_t>(most), kNoLabel);
    data.labels.insert(data.labels.end(), row.begin(), row.end());
  }
}

}  // namespace detail

inline CaseData data_of(const OperationCase& c) {
  CaseDraw draw(c.seed, c.spec.layer);
  CaseData data;
  const int64_t samples = c.spec.micro_batch;
  for (const Shape& input : c.spec.inputs) {
    data.inputs.push_back(draw.values(samples * input.elements()));
    data.input_errors_before.push_back(draw.values(samples * input.elements()));
  }
  for (const ParameterSpec& parameter : parameters_of(c.spec.operation, c.spec.inputs)) {
    const bool recurrent = std::holds_alternative<Recurrent>(c.spec.operation);
    if (c.spec.finish && (recurrent ? parameter.tensor.starts_with("weight_ih") : parameter.tensor != "bias")) continue;
    const int64_t fan_in = parameter.elements() / parameter.dimensions[0];  // keeps outputs near 1, where activations are not saturated
    std::vector<double> values = draw.values(parameter.elements(), 0, 1 / std::sqrt(static_cast<double>(fan_in)));
    if (parameter.trained) {
      data.gradients_before.push_back(draw.values(parameter.elements()));
      data.parameters.push_back(std::move(values));
    } else {
      if (parameter.tensor == "running_var")
        for (double& value : values) value = static_cast<double>(static_cast<float>(0.5 + std::abs(value)));
      data.state.push_back(std::move(values));
    }
  }
  if (const auto* norm = std::get_if<BatchNorm>(&c.spec.operation); norm != nullptr && norm->statistics == Statistics::kRunning)
    if (c.spec.trained) data.state.push_back(draw.values(5 * c.spec.output.channels));  // gathered so far
  if (const auto* cell = std::get_if<Recurrent>(&c.spec.operation))
    for (const Shape& shape : RecurrentShape(c.spec, *cell).state_shapes()) data.state.push_back(draw.values(shape.elements(), 0, 0.5));
  data.output_before = draw.values(samples * c.spec.output.elements());
  data.output_error = draw.values(samples * c.spec.output.elements());
  for (int64_t sample = 0; sample < samples; ++sample) data.sample_ids.push_back(draw.between(0, 1'000'000));
  if (std::holds_alternative<SoftmaxCrossEntropy>(c.spec.operation))
    for (int64_t i = 0; i < samples * c.spec.output.plane(); ++i)
      data.labels.push_back(static_cast<int32_t>(draw.between(0, c.spec.output.channels - 1)));
  if (c.short_samples) detail::draw_lengths(draw, c, data);
  if (std::holds_alternative<CtcLoss>(c.spec.operation)) detail::draw_ctc_labels(draw, c, data);
  if (const auto* embedding = std::get_if<Embedding>(&c.spec.operation))
    for (double& token : data.inputs[0]) token = static_cast<double>(draw.between(0, embedding->vocabulary - 1));
  const auto* cell = std::get_if<Recurrent>(&c.spec.operation);
  if (cell != nullptr && cell->stateful && draw.one_in(2))
    for (int64_t n = 0; n < samples; ++n) data.fresh.push_back(draw.one_in(2) ? 1 : 0);
  return data;
}

// Borrows from the data.
inline MicroBatch micro_batch_of(const OperationCase& c, const CaseData& data) {
  return {.index = 3,
          .epoch = 2,
          .training = c.training,
          .seed = c.seed,
          .sample_ids = data.sample_ids,
          .labels = data.labels,
          .error_scale = 0.25,
          .lengths = data.lengths,
          .fresh = data.fresh,
          .label_smoothing = std::holds_alternative<SoftmaxCrossEntropy>(c.spec.operation) && c.seed % 2 == 1 ? 0.1 : 0};
}

}  // namespace millrace::testing
