#include "transport/nccl/announced_line.h"

#include "core/base/error.h"

namespace millrace {

uint64_t AnnouncedLine::send(const Transfer& transfer) {
  due_.emplace(announced_, transfer);
  return announced_++;
}

void AnnouncedLine::receive(uint64_t ordinal, const Transfer& transfer) {
  if (ordinal < next_ || !due_.emplace(ordinal, transfer).second)
    fail(ErrorCode::kMismatch, "{}: payload {} was announced twice; {} is the next to be received", name_, ordinal, next_);
}

void AnnouncedLine::progress(std::vector<Transfer>& finished) {
  while (queue_->can_launch() && !due_.empty() && due_.begin()->first == next_) {
    const Transfer transfer = due_.begin()->second;
    queue_->launch(transfer);
    launched_.push_back(transfer);
    due_.erase(due_.begin());
    ++next_;
  }
  while (!launched_.empty() && queue_->take_finished()) {
    finished.push_back(launched_.front());
    launched_.pop_front();
  }
}

}  // namespace millrace
