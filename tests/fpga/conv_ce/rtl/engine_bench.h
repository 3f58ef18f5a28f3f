// Runs one job on a Verilated FP, EB or PG engine and gives back what came out, with the cycle of every beat.
//
//   ForwardBench<Vforward_k3s1> bench(engine);
//   const BenchResult result = bench.run(job, random);
//
// One model serves every geometry. A job that does not end within its limit of cycles comes back with `finished` false.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/streams.h"

namespace millrace {

struct EngineJob {
  ConvolutionShape shape;
  int64_t samples = 1;
  std::vector<std::vector<int16_t>> inputs;         // per sample: activations, of FP and PG
  std::vector<std::vector<int16_t>> output_errors;  // of EB and PG
  std::vector<std::vector<int16_t>> partials;       // of FP; empty: none
  std::vector<int16_t> weight;
  int partial_shift = 0;
  int sum_shift = 0;
  int64_t activation_block_rows = 1;
  int64_t error_block_rows = 1;
  double source_pause = 0, sink_pause = 0;
  int64_t most_cycles = 0;
};

struct BenchResult {
  bool finished = false;
  int64_t cycles = 0;                      // from the end of clear to the last result
  std::vector<std::vector<int16_t>> maps;  // per sample: sums of FP, errors of EB
  std::vector<int64_t> beat_cycles;        // when each beat came out (FP), each row was done (PG)
  std::vector<int32_t> gradient;           // of PG
  std::vector<int32_t> bias_gradient;
};

// Where an engine's kernels come from when they lie outside: once a cycle ready(), the engine's answer to it, then step().
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  virtual void clear(const std::vector<int16_t>& words, int64_t word_elements, int64_t passes) = 0;
  virtual bool ready() = 0;
  virtual void step(bool read) = 0;
  virtual std::vector<int16_t> word() const = 0;
};
// Likewise PG's gradients.
class GradientStore {
 public:
  virtual ~GradientStore() = default;
  virtual void clear(const std::vector<int32_t>& words, int64_t word_elements, int64_t passes) = 0;
  virtual bool ready() = 0;
  virtual void step(bool claim, bool read, bool writes, const std::vector<int32_t>& written) = 0;
  virtual std::vector<int32_t> word() const = 0;
  virtual bool busy() const = 0;
  virtual std::vector<int32_t> words() const = 0;
};

// The kernels of FP and EB: as the engine addresses them, or from outside. Between settling and the edge it notes what the engine asks for.
template <typename Model>
class Kernels {
 public:
  Kernels(const EngineParallelism& engine, std::vector<int16_t> words, KernelSource* outside)
      : word_elements_(to_size(engine.kernels_per_word * engine.taps())), words_(std::move(words)), outside_(outside) {}

  void drive(Model& m) {
    if (outside_ != nullptr) m.parameter_ready = outside_->ready();
  }
  void settled(const Model& m) {
    address_ = m.parameter_address;
    read_ = m.parameter_read;
  }
  void after(Model& m) {
    if (outside_ != nullptr) {
      outside_->step(read_);
      set_elements<int16_t>(m.parameter_word, outside_->word());
    } else if ((address_ + 1) * word_elements_ <= words_.size()) {
      set_elements<int16_t>(m.parameter_word, std::span<const int16_t>(words_).subspan(address_ * word_elements_, word_elements_));
    }
  }

 private:
  size_t word_elements_;
  std::vector<int16_t> words_;
  KernelSource* outside_;
  size_t address_ = 0;
  bool read_ = false;
};

template <typename Model>
class EngineBench {
 public:
  explicit EngineBench(const EngineParallelism& engine) : engine_(engine), model_(std::make_unique<Model>(&context_)) {}

 protected:
  static std::vector<int16_t> beats_of(const BeatOrder& order, const std::vector<std::vector<int16_t>>& maps) {
    std::vector<int16_t> all;
    for (const auto& map : maps) {
      const std::vector<int16_t> beats = beats_of_map(order, map);
      all.insert(all.end(), beats.begin(), beats.end());
    }
    return all;
  }
  static std::vector<std::vector<int16_t>> maps_of(const BeatOrder& order, const std::vector<int16_t>& beats, int64_t samples) {
    std::vector<std::vector<int16_t>> maps;
    const size_t one = beats.size() / to_size(samples);
    for (int64_t sample = 0; sample < samples; ++sample)
      maps.push_back(map_of_beats(order, std::span<const int16_t>(beats).subspan(to_size(sample) * one, one)));
    return maps;
  }

  EngineParallelism engine_;
  VerilatedContext context_;
  std::unique_ptr<Model> model_;
};

inline uint16_t port16(int64_t value) { return static_cast<uint16_t>(value); }

template <typename Model>
class ForwardBench : public EngineBench<Model> {
 public:
  using EngineBench<Model>::EngineBench;

