// Runs batches on a Verilated engine of blocked columns: its memory outside answers after a latency and with pauses, its streams pause.
//
//   EngineBench<Vlstm> bench;
//   bench.load_biases(bias_words(layer), /*each=*/biases_of_unit(layer.cell) * config.tail_units);
//   const BenchResult result = bench.run(job, generator);
//
// Tests include it, and the glue that makes a library of an engine (sbe_library.cpp): the standard library and Verilator's alone.
// One model serves all runs that fit its memories; state stays from run to run, and can be written and read between two. A run that does
// not end within its limit comes back with `finished` false.
#pragma once

#include <verilated.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "fpga/sbe/rtl/engine_settings.h"

namespace millrace {

struct EngineJob {
  SbeSettings settings;
  int64_t batches = 1;
  bool stateful = false, loads_pinned = false;
  std::vector<int64_t> valid_steps;  // of each stream
  std::span<const int16_t> memory;   // from address 0
  std::span<const int16_t> inputs;   // chunks of all batches
  int64_t columns = 1, units = 1, beat_words = 4;
  int64_t memory_latency = 0;
  double memory_pause = 0, source_pause = 0, sink_pause = 0;
  int64_t most_cycles = 0;
};

struct BenchResult {
  bool finished = false, fault = false;
  int64_t cycles = 0;
  int64_t beats = 0, bursts = 0, bursts_across_pages = 0, most_outstanding = 0;
  std::vector<int16_t> outputs;        // words of units, as they came
  std::vector<int64_t> output_cycles;  // of each word
};

template <typename Model>
class EngineBench {
 public:
  EngineBench() : model_(std::make_unique<Model>(&context_)) {
    model_->reset_n = 0;
    model_->start = 0;
    for (int i = 0; i < 4; ++i) cycle();
    model_->reset_n = 1;
    cycle();
  }

  // Biases of all units (bias_words), `each` to a word of the memory.
  void load_biases(std::span<const int32_t> biases, int64_t each) {
    const auto length = static_cast<size_t>(each);
    for (size_t first = 0; first < biases.size(); first += length) {
      std::vector<int16_t> words;
      for (const int32_t bias : biases.subspan(first, length)) {
        words.push_back(static_cast<int16_t>(bias));
        words.push_back(static_cast<int16_t>(bias >> 16));
      }
      set_wide(model_->bias_data, words);
      model_->bias_address = static_cast<uint16_t>(first / length);
      model_->bias_write = 1;
      cycle();
    }
    model_->bias_write = 0;
  }

  // Weights of the second matrix (projection_words), a beat at a time, so many beats to a word of units.
  void load_projection(std::span<const int16_t> words, int64_t beat_words, int64_t beats_each) {
    const auto beat = static_cast<size_t>(beat_words), each = static_cast<size_t>(beats_each);
    for (size_t first = 0; first < words.size(); first += beat) {
      set_wide(model_->projection_beat, words.subspan(first, beat));
      model_->projection_bank = static_cast<uint16_t>(first / beat % each);
      model_->projection_place = static_cast<uint16_t>(first / beat / each);
      model_->projection_write = 1;
      cycle();
    }
    model_->projection_write = 0;
  }

  // A state for the next run, which is stateful then: h of each stream, into both halves, and what the tail keeps of each stream (cells of
  // lstm, h of gru; may be empty). Between runs.
  void load_state(std::span<const int16_t> hidden, std::span<const int32_t> kept, const SbeSettings& settings, int64_t units) {
    const auto word = static_cast<size_t>(units);
    const auto stream_words = static_cast<size_t>(settings.feature_words);
    for (size_t at = 0; at < hidden.size() / word; ++at)
      for (const bool half : {false, true}) {
        set_wide(model_->state_load_units, hidden.subspan(at * word, word));
        model_->state_load_place = static_cast<uint16_t>(at / stream_words * static_cast<size_t>(settings.stream_places));
        model_->state_load_word = static_cast<uint16_t>(at % stream_words);
        model_->state_load_half = half;
        model_->state_load = 1;
        cycle();
      }
    model_->state_load = 0;
    for (size_t at = 0; at < kept.size() / word; ++at) {
      std::vector<int16_t> halves;
      for (const int32_t value : kept.subspan(at * word, word)) {
        halves.push_back(static_cast<int16_t>(value));
        halves.push_back(static_cast<int16_t>(value >> 16));
      }
      set_wide(model_->kept_data, halves);
      model_->kept_address = static_cast<uint16_t>(at);
      model_->kept_write = 1;
      cycle();
    }
    model_->kept_write = 0;
  }

