#include "gpu/device/queue_order.h"

#include <algorithm>

namespace millrace::gpu {

QueueOrder::QueueOrder(Engine& engine) : engine_(engine) {
  for (auto& marks : marks_)
    for (Mark& mark : marks) mark.event = engine.make_event();
}

void QueueOrder::leave_mark(Queue queue) {
  size_t& oldest = oldest_[index(queue)];
  Mark& mark = marks_[index(queue)][oldest];
  engine_.record(mark.event, queue);
  mark.ticket = issued_[index(queue)];
  oldest = (oldest + 1) % kMarks;
}

const QueueOrder::Mark& QueueOrder::mark(Queue queue, uint64_t ticket) {
  const auto& marks = marks_[index(queue)];
  const size_t oldest = oldest_[index(queue)];
  for (size_t i = 0; i < kMarks; ++i)
    if (const Mark& mark = marks[(oldest + i) % kMarks]; mark.ticket >= ticket) return mark;
  leave_mark(queue);
  return marks[oldest];
}

void QueueOrder::follow(Queue queue, const std::array<uint64_t, kQueues>& tickets) {
  for (size_t other = 0; other < kQueues; ++other) {
    uint64_t& seen = seen_[index(queue)][other];
    if (other == index(queue) || tickets[other] <= std::max(seen, done_[other])) continue;
    const Mark& behind = mark(static_cast<Queue>(other), tickets[other]);
    engine_.wait(queue, behind.event);
    seen = behind.ticket;
  }
}

void QueueOrder::wait_here(Queue queue, uint64_t ticket) {
  if (ticket <= done_[index(queue)]) return;
  const Mark& behind = mark(queue, ticket);
  engine_.wait_here(behind.event);
  done_[index(queue)] = behind.ticket;
}

void QueueOrder::wait_here(const Footprint& footprint) {
  for (size_t queue = 0; queue < kQueues; ++queue)
    wait_here(static_cast<Queue>(queue), std::max(footprint.written[queue], footprint.read[queue]));
}

}  // namespace millrace::gpu
