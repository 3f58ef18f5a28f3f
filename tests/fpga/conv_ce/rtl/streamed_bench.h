// Kernels and gradients that lie in a memory outside, brought by Verilated streamers, for the benches of the engines.
//
//   StreamedKernels<Vparameter_streamer> kernels(/*beat_bits=*/64, {.latency = 100, .pause = 0.3}, random);
//   bench.run(job, random, &kernels);
//
// Streamer and engine are two models: what the streamer offers settles first, then what the engine makes of it.
#pragma once

#include <memory>

#include "fpga/cosim/harness/outside_memory.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/engine_bench.h"

namespace millrace {

struct OutsideTiming {
  int64_t latency = 100;
  double pause = 0.3;
};

// What both streamers have.
template <typename Model>
class StreamerBench {
 public:
  StreamerBench(int64_t beat_bits, std::mt19937_64& random)
      : model_(std::make_unique<Model>(&context_)), beat_bits_(beat_bits), random_(random) {}
  OutsideTiming timing;

  const OutsideMemory& memory() const { return *memory_; }
  bool fault() const { return model_->fault || memory_->wrong(); }

 protected:
  // `elements` of 16 bits in words of `word_bits`.
  void begin(std::vector<int16_t> elements, int64_t word_bits, int64_t passes) {
    const int64_t bits = static_cast<int64_t>(elements.size()) * 16;
    constexpr int64_t kPage = 2048, kAddress = 4096 / 2;  // in elements
    const int64_t behind = kAddress + rounded_up(static_cast<int64_t>(elements.size()), kPage);
    elements.insert(elements.begin(), static_cast<size_t>(kAddress), int16_t{-21846});
    elements.resize(static_cast<size_t>(behind), int16_t{21845});
    memory_ = std::make_unique<OutsideMemory>(std::move(elements), beat_bits_ / 16, timing.latency, timing.pause, random_);
    model_->address = 4096;
    model_->words = static_cast<uint32_t>(bits / word_bits);
    model_->beats = static_cast<uint32_t>(divided_up(bits, beat_bits_));
    model_->passes = static_cast<uint32_t>(passes);
    model_->m_axi_arready = model_->m_axi_rvalid = 0;
    clear_model(*model_);
  }
  std::vector<int16_t> stored(size_t count) const {
    return {memory_->words().begin() + 2048, memory_->words().begin() + 2048 + static_cast<std::ptrdiff_t>(count)};
  }

  VerilatedContext context_;
  std::unique_ptr<Model> model_;
  int64_t beat_bits_;
  std::mt19937_64& random_;
  std::unique_ptr<OutsideMemory> memory_;
};

template <typename Model>
class StreamedKernels final : public KernelSource, public StreamerBench<Model> {
 public:
  using StreamerBench<Model>::StreamerBench;

  void clear(const std::vector<int16_t>& words, int64_t word_elements, int64_t passes) override {
    word_elements_ = static_cast<size_t>(word_elements);
    this->model_->parameter_read = 0;
    this->begin(words, word_elements * 16, passes);
  }
  bool ready() override {
    this->model_->parameter_read = 0;
    this->memory_->drive_reads(*this->model_);
    settle(*this->model_);
    return this->model_->parameter_ready;
  }
  void step(bool read) override {
    this->model_->parameter_read = read;
    settle(*this->model_);
    this->memory_->after_reads(*this->model_);
    edge(*this->model_);
    this->memory_->tick();
  }
  std::vector<int16_t> word() const override {
    std::vector<int16_t> word(word_elements_);
    get_elements<int16_t>(this->model_->parameter_word, std::span<int16_t>(word));
    return word;
  }

 private:
  size_t word_elements_ = 0;
};

template <typename Model>
class StreamedGradients final : public GradientStore, public StreamerBench<Model> {
 public:
  using StreamerBench<Model>::StreamerBench;

  void clear(const std::vector<int32_t>& words, int64_t word_elements, int64_t passes) override {
    word_elements_ = static_cast<size_t>(word_elements);
    count_ = words.size();
    std::vector<int16_t> halves;
    for (const int32_t word : words) {
      halves.push_back(static_cast<int16_t>(word));
      halves.push_back(static_cast<int16_t>(word >> 16));
    }
    Model& m = *this->model_;
    m.gradient_claim = m.gradient_read = m.gradient_write_enable = 0;
    m.m_axi_awready = m.m_axi_wready = m.m_axi_bvalid = 0;
    this->begin(std::move(halves), word_elements * 32, passes);
  }
  bool ready() override {
    Model& m = *this->model_;
    m.gradient_claim = m.gradient_read = m.gradient_write_enable = 0;
    this->memory_->drive_reads(m);
    this->memory_->drive_writes(m);
    settle(*this->model_);
    return m.gradient_ready;
  }
  void step(bool claim, bool read, bool writes, const std::vector<int32_t>& written) override {
    Model& m = *this->model_;
    m.gradient_claim = claim;
    m.gradient_read = read;
    m.gradient_write_enable = writes;
    if (writes) set_elements<int32_t>(m.gradient_write_word, std::span<const int32_t>(written));
    settle(*this->model_);
    this->memory_->after_reads(m);
    this->memory_->after_writes(m);
    edge(*this->model_);
    this->memory_->tick();
  }
  std::vector<int32_t> word() const override {
    std::vector<int32_t> word(word_elements_);
    get_elements<int32_t>(this->model_->gradient_read_word, std::span<int32_t>(word));
    return word;
  }
  bool busy() const override { return this->model_->busy; }
  std::vector<int32_t> words() const override {
    const std::vector<int16_t> halves = this->stored(2 * count_);
    std::vector<int32_t> words(count_);
    for (size_t i = 0; i < count_; ++i)
      words[i] = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint16_t>(halves[2 * i])) |
                                      static_cast<uint32_t>(static_cast<uint16_t>(halves[2 * i + 1])) << 16);
    return words;
  }

 private:
  size_t word_elements_ = 0, count_ = 0;
};

}  // namespace millrace
