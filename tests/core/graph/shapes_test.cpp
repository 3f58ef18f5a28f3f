// Every operation's output shape, and every reason to refuse one: with the layer, both shapes and a likely cause.
#include <iterator>
#include <limits>

#include "core/base/random.h"
#include "core/graph/graph.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

// The definition, by counting windows that fit.
int64_t positions_by_counting(int64_t input, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
  int64_t positions = 0;
  while (positions * stride + dilation * (kernel - 1) < input + 2 * pad) ++positions;
  return positions;
}

// Windows that begin on the input or its leading padding, up to the first that reaches past the end.
int64_t rounded_up_by_counting(int64_t input, int64_t kernel, int64_t stride, int64_t pad) {
  int64_t positions = 0;
  for (int64_t start = 0; start < input + pad; start += stride) {
    ++positions;
    if (start + kernel >= input + 2 * pad) break;
  }
  return positions;
}

TEST(ConvShape, MatchesCountedWindows) {
  const Philox draw(7, stream_id("conv shapes"));
  int checked = 0;
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    const auto pick = [&](uint64_t slot, uint64_t most) { return static_cast<int64_t>(1 + draw.below(trial * 16 + slot, most)); };
    const Conv2d operation{.out_channels = pick(0, 8),
                           .kernel_h = pick(1, 7),
                           .kernel_w = pick(2, 7),
                           .stride_h = pick(3, 4),
                           .stride_w = pick(4, 4),
                           .pad_h = pick(5, 4) - 1,
                           .pad_w = pick(6, 4) - 1,
                           .dilation_h = pick(7, 3),
                           .dilation_w = pick(8, 3)};
    const Shape input{3, pick(9, 20), pick(10, 20)};
    const Shape expected{operation.out_channels,
                         positions_by_counting(input.height, operation.kernel_h, operation.stride_h, operation.pad_h, operation.dilation_h),
                         positions_by_counting(input.width, operation.kernel_w, operation.stride_w, operation.pad_w, operation.dilation_w)};
    if (expected.height == 0 || expected.width == 0) {
      EXPECT_THROW(shape_after(operation, {input}), Error);
    } else {
      EXPECT_EQ(shape_after(operation, {input}), expected);
      ++checked;
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(PoolShape, MatchesCountedWindows) {
  const Philox draw(8, stream_id("pool shapes"));
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    const auto pick = [&](uint64_t slot, uint64_t most) { return static_cast<int64_t>(1 + draw.below(trial * 8 + slot, most)); };
    const int64_t kernel = pick(0, 5), stride = pick(1, 4), pad = pick(2, static_cast<uint64_t>(kernel)) - 1;
    const Shape input{5, kernel + pick(3, 20), kernel + pick(4, 20)};
    Pool2d operation{.kernel_h = kernel, .kernel_w = kernel, .stride_h = stride, .stride_w = stride, .pad_h = pad, .pad_w = pad};
    EXPECT_EQ(shape_after(operation, {input}), (Shape{5, positions_by_counting(input.height, kernel, stride, pad, 1),
                                                      positions_by_counting(input.width, kernel, stride, pad, 1)}));
    operation.ceil_mode = true;
    EXPECT_EQ(shape_after(operation, {input}), (Shape{5, rounded_up_by_counting(input.height, kernel, stride, pad),
                                                      rounded_up_by_counting(input.width, kernel, stride, pad)}))
        << "kernel " << kernel << " stride " << stride << " pad " << pad << " input " << text_of(input);
  }
}

TEST(Shapes, OfTheOtherOperations) {
  const Shape map{6, 5, 4};
  for (const Operation& keeps : {Operation{Activation{}}, Operation{BatchNorm{}}, Operation{LocalResponseNorm{}}, Operation{Dropout{}},
                                 Operation{SoftmaxCrossEntropy{}}})
    EXPECT_EQ(shape_after(keeps, {map}), map) << name_of(keeps);
  EXPECT_EQ(shape_after(GlobalPool{}, {map}), (Shape{6, 1, 1}));
  EXPECT_EQ(shape_after(Flatten{}, {map}), (Shape{120, 1, 1}));
  EXPECT_EQ(shape_after(ToSequence{}, {map}), (Shape{24, 5, 1}));
  EXPECT_EQ(shape_after(Add{}, {map, map, map}), map);
  EXPECT_EQ(shape_after(Concat{}, {map, Shape{1, 5, 4}, Shape{10, 5, 4}}), (Shape{17, 5, 4}));
  EXPECT_EQ(shape_after(Dense{.out_features = 9}, {Shape{24, 1, 1}}), (Shape{9, 1, 1}));
  EXPECT_EQ(shape_after(Dense{.out_features = 9}, {Shape{24, 5, 1}}), (Shape{9, 5, 1}));  // step by step
  EXPECT_EQ(shape_after(LastStep{}, {Shape{24, 5, 1}}), (Shape{24, 1, 1}));
  EXPECT_EQ(shape_after(Embedding{.vocabulary = 50, .dimension = 8}, {Shape{1, 5, 1}}), (Shape{8, 5, 1}));
  EXPECT_EQ(shape_after(CtcLoss{.blank = 23}, {Shape{24, 5, 1}}), (Shape{24, 5, 1}));
  EXPECT_EQ(shape_after(Recurrent{.hidden = 7}, {Shape{24, 5, 1}}), (Shape{7, 5, 1}));
  EXPECT_EQ(shape_after(Recurrent{.hidden = 7, .projection = 3, .bidirectional = true}, {Shape{24, 5, 1}}), (Shape{6, 5, 1}));
  EXPECT_EQ(shape_after(Recurrent{.cell = CellKind::kGru, .hidden = 7, .bidirectional = true}, {Shape{24, 5, 1}}), (Shape{14, 5, 1}));
}

TEST(ShapeErrors, NameTheLayerBothShapesAndTheCause) {
  const std::string who = "layer \"it\"";
  const auto mismatch = [&](std::vector<std::string> parts, const Operation& operation, const std::vector<Shape>& inputs) {
    parts.push_back(who + " (" + std::string(name_of(operation)) + ")");
    expect_error(ErrorCode::kMismatch, parts, [&] { shape_after(operation, inputs); });
  };
  mismatch({"5x5 kernel", "16x3x3", "padded to 3x3", "larger network input"}, conv(8, 5), {Shape{16, 3, 3}});
  mismatch({"3x3 kernel reaches over 5x5", "16x4x4"},
           Conv2d{.out_channels = 8, .kernel_h = 3, .kernel_w = 3, .dilation_h = 2, .dilation_w = 2}, {Shape{16, 4, 4}});
  mismatch({"2x2 kernel", "16x1x1"}, Pool2d{}, {Shape{16, 1, 1}});
  mismatch({"2 groups", "3x8x8", "8 output channels"}, Conv2d{.out_channels = 8, .groups = 2}, {Shape{3, 8, 8}});
  mismatch({"padding 3x3", "3x3"}, Pool2d{.kernel_h = 3, .kernel_w = 3, .pad_h = 3, .pad_w = 3}, {Shape{4, 8, 8}});
  mismatch({"64x7x7", "flatten", "3136x1x1"}, Dense{.out_features = 10}, {Shape{64, 7, 7}});
  mismatch({"64x56x56 and 128x28x28", "1x1 convolution"}, Add{}, {Shape{64, 56, 56}, Shape{128, 28, 28}});
  mismatch({"64x28x28 and 32x27x28", "equal height and width"}, Concat{}, {Shape{64, 28, 28}, Shape{32, 27, 28}});
  mismatch({"64x7x7", "to_sequence", "448x7x1"}, Recurrent{.hidden = 4}, {Shape{64, 7, 7}});
  mismatch({"2x9x1", "token ids"}, Embedding{.vocabulary = 5, .dimension = 2}, {Shape{2, 9, 1}});
  mismatch({"blank is 5", "5x9x1"}, CtcLoss{.blank = 5}, {Shape{5, 9, 1}});
}

TEST(ShapeErrors, WrongNumbersOfInputs) {
  const Shape map{4, 8, 8};
  expect_error(ErrorCode::kMalformed, {"layer \"it\" (conv2d)", "2 inputs", "exactly one"}, [&] { shape_after(conv(8), {map, map}); });
  expect_error(ErrorCode::kMalformed, {"layer \"it\" (relu)", "0 inputs"}, [&] { shape_after(Activation{}, {}); });
  expect_error(ErrorCode::kMalformed, {"layer \"it\" (add)", "1 inputs", "two or more"}, [&] { shape_after(Add{}, {map}); });
  expect_error(ErrorCode::kMalformed, {"layer \"it\" (concat)", "1 inputs"}, [&] { shape_after(Concat{}, {map}); });
}

TEST(ShapeErrors, FieldsOutOfRangeAreNamedWithTheirValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto malformed = [](std::vector<std::string> parts, const Operation& operation, const Shape& input = {4, 8, 8}) {
    expect_error(ErrorCode::kMalformed, parts, [&] { shape_after(operation, {input}); });
  };
  malformed({"out_channels is 0"}, Conv2d{});
  malformed({"kernel_w is -1"}, Conv2d{.out_channels = 1, .kernel_w = -1});
  malformed({"stride_h is 0"}, Conv2d{.out_channels = 1, .stride_h = 0});
  malformed({"pad_w is -2"}, Conv2d{.out_channels = 1, .pad_w = -2});
  malformed({"dilation_h is 0"}, Conv2d{.out_channels = 1, .dilation_h = 0});
  malformed({"groups is 0"}, Conv2d{.out_channels = 1, .groups = 0});
  malformed({"stride_w is 0"}, Pool2d{.stride_w = 0});
  malformed({"out_features is 0"}, Dense{}, {4, 1, 1});
  malformed({"probability is 1"}, Dropout{.probability = 1});
  malformed({"probability is nan"}, Dropout{.probability = nan});
  malformed({"epsilon is 0"}, BatchNorm{.epsilon = 0});
  malformed({"momentum is 2"}, BatchNorm{.momentum = 2});
  malformed({"slope is nan"}, Activation{.kind = ActivationKind::kLeakyRelu, .slope = nan});
  malformed({"size is 4", "odd"}, LocalResponseNorm{.size = 4});
  malformed({"k is 0"}, LocalResponseNorm{.k = 0});
  malformed({"hidden is 0"}, Recurrent{}, {4, 8, 1});
  malformed({"projection is 4", "only lstm"}, Recurrent{.cell = CellKind::kGru, .hidden = 8, .projection = 4}, {4, 8, 1});
  malformed({"projection is 8", "8 hidden"}, Recurrent{.hidden = 8, .projection = 8}, {4, 8, 1});
  malformed({"reset_after", "only gru"}, Recurrent{.hidden = 8, .reset_after = true}, {4, 8, 1});
  malformed({"gate_activation", "only lstm and gru"},
            Recurrent{.cell = CellKind::kVanillaTanh, .hidden = 8, .gate_activation = GateActivation::kHardSigmoid}, {4, 8, 1});
  malformed({"gate_slope is 0"}, Recurrent{.hidden = 8, .gate_activation = GateActivation::kHardSigmoid, .gate_slope = 0}, {4, 8, 1});
  malformed({"truncation is -1"}, Recurrent{.hidden = 8, .truncation = -1}, {4, 8, 1});
  malformed({"vocabulary is 16777217", "16777216"}, Embedding{.vocabulary = (1 << 24) + 1, .dimension = 2}, {1, 8, 1});
  malformed({"stateful and bidirectional"}, Recurrent{.hidden = 8, .bidirectional = true, .stateful = true}, {4, 8, 1});
}

TEST(ShapeErrors, AbsurdSizesAreRefusedWithoutOverflow) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  constexpr int64_t kBig = std::numeric_limits<int32_t>::max();
  const auto refused = [](const Operation& operation, const std::vector<Shape>& inputs) {
    EXPECT_THROW(shape_after(operation, inputs), Error) << name_of(operation);
  };
  for (const int64_t bad : {kHuge, kHuge - 1, -kHuge, int64_t{0}, int64_t{-1}}) {
    refused(Activation{}, {Shape{bad, 1, 1}});
    refused(Activation{}, {Shape{1, bad, 1}});
    refused(Activation{}, {Shape{1, 1, bad}});
  }
  refused(Activation{}, {Shape{kBig, kBig, kBig}});
  refused(conv(kHuge), {Shape{3, 8, 8}});
  refused(conv(kBig), {Shape{3, 300, 300}});
  refused(conv(8, kBig, 1, kBig), {Shape{3, 8, 8}});
  refused(conv(8, 1, 1, kBig), {Shape{3, 8, 8}});
  refused(conv(8, 1, 1, kHuge), {Shape{3, 8, 8}});
  refused(Conv2d{.out_channels = 8, .kernel_h = kBig, .kernel_w = kBig, .dilation_h = kBig, .dilation_w = kBig}, {Shape{3, 8, 8}});
  refused(Dense{.out_features = kBig}, {Shape{1 << 20, 1, 1}});
  refused(Flatten{}, {Shape{1 << 16, 1 << 10, 1 << 10}});
  refused(Recurrent{.hidden = kBig}, {Shape{4, 8, 1}});
  refused(Embedding{.vocabulary = kBig, .dimension = kBig}, {Shape{1, 8, 1}});
  expect_error(ErrorCode::kMismatch, {"layer \"it\" (dense)", "weight of 2147483647x1048576", "1048576x1x1"}, [&] {
    shape_after(Dense{.out_features = kBig}, {Shape{1 << 20, 1, 1}});
  });
  // 2^36 weights' worth of work at 2^18 positions is too much, though every tensor passes.
  expect_error(ErrorCode::kMismatch, {"multiply-accumulates"}, [&] {
    shape_after(conv(1 << 15, 3, 1, 1), {Shape{1 << 15, 1 << 10, 1 << 10}});
  });
}

