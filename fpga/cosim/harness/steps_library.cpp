// The functions of steps_library.h around the Verilated engine. Compiled with the model Verilator makes, by engine_builder.cpp; parameters
// come as MILLRACE_ENGINE_*.
#include "fpga/cosim/harness/steps_library.h"

#include <Vpe_chain_engine.h>

#include <memory>
#include <span>

#include "fpga/cosim/harness/verilated_port.h"

namespace {

constexpr size_t kChains = MILLRACE_ENGINE_CHAINS, kGates = MILLRACE_ENGINE_GATES, kBiases = MILLRACE_ENGINE_BIASES;
constexpr size_t kInWord = MILLRACE_ENGINE_IN_PARTS * kChains, kOutWord = MILLRACE_ENGINE_OUT_PARTS * kChains;

struct Engine {
  Engine() : model(std::make_unique<Vpe_chain_engine>(&context)) {
    model->reset_n = 0;
    model->start = 0;
    for (int i = 0; i < 4; ++i) cycle();
    model->reset_n = 1;
    cycle();
  }
  ~Engine() { model->final(); }

  void cycle() {
    model->clock = 0;
    model->eval();
    model->clock = 1;
    model->eval();
  }

  VerilatedContext context;
  std::unique_ptr<Vpe_chain_engine> model;
};

Engine& of(void* engine) { return *static_cast<Engine*>(engine); }

// The ports of one product, in the order of PassSettings.
void set_pass(const millrace::PassSettings& from, auto& full_slices, auto& has_last, auto& divided, auto& feeds, auto& feeds_last,
              auto& depths_last, auto& words_last, auto& words, auto& taken_words) {
  millrace::set_number(full_slices, from.full_slices);
  has_last = from.has_last;
  divided = from.divided;
  millrace::set_number(feeds, from.feeds);
  millrace::set_number(feeds_last, from.feeds_last);
  millrace::set_number(depths_last, from.depths_last);
  millrace::set_number(words_last, from.words_last);
  millrace::set_number(words, from.words);
  millrace::set_number(taken_words, from.taken_words);
}

}  // namespace

extern "C" {

void* millrace_steps_open() { return new Engine; }
void millrace_steps_close(void* engine) { delete static_cast<Engine*>(engine); }

void millrace_steps_load(void* engine, const MillraceStepsBeat* beat) {
  Vpe_chain_engine& m = *of(engine).model;
  millrace::set_number(m.load_unit, beat->unit);
  millrace::set_number(m.load_depth, beat->depth);
  millrace::set_number(m.load_address, beat->address);
  millrace::set_elements<int16_t>(m.load_data, {beat->weights, kChains});
  m.load_write = 1;
  of(engine).cycle();
  m.load_write = 0;
}

void millrace_steps_load_biases(void* engine, const int32_t* biases, int64_t words) {
  Vpe_chain_engine& m = *of(engine).model;
  m.bias_write = 1;
  for (int64_t word = 0; word < words; ++word) {
    millrace::set_number(m.bias_address, word);
    millrace::set_elements<int32_t>(m.bias_data, {biases + word * static_cast<int64_t>(kChains * kBiases), kChains * kBiases});
    of(engine).cycle();
  }
  m.bias_write = 0;
}

void millrace_steps_load_state(void* engine, bool back, const int16_t* taken, const int32_t* kept, int64_t words) {
  Vpe_chain_engine& m = *of(engine).model;
  m.back = back;
  m.state_write = 1;
  m.state_keeps = 1;
  for (int64_t word = 0; word < words; ++word) {
    millrace::set_number(m.state_address, word);
    millrace::set_elements<int16_t>(m.state_taken, {taken + word * static_cast<int64_t>(kChains * kGates), kChains * kGates});
    millrace::set_elements<int32_t>(m.state_kept, {kept + word * static_cast<int64_t>(kChains), kChains});
    for (const bool half : {false, true}) {
      m.state_half = half;
      of(engine).cycle();
    }
  }
  m.state_write = 0;
}

int64_t millrace_steps_run(void* engine, const MillraceStepsJob* job, int16_t* outputs) {
  Vpe_chain_engine& m = *of(engine).model;
  const millrace::PassSettings &s = job->settings.recurrent, &p = job->settings.projection;
  m.back = job->back;
  m.continues = job->continues;
  millrace::set_number(m.steps, job->steps);
  millrace::set_number(m.samples, job->samples);
  set_pass(s, m.full_slices, m.has_last, m.divided, m.feeds, m.feeds_last, m.depths_last, m.words_last, m.words, m.taken_words);
  set_pass(p, m.projection_full_slices, m.projection_has_last, m.projection_divided, m.projection_feeds, m.projection_feeds_last,
           m.projection_depths_last, m.projection_words_last, m.projection_words, m.projection_taken_words);
  millrace::set_number(m.part, job->settings.part);
  millrace::set_number(m.projection_address, job->settings.first_address);
  millrace::set_number(m.projection_units, job->settings.units_of_last);
  millrace::set_number(m.sum_shift, job->sum_shift);
  millrace::set_number(m.weight_shift, job->weight_shift);
  millrace::set_number(m.hidden_shift, job->hidden_shift);
  millrace::set_number(m.projected_shift, job->projected_shift);
  int64_t next = 0, made = 0;
  for (int64_t now = 0; now < job->most_cycles; ++now) {
    m.start = now == 0;
    m.in_tvalid = next < job->input_words;
    if (m.in_tvalid) millrace::set_elements<int16_t>(m.in_tdata, {job->inputs + next * static_cast<int64_t>(kInWord), kInWord});
    m.out_tready = 1;
    m.clock = 0;
    m.eval();
    if (m.in_tvalid && m.in_tready) ++next;
    if (m.out_tvalid) {
      if (made == job->output_words) return -2;
      millrace::get_elements<int16_t>(m.out_tdata, {outputs + made++ * static_cast<int64_t>(kOutWord), kOutWord});
    }
    m.clock = 1;
    m.eval();
    if (now > 1 && !m.busy) return made == job->output_words && next == job->input_words ? now : -2;
  }
  return -1;
}
}
