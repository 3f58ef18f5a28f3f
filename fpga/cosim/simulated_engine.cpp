#include "fpga/cosim/simulated_engine.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/cosim/harness/engine_library.h"
#include "fpga/cosim/shared_library.h"

namespace millrace {

namespace {

constexpr int64_t kOutsideLatency = 100;  // cycles, of the memory outside

struct Library {
  explicit Library(const std::filesystem::path& path) : library(path) {
    library.find(open, "millrace_engine_open");
    library.find(close, "millrace_engine_close");
    library.find(write_parameter, "millrace_engine_write_parameter");
    library.find(write_scales, "millrace_engine_write_scales");
    library.find(forward, "millrace_engine_forward");
    library.find(error_back, "millrace_engine_error_back");
    library.find(gradient, "millrace_engine_gradient");
    library.find(read_gradients, "millrace_engine_read_gradients");
  }

  SharedLibrary library;
  decltype(&millrace_engine_open) open = nullptr;
  decltype(&millrace_engine_close) close = nullptr;
  decltype(&millrace_engine_write_parameter) write_parameter = nullptr;
  decltype(&millrace_engine_write_scales) write_scales = nullptr;
  decltype(&millrace_engine_forward) forward = nullptr;
  decltype(&millrace_engine_error_back) error_back = nullptr;
  decltype(&millrace_engine_gradient) gradient = nullptr;
  decltype(&millrace_engine_read_gradients) read_gradients = nullptr;
};

std::vector<int16_t> beats_of(const BeatOrder& order, std::span<const int16_t> maps, int64_t samples) {
  std::vector<int16_t> all;
  const size_t one = maps.size() / to_size(samples);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const std::vector<int16_t> beats = beats_of_map(order, maps.subspan(to_size(sample) * one, one));
    all.insert(all.end(), beats.begin(), beats.end());
  }
  return all;
}

std::vector<int16_t> maps_of(const BeatOrder& order, std::span<const int16_t> beats, int64_t samples) {
  std::vector<int16_t> all;
  const size_t one = beats.size() / to_size(samples);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const std::vector<int16_t> map = map_of_beats(order, beats.subspan(to_size(sample) * one, one));
    all.insert(all.end(), map.begin(), map.end());
  }
  return all;
}

}  // namespace

