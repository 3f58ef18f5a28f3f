// An accelerator made of host memory, for wires without one: lines that behave as NCCL's do. Both ends meet in a FakeLines; a transfer is
// done when the transfers launched as the n-th at either end have met, and a launch takes a few looks to be taken in.
//
//   FakeLines lines;
//   AnnouncedWire wire(hub.wire(0), lines.device(0));
//
// For one thread. Notes what a real accelerator would answer by waiting for ever: ends that launch different things.
#pragma once

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "transport/nccl/announced_wire.h"

namespace millrace::testing_support {

class FakeLines {
 public:
  // Looks until a launch has been taken in, and until a line is there.
  int looks_per_launch = 0;
  int looks_until_there = 0;
  int mismatches = 0;
  int left = 0;
  std::vector<std::byte*> in_use;

  std::unique_ptr<DeviceSide> device(int64_t rank) { return std::make_unique<Device>(*this, rank); }

 private:
  struct Line {
    std::deque<std::pair<uint64_t, Transfer>> sending, receiving;  // launched, not met
    uint64_t met = 0;
  };
  class Queue final : public TransferQueue {
   public:
    Queue(FakeLines& lines, Line& line, bool outgoing) : lines_(lines), line_(line), outgoing_(outgoing), looks_(lines.looks_until_there) {}
    bool can_launch() override { return looks_ == 0 || --looks_ == 0; }
    void launch(const Transfer& transfer) override {
      if (looks_ != 0) ++lines_.mismatches;
      looks_ = lines_.looks_per_launch;
      (outgoing_ ? line_.sending : line_.receiving).emplace_back(launched_++, transfer);
      if (line_.sending.empty() || line_.receiving.empty()) return;
      const Transfer from = line_.sending.front().second;
      const Transfer to = line_.receiving.front().second;
      if (from.bytes != to.bytes)
        ++lines_.mismatches;
      else if (from.bytes > 0)
        std::memcpy(to.payload, from.payload, from.bytes);
      line_.sending.pop_front();
      line_.receiving.pop_front();
      ++line_.met;
    }
    bool take_finished() override {
      if (finished_ == line_.met) return false;
      ++finished_;
      return true;
    }
    void in_use(std::byte* payload) override { lines_.in_use.push_back(payload); }
    void leave() noexcept override { ++lines_.left; }

   private:
    FakeLines& lines_;
    Line& line_;
    bool outgoing_;
    int looks_;
    uint64_t launched_ = 0;
    uint64_t finished_ = 0;
  };
  class Device final : public DeviceSide {
   public:
    Device(FakeLines& lines, int64_t rank) : lines_(lines), rank_(rank) {}
    std::unique_ptr<TransferQueue> connect(const LineName& name) override {
      const int64_t from = name.outgoing ? rank_ : name.peer;
      const int64_t to = name.outgoing ? name.peer : rank_;
      return std::make_unique<Queue>(lines_, lines_.lines_[{from, to, name.direction}], name.outgoing);
    }
    std::shared_ptr<std::byte> allocate(const LineName&, size_t bytes) override {
      void* memory = ::operator new (bytes + 1, std::align_val_t{64});
      return {static_cast<std::byte*>(memory), [](std::byte* given) { ::operator delete (given, std::align_val_t{64}); }};
    }

   private:
    FakeLines& lines_;
    int64_t rank_;
  };

  std::map<std::tuple<int64_t, int64_t, Direction>, Line> lines_;
};

}  // namespace millrace::testing_support
