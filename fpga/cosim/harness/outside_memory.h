// A memory behind the AXI4 port of a Verilated streamer: it answers after a latency, with pauses, bursts in order.
//
//   OutsideMemory memory(words, /*beat_words=*/4, /*latency=*/100, /*pause=*/0.3, random);
//   memory.drive_reads(model);      // before the clock's edge
//   ... eval ...
//   memory.after_reads(model);
//   memory.tick();
//
// Addresses are bytes from 0; places that it does not have are errors, and so is a burst across 4096 bytes. Tests include it, and the glue
// that makes a library of an engine: the standard library and Verilator's alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "fpga/cosim/harness/verilated_port.h"

namespace millrace {

class Pauses {
 public:
  Pauses(double probability, std::mt19937_64& random) : probability_(probability), random_(random) {}
  // Pauses come in bursts, so that FIFOs run full and empty.
  bool pause() {
    if (left_ > 0) return --left_, true;
    if (probability_ > 0 && std::uniform_real_distribution<double>()(random_) < probability_ / 4) left_ = static_cast<int>(random_() % 7);
    return left_ > 0;
  }

 private:
  double probability_;
  std::mt19937_64& random_;
  int left_ = 0;
};

class OutsideMemory {
 public:
  OutsideMemory(std::vector<int16_t> words, int64_t beat_words, int64_t latency, double pause, std::mt19937_64& random)
      : words_(std::move(words)),
        beat_words_(beat_words),
        latency_(latency),
        reads_(pause, random),
        asks_(pause, random),
        writes_(pause, random) {}

  const std::vector<int16_t>& words() const { return words_; }
  bool wrong() const { return wrong_; }
  int64_t beats_read() const { return beats_read_; }
  int64_t beats_written() const { return beats_written_; }
  int64_t most_outstanding() const { return most_outstanding_; }

  template <typename Model>
  void drive_reads(Model& m) {
    m.m_axi_arready = asked_ = !asks_.pause();
    if (!offered_) offered_ = !read_bursts_.empty() && read_bursts_.front().ready <= now_ && !reads_.pause();
    m.m_axi_rvalid = offered_;
    if (!offered_) return;
    const Burst& burst = read_bursts_.front();
    if (inside(burst.word)) set_elements<int16_t>(m.m_axi_rdata, std::span<const int16_t>(words_).subspan(burst.word, beat()));
    m.m_axi_rresp = inside(burst.word) ? 0 : 3;
    m.m_axi_rlast = burst.beats == 1;
  }
  template <typename Model>
  void after_reads(const Model& m) {
    if (m.m_axi_arvalid && asked_) {
      add(read_bursts_, m.m_axi_araddr, m.m_axi_arlen);
      most_outstanding_ = std::max(most_outstanding_, static_cast<int64_t>(read_bursts_.size()));
    }
    if (!offered_ || !m.m_axi_rready) return;
    offered_ = false;
    ++beats_read_;
    read_bursts_.front().word += beat();
    if (--read_bursts_.front().beats == 0) read_bursts_.pop_front();
  }

  template <typename Model>
  void drive_writes(Model& m) {
    m.m_axi_awready = m.m_axi_wready = taken_ = !writes_.pause();
    m.m_axi_bvalid = answering_ = !answers_.empty() && answers_.front() <= now_;
    m.m_axi_bresp = 0;
  }
  template <typename Model>
  void after_writes(const Model& m) {
    if (answering_ && m.m_axi_bready) answers_.pop_front();
    if (m.m_axi_awvalid && taken_) add(write_bursts_, m.m_axi_awaddr, m.m_axi_awlen);
    if (m.m_axi_wvalid && taken_) {
      std::vector<int16_t> beat_words(beat());
      get_elements<int16_t>(m.m_axi_wdata, std::span<int16_t>(beat_words));
      written_.push_back({beat_words, static_cast<bool>(m.m_axi_wlast)});
    }
    // A beat may come before its address.
    while (!written_.empty() && !write_bursts_.empty()) {
      Burst& burst = write_bursts_.front();
      if (inside(burst.word))
        std::ranges::copy(written_.front().words, words_.begin() + static_cast<std::ptrdiff_t>(burst.word));
      else
        wrong_ = true;
      burst.word += beat();
      ++beats_written_;
      --burst.beats;
      if (written_.front().last != (burst.beats == 0)) wrong_ = true;
      if (burst.beats == 0) {
        answers_.push_back(now_ + latency_);
        write_bursts_.pop_front();
      }
      written_.pop_front();
    }
  }
  void tick() { ++now_; }

 private:
  struct Burst {
    size_t word = 0;
    int64_t beats = 0, ready = 0;
  };
  struct Written {
    std::vector<int16_t> words;
    bool last = false;
  };
  size_t beat() const { return static_cast<size_t>(beat_words_); }
  bool inside(size_t word) const { return word + beat() <= words_.size(); }
  void add(std::deque<Burst>& bursts, uint64_t address, uint64_t length) {
    const uint64_t beats = length + 1, bytes = beats * 2 * beat();
    if (address / 4096 != (address + bytes - 1) / 4096) wrong_ = true;
    bursts.push_back({static_cast<size_t>(address / 2), static_cast<int64_t>(beats), now_ + 1 + latency_});
    if (!inside(bursts.back().word + (static_cast<size_t>(beats) - 1) * beat())) wrong_ = true;
  }

  std::vector<int16_t> words_;
  int64_t beat_words_, latency_, now_ = 0;
  Pauses reads_, asks_, writes_;
  bool asked_ = false, offered_ = false, taken_ = false, answering_ = false, wrong_ = false;
  int64_t beats_read_ = 0, beats_written_ = 0, most_outstanding_ = 0;
  std::deque<Burst> read_bursts_, write_bursts_;
  std::deque<Written> written_;
  std::deque<int64_t> answers_;
};

}  // namespace millrace
