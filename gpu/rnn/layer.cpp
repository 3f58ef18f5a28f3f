#include "gpu/rnn/layer.h"

#include <algorithm>

#include "gpu/rnn/layer_memory.h"

namespace millrace::rnn {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw RnnError(RnnFailure::kUnsupportedSize, message); }

const RnnShape& sensible(const RnnShape& shape) {
  require_sensible(shape);
  return shape;
}

}  // namespace

void require_sensible(const RnnShape& shape) {
  const auto positive = [](int value, const char* what) {
    if (value < 1) refuse("a recurrent layer of " + std::to_string(value) + " " + what + "; give at least 1");
  };
  positive(shape.inputs, "inputs");
  positive(shape.hidden, "units");
  positive(shape.batch, "samples");
  positive(shape.steps, "steps");
  if (shape.steps > kLargestSteps)
    refuse(std::to_string(shape.steps) + " steps; split the sequence into parts of at most " + std::to_string(kLargestSteps));
  if (shape.projection < 0 || shape.projection > shape.hidden)
    refuse("a projection of " + std::to_string(shape.hidden) + " units to " + std::to_string(shape.projection) + "; give 1 to " +
           std::to_string(shape.hidden) + ", or 0 for none");
  if (shape.projection > 0 && (shape.precision != Precision::kFloat || shape.recurrence != Recurrence::kLstm))
    refuse("a recurrent projection of " + std::string(name_of(shape.precision)) + " " + std::string(name_of(shape.recurrence)) +
           "; it is there for LSTM in fp32");
}

RnnLayer::RnnLayer(Machine& machine, const RnnShape& shape)
    : RnnLayer(machine, shape, runner_by_rule(machine, sensible(shape), titan_v()), machine.constants()) {}  // the rule is Titan V's

RnnLayer::RnnLayer(Machine& machine, const RnnShape& shape, const Runner& runner) : RnnLayer(machine, shape, runner, machine.constants()) {}

RnnLayer::RnnLayer(Machine& machine, const RnnShape& shape, const Runner& runner, const Gpu& constants)
    : machine_(machine), shape_(sensible(shape)), runner_(runner) {
  try {
    const long long values = rows();
    input_ = allocate(values * shape.inputs, bytes_of(shape.precision));
    if (shape.training) {
      output_gradient_ = allocate_floats(values * shape.outputs());
      input_gradient_ = allocate_floats(values * shape.inputs);
    }
    prepare_library();
    if (!library_) allocate_own(constants);
  } catch (...) {
    for (void* memory : memory_) machine_.release(memory);
    throw;
  }
}

// The library's layer when it is the library's turn and it takes the shape.
void RnnLayer::prepare_library() {
  if (!runner_.is_library()) return;
  try {
    Library* const library = machine_.dnn_library();
    if (library == nullptr) throw RnnError(RnnFailure::kMissingPart, "no library here");
    library_ = library->prepare(runner_.algorithm, shape_);
  } catch (const RnnError& error) {
    runner_ = own_kernels(runner_.reason + "; but \"" + runner_.algorithm + "\" does not run here (" + error.what() + ")");
    return;
  }
  output_ = allocate(rows() * shape_.outputs(), bytes_of(shape_.precision));
  if (!shape_.training || shape_.precision == Precision::kFloat) return;
  library_output_gradient_ = allocate(rows() * shape_.outputs(), bytes_of(shape_.precision));
  library_input_gradient_ = allocate(rows() * shape_.inputs, bytes_of(shape_.precision));
}

