#include "core/cpu/vector_math.h"

#include <array>
#include <bit>

#include "core/base/index.h"
#include "core/device/activation_math.h"
#include "core/device/optimizer_math.h"

namespace millrace::cpu {

namespace loops {

namespace {

inline void add_to(float* __restrict to, const float* __restrict from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

inline void copy_strided(const float* __restrict from, int64_t from_step, float* __restrict to, int64_t to_step, int64_t count, bool add) {
  if (add)
    for (int64_t i = 0; i < count; ++i) to[i * to_step] += from[i * from_step];
  else
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

inline void multiply(const float* __restrict a, const float* __restrict b, float* __restrict to, int64_t count, bool add) {
  if (add)
    for (int64_t i = 0; i < count; ++i) to[i] += a[i] * b[i];
  else
    for (int64_t i = 0; i < count; ++i) to[i] = a[i] * b[i];
}

// Calls visit(math) with the kind known to the compiler, so that the loop around it has no branch left.
template <typename Visit>
inline void with_known_kind(const Activation& activation, Visit visit) {
  const auto visit_if = [&]<size_t kAt>(std::integral_constant<size_t, kAt>) {
    if (activation.kind == kActivationKinds[kAt]) visit(ActivationMath<float>(Activation{kActivationKinds[kAt], activation.slope}));
  };
  [&]<size_t... kAt>(std::index_sequence<kAt...>) { (visit_if(std::integral_constant<size_t, kAt>()), ...); }
  (std::make_index_sequence<kActivationKinds.size()>());
}

inline void activate(const Activation& activation, const float* x, float* y, int64_t count) {
  with_known_kind(activation, [=](ActivationMath<float> math) {
    for (int64_t i = 0; i < count; ++i) y[i] = math(x[i]);
  });
}

inline void multiply_by_derivative(const Activation& activation, const float* __restrict output, float* __restrict error, int64_t count) {
  with_known_kind(activation, [=](ActivationMath<float> math) {
    for (int64_t i = 0; i < count; ++i) error[i] *= math.derivative(output[i]);
  });
}

inline void add_row(float* __restrict to, const float* __restrict row, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * columns + c] += row[c];
}

inline void add_rows(float* __restrict to, const float* __restrict from, int64_t rows, int64_t stride, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[c] += from[r * stride + c];
}

inline double sum_of_squares(const float* values, int64_t count) {
  constexpr int64_t kAccumulators = 16;
  std::array<double, kAccumulators> sums{};
  int64_t i = 0;
  for (; i + kAccumulators <= count; i += kAccumulators)
    for (int64_t lane = 0; lane < kAccumulators; ++lane) {
      const double value = values[i + lane];
      fast_item(sums, lane) += value * value;
    }
  for (; i < count; ++i) fast_item(sums, i % kAccumulators) += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

inline bool all_finite(const float* values, int64_t count) {
  // An exponent of ones is infinity or NaN.
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t worst = 0;
  for (int64_t i = 0; i < count; ++i) worst |= (std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent ? 1u : 0u;
  return worst == 0;
}

// With the kind, and whether there is a limit, known to the compiler: what is left is a loop without branches, at the memory's pace.
template <OptimizerKind kKind, bool kClips>
inline void update_as(UpdateArguments arguments, float* __restrict weights, const float* __restrict gradients, float* __restrict first,
                      float* __restrict second, int64_t count) {
  arguments.optimizer.kind = kKind;
  if constexpr (!kClips) arguments.value_limit.reset();
  const OptimizerMath<float> math(arguments);
  for (int64_t i = 0; i < count; ++i) {
    float weight = weights[i], a = 0, b = 0;
    if constexpr (kKind != OptimizerKind::kSgd) a = first[i];
    if constexpr (kKind == OptimizerKind::kAdam || kKind == OptimizerKind::kAdamW) b = second[i];
    math(weight, gradients[i], &a, &b);
    weights[i] = weight;
    if constexpr (kKind != OptimizerKind::kSgd) first[i] = a;
    if constexpr (kKind == OptimizerKind::kAdam || kKind == OptimizerKind::kAdamW) second[i] = b;
  }
}

template <OptimizerKind kKind>
inline void update_as(const UpdateArguments& arguments, float* weights, const float* gradients, float* first, float* second,
                      int64_t count) {
  if (arguments.value_limit)
    update_as<kKind, true>(arguments, weights, gradients, first, second, count);
  else
    update_as<kKind, false>(arguments, weights, gradients, first, second, count);
}

inline void update(const UpdateArguments& arguments, float* weights, const float* gradients, float* first_slot, float* second_slot,
                   float* average, int64_t count) {
  if (arguments.optimizer.averages()) {
    const auto size = to_size(count);
    const auto slot = [size](float* values) { return values == nullptr ? std::span<float>{} : std::span<float>{values, size}; };
    return update_elements<float>(arguments, {weights, size}, {gradients, size}, slot(first_slot), slot(second_slot), slot(average));
  }
  switch (arguments.optimizer.kind) {
    case OptimizerKind::kSgd: return update_as<OptimizerKind::kSgd>(arguments, weights, gradients, first_slot, second_slot, count);
    case OptimizerKind::kMomentum:
      return update_as<OptimizerKind::kMomentum>(arguments, weights, gradients, first_slot, second_slot, count);
    case OptimizerKind::kNesterov:
      return update_as<OptimizerKind::kNesterov>(arguments, weights, gradients, first_slot, second_slot, count);
    case OptimizerKind::kAdam: return update_as<OptimizerKind::kAdam>(arguments, weights, gradients, first_slot, second_slot, count);
    case OptimizerKind::kAdamW: return update_as<OptimizerKind::kAdamW>(arguments, weights, gradients, first_slot, second_slot, count);
  }
}

}  // namespace

}  // namespace loops

void add_to(float* to, const float* from, int64_t count) { vectorised<loops::add_to>(to, from, count); }
void copy_strided(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t count, bool add) {
  vectorised<loops::copy_strided>(from, from_step, to, to_step, count, add);
}
void multiply(const float* a, const float* b, float* to, int64_t count, bool add) { vectorised<loops::multiply>(a, b, to, count, add); }
void activate(const Activation& activation, const float* x, float* y, int64_t count) {
  vectorised<loops::activate>(activation, x, y, count);
}
void multiply_by_derivative(const Activation& activation, const float* output, float* error, int64_t count) {
  vectorised<loops::multiply_by_derivative>(activation, output, error, count);
}
void add_row(float* to, const float* row, int64_t rows, int64_t columns) { vectorised<loops::add_row>(to, row, rows, columns); }
void add_rows(float* to, const float* from, int64_t rows, int64_t stride, int64_t columns) {
  vectorised<loops::add_rows>(to, from, rows, stride, columns);
}
double sum_of_squares(const float* values, int64_t count) { return vectorised<loops::sum_of_squares>(values, count); }
bool all_finite(const float* values, int64_t count) { return vectorised<loops::all_finite>(values, count); }
void update(const UpdateArguments& arguments, float* weights, const float* gradients, float* first_slot, float* second_slot, float* average,
            int64_t count) {
  vectorised<loops::update>(arguments, weights, gradients, first_slot, second_slot, average, count);
}

}  // namespace millrace::cpu