class SimulatedEngine::Implementation {
 public:
  Implementation(const EngineHardware& hardware, ErrorBlocks blocks, const EngineBuildOptions& options)
      : hardware_(hardware), blocks_(blocks), library_(build_library(library_of(hardware), options).engine_file), engine_(library_.open()) {
    words_.resize((size_t{1} << hardware.memories.parameter_address) * word_elements());  // --x-initial fast: zeros at first
  }
  ~Implementation() { library_.close(engine_); }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data) {
    const ConvolutionShape& s = phase.convolution;
    std::vector<int16_t> outside;
    if (streamed())
      outside = parameter_words(hardware_.engine, s, data.weight);
    else
      load(s, data.weight);
    if (!data.bias.empty()) load_bias(data.bias);
    MillraceEngineRegisters registers = registers_of(phase, forward_cycles(hardware_.engine, s, phase.samples));
    stream(s, forward_passes(s) * phase.samples, kElementBits, outside, registers);
    registers.adds_partial = data.before.empty() ? 0 : 1;
    registers.finishes = data.bias.empty() ? 0 : 1;
    const BeatOrder sums{s.outputs, s.out_height(), s.out_width(), hardware_.engine.output_lanes};
    const std::vector<int16_t> activations = beats_of(inputs_order(s), data.input, phase.samples);
    std::vector<int16_t> partials;
    if (!data.before.empty()) partials = beats_of(sums, data.before, phase.samples);
    std::vector<int16_t> result(to_size(sums.beats() * sums.lanes * phase.samples));
    const MillraceEngineStreams streams{activations.data(),
                                        inputs_order(s).beats() * phase.samples,
                                        partials.empty() ? nullptr : partials.data(),
                                        partials.empty() ? 0 : sums.beats() * phase.samples,
                                        result.data(),
                                        sums.beats() * phase.samples,
                                        streamed() ? outside.data() : nullptr,
                                        std::ssize(outside)};
    cycles.forward += ended("FP", phase, registers, library_.forward(engine_, &registers, &streams));
    return maps_of(sums, result, phase.samples);
  }

  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight) {
    const ConvolutionShape& s = phase.convolution;
    std::vector<int16_t> outside;
    if (streamed())
      outside = parameter_words_of_error_back(hardware_.engine, s, parameter_words(hardware_.engine, s, weight));
    else
      load(s, weight);
    MillraceEngineRegisters registers = registers_of(phase, error_back_cycles(hardware_.engine, s, phase.samples));
    stream(s, error_back_passes(s) * phase.samples, kElementBits, outside, registers);
    const ErrorBackSteps steps = error_back_steps(s);
    const BeatOrder results{s.inputs, s.height, s.width, hardware_.engine.input_lanes, steps.first_block_rows, hardware_.engine.stride};
    const std::vector<int16_t> errors = beats_of(errors_order(s), output_error, phase.samples);
    std::vector<int16_t> result(to_size(results.beats() * results.lanes * phase.samples));
    const MillraceEngineStreams streams{errors.data(),
                                        errors_order(s).beats() * phase.samples,
                                        nullptr,
                                        0,
                                        result.data(),
                                        results.beats() * phase.samples,
                                        streamed() ? outside.data() : nullptr,
                                        std::ssize(outside)};
    cycles.error_back += ended("EB", phase, registers, library_.error_back(engine_, &registers, &streams));
    return maps_of(results, result, phase.samples);
  }

  void add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias) {
    const ConvolutionShape& s = phase.convolution;
    const EngineParallelism& engine = hardware_.engine;
    MillraceEngineRegisters registers = registers_of(phase, gradient_cycles(engine, s, phase.samples));
    std::vector<int16_t> outside(streamed() ? 2 * parameter_elements(engine, s) : 0);
    stream(s, forward_passes(s) * phase.samples, kAccumulatorBits, outside, registers);
    const std::vector<int16_t> activations = beats_of(inputs_order(s), input, phase.samples);
    const std::vector<int16_t> errors = beats_of(errors_order(s), output_error, phase.samples);
    const MillraceEngineStreams streams{activations.data(),
                                        inputs_order(s).beats() * phase.samples,
                                        errors.data(),
                                        errors_order(s).beats() * phase.samples,
                                        nullptr,
                                        0,
                                        streamed() ? outside.data() : nullptr,
                                        std::ssize(outside)};
    cycles.gradient += ended("PG", phase, registers, library_.gradient(engine_, &registers, &streams));
    std::vector<int32_t> words(parameter_elements(engine, s));
    const int64_t groups = engine.groups_of_outputs(s.outputs);
    std::vector<int32_t> biases(to_size(groups * engine.output_lanes));
    const size_t held = streamed() ? 0 : words.size() / word_elements();
    library_.read_gradients(engine_, static_cast<int64_t>(held), words.data(), groups, biases.data());
    for (size_t i = 0; streamed() && i < words.size(); ++i)
      words[i] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(outside[2 * i])) |
                                      static_cast<uint32_t>(static_cast<uint16_t>(outside[2 * i + 1])) << 16);
    const std::vector<int32_t> found = gradients_of_words(engine, s, words);
    for (size_t i = 0; i < found.size(); ++i) weight[i] = wrapped(int64_t{weight[i]} + found[i]);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = wrapped(int64_t{bias[i]} + biases[i]);
  }

  const EngineHardware& hardware() const { return hardware_; }
  int64_t error_block_rows() const { return blocks_.rows; }

  SimulatedCycles cycles;

 private:
  size_t word_elements() const { return to_size(hardware_.engine.kernels_per_word * hardware_.engine.taps()); }
  BeatOrder inputs_order(const ConvolutionShape& s) const { return {s.inputs, s.height, s.width, hardware_.engine.input_lanes}; }
  BeatOrder errors_order(const ConvolutionShape& s) const {
    return {s.outputs, s.out_height(), s.out_width(), hardware_.engine.output_lanes, blocks_.first, blocks_.rows};
  }

  MillraceEngineRegisters registers_of(const PhaseShape& phase, int64_t modelled_cycles) const {
    const ConvolutionShape& s = phase.convolution;
    const EngineParallelism& engine = hardware_.engine;
    MILLRACE_CHECK(s.kernel_h == engine.kernel && s.stride_h == engine.stride && s.groups == engine.channel_groups,
                   "a phase of another engine");
    const ErrorBackSteps steps = error_back_steps(s);
    MillraceEngineRegisters r{};
    r.height = s.height;
    r.width = s.width;
    r.out_height = s.out_height();
    r.out_width = s.out_width();
    r.pad = s.pad_h;
    r.input_groups = engine.groups_of_inputs(s.inputs);
    r.output_groups = engine.groups_of_outputs(s.outputs);
    r.output_group_step = engine.input_sweeps(s.inputs) * engine.load_words();
    r.error_first_block_rows = blocks_.first;
    r.error_block_rows = blocks_.rows;
    r.samples = phase.samples;
    r.sum_shift = phase.shift;
    r.step_rows = steps.rows;
    r.step_columns = steps.columns;
    r.first_step = steps.first;
    r.first_phase = steps.first_phase;
    r.last_phase = steps.last_phase;
    r.most_cycles = 10'000 + 10 * modelled_cycles;
    return r;
  }

  bool streamed() const { return hardware_.beat_bits > 0; }

  // So many passes over what lies in the memory outside, in whole beats.
  void stream(const ConvolutionShape& s, int64_t passes, int64_t element_bits, std::vector<int16_t>& outside,
              MillraceEngineRegisters& registers) const {
    if (!streamed()) return;
    registers.stream_words = streamed_words(hardware_.engine, s);
    registers.stream_beats = streamed_beats(hardware_.engine, s, element_bits, hardware_.beat_bits);
    registers.stream_passes = passes;
    registers.memory_latency = kOutsideLatency;
    registers.most_cycles += passes * (20 * registers.stream_beats + 20 * kOutsideLatency);
    outside.resize(to_size(registers.stream_beats * hardware_.beat_bits / 16));
  }

  int64_t ended(const char* phase_name, const PhaseShape& phase, const MillraceEngineRegisters& registers, int64_t taken) const {
    const ConvolutionShape& s = phase.convolution;
    if (taken == -2)
      fail(ErrorCode::kMismatch, "{} of {} -> {} channels asks the memory outside for what is not there ({})", phase_name, s.inputs,
           s.outputs, text_of(hardware_.engine));
    if (taken < 0)
      fail(ErrorCode::kTimeout, "{} of {} samples, {} -> {} channels, {} x {} does not end within {} cycles of its RTL ({})", phase_name,
           phase.samples, s.inputs, s.outputs, s.height, s.width, registers.most_cycles, text_of(hardware_.engine));
    return taken;
  }

  // Words that differ, whole: LPRAM takes a word with its last element.
  void load(const ConvolutionShape& shape, std::span<const int16_t> weight) {
    const std::vector<int16_t> words = parameter_words(hardware_.engine, shape, weight);
    const size_t elements = word_elements();
    MILLRACE_CHECK(words.size() % elements == 0, "{} elements in words of {}", words.size(), elements);
    for (size_t begin = 0; begin < words.size(); begin += elements) {
      const auto word = std::span(words).subspan(begin, elements);
      const auto held = std::span(words_).subspan(begin, elements);
      if (std::ranges::equal(word, held)) continue;
      std::ranges::copy(word, held.begin());
      for (size_t i = 0; i < elements; ++i)
        library_.write_parameter(engine_, static_cast<int64_t>(begin / elements), static_cast<int64_t>(i), word[i]);
    }
  }
  void load_bias(std::span<const int16_t> bias) {
    const auto lanes = to_size(hardware_.engine.output_lanes);
    if (std::ranges::equal(bias, bias_)) return;
    bias_.assign(bias.begin(), bias.end());
    std::vector<int16_t> offsets(bias_);
    offsets.resize((offsets.size() + lanes - 1) / lanes * lanes);
    const std::vector<int16_t> ones(lanes, 1);
    for (size_t group = 0; group < offsets.size() / lanes; ++group)
      library_.write_scales(engine_, static_cast<int64_t>(group), ones.data(), offsets.data() + group * lanes);
  }

  EngineHardware hardware_;
  ErrorBlocks blocks_;
  Library library_;
  void* engine_;
  std::vector<int16_t> words_;  // what LPRAM holds
  std::vector<int16_t> bias_;
};