void RnnLayer::allocate_own(const Gpu& constants) {
  const RnnShape& shape = shape_;
  steps_.emplace(machine_, Problem{shape.recurrence, false, shape.precision, shape.hidden, shape.batch, shape.sides()}, shape.training,
                 constants);
  const int element = bytes_of(shape.precision);
  const long long hidden = shape.hidden;
  const long long gate_rows = shape.gates() * hidden;
  const long long still = shape.batch * hidden;
  output_ = allocate(rows() * shape.sides() * hidden, element);
  hung_ = static_cast<unsigned*>(allocate(4, 4));
  if (shape.projection > 0) projected_ = allocate_floats(rows() * shape.outputs());
  if (shape.training) {
    inner_gradient_ = shape.projection > 0 ? allocate_floats(rows() * shape.sides() * hidden) : output_gradient_;
  }
  for (int s = 0; s < shape.sides(); ++s) {
    SideMemory side;
    side.input_weights = allocate(gate_rows * shape.inputs, element);
    side.recurrent_weights = allocate(gate_rows * hidden, element);
    side.bias = allocate_floats(gate_rows);
    side.gates = allocate_floats(rows() * gate_rows);
    if (shape.projection > 0) {
      side.plain_recurrent = allocate_floats(gate_rows * shape.projection);
      side.projection = allocate_floats(hidden * shape.projection);
    }
    if (shape.recurrence == Recurrence::kLstm) side.cell = allocate_floats((shape.training ? shape.steps : 1) * still);
    if (shape.recurrence == Recurrence::kGru) side.candidate_bias = allocate_floats(hidden);
    if (shape.recurrence == Recurrence::kGru || shape.recurrence == Recurrence::kCanonicalGru)
      side.candidate = allocate_floats(rows() * hidden);
    if (shape.recurrence == Recurrence::kCanonicalGru) {
      side.reset_state = allocate(rows() * hidden, element);
      side.flag_count = machine_.limits().multiprocessors;
      side.flags = static_cast<unsigned*>(allocate(side.flag_count, 4));
      side.update_gate = allocate_floats(2 * still);
      side.partial = allocate_floats(2LL * std::min<long long>(machine_.limits().multiprocessors, hidden) * still);
    }
    if (shape.training) {
      side.gate_gradient = allocate(rows() * gate_rows, element);
      side.input_gradient = shape.recurrence == Recurrence::kGru ? allocate(rows() * gate_rows, element) : side.gate_gradient;
      side.carry = allocate_floats(still);
      side.input_weights_gradient = allocate_floats(gate_rows * shape.inputs);
      side.recurrent_gradient = allocate_floats(gate_rows * shape.state());
      side.bias_gradient = allocate_floats(gate_rows);
      side.recurrent_bias_gradient = allocate_floats(gate_rows);
      side.state_gradient = allocate_floats(still);
      if (shape.projection > 0) {
        side.projection_gradient = allocate_floats(hidden * shape.projection);
        side.all_gradient = allocate_floats(rows() * shape.projection);
      }
    }
    sides_.push_back(side);
  }
}

RnnLayer::~RnnLayer() {
  for (void* memory : memory_) machine_.release(memory);
}

void RnnLayer::use_layout(bool backward, const std::optional<Layout>& layout) {
  if (library_) refuse("a layout for a layer that the library runs; make the layer with Runner{} for our own kernels");
  steps_->use_layout(backward, layout);
}

void* RnnLayer::allocate(long long elements, int bytes) {
  void* const memory = machine_.allocate(static_cast<std::size_t>(elements) * static_cast<std::size_t>(bytes));
  memory_.push_back(memory);
  return memory;
}
float* RnnLayer::allocate_floats(long long elements) { return static_cast<float*>(allocate(elements, 4)); }

void* RnnLayer::input() { return input_; }
void* RnnLayer::output() { return shape_.projection > 0 ? projected_ : output_; }
float* RnnLayer::output_gradient() { return output_gradient_; }
float* RnnLayer::input_gradient() { return input_gradient_; }

