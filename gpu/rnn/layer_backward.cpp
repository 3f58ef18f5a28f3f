// The backward half of RnnLayer: the recurrence's gradient, then one product each for weights and inputs.
#include "gpu/rnn/layer_memory.h"

namespace millrace::rnn {

void RnnLayer::backward() {
  if (library_) {
    if (shape_.precision == Precision::kFloat) return library_->backward(input_, output_, output_gradient_, input_gradient_);
    machine_.change_format(output_gradient_, library_output_gradient_, shape_.precision, rows() * shape_.outputs());
    library_->backward(input_, output_, library_output_gradient_, library_input_gradient_);
    machine_.widen(library_input_gradient_, shape_.precision, input_gradient_, rows() * shape_.inputs);
    return;
  }
  const long long hidden = shape_.hidden;
  if (shape_.projection > 0) {
    for (int s = 0; s < shape_.sides(); ++s) {
      SideMemory& side = sides_[static_cast<std::size_t>(s)];
      MatrixJob job;
      job.left = output_gradient_ + static_cast<long long>(s) * shape_.projection;
      job.left_row = shape_.outputs();
      job.left_column = 1;
      job.right = side.projection;
      job.right_row = hidden;
      job.right_column = 1;
      job.result = inner_gradient_ + s * hidden;
      job.result_row = shape_.sides() * hidden;
      job.rows = static_cast<int>(rows());
      job.columns = shape_.hidden;
      job.depth = shape_.projection;
      machine_.multiply(job, Precision::kFloat);
    }
  }
  prepare_recurrence(true);
  run_recurrence(true);
  for (int s = 0; s < shape_.sides(); ++s) weight_gradients(s);
}

void RnnLayer::weight_gradients(int s) {
  SideMemory& side = sides_[static_cast<std::size_t>(s)];
  const Precision precision = shape_.precision;
  const int hidden = shape_.hidden;
  const int gate_rows = shape_.gates() * hidden;
  const int all = static_cast<int>(rows());

  MatrixJob input_weights;  // gradient^T x
  input_weights.left = side.input_gradient;
  input_weights.left_row = 1;
  input_weights.left_column = gate_rows;
  input_weights.right = input_;
  input_weights.right_row = shape_.inputs;
  input_weights.right_column = 1;
  input_weights.result = side.input_weights_gradient;
  input_weights.result_row = shape_.inputs;
  input_weights.rows = gate_rows;
  input_weights.columns = shape_.inputs;
  input_weights.depth = all;
  machine_.multiply(input_weights, precision);

  MatrixJob inputs;  // gradient W, of both sides together
  inputs.left = side.input_gradient;
  inputs.left_row = gate_rows;
  inputs.left_column = 1;
  inputs.right = side.input_weights;
  inputs.right_row = shape_.inputs;
  inputs.right_column = 1;
  inputs.result = input_gradient_;
  inputs.result_row = shape_.inputs;
  inputs.rows = all;
  inputs.columns = shape_.inputs;
  inputs.depth = gate_rows;
  inputs.add = s > 0 ? 1 : 0;
  machine_.multiply(inputs, precision);

  machine_.sum_rows(side.input_gradient, precision, side.bias_gradient, all, gate_rows);
  machine_.sum_rows(side.gate_gradient, precision, side.recurrent_bias_gradient, all, gate_rows);

  // The state that a step read is that of the time before it: the gradients of all times but a side's first meet the states
  // of all but its last.
  const long long later = s == 0 ? 1 : 0;
  const bool projected = shape_.projection > 0;
  const auto recurrent = [&](int first_row, int row_count, const void* states, long long state_stride, bool shifted) {
    MatrixJob job;
    job.left = offset(side.gate_gradient, (shifted ? later * shape_.batch * gate_rows : 0) + first_row, precision);
    job.left_row = 1;
    job.left_column = gate_rows;
    job.right = offset(states, shifted ? (1 - later) * shape_.batch * state_stride : 0, precision);
    job.right_row = state_stride;
    job.right_column = 1;
    job.result = side.recurrent_gradient + static_cast<long long>(first_row) * shape_.state();
    job.result_row = shape_.state();
    job.rows = row_count;
    job.columns = shape_.state();
    job.depth = shifted ? all - shape_.batch : all;
    machine_.multiply(job, precision);
    if (!shifted || side.first_state == nullptr) return;
    job.left = offset(side.gate_gradient, (1 - later) * static_cast<long long>(all - shape_.batch) * gate_rows + first_row, precision);
    job.right = side.first_state;
    job.right_row = hidden;
    job.depth = shape_.batch;
    job.add = 1;
    machine_.multiply(job, precision);
  };
  const void* const states = projected ? offset(projected_, static_cast<long long>(s) * shape_.projection, precision)
                                       : offset(output_, static_cast<long long>(s) * hidden, precision);
  const long long stride = shape_.outputs();
  if (shape_.recurrence == Recurrence::kCanonicalGru) {
    recurrent(0, 2 * hidden, states, stride, true);
    recurrent(2 * hidden, hidden, side.reset_state, hidden, false);
  } else {
    recurrent(0, gate_rows, states, stride, true);
  }

  // What reaches the first state: the gates' gradients at the side's first time times R, and what went past the gates.
  MatrixJob first;
  first.left = offset(side.gate_gradient, (1 - later) * static_cast<long long>(all - shape_.batch) * gate_rows, precision);
  first.left_row = gate_rows;
  first.left_column = 1;
  first.right = side.recurrent_weights;
  first.right_row = hidden;
  first.right_column = 1;
  first.result = side.state_gradient;
  first.result_row = hidden;
  first.rows = shape_.batch;
  first.columns = hidden;
  first.depth = shape_.recurrence == Recurrence::kCanonicalGru ? 2 * hidden : gate_rows;
  machine_.multiply(first, precision);

  if (!projected) return;
  // The projection's gradient has two parts: what came from outside, and what the next step's gates send back.
  MatrixJob sent_back;
  sent_back.left = offset(side.gate_gradient, later * shape_.batch * gate_rows, precision);
  sent_back.left_row = gate_rows;
  sent_back.left_column = 1;
  sent_back.right = side.plain_recurrent;
  sent_back.right_row = shape_.projection;
  sent_back.right_column = 1;
  sent_back.result = side.all_gradient;
  sent_back.result_row = shape_.projection;
  sent_back.rows = all - shape_.batch;
  sent_back.columns = shape_.projection;
  sent_back.depth = gate_rows;
  machine_.multiply(sent_back, precision);

  MatrixJob projection;  // outer gradient^T m
  projection.left = output_gradient_ + static_cast<long long>(s) * shape_.projection;
  projection.left_row = 1;
  projection.left_column = shape_.outputs();
  projection.right = offset(output_, static_cast<long long>(s) * hidden, precision);
  projection.right_row = static_cast<long long>(shape_.sides()) * hidden;
  projection.right_column = 1;
  projection.result = side.projection_gradient;
  projection.result_row = hidden;
  projection.rows = shape_.projection;
  projection.columns = hidden;
  projection.depth = all;
  machine_.multiply(projection, precision);
  projection.left = side.all_gradient;  // plus the recurrence's part, whose rows stand for the times before
  projection.left_column = shape_.projection;
  projection.right = offset(output_, (1 - later) * shape_.batch * projection.right_row + static_cast<long long>(s) * hidden, precision);
  projection.depth = all - shape_.batch;
  projection.add = 1;
  machine_.multiply(projection, precision);
}

Weights RnnLayer::gradients(int side_index) {
  if (library_) return library_->gradients(side_index);
  const SideMemory& side = sides_.at(static_cast<std::size_t>(side_index));
  check();
  const auto gate_rows = static_cast<std::size_t>(shape_.gates()) * static_cast<std::size_t>(shape_.hidden);
  const auto fetch = [&](const float* from, std::size_t count) {
    std::vector<float> values(count);
    if (count > 0) machine_.copy_from(values.data(), from, count * sizeof(float));
    return values;
  };
  Weights gradients;
  gradients.input = fetch(side.input_weights_gradient, gate_rows * static_cast<std::size_t>(shape_.inputs));
  gradients.recurrent = fetch(side.recurrent_gradient, gate_rows * static_cast<std::size_t>(shape_.state()));
  gradients.bias = fetch(side.bias_gradient, gate_rows);
  if (side.candidate_bias != nullptr) {
    const std::vector<float> recurrent = fetch(side.recurrent_bias_gradient, gate_rows);
    gradients.candidate_bias.assign(recurrent.end() - shape_.hidden, recurrent.end());
  }
  gradients.projection =
      fetch(side.projection_gradient, static_cast<std::size_t>(shape_.projection) * static_cast<std::size_t>(shape_.hidden));
  return gradients;
}

std::vector<float> RnnLayer::first_state_gradient(int side_index) {
  if (library_) return library_->first_state_gradient(side_index);
  const SideMemory& side = sides_.at(static_cast<std::size_t>(side_index));
  check();
  std::vector<float> gradient(static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(shape_.hidden));
  machine_.copy_from(gradient.data(), side.state_gradient, gradient.size() * sizeof(float));
  if (shape_.recurrence != Recurrence::kGru && shape_.recurrence != Recurrence::kCanonicalGru) return gradient;
  std::vector<float> past(gradient.size());
  machine_.copy_from(past.data(), side.carry, past.size() * sizeof(float));
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += past[i];
  return gradient;
}

std::vector<float> RnnLayer::first_cell_gradient(int side_index) {
  if (library_) return library_->first_cell_gradient(side_index);
  const SideMemory& side = sides_.at(static_cast<std::size_t>(side_index));
  check();
  std::vector<float> gradient(static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(shape_.hidden));
  machine_.copy_from(gradient.data(), side.carry, gradient.size() * sizeof(float));
  return gradient;
}

}  // namespace millrace::rnn
