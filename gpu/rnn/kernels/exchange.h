// How blocks hand states to each other within a kernel: the data is its own flag. A sequence is prefilled with the mark of
// what is not written yet; whoever needs an element polls the element itself until it is there. Every step has fresh
// addresses, so nothing is reset, no barrier spans the blocks, and relaxed accesses are enough: an element depends on
// nothing but itself.
//
//   publish<BFloat16>(sequence + at, h);                                     // by the thread that computed it
//   Waiting waiting(parameters.hung, parameters.patience, step);
//   gather<BFloat16>(rows, count, stride, columns, store, waiting);          // by all threads of a block together
//   if (!waiting.ended_well) ...                                             // another block never came
//
// Waiting ends after the patience of the parameters, or at once when some other thread has given up: the step is left in
// Parameters::hung, and the kernel returns. Patience 0 takes everything as it is.
#pragma once

#include "gpu/rnn/kernels/parameters.h"
#include "gpu/rnn/mapping.h"

namespace millrace::rnn {

MILLRACE_DEVICE unsigned short bits_of_short(Half value) { return value.bits; }
MILLRACE_DEVICE unsigned short bits_of_short(BFloat16 value) { return value.bits; }

MILLRACE_DEVICE void publish(float* to, float value) { device::store_relaxed(reinterpret_cast<unsigned*>(to), bits_of(canonical(value))); }
template <class Scalar>
MILLRACE_DEVICE void publish(Scalar* to, float value) {
  device::store_relaxed(reinterpret_cast<unsigned short*>(to), bits_of_short(from_float<Scalar>(value)));
}

MILLRACE_DEVICE float load_published(const float* from) { return float_of(device::load_relaxed(reinterpret_cast<const unsigned*>(from))); }
template <class Scalar>
MILLRACE_DEVICE Scalar load_published(const Scalar* from) {
  return Scalar{device::load_relaxed(reinterpret_cast<const unsigned short*>(from))};
}

class Waiting {
 public:
  MILLRACE_DEVICE Waiting(unsigned* hung, unsigned long long patience, int step)
      : hung_(hung), patience_(patience), code_(static_cast<unsigned>(step) + 1) {}

  // To be called after every poll in vain; false when it is time to give up.
  MILLRACE_DEVICE bool again() {
    if (patience_ == 0) return false;
    device::pause();
    if (++polls_ % 64 != 0) return true;
    const unsigned long long now = device::nanoseconds();
    if (polls_ == 64) since_ = now;
    if (device::load_relaxed(hung_) == 0 && now - since_ < patience_) return true;
    device::store_relaxed(hung_, code_);
    ended_well = false;
    return false;
  }

  bool ended_well = true;

 private:
  unsigned* hung_;
  unsigned long long patience_;
  unsigned long long since_ = 0;
  unsigned polls_ = 0;
  unsigned code_;
};

// Elements of one 16-byte access.
template <class Scalar>
inline constexpr int kElements = 16 / static_cast<int>(sizeof(Scalar));

MILLRACE_DEVICE float element_of(const device::Four& four, int index, float) { return float_of(four.word[index]); }
template <class Scalar>
MILLRACE_DEVICE Scalar element_of(const device::Four& four, int index, Scalar) {
  return {static_cast<unsigned short>(four.word[index / 2] >> (16U * static_cast<unsigned>(index % 2)))};
}

template <class Scalar>
MILLRACE_DEVICE bool all_written(const device::Four& four) {
  bool written = true;
  MILLRACE_UNROLL
  for (int i = 0; i < kElements<Scalar>; ++i) written = written && !is_unwritten(element_of(four, i, Scalar{}));
  return written;
}

// Brings `rows` rows of `columns` elements each to store(row, column, element), the threads of the block taking turns.
// `aligned`: rows begin at, and hold a multiple of, 16 bytes.
template <class Scalar, class Store>
MILLRACE_DEVICE void gather(const Scalar* from, int rows, int stride, int columns, bool aligned, Store store, Waiting& waiting) {
  const int thread = device::thread_index();
  const int threads = device::thread_count();
  if (!aligned) {
    for (int i = thread; i < rows * columns; i += threads) {
      const Scalar* const at = from + static_cast<long long>(i / columns) * stride + i % columns;
      Scalar value = load_published(at);
      while (is_unwritten(value) && waiting.again()) value = load_published(at);
      store(i / columns, i % columns, value);
    }
    return;
  }
  constexpr int kInFlight = 4;  // accesses that wait for their answers together
  const int chunks = columns / kElements<Scalar>;
  for (int first = thread; first < rows * chunks; first += threads * kInFlight) {
    device::Four values[kInFlight];
    const Scalar* at[kInFlight];
    MILLRACE_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      const int i = least(first + k * threads, rows * chunks - 1);
      at[k] = from + static_cast<long long>(i / chunks) * stride + i % chunks * kElements<Scalar>;
      values[k] = device::load_relaxed(reinterpret_cast<const device::Four*>(at[k]));
    }
    MILLRACE_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      const int i = first + k * threads;
      if (i >= rows * chunks) continue;
      while (!all_written<Scalar>(values[k]) && waiting.again())
        values[k] = device::load_relaxed(reinterpret_cast<const device::Four*>(at[k]));
      MILLRACE_UNROLL
      for (int e = 0; e < kElements<Scalar>; ++e) store(i / chunks, i % chunks * kElements<Scalar> + e, element_of(values[k], e, Scalar{}));
    }
  }
}

}  // namespace millrace::rnn
