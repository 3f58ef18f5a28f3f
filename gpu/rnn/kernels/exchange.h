// How blocks hand states to each other within a kernel: the data is its own flag. A sequence is prefilled with the mark of
// what is not written yet; whoever needs an element polls the element itself until it is there. Every step has fresh
// addresses, so nothing is reset, no barrier spans the blocks, and relaxed accesses are enough: an element depends on
// nothing but itself.
//
//   publish<BFloat16>(sequence + at, h);                                     // by the thread that computed it
//   const Turns turns = turns_of(columns / kElements<BFloat16>);            // once: no step divides
//   Waiting waiting(parameters.hung, parameters.patience, step);
//   gather<false, 4>(from, rows, stride, columns, turns, aligned, place, waiting);      // by all threads of a block together
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
    device::pause(++polls_);
    if (polls_ % 64 != 0) return true;
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

template <class Scalar>
MILLRACE_DEVICE bool all_written(const device::Four& four) {
  if (kElements<Scalar> == 4) {
    bool written = true;
    MILLRACE_UNROLL
    for (int i = 0; i < 4; ++i) written = written && four.word[i] != 0xFFFFFFFFU;
    return written;
  }
  // Two elements at once: the highest bit of a half stays where it was all ones, and in no other.
  unsigned marks = 0;
  MILLRACE_UNROLL
  for (int i = 0; i < 4; ++i) marks |= (0xFFFEFFFEU - four.word[i]) & four.word[i];
  return (marks & 0x80008000U) == 0;
}

// How a block's threads take turns at the chunks of rows, one after the other: where a thread begins and how far it goes from one
// chunk of its own to the next, so that counting on takes additions alone.
struct Turns {
  int chunks;  // of a row
  int mine;    // of those of one row
  int first_row;
  int first_chunk;
  int rows;        // on ...
  int and_chunks;  // ... fewer than a row has
};
MILLRACE_DEVICE Turns turns_of(int chunks) {
  const int thread = device::thread_index();
  const int threads = device::thread_count();
  const int in_a_row = greatest(1, chunks);
  return {chunks,
          (greatest(0, chunks - thread) + threads - 1) / threads,
          thread / in_a_row,
          thread % in_a_row,
          threads / in_a_row,
          threads % in_a_row};
}

// Brings `rows` rows of `columns` elements each to place.one(row, column, element), or place.four(row, column, words) by 16 bytes, the
// threads of the block taking turns. `turns`: of the 16-byte chunks of a row. `aligned`: rows begin at, and hold a multiple of,
// 16 bytes. kOneRow: never more than one, which saves the registers that count rows.
// kInFlight: accesses of a thread that wait for their answers together.
template <bool kOneRow, int kInFlight, class Scalar, class Place>
MILLRACE_DEVICE void gather(const Scalar* from, int rows, int stride, int columns, const Turns& turns, bool aligned, Place place,
                            Waiting& waiting) {
  const int thread = device::thread_index();
  const int threads = device::thread_count();
  if (!aligned) {
    for (int i = thread; i < rows * columns; i += threads) {
      const Scalar* const at = from + static_cast<long long>(i / columns) * stride + i % columns;
      Scalar value = load_published(at);
      while (is_unwritten(value) && waiting.again()) value = load_published(at);
      place.one(i / columns, i % columns, value);
    }
    return;
  }
  if (kOneRow && rows < 1) return;
  int row = kOneRow ? 0 : turns.first_row;
  int chunk = kOneRow ? thread : turns.first_chunk;
  int left = turns.mine;  // of one row
  while (kOneRow ? left > 0 : row < rows) {
    device::Registers<device::Four, kInFlight> values;
    device::Registers<int, kInFlight> rows_of;
    device::Registers<int, kInFlight> chunks_of;
    const auto load = [&](int k) {
      return device::load_relaxed(reinterpret_cast<const device::Four*>(from + rows_of[k] * stride + chunks_of[k] * kElements<Scalar>));
    };
    const auto is_there = [&](int k) { return kOneRow ? k < left : rows_of[k] < rows; };
    MILLRACE_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      rows_of[k] = row;
      chunks_of[k] = chunk;
      if (is_there(k)) values[k] = load(k);
      if (kOneRow) {
        chunk += threads;
        continue;
      }
      row += turns.rows;
      chunk += turns.and_chunks;
      if (chunk >= turns.chunks) {
        chunk -= turns.chunks;
        ++row;
      }
    }
    MILLRACE_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      if (!is_there(k)) continue;
      while (!all_written<Scalar>(values[k]) && waiting.again()) values[k] = load(k);
      place.four(rows_of[k], chunks_of[k] * kElements<Scalar>, values[k]);
    }
    left -= kInFlight;
  }
}

}  // namespace millrace::rnn
