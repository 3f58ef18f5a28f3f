// What can go wrong with a recurrent layer on a GPU, by name, so that a caller can do something about each.
//
//   try { layer.forward(); }
//   catch (const RnnError& error) { if (error.kind() == RnnFailure::kUnsupportedSize) use_something_else(); }
//
// Messages say what to do. Values only.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace millrace::rnn {

enum class RnnFailure {
  kNoGpu,              // no GPU, or no driver for it
  kWrongArchitecture,  // the GPU is older or newer than what the kernels were compiled for
  kOutOfMemory,        // of the GPU
  kHungExchange,       // a block waited for another one in vain
  kUnsupportedSize,    // a layer that no kernel can run, or a size that makes no sense
  kMissingPart,        // a library that this machine or build lacks
  kGpuFault,           // anything else that the GPU reports
};

std::string_view name_of(RnnFailure failure);

class RnnError : public std::runtime_error {
 public:
  RnnError(RnnFailure kind, const std::string& message) : std::runtime_error(std::string(name_of(kind)) + ": " + message), kind_(kind) {}
  RnnFailure kind() const { return kind_; }

 private:
  RnnFailure kind_;
};

}  // namespace millrace::rnn
