// What shape each operation makes of its inputs, and every reason why it cannot.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/counting.h"
#include "core/graph/graph.h"

namespace millrace {

namespace {

// One direction of a sliding window.
struct Axis {
  int64_t input = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;

  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  int64_t padded() const { return input + 2 * pad; }
  bool fits() const { return reach() <= padded(); }
  int64_t positions() const { return (padded() - reach()) / stride + 1; }
  // Counts a last, partial window too, as long as it starts on the input or its leading padding.
  int64_t positions_rounded_up() const {
    const int64_t positions = (padded() - reach() + stride - 1) / stride + 1;
    return (positions - 1) * stride >= input + pad ? positions - 1 : positions;
  }
};

class ShapeRules {
 public:
  ShapeRules(const Operation& operation, std::span<const Shape> inputs, std::string_view where)
      : inputs_(inputs), who_(fmt::format("{} ({})", where, millrace::name_of(operation))) {}

  const std::string& who() const { return who_; }

  Shape operator()(const Conv2d& conv) const {
    const Shape& input = only_input();
    positive("out_channels", conv.out_channels);
    positive("kernel_h", conv.kernel_h), positive("kernel_w", conv.kernel_w);
    positive("stride_h", conv.stride_h), positive("stride_w", conv.stride_w);
    positive("dilation_h", conv.dilation_h), positive("dilation_w", conv.dilation_w);
    not_negative("pad_h", conv.pad_h), not_negative("pad_w", conv.pad_w);
    positive("groups", conv.groups);
    if (input.channels % conv.groups != 0 || conv.out_channels % conv.groups != 0)
      fail(ErrorCode::kMismatch, "{}: {} groups do not divide the {} channels of its input {} and its {} output channels evenly", who_,
           conv.groups, input.channels, text_of(input), conv.out_channels);
    const Axis rows{input.height, conv.kernel_h, conv.stride_h, conv.pad_h, conv.dilation_h};
    const Axis columns{input.width, conv.kernel_w, conv.stride_w, conv.pad_w, conv.dilation_w};
    window_fits(input, rows, columns);
    return {conv.out_channels, rows.positions(), columns.positions()};
  }

  Shape operator()(const Dense& dense) const {
    const Shape& input = only_input();
    positive("out_features", dense.out_features);
    if (input.width != 1)
      fail(ErrorCode::kMismatch,
           "{}: its input {} is a feature map, but dense works on features, or on {{features, steps, 1}} step by step: "
           "put a flatten layer before it, which gives {}",
           who_, text_of(input), text_of(Shape{input.elements()}));
    return {dense.out_features, input.height, 1};
  }

  Shape operator()(const Pool2d& pool) const {
    const Shape& input = only_input();
    positive("kernel_h", pool.kernel_h), positive("kernel_w", pool.kernel_w);
    positive("stride_h", pool.stride_h), positive("stride_w", pool.stride_w);
    not_negative("pad_h", pool.pad_h), not_negative("pad_w", pool.pad_w);
    if (pool.pad_h >= pool.kernel_h || pool.pad_w >= pool.kernel_w)
      fail(ErrorCode::kMismatch, "{}: padding {}x{} reaches the kernel's {}x{}, so some windows would hold nothing but padding; reduce it",
           who_, pool.pad_h, pool.pad_w, pool.kernel_h, pool.kernel_w);
    const Axis rows{input.height, pool.kernel_h, pool.stride_h, pool.pad_h, 1};
    const Axis columns{input.width, pool.kernel_w, pool.stride_w, pool.pad_w, 1};
    window_fits(input, rows, columns);
    if (pool.ceil_mode) return {input.channels, rows.positions_rounded_up(), columns.positions_rounded_up()};
    return {input.channels, rows.positions(), columns.positions()};
  }

  Shape operator()(const GlobalPool&) const { return {only_input().channels, 1, 1}; }

  Shape operator()(const Activation& activation) const {
    if (!std::isfinite(activation.slope)) fail(ErrorCode::kMalformed, "{}: slope is {}; it must be finite", who_, activation.slope);
    return only_input();
  }

  Shape operator()(const BatchNorm& norm) const {
    if (!(norm.epsilon > 0) || !std::isfinite(norm.epsilon))
      fail(ErrorCode::kMalformed, "{}: epsilon is {}; it must be above 0", who_, norm.epsilon);
    in_range("momentum", norm.momentum, 0, 1);
    return only_input();
  }

