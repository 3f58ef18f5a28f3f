// cuDNN's recurrent layers through the library's C interface, loaded when the program runs: what runs a layer where it is
// faster than our kernels, and what they are compared with. Internal to gpu/rnn.
//
//   const std::unique_ptr<Library> cudnn = load_cudnn(gpu);      // none without the library, or built without its headers
//   for (const std::string& algorithm : cudnn->algorithms()) ... cudnn->prepare(algorithm, shape) ...
//
// Refused: the canonical GRU, which it does not have, and recurrent projections, which this adapter does not pass on. Its
// descriptors take anything; other refusals come when an algorithm first runs. Math in fp32 for fp32 (no TF32).
// The GPU outlives the library and its layers.
#pragma once

#include <memory>

#include "gpu/rnn/cuda/cuda_machine.h"
#include "gpu/rnn/library.h"

namespace millrace::rnn {

std::unique_ptr<Library> load_cudnn(CudaMachine& gpu);

}  // namespace millrace::rnn
