// What a shared library of one Verilated engine of chained elements offers: plain functions, so that anything can load it.
//
//   auto open = reinterpret_cast<decltype(&millrace_steps_open)>(dlsym(library, "millrace_steps_open"));
//   void* engine = open();
//   const int64_t cycles = run(engine, &job, outputs);      // negative: not ended within most_cycles, or another number of words
//
// The library is built from pe_chain_engine.sv for one set of parameters (fpga/pe_chain/rtl/engine_hardware.h) and knows nothing of
// layers. Weights, biases and states stay from pass to pass. One caller at a time per engine.
#pragma once

#include <cstdint>

#include "fpga/pe_chain/pass_settings.h"

extern "C" {

// A word of every chain's weights, and where it goes.
struct MillraceStepsBeat {
  int64_t unit, depth, address;
  const int16_t* weights;
};

struct MillraceStepsJob {
  millrace::StepSettings settings;
  int64_t sum_shift, weight_shift, hidden_shift, projected_shift;
  bool back, continues;
  int64_t samples, steps;
  const int16_t* inputs;  // words of the pass
  int64_t input_words, output_words;
  int64_t most_cycles;
};

void* millrace_steps_open();
void millrace_steps_close(void* engine);

void millrace_steps_load(void* engine, const MillraceStepsBeat* beat);
// Biases as bias_image has them.
void millrace_steps_load_biases(void* engine, const int32_t* biases, int64_t words);
// The state to go on from, so many words: what the recurrent product takes, [word][gate][chain], and what units keep, [word][chain].
void millrace_steps_load_state(void* engine, bool back, const int16_t* taken, const int32_t* kept, int64_t words);

// Cycles taken; -1: not ended, -2: another number of words.
int64_t millrace_steps_run(void* engine, const MillraceStepsJob* job, int16_t* outputs);
}
