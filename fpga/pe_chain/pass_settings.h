// What a pass of the engine of chained elements is told, port by port: numbers alone, so that what is compiled around a Verilated engine
// reads them, too (pass_settings() and step_settings() in built_chain.h make them).
#pragma once

#include <cstdint>

namespace millrace {

struct PassSettings {
  int64_t full_slices = 0;
  bool has_last = false;
  bool divided = false;
  int64_t feeds = 0, feeds_last = 0;
  int64_t depths_last = 0;  // elements of a chain with an output of the last slice
  int64_t words_last = 0;
  int64_t words = 0;        // of a step
  int64_t taken_words = 0;  // of a sample's state, which the inputs are

  // Weights that the fullest element holds, and cycles of feeding.
  int64_t fullest() const { return full_slices * feeds + (has_last ? feeds_last : 0); }
};

// Of a layer that projects its outputs, one way: a step is two products on the same elements, whose weights lie one behind the other.
struct StepSettings {
  PassSettings recurrent;
  bool projects = false;
  PassSettings projection;    // its inputs are dealt to the units: `feeds` of each
  int64_t first_address = 0;  // of its weights
  int64_t units_of_last = 0;  // that have an input at the last feed
  int64_t part = 0;           // 0 both products, 1 the recurrent one, 2 the projection: of a board of several, a pass of one step

  bool has_recurrent() const { return part != 2; }
  bool has_projection() const { return projects && part != 1; }
  int64_t fullest() const { return recurrent.fullest() + (projects ? projection.fullest() : 0); }
  // The product that the gates follow.
  const PassSettings& gated(bool back) const { return projects && back ? projection : recurrent; }
};

}  // namespace millrace
