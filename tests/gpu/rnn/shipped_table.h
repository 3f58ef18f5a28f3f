// The shipped kernels as data on the host, without any of CUDA: what selection chooses from, and under which name nvcc knows each.
//
//   for (const ShippedKernel& one : shipped_table()) ... one.kernel.shape, one.type ...   // "millrace::rnn::Persistent<...>"
#pragma once

#include <string>
#include <vector>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

struct ShippedKernel {
  Kernel kernel;     // without an entry
  std::string type;  // the argument of persistent_kernel<>, as a demangler prints it
};
const std::vector<ShippedKernel>& shipped_table();

}  // namespace millrace::rnn