  // What the tail keeps, of so many words. Between runs.
  std::vector<int32_t> kept(int64_t words, int64_t units) {
    std::vector<int32_t> values;
    for (int64_t at = 0; at < words; ++at) {
      model_->kept_address = static_cast<uint16_t>(at);
      cycle();
      std::vector<int16_t> halves;
      append_wide(model_->kept_read, static_cast<size_t>(2 * units), halves);
      for (size_t i = 0; i < halves.size(); i += 2)
        values.push_back(
            static_cast<int32_t>(static_cast<uint16_t>(halves[i]) | (static_cast<uint32_t>(static_cast<uint16_t>(halves[i + 1])) << 16)));
    }
    return values;
  }

  BenchResult run(const EngineJob& job, std::mt19937_64& random) {
    Model& m = *model_;
    apply(job);
    for (size_t stream = 0; stream < job.valid_steps.size(); ++stream) {
      m.length_stream = static_cast<uint16_t>(stream);
      m.length = static_cast<uint16_t>(job.valid_steps[stream]);
      m.length_write = 1;
      cycle();
    }
    m.length_write = 0;
    m.start = 1;
    cycle();
    m.start = 0;
    BenchResult result;
    const auto chance = [&random](double often) { return often > 0 && std::uniform_real_distribution<double>(0, 1)(random) < often; };
    struct Burst {
      int64_t word = 0, beats = 0, ready = 0;
    };
    std::deque<Burst> bursts;
    size_t next_input = 0;
    bool input_waits = false, data_waits = false;
    const auto columns = static_cast<size_t>(job.columns), units = static_cast<size_t>(job.units),
               beat = static_cast<size_t>(job.beat_words);
    for (int64_t now = 0; now < job.most_cycles; ++now) {
      // What offers once keeps offering.
      m.m_axi_arready = !chance(job.memory_pause);
      if (!data_waits) data_waits = !bursts.empty() && bursts.front().ready <= now && !chance(job.memory_pause);
      m.m_axi_rvalid = data_waits;
      if (data_waits) {
        const Burst& burst = bursts.front();
        const bool inside = burst.word >= 0 && burst.word + job.beat_words <= static_cast<int64_t>(job.memory.size());
        std::vector<int16_t> words(beat);
        if (inside) std::copy_n(job.memory.begin() + burst.word, job.beat_words, words.begin());
        set_wide(m.m_axi_rdata, words);
        m.m_axi_rresp = inside ? 0 : 3;
        m.m_axi_rlast = burst.beats == 1;
      }
      if (!input_waits) input_waits = (next_input + 1) * columns <= job.inputs.size() && !chance(job.source_pause);
      m.x_tvalid = input_waits;
      if (input_waits) set_wide(m.x_tdata, job.inputs.subspan(next_input * columns, columns));
      m.h_tready = !chance(job.sink_pause);
      m.clock = 0;
      m.eval();
      if (m.m_axi_arvalid && m.m_axi_arready) {
        const auto bytes = static_cast<int64_t>(m.m_axi_araddr);
        const int64_t beats = m.m_axi_arlen + 1;
        bursts.push_back({bytes / 2, beats, now + 1 + job.memory_latency});
        ++result.bursts;
        if (bytes / 4096 != (bytes + beats * job.beat_words * 2 - 1) / 4096) ++result.bursts_across_pages;
        result.most_outstanding = std::max(result.most_outstanding, static_cast<int64_t>(bursts.size()));
      }
      if (data_waits && m.m_axi_rready) {
        data_waits = false;
        ++result.beats;
        bursts.front().word += job.beat_words;
        if (--bursts.front().beats == 0) bursts.pop_front();
      }
      if (input_waits && m.x_tready) {
        input_waits = false;
        ++next_input;
      }
      if (m.h_tvalid && m.h_tready) {
        append_wide(m.h_tdata, units, result.outputs);
        result.output_cycles.push_back(now);
      }
      m.clock = 1;
      m.eval();
      result.cycles = now;
      if (now > 1 && !m.busy) {
        result.finished = true;
        break;
      }
    }
    result.fault = m.faults;
    result.finished = result.finished && next_input * columns == job.inputs.size() && bursts.empty();
    return result;
  }