  Shape operator()(const LocalResponseNorm& norm) const {
    positive("size", norm.size);
    if (norm.size % 2 == 0)
      fail(ErrorCode::kMalformed, "{}: size is {}; it must be odd, for the window is centred on a channel", who_, norm.size);
    if (!(norm.k > 0) || !(norm.alpha >= 0) || !std::isfinite(norm.k) || !std::isfinite(norm.alpha) || !std::isfinite(norm.beta))
      fail(ErrorCode::kMalformed, "{}: k is {}, alpha {}, beta {}; k must be above 0, alpha at least 0, all finite", who_, norm.k,
           norm.alpha, norm.beta);
    return only_input();
  }

  Shape operator()(const Dropout& dropout) const {
    if (!(dropout.probability >= 0 && dropout.probability < 1))
      fail(ErrorCode::kMalformed, "{}: probability is {}; it must be at least 0 and below 1", who_, dropout.probability);
    return only_input();
  }

  Shape operator()(const Add&) const {
    several_inputs();
    for (const Shape& input : inputs_)
      if (input != inputs_[0])
        fail(ErrorCode::kMismatch,
             "{}: its inputs are {}, but add needs equal shapes; a shortcut past a stride or a change of channels needs "
             "a 1x1 convolution of that stride and those channels",
             who_, all_inputs());
    return inputs_[0];
  }

  Shape operator()(const Concat&) const {
    several_inputs();
    Shape output = inputs_[0];
    for (const Shape& input : inputs_.subspan(1)) {
      if (input.height != output.height || input.width != output.width)
        fail(ErrorCode::kMismatch,
             "{}: its inputs are {}, but concat joins channels of maps with equal height and width; "
             "give the branches equal strides and enough padding",
             who_, all_inputs());
      output.channels += input.channels;
    }
    return output;
  }

  Shape operator()(const Flatten&) const { return {only_input().elements(), 1, 1}; }
  Shape operator()(const SoftmaxCrossEntropy&) const { return only_input(); }

  Shape operator()(const Recurrent& cell) const {
    const Shape& input = sequence();
    positive("hidden", cell.hidden);
    not_negative("projection", cell.projection);
    not_negative("truncation", cell.truncation);
    if (cell.projection > 0 && cell.cell != CellKind::kLstm)
      fail(ErrorCode::kMalformed, "{}: projection is {}, but only lstm has one", who_, cell.projection);
    if (cell.projection >= cell.hidden)
      fail(ErrorCode::kMalformed, "{}: projection is {}; it must be below the {} hidden units", who_, cell.projection, cell.hidden);
    if (cell.reset_after && cell.cell != CellKind::kGru)
      fail(ErrorCode::kMalformed, "{}: reset_after is set, but only gru has a reset gate", who_);
    if (cell.stateful && cell.bidirectional)
      fail(ErrorCode::kMalformed, "{}: stateful and bidirectional exclude each other: the second direction starts at the end", who_);
    const int64_t features = cell.projection > 0 ? cell.projection : cell.hidden;
    return {features * (cell.bidirectional ? 2 : 1), input.height, 1};
  }

  Shape operator()(const Embedding& embedding) const {
    const Shape& input = sequence();
    positive("vocabulary", embedding.vocabulary), positive("dimension", embedding.dimension);
    constexpr int64_t kMostTokens = int64_t{1} << 24;
    if (embedding.vocabulary > kMostTokens)
      fail(ErrorCode::kMalformed, "{}: vocabulary is {}; token ids travel as fp32 numbers, which count to {}", who_, embedding.vocabulary,
           kMostTokens);
    if (input.channels != 1) fail(ErrorCode::kMismatch, "{}: its input {} must be token ids, 1 x steps x 1", who_, text_of(input));
    return {embedding.dimension, input.height, 1};
  }

  Shape operator()(const ToSequence&) const {
    const Shape& input = only_input();
    return {input.channels * input.width, input.height, 1};
  }
  Shape operator()(const LastStep&) const { return {sequence().channels, 1, 1}; }

