// How parameters start: every element is a pure function of (seed, layer, tensor, its index in the whole canonical
// tensor), so that any shard of any partition draws the same numbers, in any order.
//
//   const Fans fans = fans_of(weight);
//   const InitialValues values(layer, weight, fans, seed);
//   values.fill(std::span<float>(whole));              // the whole tensor
//   values.fill(std::span<float>(row), first_index);   // elements first_index, first_index + 1, ...
//   float one = static_cast<float>(values.at(index));  // one, for a block that is strided in the whole
//
// Every value is a single-precision number, so that runs in single and in double precision start from equal weights.
//   weights        as Layer::initializer says (table below)
//   biases         0; kTorchUniform: as the weights
//   batch norm     weight and running_var 1, bias and running_mean 0
// | initializer     | distribution                                  |
// | kHeNormal       | normal, deviation sqrt(2 / in)                |
// | kHeUniform      | uniform within +-sqrt(6 / in)                 |
// | kXavierNormal   | normal, deviation sqrt(2 / (in + out))        |
// | kXavierUniform  | uniform within +-sqrt(6 / (in + out))         |
// | kTorchUniform   | uniform within +-1/sqrt(in), PyTorch's own; recurrent cells +-1/sqrt(hidden); embeddings normal(0, 1) |
// | kZero           | 0                                             |
// Plain values, thread safe. A normal value comes from one draw through the quantile function (normal_quantile.h).
// Limits: 32 random bits per element, so normal values end at 6.3 deviations.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/random.h"
#include "core/documents/model.h"
#include "core/graph/graph.h"

namespace millrace {

// How many inputs make one output of the weight, and how many outputs one input reaches.
struct Fans {
  int64_t in = 1;
  int64_t out = 1;
  bool operator==(const Fans&) const = default;
};
// Of a weight [out][in][kernel ...]: in x kernel and out x kernel, as PyTorch counts. A tensor of one dimension holds a
// number per channel: one in, one out.
Fans fans_of(const ParameterSpec& weight);

class InitialValues {
 public:
  // `fans` are those of the layer's first weight; a tensor of one dimension, a bias, is drawn with them, every other
  // with its own.
  InitialValues(const Layer& layer, const ParameterSpec& parameter, const Fans& fans, uint64_t seed);

  double at(int64_t element) const;
  void fill(std::span<float> host, int64_t first_element = 0) const;
  void fill(std::span<double> host, int64_t first_element = 0) const;

 private:
  enum class Distribution { kConstant, kUniform, kNormal };
  void choose(const Layer& layer, const ParameterSpec& parameter, const Fans& fans);
  float value_from(uint32_t bits) const;
  template <typename Value>
  void fill_values(std::span<Value> host, uint64_t first) const;

  Distribution distribution_ = Distribution::kConstant;
  double scale_ = 0;  // the constant, the bound or the deviation
  Philox draw_;
};

}  // namespace millrace
