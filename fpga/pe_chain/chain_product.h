// One matrix-vector product on chained elements that keep their weights: how long it is fed, and what a recurrent step waits besides.
//
//   const ChainProduct product{.inputs = 1024, .outputs = 1024, .elements = 768};
//   feed_cycles(product);               // 1,536: all take the same input element of a cycle, and the last 256 cells are divided by 2
//   exposed_cycles(product, {.latency = 222});   // 0: the next step's first elements are there before this one's last slice ends
//
// A slice is a round of outputs, one per element. Outputs of the last slice are divided over `most_parts` elements at most, where so
// many are free: each of the two takes half of the inputs. The weights that the fullest element holds are as many as the cycles.
//   feeding   F = q n + [r > 0] ceil(n / s)       q, r: outputs by elements, s the parts
//   exposed   X = max(0, max over slices j of  L - (cycles fed behind slice j) - j P)
// for a step whose outputs are the next step's inputs, every input fed as soon as it is there. A slice divided alone starts its second
// part at once, from further down the chains: 2 floor(b / W) more, one more where b mod W = W - 1, b = (s - 1) ceil(n / s). Samples
// that take turns hide behind each other: max(0, X - (B - 1) F).
// simulated_step_cycles() gives the same element by element. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace millrace {

struct ChainProduct {
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t elements = 1;  // of the unit, a multiple of the chains
  int64_t most_parts = 2;
};

struct LastSlice {
  int64_t full_slices = 0;
  int64_t outputs = 0;  // of the slice behind the full ones; 0: there is none
  int64_t parts = 1;    // elements to an output of that one
};
LastSlice last_slice_of(const ChainProduct& product);

// By slice.
std::vector<int64_t> slice_feeds(const ChainProduct& product);
int64_t feed_cycles(const ChainProduct& product);

struct StepWait {
  int64_t latency = 0;  // from a slice's last input to its first result at the chains' head
  int64_t chains = 16;
  int64_t samples = 1;  // that take turns
};
int64_t exposed_cycles(const ChainProduct& product, const StepWait& wait);

// Cycles from one step to the next, of a square product, by walking every element through `steps` steps.
int64_t simulated_step_cycles(const ChainProduct& product, const StepWait& wait, int64_t steps = 6);

}  // namespace millrace
