#include "gpu/rnn/error.h"

namespace millrace::rnn {

std::string_view name_of(RnnFailure failure) {
  switch (failure) {
    case RnnFailure::kNoGpu: return "no GPU";
    case RnnFailure::kWrongArchitecture: return "wrong architecture";
    case RnnFailure::kOutOfMemory: return "out of memory";
    case RnnFailure::kHungExchange: return "hung exchange";
    case RnnFailure::kUnsupportedSize: return "unsupported size";
    case RnnFailure::kMissingPart: return "missing part";
    case RnnFailure::kGpuFault: return "GPU fault";
  }
  return "";
}

}  // namespace millrace::rnn