  BenchResult run(const EngineJob& job, std::mt19937_64& random, KernelSource* outside = nullptr) {
    Model& m = *this->model_;
    const EngineParallelism& engine = this->engine_;
    const ConvolutionShape& s = job.shape;
    m.height = port16(s.height);
    m.width = port16(s.width);
    m.out_height = port16(s.out_height());
    m.out_width = port16(s.out_width());
    m.pad = port16(s.pad_h);
    m.input_groups = port16(engine.groups_of_inputs(s.inputs));
    m.output_groups = port16(engine.groups_of_outputs(s.outputs));
    set_number(m.output_group_step, engine.input_sweeps(s.inputs) * engine.load_words());
    m.first_block_rows = m.block_rows = port16(job.activation_block_rows);
    m.parameter_ready = 1;
    m.adds_partial = !job.partials.empty();
    m.partial_shift = static_cast<uint8_t>(job.partial_shift);
    m.sum_shift = static_cast<uint8_t>(job.sum_shift);
    const BeatOrder inputs{s.inputs, s.height, s.width, engine.input_lanes, job.activation_block_rows, job.activation_block_rows};
    const BeatOrder outputs{s.outputs, s.out_height(), s.out_width(), engine.output_lanes};
    StreamSource activation(this->beats_of(inputs, job.inputs), engine.input_lanes, job.source_pause, random);
    StreamSource partial(this->beats_of(outputs, job.partials), engine.output_lanes, job.source_pause, random);
    StreamSink sum(engine.output_lanes, job.sink_pause, random);
    const std::vector<int16_t> words = parameter_words(engine, s, job.weight);
    Kernels<Model> kernels(engine, words, outside);
    const auto beats = to_size(outputs.beats() * job.samples);

    clear_model(m);
    if (outside != nullptr) outside->clear(words, engine.kernels_per_word * engine.taps(), forward_passes(s) * job.samples);
    BenchResult result;
    for (int64_t cycle = 0; cycle < job.most_cycles && sum.beat_count() < beats; ++cycle) {
      activation.drive(m.activation_tvalid, m.activation_tdata);
      partial.drive(m.partial_tvalid, m.partial_tdata);
      sum.drive(m.sum_tready);
      kernels.drive(m);
      settle(m);
      activation.after(m.activation_tready);
      partial.after(m.partial_tready);
      if (sum.after(m.sum_tvalid, m.sum_tdata)) result.beat_cycles.push_back(cycle);
      kernels.settled(m);
      edge(m);
      kernels.after(m);
      result.cycles = cycle + 1;
    }
    result.finished = sum.beat_count() == beats;
    if (result.finished) result.maps = this->maps_of(outputs, sum.beats(), job.samples);
    return result;
  }
};

template <typename Model>
class ErrorBackBench : public EngineBench<Model> {
 public:
  using EngineBench<Model>::EngineBench;

  BenchResult run(const EngineJob& job, std::mt19937_64& random, KernelSource* outside = nullptr) {
    Model& m = *this->model_;
    const EngineParallelism& engine = this->engine_;
    const ConvolutionShape& s = job.shape;
    const ErrorBackSteps steps = error_back_steps(s);
    m.width = port16(s.width);
    m.out_height = port16(s.out_height());
    m.out_width = port16(s.out_width());
    m.step_rows = port16(steps.rows);
    m.step_columns = port16(steps.columns);
    m.first_step = port16(steps.first);
    m.first_phase = port16(steps.first_phase);
    m.last_phase = port16(steps.last_phase);
    m.input_groups = port16(engine.groups_of_inputs(s.inputs));
    m.output_groups = port16(engine.groups_of_outputs(s.outputs));
    set_number(m.output_group_step, engine.input_sweeps(s.inputs) * engine.load_words());
    m.first_block_rows = m.block_rows = port16(job.error_block_rows);
    m.parameter_ready = 1;
    m.sum_shift = static_cast<uint8_t>(job.sum_shift);
    const BeatOrder outputs{s.outputs, s.out_height(), s.out_width(), engine.output_lanes, job.error_block_rows, job.error_block_rows};
    const BeatOrder inputs{s.inputs, s.height, s.width, engine.input_lanes, steps.first_block_rows, engine.stride};
    StreamSource error(this->beats_of(outputs, job.output_errors), engine.output_lanes, job.source_pause, random);
    StreamSink input_error(engine.input_lanes, job.sink_pause, random);
    const std::vector<int16_t> words = parameter_words(engine, s, job.weight);
    Kernels<Model> kernels(engine, words, outside);
    const auto beats = to_size(inputs.beats() * job.samples);

    clear_model(m);
    if (outside != nullptr)
      outside->clear(parameter_words_of_error_back(engine, s, words), engine.kernels_per_word * engine.taps(),
                     error_back_passes(s) * job.samples);
    BenchResult result;
    for (int64_t cycle = 0; cycle < job.most_cycles && input_error.beat_count() < beats; ++cycle) {
      error.drive(m.error_tvalid, m.error_tdata);
      input_error.drive(m.input_error_tready);
      kernels.drive(m);
      settle(m);
      error.after(m.error_tready);
      if (input_error.after(m.input_error_tvalid, m.input_error_tdata)) result.beat_cycles.push_back(cycle);
      kernels.settled(m);
      edge(m);
      kernels.after(m);
      result.cycles = cycle + 1;
    }
    result.finished = input_error.beat_count() == beats;
    if (result.finished) result.maps = this->maps_of(inputs, input_error.beats(), job.samples);
    return result;
  }
};