  Shape operator()(const CtcLoss& ctc) const {
    const Shape& input = sequence();
    if (ctc.blank < 0 || ctc.blank >= input.channels)
      fail(ErrorCode::kMismatch, "{}: blank is {}, but its input {} has classes 0 to {}", who_, ctc.blank, text_of(input),
           input.channels - 1);
    return input;
  }

 private:
  const Shape& only_input() const {
    if (inputs_.size() != 1) fail(ErrorCode::kMalformed, "{}: {} inputs, but it takes exactly one", who_, inputs_.size());
    return inputs_[0];
  }
  void several_inputs() const {
    if (inputs_.size() < 2)
      fail(ErrorCode::kMalformed, "{}: {} inputs, but it takes two or more; remove the layer or name the others", who_, inputs_.size());
  }
  const Shape& sequence() const {
    const Shape& input = only_input();
    if (input.width != 1)
      fail(ErrorCode::kMismatch,
           "{}: its input {} is a feature map, but it works on a sequence {{features, steps, 1}}: "
           "put a to_sequence layer before it, which gives {}x{}x1",
           who_, text_of(input), saturating_product({input.channels, input.width}), input.height);
    return input;
  }
  std::string all_inputs() const {
    std::vector<std::string> texts;
    for (const Shape& input : inputs_) texts.push_back(text_of(input));
    return fmt::format("{}", fmt::join(texts, " and "));
  }

  void positive(std::string_view field, int64_t value) const {
    if (value < 1 || value > kMostDimension)
      fail(ErrorCode::kMalformed, "{}: {} is {}; it must be from 1 to {}", who_, field, value, kMostDimension);
  }
  void not_negative(std::string_view field, int64_t value) const {
    if (value < 0 || value > kMostDimension)
      fail(ErrorCode::kMalformed, "{}: {} is {}; it must be from 0 to {}", who_, field, value, kMostDimension);
  }
  void in_range(std::string_view field, double value, double least, double most) const {
    if (!(value >= least && value <= most))
      fail(ErrorCode::kMalformed, "{}: {} is {}; it must be from {} to {}", who_, field, value, least, most);
  }
  void window_fits(const Shape& input, const Axis& rows, const Axis& columns) const {
    if (rows.fits() && columns.fits()) return;
    fail(ErrorCode::kMismatch,
         "{}: its {}x{} kernel reaches over {}x{} and is larger than the input {}, padded to {}x{}; the maps have shrunk too far: "
         "use more padding, fewer strides or poolings before it, or a larger network input",
         who_, rows.kernel, columns.kernel, rows.reach(), columns.reach(), text_of(input), rows.padded(), columns.padded());
  }

  std::span<const Shape> inputs_;
  std::string who_;  // the layer and its operation
};

void check_size(std::string_view who, std::string_view what, const Shape& shape) {
  const auto sensible = [](int64_t dimension) { return dimension >= 1 && dimension <= kMostDimension; };
  if (!sensible(shape.channels) || !sensible(shape.height) || !sensible(shape.width))
    fail(ErrorCode::kMismatch, "{}: its {} is {}; channels, height and width must be from 1 to {}", who, what, text_of(shape),
         kMostDimension);
  if (saturating_product({shape.channels, shape.height, shape.width}) > kMostElements)
    fail(ErrorCode::kMismatch, "{}: its {} {} has more than {} elements per sample; no device holds it", who, what, text_of(shape),
         kMostElements);
}

}  // namespace

Shape infer_shape(const Operation& operation, std::span<const Shape> inputs, std::string_view where) {
  const ShapeRules rules(operation, inputs, where);
  for (const Shape& input : inputs) check_size(rules.who(), "input", input);
  const Shape output = std::visit(rules, operation);
  check_size(rules.who(), "output", output);
  for (const ParameterSpec& parameter : parameters_of(operation, inputs))
    if (parameter.elements() > kMostElements)
      fail(ErrorCode::kMismatch, "{}: its {} of {} has more than {} elements with input {} and output {}; no device holds it", rules.who(),
           parameter.tensor, fmt::join(parameter.dimensions, "x"), kMostElements, text_of(inputs[0]), text_of(output));
  if (work_of(operation, inputs, output).forward_macs > kMostMacs)
    fail(ErrorCode::kMismatch, "{}: more than {} multiply-accumulates per sample from input {} to output {}; check its fields", rules.who(),
         kMostMacs, text_of(inputs[0]), text_of(output));
  return output;
}

}  // namespace millrace
