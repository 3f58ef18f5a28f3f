// A recurrent layer on a machine: forward and backward over whole sequences, by persistent kernels where the recurrent
// weights fit on the chip and by single steps where they do not.
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

#include <optional>
#include <vector>

#include "gpu/rnn/steps.h"

namespace millrace::rnn {

struct RnnShape {
  Recurrence recurrence = Recurrence::kLstm;
  int inputs = 0;
  int hidden = 0;
  int projection = 0;  // 0: none
  bool bidirectional = false;
  int batch = 0;
  int steps = 0;
  Precision precision = Precision::kFloat;
  bool training = false;

  int sides() const { return bidirectional ? 2 : 1; }
  int gates() const { return gates_of(recurrence); }
  int state() const { return projection > 0 ? projection : hidden; }  // what comes out of a side, per sample
  int outputs() const { return sides() * state(); }
};
// Throws RnnError(kUnsupportedSize) when the numbers make no sense together.
void require_sensible(const RnnShape& shape);

// One side's parameters or their gradients, on the host.
struct Weights {
  std::vector<float> input;           // [gates][hidden][inputs]
  std::vector<float> recurrent;       // [gates][hidden][state]
  std::vector<float> bias;            // [gates][hidden]
  std::vector<float> candidate_bias;  // [hidden], GRU of cuDNN's form alone
  std::vector<float> projection;      // [projection][hidden]
};

class RnnLayer {
 public:
  // Layouts are the cheapest by the model; give others to use them. Throws RnnError.
  RnnLayer(Machine& machine, const RnnShape& shape, const Gpu& constants = titan_v());
  ~RnnLayer();
  RnnLayer(const RnnLayer&) = delete;
  RnnLayer& operator=(const RnnLayer&) = delete;

  // Nothing: single steps.
  const std::optional<Layout>& layout(bool backward) const { return steps_.layout(backward); }
  void use_layout(bool backward, const std::optional<Layout>& layout) { steps_.use_layout(backward, layout); }
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

 private:
  struct SideMemory;
  void* allocate(long long elements, int bytes);
  float* allocate_floats(long long elements);
  Parameters parameters() const;
  void recur(bool backward);
  void weight_gradients(int side);
  long long rows() const { return static_cast<long long>(shape_.steps) * shape_.batch; }

  Machine& machine_;
  RnnShape shape_;
  Steps steps_;
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
