// Both ends of an AXI4-Stream port of a Verilated model, with pauses drawn at random.
//
//   StreamSource source(beats, lanes, /*pause=*/0.3, random);
//   source.drive(model.activation_tvalid, model.activation_tdata);     // before the clock's edge
//   ... eval ...
//   source.after(model.activation_tready);                            // what was taken at the edge
//
// A source never takes a valid beat back; a sink's readiness comes and goes.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "fpga/cosim/harness/outside_memory.h"
#include "fpga/cosim/harness/verilated_port.h"

namespace millrace {

class StreamSource {
 public:
  StreamSource(std::vector<int16_t> beats, int64_t lanes, double pause, std::mt19937_64& random)
      : beats_(std::move(beats)), lanes_(static_cast<size_t>(lanes)), pauses_(pause, random) {}

  template <typename Valid, typename Data>
  void drive(Valid& valid, Data& data) {
    if (!offered_ && at_ < beats_.size() && !pauses_.pause()) {
      offered_ = true;
      set_elements<int16_t>(data, std::span<const int16_t>(beats_).subspan(at_, lanes_));
    }
    valid = offered_;
  }
  void after(bool ready) {
    if (!offered_ || !ready) return;
    offered_ = false;
    at_ += lanes_;
  }
  bool done() const { return at_ == beats_.size(); }

 private:
  std::vector<int16_t> beats_;
  size_t lanes_;
  Pauses pauses_;
  size_t at_ = 0;
  bool offered_ = false;
};

class StreamSink {
 public:
  StreamSink(int64_t lanes, double pause, std::mt19937_64& random) : lanes_(static_cast<size_t>(lanes)), pauses_(pause, random) {}

  template <typename Ready>
  void drive(Ready& ready) {
    ready_ = !pauses_.pause();
    ready = ready_;
  }
  // True when a beat was taken.
  template <typename Data>
  bool after(bool valid, const Data& data) {
    if (!valid || !ready_) return false;
    beats_.resize(beats_.size() + lanes_);
    get_elements<int16_t>(data, std::span<int16_t>(beats_).last(lanes_));
    return true;
  }
  const std::vector<int16_t>& beats() const { return beats_; }
  size_t beat_count() const { return beats_.size() / lanes_; }

 private:
  size_t lanes_;
  Pauses pauses_;
  std::vector<int16_t> beats_;
  bool ready_ = false;
};

}  // namespace millrace
