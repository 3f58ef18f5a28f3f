// Compiled so that a product and its sum become one instruction, as packed_product.cpp is.
#include "core/cpu/streamed_product.h"

#include <algorithm>

#include "core/cpu/lanes.h"
#include "core/cpu/threading.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

// Outputs [begin, end) of a product forward; of one back the inputs [begin, end), a multiple of a vector's from the first on.
struct Product {
  const float* from;
  const float* w;
  float* to;
  int64_t rows, outputs, inputs;
  bool adds;
  int64_t begin, end;
};

// Going back so many outputs pass before sums return to memory.
constexpr int64_t kTogether = 16;

// Forward: M rows by N outputs, from `row` and `output` on.
template <int kVector, size_t M, size_t N, bool kBack>
requires(!kBack) inline void multiply_tile(const Product& p, int64_t row, int64_t output) {
  using Vector = typename VectorOf<kVector>::Type;
  const int64_t inputs = p.inputs, whole = inputs / kVector * kVector;
  const float *x[M], *w[N];
  for_constants<M>([&](auto m) { x[m()] = p.from + (row + static_cast<int64_t>(m())) * inputs; });
  for_constants<N>([&](auto n) { w[n()] = p.w + (output + static_cast<int64_t>(n())) * inputs; });
  Vector sums[M * N];
  for_constants<M * N>([&](auto at) { sums[at()] = Vector{}; });
  for (int64_t k = 0; k < whole; k += kVector) {
    Vector column[N];
    for_constants<N>([&](auto n) { load(w[n()] + k, column[n()]); });
    for_constants<M>([&](auto m) {
      Vector factor;
      load(x[m()] + k, factor);
      for_constants<N>([&](auto n) { sums[m() * N + n()] += factor * column[n()]; });
    });
  }
  float lanes[M * N * kVector];
  for_constants<M * N>([&](auto at) { store(lanes + at() * kVector, sums[at()]); });
  for (size_t m = 0; m < M; ++m)
    for (size_t n = 0; n < N; ++n) {
      float sum = 0;
      for (size_t lane = 0; lane < kVector; ++lane) sum += lanes[(m * N + n) * kVector + lane];
      for (int64_t k = whole; k < inputs; ++k) sum += x[m][k] * w[n][k];
      float* const to = p.to + (row + static_cast<int64_t>(m)) * p.outputs + output + static_cast<int64_t>(n);
      *to = p.adds ? *to + sum : sum;
    }
}

// Back: M rows by N vectors of inputs, kTogether outputs.
template <int kVector, size_t M, size_t N, bool kBack>
requires(kBack) inline void multiply_tile(const Product& p, int64_t row, int64_t input, int64_t output) {
  using Vector = typename VectorOf<kVector>::Type;
  const int64_t inputs = p.inputs, end = std::min(output + kTogether, p.outputs);
  float* const to = p.to + row * inputs + input;
  const auto place = [=](size_t at) { return to + static_cast<int64_t>(at / N) * inputs + static_cast<int64_t>(at % N) * kVector; };
  const float* e[M];
  for_constants<M>([&](auto m) { e[m()] = p.from + (row + static_cast<int64_t>(m())) * p.outputs; });
  Vector sums[M * N];
  for_constants<M * N>([&](auto at) { sums[at()] = Vector{}; });
  if (p.adds || output > 0) for_constants<M * N>([&](auto at) { load(place(at()), sums[at()]); });
  const float* w = p.w + output * inputs + input;
  for (int64_t k = output; k < end; ++k, w += inputs) {
    Vector column[N];
    for_constants<N>([&](auto n) { load(w + static_cast<int64_t>(n()) * kVector, column[n()]); });
    // Read once for all rows: without this the compiler reads them again for each.
    if constexpr (M > 1) asm volatile("" ::: "memory");
    for_constants<M>([&](auto m) {
      const float factor = e[m()][k];
      for_constants<N>([&](auto n) { sums[m() * N + n()] += factor * column[n()]; });
    });
  }
  for_constants<M * N>([&](auto at) { store(place(at()), sums[at()]); });
}

