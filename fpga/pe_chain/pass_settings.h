// What a pass of the engine of chained elements is told, port by port: numbers alone, so that what is compiled around a Verilated engine
// reads them, too (pass_settings() in built_chain.h makes them).
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
  int64_t words = 0;  // of a step

  // Weights that the fullest element holds, and cycles of feeding.
  int64_t fullest() const { return full_slices * feeds + (has_last ? feeds_last : 0); }
};

}  // namespace millrace
