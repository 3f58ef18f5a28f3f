// The convolution engine's three phases as a library to be built (engine_builder.h).
//
//   const BuiltEngine built = build_library(library_of({engine, engine_memories(engine, shape)}), {});
//   void* handle = dlopen(built.engine_file.c_str(), RTLD_NOW | RTLD_LOCAL);       // engine_library.h says what it offers
#pragma once

#include "fpga/conv_ce/rtl/engine_parameters.h"
#include "fpga/cosim/engine_builder.h"

namespace millrace {

struct EngineHardware {
  EngineParallelism engine;
  EngineMemories memories;
  int64_t beat_bits = 0;  // of the port to the memory outside, where weights and gradients lie there
};

EngineLibrary library_of(const EngineHardware& hardware);

// "3x3, stride 1, 2 x 2 tiles"
std::string text_of(const EngineParallelism& engine);

}  // namespace millrace
