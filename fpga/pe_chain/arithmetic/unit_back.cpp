#include "fpga/pe_chain/arithmetic/unit_back.h"

#include <algorithm>

namespace millrace {

namespace {

constexpr int32_t kOne = 1 << kGateFraction;

// A product of two numbers of which `shift` fraction bits go.
int64_t scaled(int64_t a, int64_t b, int shift = kGateFraction) { return saturated(shifted_to_nearest(a * b, shift)); }

}  // namespace

int64_t record_words(CellKind cell) {
  switch (cell) {
    case CellKind::kLstm:
    case CellKind::kGru: return 5;
    case CellKind::kVanillaRelu:
    case CellKind::kVanillaTanh: return 1;
  }
  return 0;
}

int32_t sigmoid_slope(SigmoidForm form, int32_t y) {
  const bool between = y > 0 && y < kOne - 1;
  switch (form) {
    case SigmoidForm::kPlan:
    case SigmoidForm::kTable: return static_cast<int32_t>(shifted_to_nearest(int64_t{y} * (kOne - y), kGateFraction));
    case SigmoidForm::kHardFifth: return between ? 6554 : 0;
    case SigmoidForm::kHardSixth: return between ? 5461 : 0;
  }
  return 0;
}

int32_t tanh_slope(int32_t y) {
  return static_cast<int32_t>(std::min<int64_t>(kOne - shifted_to_nearest(int64_t{y} * y, kGateFraction), kOne - 1));
}

UnitErrors unit_back(CellKind cell, const GateForms& forms, const CellFormats& formats, const UnitRecord& record, int16_t error,
                     int16_t carried, ArithmeticCounters& counters) {
  const auto element = [&](int64_t exact, int shift = kGateFraction) { return rounded_to_element(exact, shift, counters); };
  UnitErrors errors;
  const int64_t dh = error;
  switch (cell) {
    case CellKind::kLstm: {
      const int64_t i = sigmoid_of(forms.sigmoid, record.sums[0]), f = sigmoid_of(forms.sigmoid, record.sums[1]);
      const int64_t g = tanh_of(forms.tanh, record.sums[2]), o = sigmoid_of(forms.sigmoid, record.sums[3]);
      const int64_t t = tanh_of(forms.tanh, record.cell);
      const auto slope = [&](int64_t y) { return sigmoid_slope(forms.sigmoid, static_cast<int32_t>(y)); };
      const auto bend = [](int64_t y) { return tanh_slope(static_cast<int32_t>(y)); };
      const int64_t dc = element((int64_t{carried} << kGateFraction) + dh * scaled(o, bend(t)));
      errors.gates[0] = element(dc * scaled(g, slope(i)));
      errors.gates[1] = element(dc * scaled(record.before, slope(f)), kSumFraction);
      errors.gates[2] = element(dc * scaled(i, bend(g)));
      errors.gates[3] = element(dh * scaled(t, slope(o)));
      errors.carried = element(dc * f);
      break;
    }
    case CellKind::kGru: {
      const int64_t r = sigmoid_of(forms.sigmoid, record.sums[0]), z = sigmoid_of(forms.sigmoid, record.sums[1]);
      const int64_t candidate = (int64_t{record.sums[2]} << kGateFraction) + r * record.sums[3];
      const int64_t n = tanh_of(forms.tanh, static_cast<int16_t>(saturated(shifted_to_nearest(candidate, kGateFraction))));
      const int64_t before = int64_t{record.before} * (int64_t{1} << (kGateFraction - formats.hidden));
      const int64_t dn = element(dh * scaled(kOne - z, tanh_slope(static_cast<int32_t>(n))));
      errors.gates[0] = element(dn * scaled(record.sums[3], sigmoid_slope(forms.sigmoid, static_cast<int32_t>(r))), kSumFraction);
      errors.gates[1] = element(dh * scaled(before - n, sigmoid_slope(forms.sigmoid, static_cast<int32_t>(z))));
      errors.gates[2] = static_cast<int16_t>(dn);
      errors.candidate = element(dn * r);
      errors.carried = element(dh * z);
      break;
    }
    case CellKind::kVanillaRelu: errors.gates[0] = record.sums[0] > 0 ? error : int16_t{0}; break;
    case CellKind::kVanillaTanh: errors.gates[0] = element(dh * tanh_slope(tanh_of(forms.tanh, record.sums[0]))); break;
  }
  return errors;
}

}  // namespace millrace
