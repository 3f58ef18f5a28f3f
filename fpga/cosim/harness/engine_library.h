// What a shared library of one Verilated engine offers: plain functions, so that anything can load it.
//
//   auto open = reinterpret_cast<decltype(&millrace_engine_open)>(dlsym(library, "millrace_engine_open"));
//   void* engine = open();
//   const int64_t cycles = forward(engine, &registers, &streams);     // negative: not ended within most_cycles
//
// The library is built from engine_harness.sv for one set of parameters (engine_builder.h) and knows nothing of layers:
// callers lay tensors out as beats and words (memory_layout.h) and give the geometry as the engines' ports take it. Memories
// keep what is written until it is written again. One caller at a time per engine.
// An engine whose weights are streamed has them in a memory that comes with every call, behind a port of a latency.
#pragma once

#include <cstdint>

extern "C" {

// The harness's ports of the same names.
struct MillraceEngineRegisters {
  int64_t height, width, out_height, out_width, pad;
  int64_t input_groups, output_groups, output_group_step;
  int64_t error_first_block_rows, error_block_rows;
  int64_t samples;
  int64_t sum_shift, adds_partial, finishes;
  int64_t step_rows, step_columns, first_step, first_phase, last_phase;
  int64_t stream_words, stream_beats, stream_passes;  // where weights are streamed
  int64_t memory_latency;
  int64_t most_cycles;
};

// Elements as beats, lane after lane; counts are of beats.
struct MillraceEngineStreams {
  const int16_t* first;  // activations of FP and PG, errors of EB
  int64_t first_beats;
  const int16_t* second;  // partial sums of FP, errors of PG; null: none
  int64_t second_beats;
  int16_t* result;  // of FP and EB
  int64_t result_beats;
  int16_t* outside;  // kernels, or gradients in halves: whole beats; null where none are streamed
  int64_t outside_elements;
};

void* millrace_engine_open();
void millrace_engine_close(void* engine);

void millrace_engine_write_parameter(void* engine, int64_t address, int64_t element, int16_t value);
// A scale and an offset for every output lane of a group.
void millrace_engine_write_scales(void* engine, int64_t group, const int16_t* scales, const int16_t* offsets);

// Cycles taken, or -1; -2: the memory was asked for what is not there.
int64_t millrace_engine_forward(void* engine, const MillraceEngineRegisters* registers, const MillraceEngineStreams* streams);
int64_t millrace_engine_error_back(void* engine, const MillraceEngineRegisters* registers, const MillraceEngineStreams* streams);
int64_t millrace_engine_gradient(void* engine, const MillraceEngineRegisters* registers, const MillraceEngineStreams* streams);

// What PG left: `words` words of gradients, and one bias gradient for every lane of `groups` groups.
void millrace_engine_read_gradients(void* engine, int64_t words, int32_t* gradients, int64_t groups, int32_t* biases);
}