void RnnLayer::set_weights(int side_index, const Weights& weights) {
  const auto gate_rows = static_cast<std::size_t>(shape_.gates()) * static_cast<std::size_t>(shape_.hidden);
  const auto require = [](const std::vector<float>& values, std::size_t count, const char* what) {
    if (values.size() != count) refuse(std::to_string(values.size()) + " " + what + "; this layer has " + std::to_string(count));
  };
  require(weights.input, gate_rows * static_cast<std::size_t>(shape_.inputs), "input weights");
  require(weights.recurrent, gate_rows * static_cast<std::size_t>(shape_.state()), "recurrent weights");
  require(weights.bias, gate_rows, "biases");
  require(weights.candidate_bias, shape_.recurrence == Recurrence::kGru ? static_cast<std::size_t>(shape_.hidden) : 0, "candidate biases");
  require(weights.projection, static_cast<std::size_t>(shape_.projection) * static_cast<std::size_t>(shape_.hidden), "projection weights");
  if (library_) return library_->set_weights(side_index, weights);
  SideMemory& side = sides_.at(static_cast<std::size_t>(side_index));
  const auto upload = [&](const std::vector<float>& values, void* to) {
    float* const staged = static_cast<float*>(machine_.allocate(values.size() * sizeof(float)));
    machine_.copy_to(staged, values.data(), values.size() * sizeof(float));
    machine_.change_format(staged, to, shape_.precision, static_cast<long long>(values.size()));
    machine_.finish();
    machine_.release(staged);
  };
  upload(weights.input, side.input_weights);
  machine_.copy_to(side.bias, weights.bias.data(), weights.bias.size() * sizeof(float));
  if (side.candidate_bias != nullptr)
    machine_.copy_to(side.candidate_bias, weights.candidate_bias.data(), weights.candidate_bias.size() * sizeof(float));
  if (shape_.projection == 0) {
    upload(weights.recurrent, side.recurrent_weights);
    return;
  }
  machine_.copy_to(side.plain_recurrent, weights.recurrent.data(), weights.recurrent.size() * sizeof(float));
  machine_.copy_to(side.projection, weights.projection.data(), weights.projection.size() * sizeof(float));
  MatrixJob fold;
  fold.left = side.plain_recurrent;
  fold.left_row = shape_.projection;
  fold.left_column = 1;
  fold.right = side.projection;
  fold.right_row = shape_.hidden;
  fold.right_column = 1;
  fold.result = static_cast<float*>(side.recurrent_weights);
  fold.result_row = shape_.hidden;
  fold.rows = shape_.gates() * shape_.hidden;
  fold.columns = shape_.hidden;
  fold.depth = shape_.projection;
  machine_.multiply(fold, Precision::kFloat);
}

void RnnLayer::set_first_state(int side_index, const void* state, const float* cell) {
  if (shape_.projection > 0) refuse("a first state of a layer with a projection; start from zeros");
  if (library_) return library_->set_first_state(side_index, state, cell);
  SideMemory& side = sides_.at(static_cast<std::size_t>(side_index));
  const long long count = static_cast<long long>(shape_.batch) * shape_.hidden;
  if (state != nullptr) {
    if (side.first_state == nullptr) side.first_state = allocate(count, bytes_of(shape_.precision));
    machine_.copy_to(side.first_state, state, static_cast<std::size_t>(count * bytes_of(shape_.precision)));
  }
  if (cell != nullptr) {
    if (side.first_cell == nullptr) side.first_cell = allocate_floats(count);
    machine_.copy_to(side.first_cell, cell, static_cast<std::size_t>(count) * sizeof(float));
  }
}