// Fields of every magnitude: an answer or an Error, and never an overflow (the sanitizers watch).
TEST(ShapeErrors, HoldForAnyFields) {
  const Philox draw(9, stream_id("any fields"));
  uint64_t next = 0;
  const auto any = [&]() -> int64_t {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    constexpr int64_t kInteresting[] = {-kMost - 1, -1, 0, 1, 1, 1, 2, 3, 5, 8, 64, 4096, (1LL << 31) - 1, 1LL << 31, 1LL << 36, kMost};
    return kInteresting[draw.below(next++, std::size(kInteresting))];
  };
  int answered = 0;
  for (int trial = 0; trial < 30000; ++trial) {
    const Shape input{any(), any(), any()};
    const Operation operations[] = {
        Conv2d{any(), any(), any(), any(), any(), any(), any(), any(), any(), any(), any() > 0},
        Dense{any(), any() > 0},
        Pool2d{PoolKind::kMax, any(), any(), any(), any(), any(), any(), any() > 0},
        Recurrent{CellKind::kLstm, any(), any(), any() > 0},
        Embedding{any(), any()},
        LocalResponseNorm{.size = any()},
        CtcLoss{any()},
        Flatten{},
        ToSequence{},
        GlobalPool{},
    };
    for (const Operation& operation : operations) {
      try {
        const Shape output = shape_after(operation, {input});
        EXPECT_GT(output.elements(), 0);
        EXPECT_GE(work_of(operation, std::vector{input}, output).forward_macs, 0);
        ++answered;
      } catch (const Error&) {
      }
    }
    try {
      EXPECT_GT(shape_after(Concat{}, {input, Shape{any(), input.height, input.width}}).elements(), 0);
      ++answered;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(answered, 1000);
}

}  // namespace
}  // namespace millrace
