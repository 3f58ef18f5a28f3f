#include "gpu/rnn/cuda/shipped_kernels.h"

void millrace::rnn::add_shipped_vanilla(std::vector<Kernel>& table) {
  MILLRACE_SHIPPED_VANILLA(MILLRACE_ENTRY)
  MILLRACE_SHIPPED_MATRIX_VANILLA(MILLRACE_ENTRY)
}
