// The order of payloads on a line: a one-way connection between two accelerators that runs transfers one after the other, as they were
// launched at each end. Both ends must launch the same ones in the same order, or they wait for each other for ever. The
// sender counts its transfers and announces the count; announcements of different channels may overtake each other on the way,
// and the receiver puts them back in order.
//
//   AnnouncedLine line("rank 1 (forward)", std::move(queue));
//   const uint64_t ordinal = line.send(transfer);   // at one end; the ordinal travels with the announcement
//   line.receive(ordinal, transfer);                // at the other, when the announcement has arrived
//   line.progress(finished);                        // now and then, at both
//
// Owns the queue, borrows the payloads. Nothing blocks. Fails with kMismatch when an ordinal comes twice. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace millrace {

struct Transfer {
  std::byte* payload = nullptr;  // on the accelerator
  size_t bytes = 0;
  size_t channel = 0;  // whose, and which slot of it: for whoever asked
  size_t slot = 0;
};

// One end of a line. Runs transfers in the order of launch(); each of them may wait until the other end has launched its own.
class TransferQueue {
 public:
  TransferQueue() = default;
  virtual ~TransferQueue() = default;
  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;

  // The line is there, and the last launch has been taken in. Also moves on what must happen before that.
  virtual bool can_launch() = 0;
  virtual void launch(const Transfer& transfer) = 0;
  // True once for each transfer, in order, when it is done.
  virtual bool take_finished() = 0;
  // The accelerator's work so far may touch this payload: transfers of it that are launched later wait for that work.
  virtual void in_use(std::byte* payload) = 0;
  // Nothing will be launched any more. Does not wait: the destructor does, a little.
  virtual void leave() noexcept = 0;
};

class AnnouncedLine {
 public:
  // The name is for errors.
  AnnouncedLine(std::string name, std::unique_ptr<TransferQueue> queue) : name_(std::move(name)), queue_(std::move(queue)) {}

  uint64_t send(const Transfer& transfer);
  void receive(uint64_t ordinal, const Transfer& transfer);
  // Launches what is due and appends what has finished, in order.
  void progress(std::vector<Transfer>& finished);

  bool idle() const { return due_.empty() && launched_.empty(); }
  const std::string& name() const { return name_; }
  TransferQueue& queue() { return *queue_; }

 private:
  std::string name_;
  std::unique_ptr<TransferQueue> queue_;
  uint64_t announced_ = 0;            // sending: the next ordinal
  uint64_t next_ = 0;                 // to launch
  std::map<uint64_t, Transfer> due_;  // not launched yet, by ordinal
  std::deque<Transfer> launched_;     // and not finished yet
};

}  // namespace millrace