template <typename Model>
class GradientBench : public EngineBench<Model> {
 public:
  using EngineBench<Model>::EngineBench;

  BenchResult run(const EngineJob& job, std::mt19937_64& random, GradientStore* outside = nullptr) {
    Model& m = *this->model_;
    const EngineParallelism& engine = this->engine_;
    const ConvolutionShape& s = job.shape;
    m.height = port16(s.height);
    m.width = port16(s.width);
    m.out_height = port16(s.out_height());
    m.out_width = port16(s.out_width());
    m.pad = port16(s.pad_h);
    m.input_groups = port16(engine.groups_of_inputs(s.inputs));
    m.output_groups = port16(engine.groups_of_outputs(s.outputs));
    m.first_block_rows = m.block_rows = port16(job.activation_block_rows);
    m.error_first_block_rows = m.error_block_rows = port16(job.error_block_rows);
    m.gradient_ready = 1;
    m.samples_per_update = port16(job.samples);
    m.bias_read_address = 0;
    const BeatOrder inputs{s.inputs, s.height, s.width, engine.input_lanes, job.activation_block_rows, job.activation_block_rows};
    const BeatOrder outputs{s.outputs, s.out_height(), s.out_width(), engine.output_lanes, job.error_block_rows, job.error_block_rows};
    StreamSource activation(this->beats_of(inputs, job.inputs), engine.input_lanes, job.source_pause, random);
    StreamSource error(this->beats_of(outputs, job.output_errors), engine.output_lanes, job.source_pause, random);
    std::vector<int32_t> words(parameter_elements(engine, s));
    for (int32_t& word : words) word = static_cast<int32_t>(random());  // what the first sample must overwrite
    const auto word_elements = to_size(engine.kernels_per_word * engine.taps());
    const int64_t rows = s.out_height() * job.samples;

    clear_model(m);
    if (outside != nullptr) outside->clear(words, engine.kernels_per_word * engine.taps(), rows);
    BenchResult result;
    uint16_t rows_done = 0;
    for (int64_t cycle = 0; cycle < job.most_cycles && rows_done != port16(rows); ++cycle) {
      activation.drive(m.activation_tvalid, m.activation_tdata);
      error.drive(m.error_tvalid, m.error_tdata);
      if (outside != nullptr) m.gradient_ready = outside->ready();
      settle(m);
      activation.after(m.activation_tready);
      error.after(m.error_tready);
      const size_t read = m.gradient_read_address;
      const size_t write = m.gradient_write_address;
      const bool writes = m.gradient_write_enable;
      std::vector<int32_t> written(word_elements);
      if (writes) get_elements<int32_t>(m.gradient_write_word, written);
      const bool claim = m.gradient_claim, reads = m.gradient_read;
      edge(m);
      if (outside != nullptr) {
        outside->step(claim, reads, writes, written);
        set_elements<int32_t>(m.gradient_read_word, outside->word());
      } else if ((read + 1) * word_elements <= words.size())
        set_elements<int32_t>(m.gradient_read_word, std::span<const int32_t>(words).subspan(read * word_elements, word_elements));
      if (outside == nullptr && writes && (write + 1) * word_elements <= words.size())
        std::copy(written.begin(), written.end(), words.begin() + static_cast<std::ptrdiff_t>(write * word_elements));
      if (m.rows_done != rows_done) {
        rows_done = m.rows_done;
        result.beat_cycles.push_back(cycle);
      }
      result.cycles = cycle + 1;
    }
    result.finished = rows_done == port16(rows);
    if (outside != nullptr) {
      for (int64_t cycle = 0; cycle < 100'000 && outside->busy(); ++cycle) {
        outside->ready();
        outside->step(false, false, false, {});
      }
      result.finished = result.finished && !outside->busy();
      words = outside->words();
    }
    result.gradient = gradients_of_words(engine, s, words);
    for (int64_t group = 0; group < engine.groups_of_outputs(s.outputs); ++group) {
      set_number(m.bias_read_address, group);
      settle(m);
      edge(m);
      std::vector<int32_t> lanes(to_size(engine.output_lanes));
      get_elements<int32_t>(m.bias_read_word, lanes);
      result.bias_gradient.insert(result.bias_gradient.end(), lanes.begin(), lanes.end());
    }
    result.bias_gradient.resize(to_size(s.outputs));
    return result;
  }
};

}  // namespace millrace