// Inputs that fill no vector.
inline void back_at_the_end(const Product& p, int64_t input, int64_t output) {
  const int64_t count = p.end - input;
  for (int64_t row = 0; row < p.rows; ++row) {
    float sums[16] = {};
    float* const to = p.to + row * p.inputs + input;
    if (p.adds || output > 0) std::copy_n(to, count, sums);
    for (int64_t k = output; k < std::min(output + kTogether, p.outputs); ++k) {
      const float factor = p.from[row * p.outputs + k];
      for (int64_t i = 0; i < count; ++i) sums[i] += factor * p.w[k * p.inputs + input + i];
    }
    std::copy_n(sums, count, to);
  }
}

// All rows while what is read of the weight is near: whole tiles, then smaller ones.
template <int kVector, size_t M, size_t N, bool kBack, typename... Place>
inline void multiply_rows(const Product& p, int64_t row, Place... place) {
  for (; row + static_cast<int64_t>(M) <= p.rows; row += static_cast<int64_t>(M))
    vectorised<multiply_tile<kVector, M, N, kBack>>(p, row, place...);
  if constexpr (M > 1) multiply_rows<kVector, M / 2, N, kBack>(p, row, place...);
}

template <int kVector>
constexpr size_t kRows = kVector == 16 ? 8 : 4;

template <int kVector>
void multiply(const Product& p) {
  int64_t output = p.begin;
  for (; output + 3 <= p.end; output += 3) multiply_rows<kVector, kRows<kVector>, 3, false>(p, 0, output);
  for (; output < p.end; ++output) multiply_rows<kVector, kRows<kVector>, 1, false>(p, 0, output);
}

template <int kVector>
void multiply_back(const Product& p) {
  for (int64_t output = 0; output < p.outputs; output += kTogether) {
    int64_t input = p.begin;
    for (; input + 3 * kVector <= p.end; input += 3 * kVector) multiply_rows<kVector, kRows<kVector>, 3, true>(p, 0, input, output);
    for (; input + kVector <= p.end; input += kVector) multiply_rows<kVector, kRows<kVector>, 1, true>(p, 0, input, output);
    if (input < p.end) vectorised<back_at_the_end>(p, input, output);
  }
}

template <typename Multiply>
void divide(int threads, int64_t count, int64_t together, Product product, const Multiply& multiply) {
  const int64_t parts = (count + together - 1) / together;
  run_team(threads, [&](const Team& team) {
    Product own = product;
    own.begin = std::min(count, parts * team.thread / team.threads * together);
    own.end = std::min(count, parts * (team.thread + 1) / team.threads * together);
    multiply(own);
  });
}

bool wide() { return loop_instruction_set() == InstructionSet::kAvx512; }

}  // namespace

bool WeightStream::serves(int64_t rows) const {
  constexpr int64_t kFar = int64_t{8} << 20;  // bytes
  constexpr int64_t kMostRows = 16;
  return loop_instruction_set() >= InstructionSet::kAvx2 && rows > 1 && rows <= kMostRows &&
         outputs * inputs * static_cast<int64_t>(sizeof(float)) >= kFar;
}

void multiply_streamed(int threads, const float* x, int64_t rows, const WeightStream& weight, float* y, bool adds) {
  const Product product{x, weight.data, y, rows, weight.outputs, weight.inputs, adds, 0, 0};
  divide(threads, weight.outputs, 3, product, [](const Product& own) { wide() ? multiply<16>(own) : multiply<8>(own); });
}

void multiply_streamed_back(int threads, const float* dy, int64_t rows, const WeightStream& weight, float* dx, bool adds) {
  const Product product{dy, weight.data, dx, rows, weight.outputs, weight.inputs, adds, 0, 0};
  divide(threads, weight.inputs, 48, product, [](const Product& own) { wide() ? multiply_back<16>(own) : multiply_back<8>(own); });
}

}  // namespace millrace::cpu
