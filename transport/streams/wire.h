// What carries frames from rank to rank: the one interface that in-process, MPI, NCCL and shaping implement. It knows
// channels and slots, no flows, credits or deadlines: those are the Transport's (transport.h), the same over every wire.
//
// A channel is a queue in order from one rank to another (or to itself) with a fixed number of slots of fixed size. Frame n goes
// through slot n modulo slots, at both ends:
//   sender     wait for sent(channel, slot); fill slot(channel, slot); send(channel, slot, bytes)
//   receiver   progress() reports the arrival; read slot(channel, slot); receive_again(channel, slot)
// The sender never has more than `slots` frames on the way: the Transport's credits see to that. Sends may run ahead of the
// other end's open().
//
// A wire owns the memory of its slots, which stays where it is until the wire dies. Used by one thread at a time. Nothing
// here blocks. Errors of the machinery below are Error(kIo | kMismatch), naming the peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/documents/plan.h"
#include "transport/streams/clock.h"

namespace millrace {

struct ChannelSpec {
  int64_t peer = 0;  // the rank at the other end
  int64_t tag = 0;   // what both ends call the channel; unique among those from one rank to another
  bool outgoing = false;
  int64_t link = -1;  // of the ring of devices; -1: belongs to none, and is not shaped
  Direction direction = Direction::kForward;
  size_t payload_bytes = 0;  // of a slot, besides the header
  size_t slots = 1;
  bool device_memory = false;  // the payload lies on an accelerator
};

struct Slot {
  std::byte* header = nullptr;   // kFrameHeaderBytes, host memory
  std::byte* payload = nullptr;  // aligned to 64 bytes
};

struct Arrival {
  size_t channel = 0;
  size_t frame_bytes = 0;  // header and payload; a wire may pad
};

class Wire {
 public:
  Wire(int64_t rank, int64_t ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Wire() = default;
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int64_t rank() const { return rank_; }
  int64_t ranks() const { return ranks_; }

  // Returns the channel's number on this rank: 0, 1, ... in order of opening.
  virtual size_t open(const ChannelSpec& spec) = 0;
  virtual Slot slot(size_t channel, size_t slot) = 0;

  virtual void send(size_t channel, size_t slot, size_t payload_bytes) = 0;
  // True when the slot may be filled (again).
  virtual bool sent(size_t channel, size_t slot) = 0;
  virtual void receive_again(size_t channel, size_t slot) = 0;

  // Moves what can be moved and appends what has arrived, each channel's frames in order. Returns when something already
  // known will happen (a shaped frame falls due), kNever when nothing is.
  virtual Instant progress(std::vector<Arrival>& arrivals) = 0;

 private:
  int64_t rank_;
  int64_t ranks_;
};

}  // namespace millrace
