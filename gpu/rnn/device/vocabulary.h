// The words in which kernels are written. Under nvcc they are the GPU's instructions; under a C++ compiler they run on
// the emulator of a GPU (emulator.h), so that the same kernel source is tested on any machine.
//
//   template <int kRows> MILLRACE_DEVICE void example(float* out) {
//     float* shared = reinterpret_cast<float*>(device::shared_memory());
//     shared[device::thread_index()] = 1;
//     device::block_barrier();
//     out[device::thread_index()] = device::shuffle_xor(shared[device::thread_index() ^ 1], 1);
//   }
//
// Words (namespace device): thread_index, thread_count, block_index, block_barrier, shuffle_xor, shared_memory;
// load_relaxed and store_relaxed, which other blocks see whole and in no order; load_acquire and store_release, after and
// before which all else is seen; load_constant for what nobody writes while the kernel runs; nanoseconds and pause for
// waiting; multiply_16x8x16, the matrix units' product of fragments; sigmoid, hyperbolic_tangent, sigmoid_or_tangent.
// Blocks of a cluster, from compute capability 9.0 on: cluster_rank, cluster_barrier; in_cluster, the place in another block's shared
// memory; send, which brings a number there and counts it in that block's mailbox; open, expect and await for its owner.
// Limits: blocks of one dimension, whole warps; shuffles and matrix products are for whole warps; no memory scopes below
// the GPU, no asynchronous copies but send. The emulator says nothing about time.
#pragma once

#include "gpu/rnn/device/scalar.h"
#if defined(__CUDACC__)
#include "gpu/rnn/device/on_cuda.h"
#else
#include "gpu/rnn/device/on_emulator.h"
#endif

namespace millrace::rnn::device {

// An array that loops unroll into registers.
template <class T, int kCount>
using Registers = T[static_cast<unsigned>(kCount)];

inline constexpr int kWarp = 32;

MILLRACE_DEVICE int lane_index() { return thread_index() % kWarp; }
MILLRACE_DEVICE int warp_index() { return thread_index() / kWarp; }

// None overflows: the exponential of the other sign goes to zero or to infinity, whose inverse is zero. Without branches, which
// cost more than both sides.
MILLRACE_DEVICE float sigmoid(float x) { return reciprocal(1.0F + exponential(-x)); }
// `inverse`: of 1 + exp(2 x). Near zero the quotient cancels; the series' next term is below a rounding error there.
MILLRACE_DEVICE float tangent_from(float x, float inverse) {
  const float square = x * x;
  const float near_zero = x * (1.0F + square * (-1.0F / 3 + square * (2.0F / 15 - square * (17.0F / 315))));
  return square < 0.0025F ? near_zero : 1.0F - 2.0F * inverse;
}
MILLRACE_DEVICE float hyperbolic_tangent(float x) { return tangent_from(x, reciprocal(1.0F + exponential(2.0F * x))); }
// One or the other, for lanes of a warp that need both.
MILLRACE_DEVICE float sigmoid_or_tangent(float x, bool tangent) {
  const float inverse = reciprocal(1.0F + exponential(tangent ? 2.0F * x : -x));
  const float of_tangent = tangent_from(x, inverse);
  return tangent ? of_tangent : inverse;
}

}  // namespace millrace::rnn::device
