// Which fixed-point format each kind of a layer's tensors has: calibrated ones, or the engine's own.
//
//   const EngineFormats formats = default_formats(/*error_scale=*/1.0 / 32);
//   formats.sum_shift();      // from an accumulator of FP to a sum on the wire
//   formats_of(calibrated, "conv1", error_scale);
//
// Where nobody calibrated:
// Activations and sums reach to 16, weights to 4. Errors scale with the loss: its own lie within error_scale, so errors
// reach to eight times that, and gradients, which stay 32 bits wide, to 2^(31 - 11 - error bits).
// A pure function of the plan, never of the data: what runs twice runs alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "fpga/common/arithmetic/fixed_point.h"

namespace millrace {

struct EngineFormats {
  FixedFormat activation{11};
  FixedFormat weight{13};
  FixedFormat sum{11};          // raw sums and partial sums; biases too
  FixedFormat error{12};        // of the output
  FixedFormat input_error{12};  // of the input

  int sum_shift() const { return activation.fraction_bits + weight.fraction_bits - sum.fraction_bits; }
  int error_shift() const { return error.fraction_bits + weight.fraction_bits - input_error.fraction_bits; }
  int gradient_fraction_bits() const { return activation.fraction_bits + error.fraction_bits; }
  bool operator==(const EngineFormats&) const = default;
};

inline EngineFormats default_formats(double error_scale) {
  EngineFormats formats;
  const double halvings = error_scale > 0 && std::isfinite(error_scale) ? std::round(-std::log2(error_scale)) : 0;
  formats.error.fraction_bits = 12 + static_cast<int>(std::clamp(halvings, -12.0, 6.0));
  formats.input_error = formats.error;
  return formats;
}

// By layer, of a network whose formats were calibrated.
using LayerFormats = std::map<std::string, EngineFormats>;

// Those of `book`, else the engine's own.
inline EngineFormats formats_of(const LayerFormats& book, const std::string& layer, double error_scale) {
  const auto found = book.find(layer);
  return found == book.end() ? default_formats(error_scale) : found->second;
}

}  // namespace millrace
