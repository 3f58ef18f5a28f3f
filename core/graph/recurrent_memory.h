// What persistent recurrent networks need memory for: the outputs of every recurrent layer at every step, kept until errors come
// back for them, which the mini-batch multiplies. Beside them weights are small.
//
//   const RecurrentMemory memory = recurrent_memory(Graph(zoo_model("residual-rnn-108")));
//   memory.activation_bytes(4);                              // 5,971,968,000 with 1,152 units over 3,000 steps
//   memory.largest_batch(int64_t{12} << 30);                 // what fits in 12 GiB
//   fmt::print("{}\n", text_of(memory, 4, int64_t{12} << 30));
//
// By the paper a layer keeps 4 * features * batch * steps bytes (Diamos et al., "Persistent RNNs: stashing weights on-chip", 2016): fp32,
// one output a step and direction, h where a projection makes it smaller. Gates and cell states, which this program's devices keep besides
// (kept_elements), and the layers between are not counted: `train --dry-run` tells what all tensors take. Modelled, not measured. Plain
// values; everything stays within 64 bits, or fails with kUsage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace millrace {

struct RecurrentLayerMemory {
  std::string layer;
  int64_t features = 0;  // of both directions
  int64_t steps = 0;
  int64_t weights = 0;            // numbers, biases included
  int64_t recurrent_weights = 0;  // those that a persistent kernel keeps on chip
  int64_t activation_bytes(int64_t batch) const;
  int64_t weight_bytes() const { return 4 * weights; }
  int64_t recurrent_weight_bytes() const { return 4 * recurrent_weights; }
};

struct RecurrentMemory {
  std::vector<RecurrentLayerMemory> layers;  // in the order of the network
  int64_t activation_bytes(int64_t batch) const;
  int64_t weight_bytes() const;
  // With weights, gradients and one optimizer slot, each as large as the weights.
  int64_t total_bytes(int64_t batch) const;
  // The largest batch whose total fits; 0 when not even one sample does. Fails with kUsage when there is no recurrent layer.
  int64_t largest_batch(int64_t budget_bytes) const;
};

RecurrentMemory recurrent_memory(const Graph& graph);

// Gates that a step's record has for each unit: one more of a gru, whose candidate has a factor of its own.
int64_t recorded_gates(CellKind cell);
// What F of a recurrent layer leaves of a sample for E and G, in this program, besides input and output: of each step and direction the
// record, the state, an lstm's cell, and of a projected one what is projected and a place for the error of what came out.
int64_t kept_elements(const Node& node);

// A few lines for people: per kind of layer, in sum, and, with a budget, what fits in it. "" for a network without recurrent
// layers; a budget of 0: none. No line break at the end.
std::string text_of(const RecurrentMemory& memory, int64_t batch, int64_t budget_bytes = 0);

}  // namespace millrace
