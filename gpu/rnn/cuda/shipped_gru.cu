#include "gpu/rnn/cuda/shipped_kernels.h"

void millrace::rnn::add_shipped_gru(std::vector<Kernel>& table) {
  MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kGru)
  MILLRACE_SHIPPED_MATRIX(MILLRACE_ENTRY, kGru)
  MILLRACE_SHIPPED_CLUSTERS(MILLRACE_ENTRY, kGru)
}
