// The functions of engine_library.h around the Verilated harness. Compiled with the model Verilator makes, by
// engine_builder.cpp; parameters come as MILLRACE_ENGINE_*.
#include "fpga/cosim/harness/engine_library.h"

#include <Vengine_harness.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "fpga/cosim/harness/outside_memory.h"
#include "fpga/cosim/harness/verilated_port.h"

namespace {

constexpr int64_t kInputLanes = MILLRACE_ENGINE_INPUT_LANES;
constexpr int64_t kOutputLanes = MILLRACE_ENGINE_OUTPUT_LANES;
constexpr int64_t kWord = MILLRACE_ENGINE_WORD;  // elements of a word of the parameter memory

struct Engine {
  VerilatedContext context;
  Vengine_harness model{&context};
};

Engine& engine_of(void* engine) { return *static_cast<Engine*>(engine); }

void set_registers(Vengine_harness& m, const MillraceEngineRegisters& r) {
  using millrace::set_number;
  set_number(m.height, r.height);
  set_number(m.width, r.width);
  set_number(m.out_height, r.out_height);
  set_number(m.out_width, r.out_width);
  set_number(m.pad, r.pad);
  set_number(m.input_groups, r.input_groups);
  set_number(m.output_groups, r.output_groups);
  set_number(m.output_group_step, r.output_group_step);
  set_number(m.error_first_block_rows, r.error_first_block_rows);
  set_number(m.error_block_rows, r.error_block_rows);
  set_number(m.samples, r.samples);
  set_number(m.sum_shift, r.sum_shift);
  set_number(m.adds_partial, r.adds_partial);
  set_number(m.finishes, r.finishes);
  set_number(m.step_rows, r.step_rows);
  set_number(m.step_columns, r.step_columns);
  set_number(m.first_step, r.first_step);
  set_number(m.first_phase, r.first_phase);
  set_number(m.last_phase, r.last_phase);
  set_number(m.stream_words, r.stream_words);
  set_number(m.stream_beats, r.stream_beats);
  set_number(m.stream_passes, r.stream_passes);
}

// The clocks of a harness that tick together.
struct Clocks {
  bool forward = false, back = false, gradient = false;
};

// Inputs are set: outputs settle, `before` looks at them, then comes the edge.
template <typename Look>
void tick(Vengine_harness& m, Clocks clocks, Look before) {
  m.eval();
  before();
  m.forward_clock = clocks.forward;
  m.back_clock = clocks.back;
  m.gradient_clock = clocks.gradient;
  m.eval();
  m.forward_clock = m.back_clock = m.gradient_clock = 0;
}
void tick(Vengine_harness& m, Clocks clocks) {
  tick(m, clocks, [] {});
}

void clear_once(Vengine_harness& m, Clocks clocks) {
  m.clear = 1;
  tick(m, clocks);
  tick(m, clocks);
  m.clear = 0;
}

// A source that never pauses.
class Source {
 public:
  Source(const int16_t* beats, int64_t count, int64_t lanes) : beats_(beats), left_(beats == nullptr ? 0 : count), lanes_(lanes) {}
  template <typename Data>
  void drive(CData& valid, Data& data) {
    if (fresh_ && left_ > 0) millrace::set_elements<int16_t>(data, std::span(beats_, static_cast<size_t>(lanes_)));
    fresh_ = false;
    valid = left_ > 0;
  }
  void after(bool ready) {
    if (left_ == 0 || !ready) return;
    beats_ += lanes_;
    --left_;
    fresh_ = true;
  }

 private:
  const int16_t* beats_;
  int64_t left_;
  int64_t lanes_;
  bool fresh_ = true;
};

// What is behind the port of an engine whose weights are streamed; without, nothing happens.
class Outside {
 public:
  Outside(Vengine_harness& m, int phase, const MillraceEngineRegisters& r, const MillraceEngineStreams& s)
      : model_(m), streamed_(MILLRACE_ENGINE_BEAT_BITS > 0 && s.outside != nullptr), to_(s.outside) {
    millrace::set_number(m.stream_phase, phase);
    m.m_axi_arready = m.m_axi_rvalid = m.m_axi_awready = m.m_axi_wready = m.m_axi_bvalid = 0;
    if (streamed_)
      memory_ = std::make_unique<millrace::OutsideMemory>(std::vector<int16_t>(s.outside, s.outside + s.outside_elements),
                                                          MILLRACE_ENGINE_BEAT_BITS / 16, r.memory_latency, 0.0, no_pauses_);
  }
  void drive() {
    if (!streamed_) return;
    memory_->drive_reads(model_);
    memory_->drive_writes(model_);
  }
  void after() {
    if (!streamed_) return;
    memory_->after_reads(model_);
    memory_->after_writes(model_);
    memory_->tick();
  }
  bool wrong() const { return streamed_ && (memory_->wrong() || model_.stream_fault); }
  void store() {
    if (streamed_) std::copy(memory_->words().begin(), memory_->words().end(), to_);
  }

 private:
  Vengine_harness& model_;
  std::mt19937_64 no_pauses_;
  bool streamed_;
  int16_t* to_;
  std::unique_ptr<millrace::OutsideMemory> memory_;
};

}  // namespace

