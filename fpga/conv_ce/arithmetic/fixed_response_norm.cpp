#include "fpga/conv_ce/arithmetic/fixed_response_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

constexpr int kPartBits = 9;  // of a table's octave
constexpr int64_t kMostOctaves = 16;
constexpr int kGuardBits = 8;    // of u, below an error's step
constexpr int kLeastShift = 15;  // u then has 32 bits

int octave_of(int64_t s) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(s))) - 1; }

// The entries of a function of s, and how many fraction bits they have.
template <typename Function>
std::pair<std::vector<uint16_t>, int> table_of(const FixedResponseNorm& norm, int s_bits, int most_bits, Function function) {
  int bits = most_bits;
  const double largest = function(std::ldexp(static_cast<double>(norm.base), -s_bits));
  while (bits > 0 && std::ldexp(largest, bits) > 32767) --bits;
  std::vector<uint16_t> entries;
  for (int64_t entry = 0; entry < norm.octaves << kPartBits; ++entry) {
    const int octave = norm.first_octave + static_cast<int>(entry >> kPartBits);
    const double part = static_cast<double>(entry & ((1 << kPartBits) - 1)) + 0.5;
    const double s = std::ldexp(std::ldexp(1 + part / (1 << kPartBits), octave), -s_bits);
    entries.push_back(static_cast<uint16_t>(std::clamp(std::nearbyint(std::ldexp(function(s), bits)), 0.0, 32767.0)));
  }
  return {entries, bits};
}

// visit(index of the element, squares or other sum over its window), of `values` per element.
template <typename Value, typename Visit>
void for_each_window(int64_t half, int64_t channels, std::span<const Value> values, Visit visit) {
  const auto plane = static_cast<int64_t>(values.size()) / channels;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < plane; ++i) {
      int64_t sum = 0;
      for (int64_t j = std::max<int64_t>(c - half, 0); j <= std::min(c + half, channels - 1); ++j) sum += fast_item(values, j * plane + i);
      visit(to_size(c * plane + i), sum);
    }
}

std::vector<size_t> places_of(const FixedResponseNorm& norm, int64_t channels, std::span<const int16_t> x) {
  MILLRACE_CHECK(channels > 0 && x.size() % to_size(channels) == 0, "{} elements of {} channels", x.size(), channels);
  std::vector<int64_t> squares;
  squares.reserve(x.size());
  for (const int16_t element : x) squares.push_back(int64_t{element} * element);
  std::vector<size_t> places(x.size());
  for_each_window(norm.half, channels, std::span<const int64_t>(squares),
                  [&](size_t index, int64_t sum) { places[index] = norm.place_of(sum); });
  return places;
}

}  // namespace

size_t FixedResponseNorm::place_of(int64_t squares) const {
  const int64_t s = base + (squares * factor >> factor_shift);
  const int64_t octave = octave_of(s) - first_octave;
  if (octave < 0) return 0;
  if (octave >= octaves) return to_size((octaves << kPartBits) - 1);
  const int64_t part = (s >> (first_octave + octave - kPartBits)) & ((1 << kPartBits) - 1);
  return to_size((octave << kPartBits) + part);
}

std::optional<FixedResponseNorm> fixed_response_norm(const LocalResponseNorm& norm, FixedFormat activation) {
  if (norm.size % 2 == 0 || norm.size > 7 || norm.k <= 0 || norm.alpha < 0 || norm.beta < 0) return std::nullopt;
  const double alpha = norm.alpha / static_cast<double>(norm.size);
  const double largest =
      norm.k + alpha * static_cast<double>(norm.size) * std::ldexp(1.0, 2 * (kElementBits - 1) - 2 * activation.fraction_bits);
  int s_bits = kMostFractionBits;
  while (s_bits > 0 && std::ldexp(largest, s_bits) >= 0x1p31) --s_bits;
  FixedResponseNorm fixed;
  fixed.half = norm.size / 2;
  fixed.base = std::llrint(std::ldexp(norm.k, s_bits));
  const double factor = std::ldexp(alpha, s_bits - 2 * activation.fraction_bits);
  while (fixed.factor_shift < 40 && std::ldexp(factor, fixed.factor_shift) < 0x1p14) ++fixed.factor_shift;
  fixed.factor = std::llrint(std::ldexp(factor, fixed.factor_shift));
  if (fixed.base < 1 << kPartBits || fixed.factor > 65535) return std::nullopt;
  fixed.first_octave = octave_of(fixed.base);
  fixed.octaves = octave_of(std::llrint(std::ldexp(largest, s_bits))) - fixed.first_octave + 1;
  if (fixed.octaves > kMostOctaves) return std::nullopt;
  int q_bits = 0;
  std::tie(fixed.p, fixed.p_shift) = table_of(fixed, s_bits, kMostFractionBits, [&](double s) { return std::pow(s, -norm.beta); });
  std::tie(fixed.q, q_bits) = table_of(fixed, s_bits, 40, [&](double s) { return 2 * alpha * norm.beta * std::pow(s, -norm.beta - 1); });
  fixed.u_shift = activation.fraction_bits + q_bits - kGuardBits;
  fixed.t_shift = activation.fraction_bits + kGuardBits;
  if (fixed.u_shift < kLeastShift || fixed.u_shift > 47 || fixed.t_shift > 31) return std::nullopt;
  return fixed;
}

std::vector<int16_t> responded(const FixedResponseNorm& norm, int64_t channels, std::span<const int16_t> x, ArithmeticCounters& counters) {
  const std::vector<size_t> places = places_of(norm, channels, x);
  std::vector<int16_t> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = rounded_to_element(int64_t{x[i]} * norm.p[places[i]], norm.p_shift, counters);
  return y;
}

std::vector<int16_t> response_back(const FixedResponseNorm& norm, int64_t channels, std::span<const int16_t> x,
                                   std::span<const int16_t> error, ArithmeticCounters& counters) {
  MILLRACE_CHECK(x.size() == error.size(), "{} elements, {} errors", x.size(), error.size());
  const std::vector<size_t> places = places_of(norm, channels, x);
  std::vector<int64_t> u(x.size());
  for (size_t i = 0; i < x.size(); ++i) u[i] = shifted_to_nearest(int64_t{error[i]} * x[i] * norm.q[places[i]], norm.u_shift);
  const int shift = std::max(norm.p_shift, norm.t_shift);
  std::vector<int16_t> before(x.size());
  for_each_window(norm.half, channels, std::span<const int64_t>(u), [&](size_t i, int64_t sum) {
    const int64_t through_value = int64_t{error[i]} * norm.p[places[i]] << (shift - norm.p_shift);
    const int64_t through_squares = int64_t{x[i]} * sum << (shift - norm.t_shift);
    before[i] = rounded_to_element(through_value - through_squares, shift, counters);
  });
  return before;
}

}  // namespace millrace