Parameters RnnLayer::parameters() const {
  Parameters p;
  p.hidden = shape_.hidden;
  p.batch = shape_.batch;
  p.steps = shape_.steps;
  p.output_stride = shape_.sides() * shape_.hidden;
  p.cell_steps = shape_.training ? 1 : 0;
  p.training = shape_.training ? 1 : 0;
  p.hung = hung_;
  p.patience = patience_;
  for (int s = 0; s < shape_.sides(); ++s) {
    const SideMemory& memory = sides_[static_cast<std::size_t>(s)];
    Side& side = p.side[s];
    side.weights = memory.recurrent_weights;
    side.gates = memory.gates;
    side.output = const_cast<void*>(offset(output_, static_cast<long long>(s) * shape_.hidden, shape_.precision));
    side.first_state = memory.first_state;
    side.cell = memory.cell;
    side.first_cell = memory.first_cell;
    side.candidate_bias = memory.candidate_bias;
    side.candidate = memory.candidate;
    side.reset_state = memory.reset_state;
    side.output_gradient = inner_gradient_ != nullptr ? inner_gradient_ + static_cast<long long>(s) * shape_.hidden : nullptr;
    side.gate_gradient = memory.gate_gradient;
    side.input_gradient = memory.input_gradient;
    side.carry = memory.carry;
    side.partial = memory.partial;
    side.update_gate = memory.update_gate;
    side.flags = memory.flags;
    side.reversed = s;
  }
  return p;
}

void RnnLayer::prepare_recurrence(bool backward) {
  const auto mark = [&](void* sequence, long long elements) {
    machine_.fill(sequence, 0xFF, static_cast<std::size_t>(elements * bytes_of(shape_.precision)));
  };
  for (SideMemory& side : sides_) {
    if (backward) {
      mark(side.gate_gradient, rows() * shape_.gates() * shape_.hidden);
      machine_.fill(side.carry, 0, static_cast<std::size_t>(shape_.batch) * static_cast<std::size_t>(shape_.hidden) * sizeof(float));
      continue;
    }
    if (side.reset_state != nullptr) mark(side.reset_state, rows() * shape_.hidden);
    if (side.flags != nullptr) machine_.fill(side.flags, 0, static_cast<std::size_t>(side.flag_count) * sizeof(unsigned));
  }
  if (!backward) mark(output_, rows() * shape_.sides() * shape_.hidden);
  machine_.fill(hung_, 0, sizeof(unsigned));
}

void RnnLayer::forward() {
  if (library_) return library_->forward(input_, output_);
  const int gate_rows = shape_.gates() * shape_.hidden;
  for (SideMemory& side : sides_) {
    MatrixJob job;
    job.left = input_;
    job.left_row = shape_.inputs;
    job.left_column = 1;
    job.right = side.input_weights;
    job.right_row = 1;
    job.right_column = shape_.inputs;
    job.result = side.gates;
    job.result_row = gate_rows;
    job.bias = side.bias;
    job.rows = static_cast<int>(rows());
    job.columns = gate_rows;
    job.depth = shape_.inputs;
    machine_.multiply(job, shape_.precision);
  }
  prepare_recurrence(false);
  run_recurrence(false);
  for (int s = 0; s < shape_.sides() && shape_.projection > 0; ++s) {
    MatrixJob job;
    job.left = offset(output_, static_cast<long long>(s) * shape_.hidden, Precision::kFloat);
    job.left_row = static_cast<long long>(shape_.sides()) * shape_.hidden;
    job.left_column = 1;
    job.right = sides_[static_cast<std::size_t>(s)].projection;
    job.right_row = 1;
    job.right_column = shape_.hidden;
    job.result = projected_ + static_cast<long long>(s) * shape_.projection;
    job.result_row = shape_.outputs();
    job.rows = static_cast<int>(rows());
    job.columns = shape_.projection;
    job.depth = shape_.hidden;
    machine_.multiply(job, Precision::kFloat);
  }
}

void RnnLayer::check() {
  machine_.finish();
  if (library_) return;
  unsigned hung = 0;
  machine_.copy_from(&hung, hung_, sizeof(hung));
  if (hung == 0) return;
  throw RnnError(
      RnnFailure::kHungExchange,
      "in step " + std::to_string(hung - 1) + " of " + std::to_string(shape_.steps) + " a block waited " +
          std::to_string(patience_ / 1000000) +
          " ms for another one; the GPU is shared with other work or not all blocks were resident: free the GPU and run again, or "
          "raise the patience");
}

}  // namespace millrace::rnn
