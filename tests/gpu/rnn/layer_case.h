// One layer with random weights and data, run by a machine and by the reference, and how far apart they are.
//
//   LayerCase one({.recurrence = Recurrence::kLstm, .inputs = 5, .hidden = 24, .batch = 3, .steps = 4, .training = true}, seed);
//   const Differences found = one.run(*emulated_machine({}));      // found.output, found.gradients
#pragma once

#include <functional>
#include <optional>

#include "tests/gpu/rnn/reference.h"

namespace millrace::rnn {

// Largest differences: of outputs absolutely, of gradients relative to the largest gradient of their kind.
struct Differences {
  double output = 0;
  double gradients = 0;
  bool persistent_forward = false;
  bool persistent_backward = false;
};

class LayerCase {
 public:
  LayerCase(const RnnShape& shape, unsigned seed, bool with_first_state = false);

  // `prepare` may choose layouts before the layer runs. Our own kernels, unless another runner is given; none: by the rule.
  Differences run(
      Machine& machine, const std::function<void(RnnLayer&)>& prepare = [](RnnLayer&) {},
      const std::optional<Runner>& runner = Runner()) const;
  const Reference& reference() const { return reference_; }
  const RnnShape& shape() const { return shape_; }

 private:
  RnnShape shape_;
  std::vector<Weights> weights_;
  Numbers input_, output_gradient_;
  Reference reference_;
};

}  // namespace millrace::rnn
