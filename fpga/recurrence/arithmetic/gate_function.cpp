#include "fpga/recurrence/arithmetic/gate_function.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

namespace {

constexpr int32_t kOne = 1 << kGateFraction;
// Half way between the last entry and 1, both doubled: only a tangent asks for arguments of 8 and more.
constexpr int32_t kBeyondTable = kOne - 6;

// Of a = |z|, which may have seventeen bits: 0.5 to 1.
int32_t plan_of(int32_t a) {
  if (a >= 20480) return kOne;             // 5
  if (a >= 9728) return (a >> 2) + 27648;  // 2.375: a/32 + 0.84375
  if (a >= 4096) return a + 20480;         // 1: a/8 + 0.625
  return 2 * a + kOne / 2;                 // a/4 + 0.5
}

int32_t table_of(int32_t a) {
  const auto place = to_size(a >> 3);
  return place < sigmoid_table().size() ? sigmoid_table()[place] : kBeyondTable;
}

int32_t mirrored(int32_t y, bool negative) { return std::min(negative ? kOne - y : y, kOne - 1); }

// factor / 2^12 times z, and a half, held to what a gate can be.
int32_t hard_of(int32_t z, int32_t factor) { return std::clamp(((z * factor + (1 << 14)) >> 15) + kOne / 2, 0, kOne - 1); }

}  // namespace

int32_t sigmoid_of(SigmoidForm form, int16_t z) {
  const int32_t a = std::abs(int32_t{z});
  switch (form) {
    case SigmoidForm::kPlan: return mirrored(plan_of(a), z < 0);
    case SigmoidForm::kTable: return mirrored(table_of(a), z < 0);
    case SigmoidForm::kHardFifth: return hard_of(z, 52429);
    case SigmoidForm::kHardSixth: return hard_of(z, 43691);
  }
  return 0;
}

int32_t tanh_of(TanhForm form, int16_t z) {
  const int32_t twice = 2 * std::abs(int32_t{z});
  const int32_t y = std::min(2 * (form == TanhForm::kPlan ? plan_of(twice) : table_of(twice)) - kOne, kOne - 1);
  return z < 0 ? -y : y;
}

const std::array<uint16_t, 4096>& sigmoid_table() {
  static const auto table = [] {
    std::array<uint16_t, 4096> made{};
    for (size_t i = 0; i < made.size(); ++i) {
      const double z = (static_cast<double>(i) + 0.5) / 512;
      made[i] = static_cast<uint16_t>(std::lround(kOne / (1 + std::exp(-z))));
    }
    return made;
  }();
  return table;
}

GateForms gate_forms_of(const Recurrent& cell, TanhForm smooth) {
  GateForms forms{smooth == TanhForm::kPlan ? SigmoidForm::kPlan : SigmoidForm::kTable, smooth};
  if (cell.gate_activation == GateActivation::kHardSigmoid) {
    const auto is = [&](double slope) { return std::fabs(cell.gate_slope - slope) < 1e-6; };
    if (!is(0.2) && !is(1.0 / 6))
      fail(ErrorCode::kUnavailable, "a hard sigmoid of slope {}: boards have 0.2 and 1/6 (0.166667); train it with one of them",
           cell.gate_slope);
    forms.sigmoid = is(0.2) ? SigmoidForm::kHardFifth : SigmoidForm::kHardSixth;
  }
  return forms;
}

}  // namespace millrace
