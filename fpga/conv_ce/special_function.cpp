#include "fpga/conv_ce/special_function.h"

#include <algorithm>
#include <bit>
#include <variant>

#include "core/base/check.h"

namespace millrace {

namespace {

// LUTs, and as many flip-flops, per bit of one lane.
constexpr double kReluLogic = 1;
constexpr double kSigmoidLogic = 8;  // piecewise linear: the segment's slope and offset, a shift-and-add product
constexpr double kBatchNormLogic = 6;
constexpr double kLocalResponseNormLogic = 24;  // squares of a window's channels, a power by table
constexpr double kPoolLogic = 2;                // a comparison or a sum, a selection
constexpr double kDropoutLogic = 8;             // the counter-based generator, shared by the lanes
constexpr double kJoinLogic = 2;
constexpr double kRearrangementLogic = 1;

int64_t bits_to_choose_from(int64_t choices) { return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(choices - 1))); }

class SpecialFunctions {
 public:
  SpecialFunctions(double lifetime, int64_t element_bits, int copies) : lifetime_(lifetime), element_bits_(element_bits), copies_(copies) {}

  void add(const Node& node, const Node* next) {
    node_ = &node;
    next_ = next;
    std::visit(*this, node.layer.operation);
  }
  const SpecialFunctionUse& use() const { return use_; }

  void operator()(const Activation& activation) {
    const bool relu = activation.slope_below_zero().has_value();
    use_.lane_logic += relu ? kReluLogic : kSigmoidLogic;
    // Back, it needs the sign of what it was given, or its output: from what the next layer keeps, or from a copy of its own.
    if (next_ != nullptr && traits_of(next_->layer.operation).hides_input) keep(node_->output, relu ? 1 : element_bits_);
  }
  void operator()(const BatchNorm&) {
    use_.lane_logic += kBatchNormLogic;
    const int64_t channels = node_->output.channels;
    // Scale and shift with their gradients; running mean and variance are not trained.
    use_.vectors += vector_buffer(channels, 2.0 * (node_->trained ? copies_ : 1) + 2, element_bits_);
    if (node_->trained) keep(node_->output, element_bits_);
  }
  void operator()(const LocalResponseNorm&) {
    use_.lane_logic += kLocalResponseNormLogic;
    keep(node_->output, element_bits_);
  }
  void operator()(const Pool2d& pool) {
    use_.lane_logic += kPoolLogic;
    const Shape& input = node_->input_shapes[0];
    rows_of(input, std::min(pool.kernel_h - 1, input.height));
    lifetime_ = std::max(0.0, lifetime_ - static_cast<double>(pool.kernel_h - 1) / static_cast<double>(input.height));
    if (pool.kind == PoolKind::kMax) keep(node_->output, bits_to_choose_from(pool.kernel_h * pool.kernel_w));
  }
  void operator()(const GlobalPool& pool) {
    use_.lane_logic += kPoolLogic;
    const Shape& input = node_->input_shapes[0];
    use_.lines += vector_buffer(input.channels, 2, element_bits_);  // the running maximum or sum of each channel
    lifetime_ = std::max(0.0, lifetime_ - static_cast<double>(input.height - 1) / static_cast<double>(input.height));
    if (pool.kind == PoolKind::kMax) keep(node_->output, bits_to_choose_from(input.plane()));
  }
  void operator()(const Dropout&) { use_.lane_logic += kDropoutLogic; }
  void operator()(const Add&) { join(); }
  void operator()(const Concat&) { join(); }
  template <typename Other>
  requires(Other::kRole == Role::kRearrangement || Other::kRole == Role::kLoss) void operator()(const Other&) {
    use_.lane_logic += kRearrangementLogic;
  }

  // Never behind a sum: it heads a group of its own.
  template <typename Other>
  requires(computes(Other::kRole)) void operator()(const Other&) {
    MILLRACE_CHECK(false, "layer \"{}\" ({}) heads a group", node_->layer.name, name_of(node_->layer.operation));
  }

 private:
  // Until the same row comes back, and one row at least.
  void keep(const Shape& shape, int64_t bits) {
    if (!node_->input_error_needed && !node_->trained) return;
    const double rows = std::max(1.0, lifetime_ * static_cast<double>(shape.height));
    use_.kept_bits += static_cast<double>(shape.channels * shape.width * bits) * rows;
  }
  void rows_of(const Shape& shape, int64_t rows) {
    if (rows > 0) use_.lines += row_buffer({shape.channels, shape.channels, shape.width, rows}, element_bits_);
  }
  // All operands but the last, which comes last, wait on the way forward; their errors on the way back.
  void join() {
    use_.lane_logic += kJoinLogic;
    for (size_t i = 0; i + 1 < node_->input_shapes.size(); ++i)
      rows_of(node_->input_shapes[i], 2 * std::min(kJoinRows, node_->input_shapes[i].height));
  }

  SpecialFunctionUse use_;
  const Node* node_ = nullptr;
  const Node* next_ = nullptr;
  double lifetime_;
  int64_t element_bits_;
  int copies_;
};

}  // namespace

SpecialFunctionUse& SpecialFunctionUse::operator+=(const SpecialFunctionUse& other) {
  kept_bits += other.kept_bits;
  lines += other.lines;
  vectors += other.vectors;
  lane_logic += other.lane_logic;
  return *this;
}

SpecialFunctionUse special_function_use(std::span<const Node* const> after, double lifetime, int64_t element_bits, int copies) {
  SpecialFunctions functions(lifetime, element_bits, copies);
  for (size_t i = 0; i < after.size(); ++i) functions.add(*after[i], i + 1 < after.size() ? after[i + 1] : nullptr);
  return functions.use();
}

std::vector<Constant> special_function_constants() {
  const auto constant = [](const char* name, double value) { return Constant{name, value, "projected"}; };
  return {constant("relu_logic", kReluLogic),
          constant("sigmoid_logic", kSigmoidLogic),
          constant("batch_norm_logic", kBatchNormLogic),
          constant("local_response_norm_logic", kLocalResponseNormLogic),
          constant("pool_logic", kPoolLogic),
          constant("dropout_logic", kDropoutLogic),
          constant("join_logic", kJoinLogic),
          constant("rearrangement_logic", kRearrangementLogic),
          constant("join_rows", static_cast<double>(kJoinRows))};
}

}  // namespace millrace
