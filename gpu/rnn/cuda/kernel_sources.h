// Internal to gpu/rnn: the text of the headers that kernels are made of, by the names under which they include each other.
// Generated into the program by CMake, for the run-time compiler.
#pragma once

#include <vector>

namespace millrace::rnn {

struct KernelSource {
  const char* name;
  const char* text;
};
extern const std::vector<KernelSource> kKernelSources;

}  // namespace millrace::rnn