 private:
  void cycle() {
    model_->clock = 0;
    model_->eval();
    model_->clock = 1;
    model_->eval();
  }

  // Ports of up to 64 bits are integers, wider ones arrays of 32 bits.
  template <typename Port>
  static void set_wide(Port& port, std::span<const int16_t> words) {
    if constexpr (std::is_integral_v<Port>) {
      uint64_t value = 0;
      for (size_t i = 0; i < words.size(); ++i) value |= uint64_t{static_cast<uint16_t>(words[i])} << (16 * i);
      port = static_cast<Port>(value);
    } else {
      for (size_t i = 0; i < words.size(); ++i) {
        auto& part = port[i / 2];
        const uint32_t word = static_cast<uint16_t>(words[i]);
        part = i % 2 == 0 ? word : (part | (word << 16));
      }
    }
  }
  template <typename Port>
  static void append_wide(const Port& port, size_t count, std::vector<int16_t>& to) {
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<Port>) {
        to.push_back(static_cast<int16_t>(uint64_t{port} >> (16 * i)));
      } else {
        to.push_back(static_cast<int16_t>(port[i / 2] >> (16 * (i % 2))));
      }
    }
  }

  void apply(const EngineJob& job) {
    Model& m = *model_;
    const SbeSettings& s = job.settings;
    const auto set = [](auto& port, int64_t value) { port = static_cast<std::remove_reference_t<decltype(port)>>(value); };
    set(m.batches, job.batches);
    set(m.streams, s.streams);
    set(m.steps, s.steps);
    set(m.groups, s.groups);
    set(m.input_jobs, s.input_jobs);
    set(m.block_chunks, s.block_chunks);
    set(m.input_last_chunks, s.input_last_chunks);
    set(m.walk_parts, s.walk_parts);
    set(m.walk_last_chunks, s.walk_last_chunks);
    set(m.lead, s.lead);
    set(m.resident, s.resident);
    set(m.walk_pinned, s.walk_pinned);
    set(m.loads_pinned, job.loads_pinned);
    set(m.stateful, job.stateful);
    set(m.units, s.units);
    set(m.state_units, s.state_units);
    set(m.group_words, s.group_words);
    set(m.last_group_words, s.last_group_words);
    set(m.feature_words, s.feature_words);
    set(m.stream_words, s.stream_words);
    set(m.stream_places, s.stream_places);
    set(m.slot_words, s.slot_words);
    set(m.pinned_place, s.pinned_place);
    set(m.input_slot_words, s.input_slot_words);
    set(m.input_store_distance, s.input_store_distance);
    set(m.walk_store_distance, s.walk_store_distance);
    set(m.input_job_words, s.input_job_words);
    set(m.input_last_words, s.input_last_words);
    set(m.input_walk_words, s.input_walk_words);
    set(m.stream_blocks, s.stream_blocks);
    set(m.stream_input_blocks, s.stream_input_blocks);
    set(m.stream_walks, s.stream_walks);
    set(m.stream_last_chunks, s.stream_last_chunks);
    set(m.group_beats, s.group_beats);
    set(m.last_group_beats, s.last_group_beats);
    set(m.block_beats, s.block_beats);
    set(m.last_block_beats, s.last_block_beats);
    set(m.pinned_beats, s.pinned_beats);
    set(m.address, s.address);
    set(m.stride, s.stride);
    set(m.pinned_address, s.pinned_address);
    set(m.sum_shift, s.sum_shift);
    set(m.hidden_shift, s.hidden_shift);
    set(m.projection_shift, s.projection_shift);
  }

  VerilatedContext context_;
  std::unique_ptr<Model> model_;
};

}  // namespace millrace
