#include "gpu/rnn/cuda/shipped_kernels.h"

void millrace::rnn::add_shipped_lstm(std::vector<Kernel>& table) {
  MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kLstm)
  MILLRACE_SHIPPED_MATRIX(MILLRACE_ENTRY, kLstm)
  MILLRACE_SHIPPED_CLUSTERS(MILLRACE_ENTRY, kLstm)
  MILLRACE_SHIPPED_MATRIX_CLUSTERS(MILLRACE_ENTRY, kLstm)
}