SimulatedEngine::SimulatedEngine(const EngineHardware& hardware, ErrorBlocks blocks, const EngineBuildOptions& options)
    : implementation_(std::make_unique<Implementation>(hardware, blocks, options)) {}
SimulatedEngine::~SimulatedEngine() = default;

const EngineHardware& SimulatedEngine::hardware() const { return implementation_->hardware(); }
const SimulatedCycles& SimulatedEngine::cycles() const { return implementation_->cycles; }

bool SimulatedEngine::fits(const ConvolutionShape& shape) const {
  const EngineHardware& hardware = implementation_->hardware();
  if (shape.kernel_h != hardware.engine.kernel || shape.stride_h != hardware.engine.stride) return false;
  const EngineMemories need = engine_memories(hardware.engine, shape, implementation_->error_block_rows());
  const EngineMemories& have = hardware.memories;
  return need.line_address <= have.line_address && need.error_line_address <= have.error_line_address &&
         need.gradient_error_address <= have.gradient_error_address && need.column_address <= have.column_address &&
         need.parameter_address <= have.parameter_address && need.group_address <= have.group_address;
}

std::vector<int16_t> SimulatedEngine::forward(const PhaseShape& phase, const ForwardData& data) {
  return implementation_->forward(phase, data);
}
std::vector<int16_t> SimulatedEngine::error_back(const PhaseShape& phase, std::span<const int16_t> output_error,
                                                 std::span<const int16_t> weight) {
  return implementation_->error_back(phase, output_error, weight);
}
void SimulatedEngine::add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                                   std::span<int32_t> weight, std::span<int32_t> bias) {
  implementation_->add_gradient(phase, input, output_error, weight, bias);
}

}  // namespace millrace
