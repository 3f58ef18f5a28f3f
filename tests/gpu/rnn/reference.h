// Recurrent layers in double precision, one step and one unit after the other, to hold the kernels against.
//
//   Reference reference(shape, {side0, side1});
//   reference.forward(x);                      // reference.output, [steps][batch][outputs]
//   reference.backward(dy);                    // reference.gradients[side], input_gradient, ...
#pragma once

#include <vector>

#include "gpu/rnn/layer.h"

namespace millrace::rnn {

using Numbers = std::vector<double>;

struct ReferenceGradients {
  Numbers input, recurrent, bias, candidate_bias, projection, first_state, first_cell;
};

class Reference {
 public:
  Reference(const RnnShape& shape, std::vector<Weights> weights);

  // First states per side, [batch][hidden], before forward(); empty means zeros.
  std::vector<Numbers> first_state, first_cell;

  void forward(const Numbers& input);
  void backward(const Numbers& output_gradient);

  Numbers output;
  Numbers input_gradient;
  std::vector<ReferenceGradients> gradients;

 private:
  struct SideMemory {
    Numbers gates, cell, inner, recurrent_sums, reset_state, state;
  };
  void forward_side(int side);
  void backward_side(int side, const Numbers& output_gradient);
  int time(int side, int step) const { return side == 0 ? step : shape_.steps - 1 - step; }
  double state_before(int side, int step, int sample, int unit) const;
  double cell_before(int side, int step, int sample, int unit) const;

  RnnShape shape_;
  std::vector<Weights> weights_;
  std::vector<SideMemory> sides_;
  Numbers input_;
};

}  // namespace millrace::rnn
