// What a shared library of one Verilated engine of blocked columns offers: plain functions, so that anything can load it.
//
//   auto open = reinterpret_cast<decltype(&millrace_sbe_open)>(dlsym(library, "millrace_sbe_open"));
//   void* engine = open();
//   const int64_t cycles = run(engine, &job, &results);      // negative: not ended within most_cycles, or a fault of its memory
//
// The library is built from sbe_engine.sv for one set of parameters (fpga/sbe/rtl/engine_hardware.h) and knows nothing of layers. State
// and pinned weights stay from run to run. One caller at a time per engine.
#pragma once

#include <cstdint>

#include "fpga/sbe/rtl/engine_settings.h"

extern "C" {

struct MillraceSbeJob {
  millrace::SbeSettings settings;
  int64_t batches;
  bool stateful, loads_pinned;
  const int64_t* valid_steps;  // of each of settings.streams
  const int16_t* memory;       // from address 0
  int64_t memory_words;
  const int16_t* inputs;  // chunks of all batches
  int64_t input_words;
  int64_t memory_latency;
  int64_t most_cycles;
};

struct MillraceSbeResults {
  int16_t* outputs;  // words of units, step by step and stream by stream
  int64_t output_words;
  int64_t beats;  // of weights, fetched
};

void* millrace_sbe_open();
void millrace_sbe_close(void* engine);

// Biases as bias_words has them, `each` to a word of the engine's memory.
void millrace_sbe_load_biases(void* engine, const int32_t* biases, int64_t count, int64_t each);

// Weights of a layer that projects as projection_words has them, so many words to a word of units.
void millrace_sbe_load_projection(void* engine, const int16_t* words, int64_t count, int64_t each);

// A state to begin with, of all streams of `settings`: h, and what the tail keeps (cells of lstm, h of gru, else nothing). And what it
// keeps now.
void millrace_sbe_load_state(void* engine, const millrace::SbeSettings* settings, const int16_t* hidden, int64_t hidden_count,
                             const int32_t* kept, int64_t kept_count);
void millrace_sbe_read_kept(void* engine, int32_t* kept, int64_t count);

// Cycles taken; -1: not ended, -2: it asked for what is not there, -3: another number of outputs.
int64_t millrace_sbe_run(void* engine, const MillraceSbeJob* job, MillraceSbeResults* results);
}
