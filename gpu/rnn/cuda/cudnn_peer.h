// cuDNN's recurrent layers, as the peer to compare with: every algorithm that accepts a case, through the library's C
// interface, loaded when the program runs.
//
//   const std::unique_ptr<CudnnPeer> cudnn = load_cudnn(gpu);          // none without the library, or built without its headers
//   for (const std::string& algorithm : CudnnPeer::algorithms())
//     if (const std::unique_ptr<PeerLayer> layer = cudnn->prepare(algorithm, shape)) layer->forward();
//
// A case that an algorithm refuses gives nothing, with the reason in refusal(). Math in fp32 for fp32 (no TF32).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/rnn/cuda/cuda_machine.h"
#include "gpu/rnn/layer.h"

namespace millrace::rnn {

// One layer in cuDNN on the machine's stream.
class PeerLayer {
 public:
  virtual ~PeerLayer() = default;
  virtual void set_weights(int side, const Weights& weights) = 0;
  virtual void* input() = 0;
  virtual void* output() = 0;
  virtual void forward() = 0;   // throw RnnError when the algorithm refuses on execution
  virtual void backward() = 0;  // data and weights
};

class CudnnPeer {
 public:
  virtual ~CudnnPeer() = default;
  static std::vector<std::string> algorithms() { return {"standard", "persist static", "persist dynamic", "persist static small h"}; }
  virtual std::string version() const = 0;
  // Null when refused; refusal() says why.
  virtual std::unique_ptr<PeerLayer> prepare(const std::string& algorithm, const RnnShape& shape) = 0;
  const std::string& refusal() const { return refusal_; }

 protected:
  std::string refusal_;
};

std::unique_ptr<CudnnPeer> load_cudnn(CudaMachine& gpu);

}  // namespace millrace::rnn
