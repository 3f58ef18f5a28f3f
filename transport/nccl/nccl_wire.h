// Payloads from GPU to GPU by NCCL, everything else over a host wire: the wire of ranks that drive a GPU each. Only channels with
// ChannelSpec::device_memory go to NCCL; their slots' payloads are device memory (announced_wire.h says how frames travel).
//
//   NcclNeighbours neighbours{.device = 0, .peers = {1, 3}, .deadline = settings.deadline};
//   neighbours.tell = [&](const LineName& line, const NcclId& id) { transport->send_control(line.peer, kNcclId, bytes_of(line, id)); };
//   neighbours.ask = [&](const LineName& line) { return ids.find(line); };   // from the control messages that have come so far
//   auto wire = std::make_unique<NcclWire>(make_ring_wire(session.world()), neighbours);
//
// Every neighbour, way and direction has a communicator of two and a stream of its own: sends wait on the GPU until they are received,
// and one way must not hold up the other. Communicators do not block: they come into being during progress(), which fails with
// kUnavailable when one is not there by the deadline, counted from its first channel's open(). The sender of a line makes its id and
// tells it, the receiver asks for it until it has come; neither call may wait.
//
// Work of `compute` that was queued before a channel's send() or receive_again() is done with a slot before NCCL touches it. What
// arrives has arrived: the host has seen its event. Each send or receive costs the host a thread inside NCCL for a moment, since
// communicators do not block, so this is for payloads of many kilobytes.
//
// Owns the host wire, the communicators and the memory. Errors of NCCL and CUDA are Error(kIo | kUnavailable) naming peer and call;
// after one, communicators are aborted. Without a GPU construction fails with kUnavailable, unless there are no peers. Used by one
// thread at a time. Limits: two ranks on one GPU are refused by NCCL; CUDA_DEVICE_MAX_CONNECTIONS=1 would run lines one after
// the other, and block them; cudaFree waits for all of a GPU's work, so also for a send that nobody has received yet: free
// nothing during a run.
//
// There is no sum here: NCCL's all-reduce adds in an order that it chooses by topology and size, and gradients are added in
// a fixed order so that results are the same bits on any ring. The columns of a layer add up over ColumnSum
// (transport/collectives/column_sum.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/nccl/announced_wire.h"
#include "transport/streams/clock.h"

namespace millrace {

// What both ends of a line need to find each other.
using NcclId = std::array<std::byte, 128>;

struct NcclNeighbours {
  int device = 0;                   // as CUDA numbers them
  void* compute = nullptr;          // the cudaStream_t that fills and reads slots; null: CUDA's default stream
  std::vector<int64_t> peers = {};  // the neighbours that drive a GPU too
  std::function<void(const LineName& line, const NcclId& id)> tell = {};  // called for outgoing lines
  std::function<std::optional<NcclId>(const LineName& line)> ask = {};    // called for incoming ones; nothing: not here yet
  Nanoseconds deadline = std::chrono::seconds(30);                        // for a line to come into being
};

// `2.28.9`: of the library in use.
std::string nccl_version();

class NcclWire final : public AnnouncedWire {
 public:
  NcclWire(std::unique_ptr<Wire> host, const NcclNeighbours& neighbours);
};

}  // namespace millrace
