// Internal to gpu/rnn: the shipped kernels as entries of a table, for the .cu files that compile them.
//
//   void add_shipped_lstm(std::vector<Kernel>& table) { MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kLstm) }
#pragma once

#include <vector>

#include "gpu/rnn/dispatch.h"
#include "gpu/rnn/kernels/shipped.h"

namespace millrace::rnn {

void add_shipped_lstm(std::vector<Kernel>& table);
void add_shipped_gru(std::vector<Kernel>& table);
void add_shipped_canonical_gru(std::vector<Kernel>& table);
void add_shipped_vanilla(std::vector<Kernel>& table);

#if defined(__CUDACC__)
// One block per multiprocessor: it has all registers and all shared memory.
template <class K>
__global__ void __launch_bounds__(kKernelThreads, 1) persistent_kernel(Parameters parameters) {
  K::run(parameters);
}

// Clusters of blocks, for which older GPUs have no code.
template <class K>
__global__ void __launch_bounds__(kKernelThreads, 1) clustered_kernel(Parameters parameters) {
#if __CUDA_ARCH__ >= 900
  K::run(parameters);
#endif
}

template <Recurrence kRecurrence, bool kBackward, class S, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples,
          int kCluster = 1>
Kernel shipped_entry() {
  using K = KernelOf<kRecurrence, kBackward, S, kMatrixUnits, kRows, kColumns, kGroup, kSamples, kCluster>;
  const KernelShape shape{kRecurrence, kBackward, precision_of<S>(), kMatrixUnits, kRows, kColumns, kGroup, kSamples, 0, 0, kCluster};
  if constexpr (kCluster > 1)
    return {shape, &K::shared_bytes, reinterpret_cast<const void*>(&clustered_kernel<K>)};
  else
    return {shape, &K::shared_bytes, reinterpret_cast<const void*>(&persistent_kernel<K>)};
}

#define MILLRACE_ENTRY(recurrence, backward, format, ...) \
  table.push_back(shipped_entry<Recurrence::recurrence, backward, format, __VA_ARGS__>());
#endif

}  // namespace millrace::rnn
