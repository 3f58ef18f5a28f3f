#include "fpga/recurrence/arithmetic/cell_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace millrace {

void check(const CellFormats& formats, CellKind cell) {
  const auto fraction = [](const char* name, int bits, int most) {
    if (bits < 0 || bits > most) fail(ErrorCode::kUsage, "{} fraction bits of {}: 0 to {}", bits, name, most);
  };
  fraction("inputs", formats.input, kMostFractionBits);
  fraction("weights", formats.weight, kMostFractionBits);
  fraction("the state h", formats.hidden, kGateFraction);
  fraction("the state's weights, those of inputs and weights less those of h", formats.hidden_weight(), kMostFractionBits);
  fraction("a projection's weights", formats.projection, kMostFractionBits);
  const int shift = formats.sum_shift(cell);
  if (shift < 0 || shift > 31)
    fail(ErrorCode::kUsage, "accumulators of {} fraction bits for sums of {}: 0 to 31 more", formats.accumulator(), formats.sum(cell));
}

LstmStep lstm_step(const std::array<int16_t, 4>& sums, int32_t cell, const CellFormats& formats, const GateForms& forms,
                   RecurrentCounters& counters) {
  const int64_t i = sigmoid_of(forms.sigmoid, sums[0]);
  const int64_t f = sigmoid_of(forms.sigmoid, sums[1]);
  const int64_t g = tanh_of(forms.tanh, sums[2]);
  const int64_t o = sigmoid_of(forms.sigmoid, sums[3]);
  // f c' has 39 fraction bits, i g 30.
  const int64_t exact = f * cell + (i * g << (kCellFraction - kGateFraction));
  const int64_t nearest = shifted_to_nearest(exact, kGateFraction);
  LstmStep now;
  now.cell = static_cast<int32_t>(saturated(nearest, kCellBits));
  counters.cells.count_rounding(static_cast<double>(exact - nearest * (1 << kGateFraction)), kGateFraction, now.cell != nearest);
  const auto argument = static_cast<int16_t>(saturated(shifted_to_nearest(now.cell, kCellFraction - kSumFraction)));
  now.output = rounded_to_element(o * tanh_of(forms.tanh, argument), 2 * kGateFraction - formats.hidden, counters.outputs);
  return now;
}

int16_t gru_step(const GruSums& sums, int16_t hidden, const CellFormats& formats, const GateForms& forms, RecurrentCounters& counters) {
  const int64_t r = sigmoid_of(forms.sigmoid, sums.reset);
  const int64_t z = sigmoid_of(forms.sigmoid, sums.update);
  const int64_t candidate = (int64_t{sums.input} << kGateFraction) + r * sums.hidden;
  const int64_t n = tanh_of(forms.tanh, rounded_to_element(candidate, kGateFraction, counters.cells));
  // Both with thirty fraction bits.
  const int64_t mixed = n * ((1 << kGateFraction) - z) + (z * hidden) * (int64_t{1} << (kGateFraction - formats.hidden));
  return rounded_to_element(mixed, 2 * kGateFraction - formats.hidden, counters.outputs);
}

int16_t vanilla_step(CellKind cell, int16_t sum, const CellFormats& formats, const GateForms& forms, RecurrentCounters& counters) {
  if (cell == CellKind::kVanillaRelu) return std::max<int16_t>(sum, 0);
  return rounded_to_element(tanh_of(forms.tanh, sum), kGateFraction - formats.hidden, counters.outputs);
}

}  // namespace millrace
