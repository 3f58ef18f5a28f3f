// The vocabulary as a GPU's instructions; see vocabulary.h, through which it is included. Memory orders are those of PTX
// at the scope of the GPU. Without includes: nvcc and the run-time compiler both know what is used here.
#pragma once

#define MILLRACE_DEVICE __device__ __forceinline__
#define MILLRACE_UNROLL _Pragma("unroll")
#define MILLRACE_NO_UNROLL _Pragma("unroll 1")
#define MILLRACE_RESTRICT __restrict__

namespace millrace::rnn::device {

MILLRACE_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
MILLRACE_DEVICE int thread_count() { return static_cast<int>(blockDim.x); }
MILLRACE_DEVICE int block_index() { return static_cast<int>(blockIdx.x); }

MILLRACE_DEVICE void block_barrier() { __syncthreads(); }
MILLRACE_DEVICE float shuffle_xor(float value, int mask) { return __shfl_xor_sync(0xFFFFFFFFU, value, mask); }

// Accesses of memory stay on their side of it: keeps the compiler from asking for everything at once and running out of
// registers for the answers.
MILLRACE_DEVICE void keep_order() { asm volatile("" ::: "memory"); }

// The value, computed anew here: what follows from it is not kept in registers from an earlier loop turn.
MILLRACE_DEVICE int computed_here(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

MILLRACE_DEVICE unsigned char* shared_memory() {
  extern __shared__ __align__(16) unsigned char millrace_shared[];
  return millrace_shared;
}

// A flag in shared memory that any thread of a block may raise between two barriers.
MILLRACE_DEVICE void raise_in_block(unsigned* flag) { *static_cast<volatile unsigned*>(flag) = 1; }
MILLRACE_DEVICE bool is_raised_in_block(const unsigned* flag) { return *static_cast<const volatile unsigned*>(flag) != 0; }

struct alignas(16) Four {
  unsigned word[4];
};

// To shared memory, at a multiple of 16 bytes.
MILLRACE_DEVICE void store_four(unsigned char* to, const Four& four) { *reinterpret_cast<Four*>(to) = four; }

MILLRACE_DEVICE unsigned load_relaxed(const unsigned* from) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
MILLRACE_DEVICE unsigned short load_relaxed(const unsigned short* from) {
  unsigned short value;
  asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(value) : "l"(from) : "memory");
  return value;
}
// Four words in one access; each word is whole, the four need not be of one moment.
MILLRACE_DEVICE Four load_relaxed(const Four* from) {
  Four value;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
               : "l"(from)
               : "memory");
  return value;
}
MILLRACE_DEVICE void store_relaxed(unsigned* to, unsigned value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
MILLRACE_DEVICE void store_relaxed(unsigned short* to, unsigned short value) {
  asm volatile("st.relaxed.gpu.global.u16 [%0], %1;" ::"l"(to), "h"(value) : "memory");
}
MILLRACE_DEVICE unsigned load_acquire(const unsigned* from) {
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
MILLRACE_DEVICE void store_release(unsigned* to, unsigned value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// Blocks of a cluster. A mailbox counts the bytes that were sent to it, phase by phase; one thread opens it, and expects each phase's.
using Mailbox = unsigned long long;
using ClusterAddress = unsigned;
MILLRACE_DEVICE unsigned shared_address(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
MILLRACE_DEVICE int cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
MILLRACE_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
MILLRACE_DEVICE ClusterAddress in_cluster(const void* shared, int rank) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(shared)), "r"(rank));
  return there;
}
MILLRACE_DEVICE void send(ClusterAddress to, ClusterAddress mailbox, float value) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to), "f"(value), "r"(mailbox) : "memory");
}
MILLRACE_DEVICE void open(Mailbox* mailbox) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(mailbox)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
MILLRACE_DEVICE void expect(Mailbox* mailbox, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(mailbox)), "r"(bytes) : "memory");
}
// Waits for the end of a phase: of the n-th, from 0 on, with n modulo 2.
MILLRACE_DEVICE void await(Mailbox* mailbox, int phase) {
  unsigned ended = 0;
  while (ended == 0)
    asm volatile("{ .reg .pred ended; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%1], %2; selp.u32 %0, 1, 0, ended; }"
                 : "=r"(ended)
                 : "r"(shared_address(mailbox)), "r"(phase)
                 : "memory");
}
#else  // never run: such GPUs are offered no kernels of clusters
MILLRACE_DEVICE int cluster_rank() { return 0; }
MILLRACE_DEVICE void cluster_barrier() {}
MILLRACE_DEVICE ClusterAddress in_cluster(const void* shared, int) { return shared_address(shared); }
MILLRACE_DEVICE void send(ClusterAddress, ClusterAddress, float) {}
MILLRACE_DEVICE void open(Mailbox*) {}
MILLRACE_DEVICE void expect(Mailbox*, int) {}
MILLRACE_DEVICE void await(Mailbox*, int) {}
#endif

MILLRACE_DEVICE float load_constant(const float* from) { return __ldg(from); }
MILLRACE_DEVICE unsigned short load_constant(const unsigned short* from) { return __ldg(from); }
// Two neighbouring 16-bit values of shared memory as one word.
MILLRACE_DEVICE unsigned load_pair(const unsigned short* from) { return *reinterpret_cast<const unsigned*>(from); }

MILLRACE_DEVICE unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}
// Between polls in vain, the n-th of which it is: who waits for long leaves the L2 cache to those who do not.
MILLRACE_DEVICE void pause(unsigned polls) {
  if (polls > 2) __nanosleep(32);
}

// By powers of two; what is too small for a normal number is zero.
MILLRACE_DEVICE float exponential(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504F));
  return power;
}
// To the last bit but one; of infinity zero.
MILLRACE_DEVICE float reciprocal(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return inverse;
}

// sums += a * b: 16 rows by 8 columns, 16 products each, spread over a warp as fragments (mapping.h says which element is
// whose). Formats::kHalf or kBFloat16 by overload.
MILLRACE_DEVICE void multiply_16x8x16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], Half) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
MILLRACE_DEVICE void multiply_16x8x16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2], BFloat16) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace millrace::rnn::device
