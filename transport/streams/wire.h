// What carries frames from rank to rank: the interface that in-process, MPI, NCCL and shaping implement. It knows
// channels and slots, no flows, credits or deadlines: those are the Transport's (transport.h), the same over every wire.
//
// A channel is a queue in order from one rank to another (or to itself) with a fixed number of slots of fixed size. Frame n goes
// through slot n modulo slots, at both ends:
//   sender     wait for sent(slot); fill slot(slot); send(slot, bytes)
//   receiver   Wire::progress() reports the arrival; read slot(slot); receive_again(slot)
// The sender never has more than `slots` frames on the way: the Transport's credits see to that. Sends may run ahead of the
// other end's open().
//
// A wire owns its channels and the memory of their slots, which stay where they are until the wire dies. Used by one thread
// at a time. Nothing here blocks. Errors of the machinery below are Error(kIo | kMismatch | kUnavailable), naming the peer.
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
  size_t token = 0;            // what its arrivals are reported as
};

struct Slot {
  std::byte* header = nullptr;   // kFrameHeaderBytes, host memory
  std::byte* payload = nullptr;  // aligned to 64 bytes
};

// Where slots lie: headers and payloads at regular distances.
struct SlotLayout {
  Slot first;
  size_t header_stride = 0;
  size_t payload_stride = 0;
};

class Channel {
 public:
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Slot slot(size_t slot) const {
    return {layout_.first.header + slot * layout_.header_stride, layout_.first.payload + slot * layout_.payload_stride};
  }
  const SlotLayout& layout() const { return layout_; }

  virtual void send(size_t slot, size_t payload_bytes) = 0;
  // True when the slot may be filled (again).
  virtual bool sent(size_t slot) = 0;
  virtual void receive_again(size_t slot) = 0;

 protected:
  explicit Channel(const SlotLayout& layout) : layout_(layout) {}

 private:
  SlotLayout layout_;
};

struct Arrival {
  size_t token = 0;        // of the channel
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

  virtual Channel& open(const ChannelSpec& spec) = 0;

  // Moves what can be moved and appends what has arrived, each channel's frames in order. Returns when something already
  // known will happen (a shaped frame falls due), kNoInstant when nothing is.
  virtual Instant progress(std::vector<Arrival>& arrivals) = 0;

  // What ends a sleep as soon as a frame has come that progress() did not see; null where nobody would.
  virtual Waker* waker() { return nullptr; }

 private:
  int64_t rank_;
  int64_t ranks_;
};

}  // namespace millrace
