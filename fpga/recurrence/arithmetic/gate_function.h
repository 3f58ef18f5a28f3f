// What bounds the gates and the cell of a recurrent layer in fixed point: the sigmoids and the tangents that hardware has.
//
//   sigmoid_of(SigmoidForm::kPlan, 4096);      // of 1.0: 24,576, that is 0.75
//   tanh_of(TanhForm::kPlan, -4096);           // -16,384 ... the exact one is -0.7616
//
// An argument z has sixteen bits, twelve of them fraction: from -8 to almost 8. A result has fifteen fraction bits: a sigmoid is 0 to
// 32,767, a tangent -32,767 to 32,767.
//   plan         four straight lines (Amin, Curtis, Hayes-Gill 1997), no multiplier; off by 0.0189 at most, the tangent by 0.0379. It
//                is not monotone: at 2.375 it falls by 1/256, so that the comparisons (>=) are part of the definition
//   table        4,096 entries of the exact function; off by 2.6e-4 at most, the tangent by 5.2e-4
//   hard fifth   0.2 z + 0.5 held to [0, 1]: Keras 2's and ONNX's hard sigmoid
//   hard sixth   z/6 + 0.5 held to [0, 1]: Keras 3's and PyTorch's
// tanh(z) = 2 sigmoid(2 z) - 1 by the same lines or the same table. Everything is a pure function of integers but the table's making.
#pragma once

#include <array>
#include <cstdint>

#include "core/operation/recurrent.h"

namespace millrace {

inline constexpr int kSumFraction = 12, kGateFraction = 15;

enum class SigmoidForm { kPlan, kTable, kHardFifth, kHardSixth };
enum class TanhForm { kPlan, kTable };

struct GateForms {
  SigmoidForm sigmoid = SigmoidForm::kPlan;
  TanhForm tanh = TanhForm::kPlan;
  bool operator==(const GateForms&) const = default;
};

int32_t sigmoid_of(SigmoidForm form, int16_t z);
int32_t tanh_of(TanhForm form, int16_t z);

// Of |z| in steps of 1/512, each at the middle of its step.
const std::array<uint16_t, 4096>& sigmoid_table();

// Of a layer: `smooth` says what stands for sigmoid and tanh. Fails with kUnavailable on a hard sigmoid of another slope.
GateForms gate_forms_of(const Recurrent& cell, TanhForm smooth);

}  // namespace millrace
