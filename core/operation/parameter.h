// A tensor that an operation learns or keeps. Names and dimensions are PyTorch's.
//
//   for (const ParameterSpec& parameter : parameters_of(conv, inputs)) fmt::print("{}", parameter.tensor);    // weight, bias
//
// Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

enum class Start {
  kByInitializer,  // as the layer's initializer says; biases at 0 unless it is PyTorch's own
  kZero,
  kOne,
};

// What PyTorch's layer does by itself: draws from a distribution about 0.
struct TorchStart {
  bool normal = false;  // else uniform
  double scale = 0;     // of the normal distribution, or of the bounds; 0: 1 / sqrt(fan in)
  bool operator==(const TorchStart&) const = default;
};

struct ParameterSpec {
  std::string tensor;  // "weight", "bias", "running_mean", ...
  std::vector<int64_t> dimensions;
  bool trained = true;  // running statistics are not
  Start start = Start::kByInitializer;
  TorchStart torch = {};

  // Stops at the largest int64_t.
  int64_t elements() const;
};

}  // namespace millrace
