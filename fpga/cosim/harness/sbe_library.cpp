// The functions of sbe_library.h around the Verilated engine. Compiled with the model Verilator makes, by engine_builder.cpp; parameters
// come as MILLRACE_ENGINE_*.
#include "fpga/cosim/harness/sbe_library.h"

#include <Vsbe_engine.h>

#include <algorithm>

#include "fpga/cosim/harness/sbe_bench.h"

namespace {

using Bench = millrace::EngineBench<Vsbe_engine>;

Bench& bench_of(void* engine) { return *static_cast<Bench*>(engine); }

}  // namespace

extern "C" {

void* millrace_sbe_open() { return new Bench; }
void millrace_sbe_close(void* engine) { delete static_cast<Bench*>(engine); }

void millrace_sbe_load_biases(void* engine, const int32_t* biases, int64_t count, int64_t each) {
  bench_of(engine).load_biases({biases, static_cast<size_t>(count)}, each);
}

void millrace_sbe_load_projection(void* engine, const int16_t* words, int64_t count, int64_t each) {
  bench_of(engine).load_projection({words, static_cast<size_t>(count)}, MILLRACE_ENGINE_BEAT_WORDS, each / MILLRACE_ENGINE_BEAT_WORDS);
}

void millrace_sbe_load_state(void* engine, const millrace::SbeSettings* settings, const int16_t* hidden, int64_t hidden_count,
                             const int32_t* kept, int64_t kept_count) {
  bench_of(engine).load_state({hidden, static_cast<size_t>(hidden_count)}, {kept, static_cast<size_t>(kept_count)}, *settings,
                              MILLRACE_ENGINE_UNITS);
}

void millrace_sbe_read_kept(void* engine, int32_t* kept, int64_t count) {
  const std::vector<int32_t> found = bench_of(engine).kept(count / MILLRACE_ENGINE_UNITS, MILLRACE_ENGINE_UNITS);
  std::copy(found.begin(), found.end(), kept);
}

int64_t millrace_sbe_run(void* engine, const MillraceSbeJob* job, MillraceSbeResults* results) {
  const millrace::EngineJob run{.settings = job->settings,
                                .batches = job->batches,
                                .stateful = job->stateful,
                                .loads_pinned = job->loads_pinned,
                                .valid_steps = {job->valid_steps, job->valid_steps + job->settings.streams},
                                .memory = {job->memory, static_cast<size_t>(job->memory_words)},
                                .inputs = {job->inputs, static_cast<size_t>(job->input_words)},
                                .columns = MILLRACE_ENGINE_INPUT_WORDS,
                                .units = MILLRACE_ENGINE_UNITS,
                                .beat_words = MILLRACE_ENGINE_BEAT_WORDS,
                                .memory_latency = job->memory_latency,
                                .most_cycles = job->most_cycles};
  std::mt19937_64 no_pauses;
  const millrace::BenchResult result = bench_of(engine).run(run, no_pauses);
  results->beats = result.beats;
  if (result.fault || result.bursts_across_pages > 0) return -2;
  if (!result.finished) return -1;
  if (static_cast<int64_t>(result.outputs.size()) != results->output_words) return -3;
  std::copy(result.outputs.begin(), result.outputs.end(), results->outputs);
  return result.cycles;
}
}
