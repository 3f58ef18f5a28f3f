#include "gpu/rnn/cuda/shipped_kernels.h"

namespace millrace::rnn {
namespace {

template <int kRows, int kColumns, int kGroup, int kSamples, int kWidth, int kOutputs>
Kernel one_exchange() {
  using K = GruOneExchange<FmaProduct<kRows, kColumns, kGroup, kSamples>, kWidth, kOutputs>;
  const KernelShape shape{Recurrence::kCanonicalGru, false, Precision::kFloat, false, kRows, kColumns, kGroup, kSamples, kWidth, kOutputs};
  return {shape, &K::shared_bytes, reinterpret_cast<const void*>(&persistent_kernel<K>)};
}

}  // namespace

void add_shipped_canonical_gru(std::vector<Kernel>& table) {
  MILLRACE_SHIPPED_TWO_PHASES(MILLRACE_ENTRY, kCanonicalGru)
  MILLRACE_SHIPPED_MATRIX_TWO_PHASES(MILLRACE_ENTRY, kCanonicalGru)
  table.push_back(one_exchange<4, 8, 32, 1, 16, 1>());
  table.push_back(one_exchange<8, 8, 8, 1, 64, 1>());
}

}  // namespace millrace::rnn
