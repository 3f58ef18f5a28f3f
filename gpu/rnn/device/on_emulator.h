// The vocabulary as calls of the emulator; see vocabulary.h, through which it is included. Relaxed, acquire and release are
// the C++ orders, so ThreadSanitizer judges a kernel's exchanges as it judges any program's.
#pragma once

#include <cmath>

#include "gpu/rnn/device/emulator.h"
#include "gpu/rnn/device/fragments.h"

#define MILLRACE_DEVICE inline
#define MILLRACE_UNROLL
#define MILLRACE_NO_UNROLL
#define MILLRACE_RESTRICT __restrict__

namespace millrace::rnn::device {

inline int thread_index() { return emulator::thread_index(); }
inline int thread_count() { return emulator::thread_count(); }
inline int block_index() { return emulator::block_index(); }
inline void block_barrier() { emulator::block_barrier(); }
inline void keep_order() {}
inline int computed_here(int value) { return value; }
inline unsigned char* shared_memory() { return emulator::shared_memory(); }

inline float shuffle_xor(float value, int mask) {
  const emulator::WarpWords& words = emulator::exchange_in_warp({bits_of(value)});
  return float_of(words[static_cast<std::size_t>((thread_index() % 32) ^ mask)][0]);
}

struct alignas(16) Four {
  unsigned word[4];
};

// Kernels see numbers as words, which C++ lets only such types do.
using AnyWord = unsigned __attribute__((may_alias));
using AnyHalfWord = unsigned short __attribute__((may_alias));

inline void store_four(unsigned char* to, const Four& four) {
  for (int i = 0; i < 4; ++i) reinterpret_cast<AnyWord*>(to)[i] = four.word[i];
}

inline unsigned load_relaxed(const unsigned* from) { return __atomic_load_n(static_cast<const AnyWord*>(from), __ATOMIC_RELAXED); }
inline unsigned short load_relaxed(const unsigned short* from) {
  return __atomic_load_n(static_cast<const AnyHalfWord*>(from), __ATOMIC_RELAXED);
}
inline Four load_relaxed(const Four* from) {
  Four value;
  for (int i = 0; i < 4; ++i) value.word[i] = load_relaxed(&from->word[i]);
  return value;
}
inline void store_relaxed(unsigned* to, unsigned value) { __atomic_store_n(static_cast<AnyWord*>(to), value, __ATOMIC_RELAXED); }
inline void store_relaxed(unsigned short* to, unsigned short value) {
  __atomic_store_n(static_cast<AnyHalfWord*>(to), value, __ATOMIC_RELAXED);
}
inline unsigned load_acquire(const unsigned* from) { return __atomic_load_n(from, __ATOMIC_ACQUIRE); }
inline void store_release(unsigned* to, unsigned value) {
  if (emulator::release_is_faulty()) return __atomic_store_n(to, value, __ATOMIC_RELAXED);
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
}

inline void raise_in_block(unsigned* flag) { store_relaxed(flag, 1); }
inline bool is_raised_in_block(const unsigned* flag) { return load_relaxed(flag) != 0; }

using Mailbox = emulator::Mailbox;
using ClusterAddress = unsigned char*;
inline int cluster_rank() { return emulator::cluster_rank(); }
inline void cluster_barrier() { emulator::cluster_barrier(); }
inline ClusterAddress in_cluster(const void* shared, int rank) { return emulator::in_cluster(shared, rank); }
inline void send(ClusterAddress to, ClusterAddress mailbox, float value) {
  *reinterpret_cast<AnyWord*>(to) = bits_of(value);
  emulator::deliver(reinterpret_cast<Mailbox*>(mailbox), static_cast<int>(sizeof(value)));
}
inline void open(Mailbox* mailbox) { *mailbox = {}; }
inline void expect(Mailbox* mailbox, int bytes) { emulator::expect(mailbox, bytes); }
inline void await(Mailbox* mailbox, int phase) {
  while (!emulator::has_ended(mailbox, phase)) emulator::pause();
}

inline float load_constant(const float* from) { return *from; }
inline unsigned short load_constant(const unsigned short* from) { return *static_cast<const AnyHalfWord*>(from); }

inline unsigned load_pair(const unsigned short* from) { return *reinterpret_cast<const AnyWord*>(from); }

inline unsigned long long nanoseconds() { return emulator::nanoseconds(); }
inline void pause(unsigned) { emulator::pause(); }
inline float exponential(float x) { return std::exp(x); }
inline float reciprocal(float x) { return 1 / x; }

template <class Scalar>
inline void multiply_16x8x16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], Scalar) {
  const emulator::WarpWords& words = emulator::exchange_in_warp({a[0], a[1], a[2], a[3], b[0], b[1]});
  const auto element = [&](int lane, int first, int index) {
    const unsigned word = words[static_cast<std::size_t>(lane)][static_cast<std::size_t>(first + index / 2)];
    return to_float(Scalar{static_cast<unsigned short>(word >> (16U * static_cast<unsigned>(index % 2)))});
  };
  const int lane = thread_index() % 32;
  for (int i = 0; i < 4; ++i) {
    const Place at = place_in_sums(lane, i);
    for (int k = 0; k < 16; ++k) {
      const Holder left = holder_in_left(at.row, k);
      const Holder right = holder_in_right(k, at.column);
      sums[i] += element(left.lane, 0, left.index) * element(right.lane, 4, right.index);
    }
  }
}

}  // namespace millrace::rnn::device