extern "C" {

void* millrace_engine_open() { return new Engine; }
void millrace_engine_close(void* engine) { delete static_cast<Engine*>(engine); }

void millrace_engine_write_parameter(void* engine, int64_t address, int64_t element, int16_t value) {
  Vengine_harness& m = engine_of(engine).model;
  m.clear = 1;
  m.parameter_write_enable = 1;
  millrace::set_number(m.parameter_write_address, address);
  millrace::set_number(m.parameter_write_element, element);
  m.parameter_write_data = static_cast<uint16_t>(value);
  tick(m, {.forward = true, .back = true});
  m.parameter_write_enable = 0;
}

void millrace_engine_write_scales(void* engine, int64_t group, const int16_t* scales, const int16_t* offsets) {
  Vengine_harness& m = engine_of(engine).model;
  m.clear = 1;
  m.scale_write_enable = 1;
  millrace::set_number(m.scale_write_address, group);
  millrace::set_elements<int16_t>(m.scale_write_scales, std::span(scales, static_cast<size_t>(kOutputLanes)));
  millrace::set_elements<int16_t>(m.scale_write_offsets, std::span(offsets, static_cast<size_t>(kOutputLanes)));
  tick(m, {.forward = true});
  m.scale_write_enable = 0;
}

int64_t millrace_engine_forward(void* engine, const MillraceEngineRegisters* registers, const MillraceEngineStreams* streams) {
  Vengine_harness& m = engine_of(engine).model;
  const Clocks clocks{.forward = true};
  set_registers(m, *registers);
  clear_once(m, clocks);
  Source activation(streams->first, streams->first_beats, kInputLanes);
  Source partial(streams->second, streams->second_beats, kOutputLanes);
  Outside outside(m, 0, *registers, *streams);
  m.sum_tready = 1;
  int64_t taken = 0;
  for (int64_t cycle = 0; cycle < registers->most_cycles; ++cycle) {
    activation.drive(m.activation_tvalid, m.activation_tdata);
    partial.drive(m.partial_tvalid, m.partial_tdata);
    outside.drive();
    tick(m, clocks, [&] {
      outside.after();
      activation.after(m.activation_tready);
      partial.after(m.partial_tready);
      if (m.sum_tvalid)
        millrace::get_elements<int16_t>(m.sum_tdata,
                                        std::span(streams->result + taken++ * kOutputLanes, static_cast<size_t>(kOutputLanes)));
    });
    if (outside.wrong()) return -2;
    if (taken == streams->result_beats) return cycle + 1;
  }
  return -1;
}

int64_t millrace_engine_error_back(void* engine, const MillraceEngineRegisters* registers, const MillraceEngineStreams* streams) {
  Vengine_harness& m = engine_of(engine).model;
  const Clocks clocks{.back = true};
  set_registers(m, *registers);
  clear_once(m, clocks);
  Source error(streams->first, streams->first_beats, kOutputLanes);
  Outside outside(m, 1, *registers, *streams);
  m.input_error_tready = 1;
  int64_t taken = 0;
  for (int64_t cycle = 0; cycle < registers->most_cycles; ++cycle) {
    error.drive(m.error_tvalid, m.error_tdata);
    outside.drive();
    tick(m, clocks, [&] {
      outside.after();
      error.after(m.error_tready);
      if (m.input_error_tvalid)
        millrace::get_elements<int16_t>(m.input_error_tdata,
                                        std::span(streams->result + taken++ * kInputLanes, static_cast<size_t>(kInputLanes)));
    });
    if (outside.wrong()) return -2;
    if (taken == streams->result_beats) return cycle + 1;
  }
  return -1;
}

int64_t millrace_engine_gradient(void* engine, const MillraceEngineRegisters* registers, const MillraceEngineStreams* streams) {
  Vengine_harness& m = engine_of(engine).model;
  const Clocks clocks{.gradient = true};
  set_registers(m, *registers);
  m.gradient_host_reads = 0;
  clear_once(m, clocks);
  Source activation(streams->first, streams->first_beats, kInputLanes);
  Source error(streams->second, streams->second_beats, kOutputLanes);
  Outside outside(m, 2, *registers, *streams);
  const int64_t rows = registers->out_height * registers->samples;
  int64_t rows_done = 0;
  for (int64_t cycle = 0; cycle < registers->most_cycles; ++cycle) {
    activation.drive(m.kept_tvalid, m.kept_tdata);
    error.drive(m.raw_error_tvalid, m.raw_error_tdata);
    outside.drive();
    tick(m, clocks, [&] {
      outside.after();
      activation.after(m.kept_tready);
      error.after(m.raw_error_tready);
    });
    if (m.rows_done != static_cast<uint16_t>(rows_done)) ++rows_done;  // the port counts modulo 2^16
    if (outside.wrong()) return -2;
    // What is on its way to the memory outside arrives.
    if (rows_done == rows && !m.stream_busy) {
      outside.store();
      m.kept_tvalid = m.raw_error_tvalid = 0;
      return cycle + 1;
    }
  }
  return -1;
}

void millrace_engine_read_gradients(void* engine, int64_t words, int32_t* gradients, int64_t groups, int32_t* biases) {
  Vengine_harness& m = engine_of(engine).model;
  const Clocks clocks{.gradient = true};
  m.gradient_host_reads = 1;
  for (int64_t at = 0; at < std::max(words, groups); ++at) {
    millrace::set_number(m.gradient_host_address, std::min(at, words - 1));
    millrace::set_number(m.bias_read_address, std::min(at, groups - 1));
    tick(m, clocks);
    if (at < words) millrace::get_elements<int32_t>(m.gradient_host_word, std::span(gradients + at * kWord, static_cast<size_t>(kWord)));
    if (at < groups)
      millrace::get_elements<int32_t>(m.bias_read_word, std::span(biases + at * kOutputLanes, static_cast<size_t>(kOutputLanes)));
  }
  m.gradient_host_reads = 0;
}
}
