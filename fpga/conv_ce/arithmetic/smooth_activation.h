// Sigmoid and hyperbolic tangent in fixed point, forward and back, as smooth_activation.sv and smooth_activation_back.sv compute them.
//
//   const std::optional<SmoothActivation> tangent = smooth_activation({ActivationKind::kTanh}, FixedFormat{11});
//   const std::vector<int16_t> y = smoothed(*tangent, x, counters);
//   const std::vector<int16_t> error = smooth_back(*tangent, y, y_error, counters);
//
// x and y have the same fraction bits, at least four and at most fifteen. A table of 512 entries has f(|x|) of fifteen fraction bits and
// how far it is to the next: of a tangent from 0 to 8 in steps of 1/64, of a sigmoid from 0 to 16 in steps of 1/32, straight lines between.
// What lies beyond is the table's end, x below zero mirrored. Before it is rounded to its fraction bits y is off by 6e-5 at most. Back, the
// slope is made from y, 1 - y^2 or y - y^2, and rounded to fifteen fraction bits; error = round(e * slope). With what y is off by itself a
// slope is off by no more than 2^-15 and two steps of y. Nothing comes out for activations that are made of two straight lines, and for
// other fraction bits.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/operation/activation.h"
#include "fpga/common/arithmetic/fixed_point.h"

namespace millrace {

struct SmoothActivation {
  static constexpr size_t kEntries = 512;
  static constexpr int kFraction = 15;  // of the table and of slopes
  bool tangent = false;
  int fraction_bits = 11;
  std::array<uint16_t, kEntries> bases{};   // f at the beginning of a step
  std::array<uint16_t, kEntries> slopes{};  // to that of the next

  // Of a place within a step of the table.
  int part_bits() const { return tangent ? kFraction - 6 : kFraction - 5; }
  int16_t value_of(int16_t x, ArithmeticCounters& counters) const;
};

bool is_smooth(const Activation& activation);
std::optional<SmoothActivation> smooth_activation(const Activation& activation, FixedFormat format);

std::vector<int16_t> smoothed(const SmoothActivation& activation, std::span<const int16_t> x, ArithmeticCounters& counters);
// From the output.
std::vector<int16_t> smooth_back(const SmoothActivation& activation, std::span<const int16_t> y, std::span<const int16_t> error,
                                 ArithmeticCounters& counters);

}  // namespace millrace
