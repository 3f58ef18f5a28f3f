// What a layer does: all operations, family by family, and the questions that any of them answers.
//
//   const Operation operation = Conv2d{.out_channels = 64, .kernel_h = 3, .kernel_w = 3};
//   traits_of(operation).name                                   // "conv2d"
//   infer_shape(operation, inputs, "layer \"conv1\"")           // or why there is none
//
// An operation is a struct of its fields that states all that IsOperation asks for, in the file of its family here, which lists it at
// its end. To add one: its message and its field in core/documents/proto/model.proto, its struct and its name in its family's file,
// and then a kernel on each device: whoever decides by operation does not compile until it is there too. Plain values, copied freely.
#pragma once

#include <concepts>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/operation/activation.h"
#include "core/operation/convolution.h"
#include "core/operation/dense.h"
#include "core/operation/dropout.h"
#include "core/operation/embedding.h"
#include "core/operation/joining.h"
#include "core/operation/loss.h"
#include "core/operation/normalisation.h"
#include "core/operation/pooling.h"
#include "core/operation/rearrangement.h"
#include "core/operation/recurrent.h"

namespace millrace {

template <typename... T>
std::variant<T...> one_of(Operations<T...>);
using Operation = decltype(one_of(Convolutions() + Products() + Poolings() + Activations() + Normalisations() + Dropouts() + Joinings() +
                                  Rearrangements() + Losses() + Recurrences() + LookUps()));

// The model document's fields are asked of it where they are read: T::fields(visitor), core/documents/fields.h. Optional are
// check(where), rules between fields, and has_fields(), where some kinds of it have none.
template <typename T>
concept IsOperation = std::equality_comparable<T> && requires(const T& operation, const ShapeRules& rules, std::span<const Shape> inputs) {
  { T::kRole } -> std::convertible_to<Role>;
  { T::kDivides } -> std::convertible_to<bool>;    // by input and output channels, a weight for each pair of them
  { T::kinds() } -> std::same_as<std::vector<T>>;  // one of each name, as an empty message reads
  { operation.traits() } -> std::same_as<Traits>;
  { operation.output_shape(rules) } -> std::same_as<Shape>;
  { operation.parameters(inputs) } -> std::same_as<std::vector<ParameterSpec>>;
};
// What heads a group: how often each weight is used for a sample, and the channels of its raw sum.
template <typename T>
concept HasWeights = requires(const T& operation, const Shape& output) {
  { operation.weight_uses(output) } -> std::same_as<int64_t>;
  { operation.sum_channels(output) } -> std::same_as<int64_t>;
};
// What can be divided: a block of it is one of its own kind.
template <typename T>
concept HasBlocks = requires(const T& operation, int64_t channels) {
  { operation.block(channels, channels, channels) } -> std::same_as<T>;
};

template <typename... T>
constexpr bool states_everything(const std::variant<T...>*) {
  static_assert((IsOperation<T> && ...), "an operation does not state all that IsOperation asks for");
  static_assert(((!computes(T::kRole) || HasWeights<T>)&&...), "an operation that computes does not say what its weights do");
  static_assert(((!T::kDivides || HasBlocks<T>)&&...), "an operation that divides does not say what its blocks are");
  return true;
}
static_assert(states_everything(static_cast<const Operation*>(nullptr)));

// One of each name, as an empty message reads, family by family.
const std::vector<Operation>& catalogue();

Traits traits_of(const Operation& operation);
Role role_of(const Operation& operation);
bool divides(const Operation& operation);
// "conv2d", "max_pool", "relu", "lstm", ...: the word used in documents, tables and messages.
std::string_view name_of(const Operation& operation);

// Output shape and parameters, alone. `where` names the layer in messages.
Shape infer_shape(const Operation& operation, std::span<const Shape> inputs, std::string_view where);
std::vector<ParameterSpec> parameters_of(const Operation& operation, std::span<const Shape> inputs);

// Multiply-accumulates and elements for ONE sample. EB of a layer fed by the network's input counts as if computed;
// who skips it says so in its plan.
// A multiply-accumulate is counted where a weight meets an activation: convolution, dense and recurrent products. Biases, poolings,
// normalisations, activations and the pointwise part of recurrent cells have none; an embedding is a look-up.
struct Work {
  int64_t forward_macs = 0;
  int64_t error_back_macs = 0;
  int64_t parameter_gradient_macs = 0;
  int64_t parameters = 0;  // trained ones
  int64_t input_elements = 0;
  int64_t output_elements = 0;
};
Work work_of(const Operation& operation, std::span<const Shape> inputs, const Shape& output);

// Channels of the raw sum, before bias and what follows: those of the output, unless the operation sums something else.
int64_t sum_channels_of(const Operation& operation, const Shape& output);
// A block of a divided operation; any other is its only block.
Operation block_of(const Operation& operation, int64_t all_inputs, int64_t inputs, int64_t outputs);

}  // namespace millrace
