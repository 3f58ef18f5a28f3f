// Lines between this rank's GPUs and its neighbours', by NCCL: the device side of an AnnouncedWire.
//
//   NcclLines lines(driver);
//   lines.begin({.peer = 1, .outgoing = true}, location, id);          // both ranks, with the id that the sender made
//   while (!lines.joined({.peer = 1, .outgoing = true})) ...;      // between other things; fails when NCCL does
//   wire.attach(lines.take());                                     // what has joined carries channels
//
// Every neighbour, way and direction has a communicator of two and a stream of its own: sends wait on the GPU until they are received,
// and one way must not hold up the other. Communicators do not block; who begins one decides how long to look after it.
//
// Work that was queued on the location's queue before a channel's send() or receive_again() is done with a slot before NCCL touches it.
// What arrives has arrived: the host has seen its event. Each transfer costs the host a moment inside NCCL, so this is for payloads of many
// kilobytes. Errors are Error(kIo | kUnavailable) naming peer and call; after one, communicators are aborted.
//
// Limits: two ranks on one GPU are refused by NCCL. CUDA_DEVICE_MAX_CONNECTIONS=1 runs lines one after the other, which can block them.
// A transfer that nobody has taken keeps a few of the GPU's multiprocessors busy: kernels that need all of them at once (cooperative
// ones) must not run beside it, or both wait for ever; and what waits for all of a GPU's work (cudaFree, loading a kernel for the first
// time) waits for it too, so nothing is freed during a run and kernels are loaded before it (line_module.h).
// There is no sum here: NCCL's all-reduce adds in an order that it chooses by topology and size, and gradients are added in a fixed order
// so that results are the same bits on any ring: the columns of a layer add up over ColumnSum (transport/streams/column_sum.h).
#pragma once

#include <memory>
#include <vector>

#include "core/device/device_messages.h"
#include "transport/nccl/announced_wire.h"
#include "transport/nccl/line_driver.h"

namespace millrace {

class NcclLines {
 public:
  explicit NcclLines(std::shared_ptr<LineDriver> driver);
  ~NcclLines();
  NcclLines(const NcclLines&) = delete;
  NcclLines& operator=(const NcclLines&) = delete;

  // The location is this rank's end.
  void begin(const LineName& name, const DeviceLocation& location, const LineId& id);
  bool joined(const LineName& name);
  // Ends a line that is not wanted after all.
  void drop(const LineName& name) noexcept;

  std::unique_ptr<DeviceSide> take();

 private:
  class Queue;
  class Side;
  struct Line {
    LineName name;
    DeviceLocation location;
    std::unique_ptr<Queue> queue;
  };
  Line& line(const LineName& name);

  std::shared_ptr<LineDriver> driver_;
  std::vector<Line> lines_;
};

}  // namespace millrace
