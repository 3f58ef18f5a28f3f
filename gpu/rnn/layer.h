// A recurrent layer on a machine: forward and backward over whole sequences, by persistent kernels where the recurrent
// weights fit on the chip, by single steps where they do not, and by the machine's library where that is faster (runner.h).
//
//   RnnLayer layer(*machine, {.recurrence = Recurrence::kLstm, .inputs = 64, .hidden = 256, .batch = 8, .steps = 100, .training = true});
//   layer.set_weights(0, weights);                  // side 0; side 1 too when bidirectional
//   machine->copy_to(layer.input(), x, ...);        // [steps][batch][inputs], in the layer's format
//   layer.forward();                                // queued; machine->finish() waits
//   layer.backward();                               // reads output_gradient(); leaves gradients(side) and input_gradient()
//   layer.check();                                  // waits; throws RnnError when an exchange hung
//
// Order of gates: LSTM i, f, g, o; GRU r, z, n. A product for all steps brings the input's part before the recurrence;
// after the backward recurrence one product each brings the gradients of both weights and of the input. A recurrent
// projection is folded into the recurrent weights (R times P): the kernels see a plain layer and keep their one exchange
// per step, for the price of more resident weights; the projected output is one more product. fp32 only.
// The machine outlives the layer, which owns its memory there. Not for several threads.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "gpu/rnn/library.h"
#include "gpu/rnn/runner.h"
#include "gpu/rnn/steps.h"

namespace millrace::rnn {

class RnnLayer {
 public:
  // Layouts are the cheapest by the model with the machine's constants; give others to use them. The runner is that of the rule. Throws
  // RnnError.
  RnnLayer(Machine& machine, const RnnShape& shape);
  // As a runner says: Runner{} means our own kernels. A library that refuses leaves the layer to them.
  RnnLayer(Machine& machine, const RnnShape& shape, const Runner& runner);
  RnnLayer(Machine& machine, const RnnShape& shape, const Runner& runner, const Gpu& constants);
  ~RnnLayer();
  RnnLayer(const RnnLayer&) = delete;
  RnnLayer& operator=(const RnnLayer&) = delete;

  // Who runs the layer, and why.
  const Runner& runner() const { return runner_; }
  // Nothing: single steps, or the library. A layer of the library takes no layout.
  std::optional<Layout> layout(bool backward) const { return steps_ ? steps_->layout(backward) : std::nullopt; }
  void use_layout(bool backward, const std::optional<Layout>& layout);
  void set_patience(unsigned long long nanoseconds) { patience_ = nanoseconds; }

  void set_weights(int side, const Weights& weights);
  // [batch][state] in the layer's format (fp32 for cells), before forward(); zeros unless set. Not with a projection.
  void set_first_state(int side, const void* state, const float* cell);

  void* input();                // [steps][batch][inputs]
  void* output();               // [steps][batch][outputs], in the layer's format
  float* output_gradient();     // the same, fp32
  float* input_gradient();      // [steps][batch][inputs], fp32
  Weights gradients(int side);  // waits
  std::vector<float> first_state_gradient(int side);
  std::vector<float> first_cell_gradient(int side);

  void forward();
  void backward();
  void check();

  // The recurrence alone, for timing it: on what an earlier forward() or backward() left, so that only its time means something.
  // prepare marks what the other will write as unwritten. Not of a layer that the library runs.
  void prepare_recurrence(bool backward);
  void run_recurrence(bool backward) { steps_->run(backward, parameters()); }

 private:
  struct SideMemory;
  void prepare_library();
  void allocate_own(const Gpu& constants);
  void* allocate(long long elements, int bytes);
  float* allocate_floats(long long elements);
  Parameters parameters() const;
  void weight_gradients(int side);
  long long rows() const { return static_cast<long long>(shape_.steps) * shape_.batch; }

  Machine& machine_;
  RnnShape shape_;
  Runner runner_;
  std::unique_ptr<LibraryLayer> library_;
  void* library_output_gradient_ = nullptr;  // in the layer's format, where that is not float
  void* library_input_gradient_ = nullptr;
  std::optional<Steps> steps_;  // none: the library
  std::vector<SideMemory> sides_;
  std::vector<void*> memory_;
  unsigned long long patience_ = 2000000000ULL;
  void* input_ = nullptr;
  void* output_ = nullptr;  // what the recurrence yields
  float* projected_ = nullptr;
  float* output_gradient_ = nullptr;
  float* inner_gradient_ = nullptr;  // before the projection
  float* input_gradient_ = nullptr;
  unsigned* hung_ = nullptr;
};

}  // namespace millrace::rnn
