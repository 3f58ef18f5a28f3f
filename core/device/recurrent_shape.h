// The sizes of a recurrent layer, worked out once from its kernel's specification.
//
//   const RecurrentShape shape(spec, cell);
//   for (int64_t d = 0; d < shape.directions; ++d) ... parameters[d * shape.parameters_each + RecurrentShape::kHidden]
//
// A step's record is what a cell keeps of it: the gates in PyTorch's order (lstm i f g o, gru r z n), and for gru one more,
// u = U h' + b where the reset comes after the product, r h' where it comes before.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/device.h"
#include "core/graph/recurrent_memory.h"

namespace millrace {

struct RecurrentShape {
  RecurrentShape(const KernelSpec& spec, const Recurrent& operation)
      : cell(operation.cell),
        reset_after(operation.reset_after),
        hard_gates(operation.gate_activation == GateActivation::kHardSigmoid),
        gate_slope(operation.gate_slope),
        projects(operation.projection > 0),
        multiplies_input(!spec.finish),
        stateful(operation.stateful),
        samples(spec.micro_batch),
        steps(spec.inputs[0].height),
        inputs(spec.inputs[0].channels),
        hidden(operation.hidden),
        features(operation.features()),
        directions(operation.directions()),
        gates(gates_of(cell)),
        record(recorded_gates(cell)),
        truncation(operation.truncation),
        mini_batch(spec.micro_batch * spec.micro_batches),
        parameters_each((multiplies_input ? 4 : 3) + (projects ? 1 : 0)) {
    const Shape output{features * directions, steps, 1};
    MILLRACE_CHECK(spec.output == output, "{}: output {}, expected {}", spec.layer, text_of(spec.output), text_of(output));
    MILLRACE_CHECK(multiplies_input || inputs == directions * gates * hidden, "{}: sums of {} channels, expected {}", spec.layer, inputs,
                   directions * gates * hidden);
  }

  bool has_cell_state() const { return cell == CellKind::kLstm; }
  // Where a direction's parameters are; without the input product there is no weight_ih.
  size_t input_weight(int64_t direction) const { return first(direction); }
  size_t hidden_weight(int64_t direction) const { return first(direction) + (multiplies_input ? 1 : 0); }
  size_t input_bias(int64_t direction) const { return hidden_weight(direction) + 1; }
  size_t hidden_bias(int64_t direction) const { return hidden_weight(direction) + 2; }
  size_t projection(int64_t direction) const { return hidden_weight(direction) + 3; }

  std::vector<Shape> parameter_shapes() const {
    std::vector<Shape> shapes;
    for (int64_t d = 0; d < directions; ++d) {
      if (multiplies_input) shapes.push_back({gates * hidden, inputs, 1});
      shapes.push_back({gates * hidden, features, 1});
      shapes.push_back({gates * hidden, 1, 1});
      shapes.push_back({gates * hidden, 1, 1});
      if (projects) shapes.push_back({features, hidden, 1});
    }
    return shapes;
  }
  // [sample of the mini-batch][feature]: h, and c where there is one.
  std::vector<Shape> state_shapes() const {
    if (!stateful) return {};
    std::vector<Shape> shapes{{mini_batch, features, 1}};
    if (has_cell_state()) shapes.push_back({mini_batch, hidden, 1});
    return shapes;
  }
  // The first sample of a micro-batch in its mini-batch.
  int64_t first_sample(const MicroBatch& batch) const { return batch.index % (mini_batch / samples) * samples; }

  // The second direction walks from the last step to the first.
  int64_t before(int64_t direction, int64_t step) const { return direction == 0 ? step - 1 : step + 1; }
  // No error passes from a step to the one before it.
  bool cuts_before(int64_t direction, int64_t step) const { return truncation > 0 && (direction == 0 ? step : step + 1) % truncation == 0; }

  CellKind cell;
  bool reset_after;
  bool hard_gates;  // hard sigmoids of this slope
  double gate_slope;
  bool projects;
  bool multiplies_input;
  bool stateful;
  int64_t samples, steps, inputs, hidden, features, directions, gates, record;
  int64_t truncation;
  int64_t mini_batch;
  int64_t parameters_each;  // of a direction

 private:
  size_t first(int64_t direction) const { return to_size(direction * parameters_each); }
};

}  // namespace millrace
