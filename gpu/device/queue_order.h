// Keeps the queues of a GPU in the one order that matters: nobody reads what is not written yet, and nobody writes what is still read.
//
//   Footprint x, y;
//   order.issue(Queue::kUpload, {}, {&x}, [&] { engine.copy(...); });
//   order.issue(Queue::kCompute, {&x}, {&y}, [&] { engine.gemm(...); });       // waits on the GPU for the upload
//   order.wait_here(y);                                                       // the host does
//
// A footprint belongs to a piece of memory and remembers, by queue, the last work that wrote it and the last that read it. Waits that
// earlier ones already cover are left out. Everything else runs side by side. Borrows the engine. One thread. Internal to gpu/device.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "gpu/device/engine.h"

namespace millrace::gpu {

// By queue: the ticket of the last work, 0 for none.
struct Footprint {
  std::array<uint64_t, kQueues> written{};
  std::array<uint64_t, kQueues> read{};
};

class QueueOrder {
 public:
  using Footprints = std::initializer_list<Footprint*>;

  explicit QueueOrder(Engine& engine);

  // Null footprints do not count. Returns the work's ticket.
  template <typename Enqueue>
  uint64_t issue(Queue queue, Footprints reads, Footprints writes, Enqueue enqueue) {
    for (const Footprint* footprint : reads)
      if (footprint != nullptr) follow(queue, footprint->written);
    for (const Footprint* footprint : writes)
      if (footprint != nullptr) {
        follow(queue, footprint->written);
        follow(queue, footprint->read);
      }
    enqueue();
    const uint64_t ticket = ++issued_[index(queue)];
    for (Footprint* footprint : reads)
      if (footprint != nullptr) footprint->read[index(queue)] = ticket;
    for (Footprint* footprint : writes)
      if (footprint != nullptr) footprint->written[index(queue)] = ticket;
    return ticket;
  }

  // Remembers this moment of a queue: who waits for work before it waits for no more than that. Left out, waits cover whatever the queue
  // has by the time they are needed.
  void leave_mark(Queue queue);
  // Blocks until that work is done.
  void wait_here(Queue queue, uint64_t ticket);
  // Blocks until nothing uses the memory any more.
  void wait_here(const Footprint& footprint);

 private:
  struct Mark {
    int event = 0;
    uint64_t ticket = 0;  // the event stands for all work up to it
  };

  static size_t index(Queue queue) { return static_cast<size_t>(queue); }
  void follow(Queue queue, const std::array<uint64_t, kQueues>& tickets);
  // The first mark behind that work.
  const Mark& mark(Queue queue, uint64_t ticket);
  static constexpr size_t kMarks = 32;  // the latest, by queue

  Engine& engine_;
  std::array<uint64_t, kQueues> issued_{};
  std::array<std::array<Mark, kMarks>, kQueues> marks_{};
  std::array<size_t, kQueues> oldest_{};
  std::array<std::array<uint64_t, kQueues>, kQueues> seen_{};  // [queue][of another]: waited for already
  std::array<uint64_t, kQueues> done_{};                       // as the host knows
};

}  // namespace millrace::gpu
