#include "core/cpu/cell_loops.h"

#include <bit>
#include <type_traits>

#include "core/cpu/vector_math.h"
#include "core/device/cell_math.h"

namespace millrace::cpu {

namespace {

// e^x for x within [-87, 88]: e^x = 2^n e^r with |r| <= ln 2 / 2, and a polynomial for e^r.
inline float bounded_exp(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number in the low bits
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  const float shifted = x * kLog2E + kRounder;
  const float whole = shifted - kRounder;
  const float r = (x - whole * kLn2High) - whole * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e_to_r = (p * r) * r + r + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  return e_to_r * std::bit_cast<float>(power);
}

// A NaN is on neither side of the bounds and stays.
inline float bound(float x, float least, float most) {
  const float above = x < least ? least : x;
  return above > most ? most : above;
}

struct FastMath {
  using Value = float;

  static float sigmoid(float x) { return 1.0f / (1.0f + bounded_exp(bound(-x, -87.0f, 88.0f))); }

  // By its series near zero, where the other way would lose digits.
  static float tanh(float x) {
    const float square = x * x;
    float p = -5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    const float near_zero = (p * square) * x + x;
    const float elsewhere = 1.0f - 2.0f / (bounded_exp(bound(2.0f * x, -87.0f, 88.0f)) + 1.0f);
    return square < 0.390625f ? near_zero : elsewhere;
  }
};

}  // namespace

// No array overlaps another, which GCC forgets when it inlines these: with so many it would rather not make vectors than compare all
// places.
namespace loops {

namespace {

using Soft = SigmoidGate<FastMath>;
using Hard = HardGate<float>;

template <typename Gate>
inline Gate gate_of(const auto& gates) {
  if constexpr (std::is_same_v<Gate, Hard>)
    return {gates.hard_slope};
  else
    return {};
}

template <typename Gate>
inline void lstm_forward(const LstmGates& gates, const float* __restrict c_before, float* __restrict c, float* __restrict m,
                         int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict i = gates.i, * __restrict f = gates.f, * __restrict g = gates.g, * __restrict o = gates.o;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) LstmCell<FastMath>::forward(gate, i[j], f[j], g[j], o[j], c_before[j], c[j], m[j]);
}

template <typename Gate>
inline void lstm_back(const LstmGates& gates, const float* __restrict c_before, const float* __restrict c, const float* __restrict dm,
                      float* __restrict dc, int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict i = gates.i, * __restrict f = gates.f, * __restrict g = gates.g, * __restrict o = gates.o;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) LstmCell<FastMath>::back(gate, i[j], f[j], g[j], o[j], c_before[j], c[j], dm[j], dc[j]);
}

template <typename Gate>
inline void gru_forward_reset_after(const GruGates& gates, const float* __restrict h_before, float* __restrict h, int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict r = gates.r, * __restrict z = gates.z, * __restrict n = gates.n;
  const float* __restrict u = gates.extra;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) GruCell<FastMath>::forward_reset_after(gate, n[j], r[j], z[j], u[j], h_before[j], h[j]);
}

template <typename Gate>
inline void gru_back_reset_after(const GruGates& gates, const float* __restrict h_before, float* __restrict dh, int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict r = gates.r, * __restrict z = gates.z, * __restrict n = gates.n, * __restrict u = gates.extra;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) GruCell<FastMath>::back_reset_after(gate, n[j], r[j], z[j], u[j], h_before[j], dh[j]);
}

template <typename Gate>
inline void gru_forward_gates(const GruGates& gates, const float* __restrict h_before, int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict r = gates.r, * __restrict z = gates.z, * __restrict reset = gates.extra;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) GruCell<FastMath>::forward_gates(gate, r[j], z[j], h_before[j], reset[j]);
}

inline void gru_forward_state(const GruGates& gates, const float* __restrict h_before, float* __restrict h, int64_t count) {
  float* __restrict n = gates.n;
  const float* __restrict z = gates.z;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) GruCell<FastMath>::forward_state(n[j], z[j], h_before[j], h[j]);
}

template <typename Gate>
inline void gru_back_state(const GruGates& gates, const float* __restrict h_before, float* __restrict dh, int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict n = gates.n, * __restrict z = gates.z;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) GruCell<FastMath>::back_state(gate, n[j], z[j], h_before[j], dh[j]);
}

