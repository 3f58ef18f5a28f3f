// Recurrent layers of a library (cuDNN), as another way to run a layer than our kernels: where it is faster (runner.h), and
// to compare with. A machine that has one hands it out.
//
//   if (Library* const library = machine.dnn_library()) {
//     const std::unique_ptr<LibraryLayer> layer = library->prepare(library->algorithms().front(), shape);  // throws: why not
//     layer->set_weights(0, weights);
//     layer->forward(x, y);                       // queued; machine.finish() waits
//   }
//
// A library keeps the weights in a space of its own: its linear layers, one per gate and source, wherever it likes. What
// goes where is the same for every such library and tested without one: place_weights() and weights_in().
// Layers belong to the caller and must not outlive the library, which belongs to the machine. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/rnn/rnn_shape.h"

namespace millrace::rnn {

// Sequences lie as RnnLayer's and are all in the layer's format, gradients too; they belong to the caller, on the machine.
class LibraryLayer {
 public:
  virtual ~LibraryLayer() = default;
  virtual void set_weights(int side, const Weights& weights) = 0;
  // On the host: [batch][hidden] in the layer's format, cells in float; null leaves zeros.
  virtual void set_first_state(int side, const void* state, const float* cell) = 0;
  // Both throw RnnError when the algorithm refuses on execution.
  virtual void forward(const void* input, void* output) = 0;
  virtual void backward(const void* input, const void* output, const void* output_gradient, void* input_gradient) = 0;
  // Of the last backward(); these wait.
  virtual Weights gradients(int side) = 0;
  virtual std::vector<float> first_state_gradient(int side) = 0;
  virtual std::vector<float> first_cell_gradient(int side) = 0;
};

class Library {
 public:
  virtual ~Library() = default;
  virtual std::string name() const = 0;                     // with its version
  virtual std::vector<std::string> algorithms() const = 0;  // the first takes whatever the library takes
  // Throws RnnError when the algorithm does not take the layer.
  virtual std::unique_ptr<LibraryLayer> prepare(const std::string& algorithm, const RnnShape& shape) = 0;
};

// Where one of a library's linear layers lies in its space, in elements; -1 where it has no such part. Layers 0 to gates - 1
// multiply the input, gates to 2 * gates - 1 the state; each has a matrix by rows and a bias.
struct LinearPlace {
  int side = 0;
  int layer = 0;
  long long matrix = -1;
  long long bias = -1;
};

// Writes a side's weights into a copy of the space. The bias of a gate goes to the layer of its input; that of a state's is
// zero but for the GRU's candidate. Throws RnnError when a place is missing or beyond the space.
void place_weights(const RnnShape& shape, const std::vector<LinearPlace>& places, int side, const Weights& weights,
                   std::vector<float>& space);
// And back, from a space of weights or of their gradients.
Weights weights_in(const RnnShape& shape, const std::vector<LinearPlace>& places, int side, const std::vector<float>& space);

}  // namespace millrace::rnn
