// The way of a checkpoint's shares to rank 0, beside the training: each device passes on what comes from the next one and
// adds its own, piece by piece, whenever there is room.
//
//   SaveStream stream(transport, flows, device);           // on every device
//   stream.push(mini_batch, share, bytes);
//   while (stream.step()) {}
//   for (auto& whole : stream.take()) ...                   // on device 0: shares that are complete
//
// Borrows the transport. Memory: the shares that have not left yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "node/ring/ring_flows.h"
#include "transport/streams/transport.h"

namespace millrace {

struct SavedShare {
  int64_t mini_batch = 0;
  int64_t share = 0;
  std::vector<std::byte> bytes;
};

class SaveStream {
 public:
  SaveStream(Transport& transport, const RingFlows& flows, int64_t device);

  void push(SavedShare share);
  bool step();
  void look(std::vector<Interest>& missing) const;
  // Nothing of its own is left to send.
  bool idle() const { return own_.empty(); }
  std::vector<SavedShare> take() { return std::exchange(complete_, {}); }

 private:
  bool pass_on();
  bool send_own();
  bool take_in();

  Transport* transport_;
  int64_t in_ = -1;   // flows; from the next device
  int64_t out_ = -1;  // to the one before
  std::deque<SavedShare> own_;
  size_t sent_ = 0;  // bytes of the first
  int64_t messages_ = 0;
  std::map<std::pair<int64_t, int64_t>, SavedShare> open_;  // device 0: by mini-batch and share
  std::vector<SavedShare> complete_;
};

}  // namespace millrace