template <typename Gate>
inline void gru_back_gates(const GruGates& gates, const float* __restrict h_before, const float* __restrict dreset, float* __restrict dh,
                           int64_t count) {
  const Gate gate = gate_of<Gate>(gates);
  float* __restrict r = gates.r;
#pragma GCC ivdep
  for (int64_t j = 0; j < count; ++j) GruCell<FastMath>::back_gates(gate, r[j], h_before[j], dreset[j], dh[j]);
}

inline void vanilla_forward(bool relu, const float* __restrict sums, float* __restrict h, int64_t count) {
  if (relu)
    for (int64_t j = 0; j < count; ++j) h[j] = VanillaCell<FastMath>::forward_relu(sums[j]);
  else
    for (int64_t j = 0; j < count; ++j) h[j] = VanillaCell<FastMath>::forward_tanh(sums[j]);
}

inline void vanilla_back(bool relu, const float* __restrict h, const float* __restrict dh, float* __restrict errors, int64_t count) {
  if (relu)
    for (int64_t j = 0; j < count; ++j) errors[j] = VanillaCell<FastMath>::back_relu(h[j], dh[j]);
  else
    for (int64_t j = 0; j < count; ++j) errors[j] = VanillaCell<FastMath>::back_tanh(h[j], dh[j]);
}

inline void sigmoid(const float* __restrict x, float* __restrict y, int64_t count) {
  for (int64_t j = 0; j < count; ++j) y[j] = FastMath::sigmoid(x[j]);
}

inline void tanh(const float* __restrict x, float* __restrict y, int64_t count) {
  for (int64_t j = 0; j < count; ++j) y[j] = FastMath::tanh(x[j]);
}

}  // namespace

}  // namespace loops

void lstm_forward(const LstmGates& gates, const float* c_before, float* c, float* m, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::lstm_forward<loops::Hard>>(gates, c_before, c, m, count);
  vectorised<loops::lstm_forward<loops::Soft>>(gates, c_before, c, m, count);
}
void lstm_back(const LstmGates& gates, const float* c_before, const float* c, const float* dm, float* dc, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::lstm_back<loops::Hard>>(gates, c_before, c, dm, dc, count);
  vectorised<loops::lstm_back<loops::Soft>>(gates, c_before, c, dm, dc, count);
}
void gru_forward_reset_after(const GruGates& gates, const float* h_before, float* h, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::gru_forward_reset_after<loops::Hard>>(gates, h_before, h, count);
  vectorised<loops::gru_forward_reset_after<loops::Soft>>(gates, h_before, h, count);
}
void gru_back_reset_after(const GruGates& gates, const float* h_before, float* dh, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::gru_back_reset_after<loops::Hard>>(gates, h_before, dh, count);
  vectorised<loops::gru_back_reset_after<loops::Soft>>(gates, h_before, dh, count);
}
void gru_forward_gates(const GruGates& gates, const float* h_before, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::gru_forward_gates<loops::Hard>>(gates, h_before, count);
  vectorised<loops::gru_forward_gates<loops::Soft>>(gates, h_before, count);
}
void gru_forward_state(const GruGates& gates, const float* h_before, float* h, int64_t count) {
  vectorised<loops::gru_forward_state>(gates, h_before, h, count);
}
void gru_back_state(const GruGates& gates, const float* h_before, float* dh, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::gru_back_state<loops::Hard>>(gates, h_before, dh, count);
  vectorised<loops::gru_back_state<loops::Soft>>(gates, h_before, dh, count);
}
void gru_back_gates(const GruGates& gates, const float* h_before, const float* dreset, float* dh, int64_t count) {
  if (gates.hard_slope > 0) return vectorised<loops::gru_back_gates<loops::Hard>>(gates, h_before, dreset, dh, count);
  vectorised<loops::gru_back_gates<loops::Soft>>(gates, h_before, dreset, dh, count);
}
void vanilla_forward(bool relu, const float* sums, float* h, int64_t count) { vectorised<loops::vanilla_forward>(relu, sums, h, count); }
void vanilla_back(bool relu, const float* h, const float* dh, float* errors, int64_t count) {
  vectorised<loops::vanilla_back>(relu, h, dh, errors, count);
}
void sigmoid(const float* x, float* y, int64_t count) { vectorised<loops::sigmoid>(x, y, count); }
void tanh(const float* x, float* y, int64_t count) { vectorised<loops::tanh>(x, y, count); }

}  // namespace millrace::cpu
