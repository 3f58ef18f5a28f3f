// Lines between GPUs that are not there: what NCCL and CUDA do for transport/nccl, done in host memory, as late and in as odd an order as
// events allow. The two ends of a line may be threads or processes of one machine: they meet in a file of shared memory.
//
//   auto driver = std::make_shared<StandInDriver>(StandInOptions{.seed = 3});
//   DeviceLinks links({.driver = driver});
//   ...  EXPECT_GT(driver->transfers(), 0);
//
// A transfer is done when both ends have come to it, and both ends on one GPU are refused, as NCCL does. What a calculation queue is to
// cudaEventRecord is a StandInQueue here; who drives devices by one hands it out as the location's queue. Options plant mistakes: a stream
// that does not wait for calculations, a transfer that fails, a line that never comes about.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "transport/nccl/line_driver.h"

namespace millrace::testing_support {

// A queue of calculations, as lines see it.
class StandInQueue {
 public:
  virtual ~StandInQueue() = default;
  // Behind what was queued before.
  virtual void queue_behind(std::function<void()> work) = 0;
  // Does some of it, perhaps.
  virtual void nudge() = 0;
};

struct StandInOptions {
  uint64_t seed = 1;
  std::string version = "2.28.9";
  bool waits_for_calculations = true;
  int64_t failing_transfer = -1;  // counted from 0
  bool joins = true;
  std::function<void(int64_t)> before_transfer = {};  // hears its number
};

class StandInDriver final : public LineDriver {
 public:
  explicit StandInDriver(const StandInOptions& options = {}) : options_(options), random_(options.seed) {}

  int64_t transfers() const { return transfers_; }
  int64_t allocated() const { return allocated_; }

  std::string version() override { return options_.version; }
  LineId make_id() override {
    LineId id{};
    std::random_device entropy;
    for (std::byte& byte : id) byte = static_cast<std::byte>(entropy());
    return id;
  }
  std::unique_ptr<LineEnd> join(int gpu, const LineId& id, bool sends) override {
    return std::make_unique<End>(*this, gpu, id, sends, random_());
  }
  std::byte* allocate(int, size_t bytes) override {
    ++allocated_;
    auto* const memory = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
    std::memset(memory, 0xff, bytes);
    return memory;
  }
  void release(int, std::byte* memory) noexcept override {
    --allocated_;
    ::operator delete (memory, std::align_val_t{64});
  }

 private:
  // What both ends see. Zero at first.
  struct Meeting {
    static constexpr size_t kMost = size_t{8} << 20;
    std::atomic<int> gpu[2];  // number + 1 of each end: it is there
    std::atomic<uint64_t> sent, received;
    std::atomic<uint64_t> bytes;
    std::byte payload[kMost];
  };
  struct Event {
    uint64_t recorded = 0;
    uint64_t done = 0;
  };
  struct Task {
    enum class Kind { kWait, kRecord, kTransfer } kind;
    std::shared_ptr<Event> event = nullptr;
    uint64_t version = 0;
    std::byte* payload = nullptr;
    size_t bytes = 0;
  };

  class End final : public LineEnd {
   public:
    End(StandInDriver& driver, int gpu, const LineId& id, bool sends, uint64_t seed) : driver_(driver), sends_(sends), random_(seed) {
      const char* folder = std::getenv("MILLRACE_TEST_JOB");
      path_ = folder == nullptr ? "/dev/shm" : folder;
      path_ += "/millrace_line_";
      for (size_t i = 0; i < 16; ++i) path_ += fmt::format("{:02x}", static_cast<unsigned>(id[i]));
      const int file = open(path_.c_str(), O_RDWR | O_CREAT, 0600);
      void* memory = MAP_FAILED;
      if (file >= 0 && ftruncate(file, sizeof(Meeting)) == 0)
        memory = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (file >= 0) close(file);
      if (memory == MAP_FAILED) throw LineFailure(LineFailure::Kind::kBroken, "no shared memory for " + path_);
      meeting_ = static_cast<Meeting*>(memory);
      looks_ = random_() % 20;
      if (driver_.options_.joins) meeting_->gpu[sends ? 0 : 1].store(gpu + 1);
    }
    ~End() override {
      munmap(meeting_, sizeof(Meeting));
      unlink(path_.c_str());
    }

    bool settled() override {
      work();
      const int here = meeting_->gpu[sends_ ? 0 : 1].load(), there = meeting_->gpu[sends_ ? 1 : 0].load();
      if (here == 0 || there == 0) return false;
      if (here == there) throw LineFailure(LineFailure::Kind::kBroken, "ncclCommInitRankConfig: Duplicate GPU detected");
      unlink(path_.c_str());  // both have it: nothing is left behind, whatever happens
      if (looks_ > 0) --looks_;
      return looks_ == 0;
    }
    void transfer(std::byte* payload, size_t bytes) override {
      if (driver_.options_.before_transfer) driver_.options_.before_transfer(driver_.transfers_);
      if (driver_.transfers_++ == driver_.options_.failing_transfer)
        throw LineFailure(LineFailure::Kind::kBroken, "ncclSend: unhandled system error");
      if (bytes > Meeting::kMost) throw LineFailure(LineFailure::Kind::kBroken, "more bytes than this stand-in takes");
      looks_ = random_() % 3;
      push({.kind = Task::Kind::kTransfer, .payload = payload, .bytes = bytes});
    }
    void finish() override { looks_ = random_() % 3; }

    int make_event() override {
      events_.push_back(std::make_shared<Event>());
      return static_cast<int>(events_.size()) - 1;
    }
    void record(int event) override {
      const auto& e = events_[static_cast<size_t>(event)];
      push({.kind = Task::Kind::kRecord, .event = e, .version = ++e->recorded});
    }
    void record_on(void* queue, int event) override {
      const auto& e = events_[static_cast<size_t>(event)];
      calculations_ = static_cast<StandInQueue*>(queue);
      calculations_->queue_behind([e, version = ++e->recorded] { e->done = std::max(e->done, version); });
    }
    void wait(int event) override {
      if (!driver_.options_.waits_for_calculations) return;
      const auto& e = events_[static_cast<size_t>(event)];
      push({.kind = Task::Kind::kWait, .event = e, .version = e->recorded});
    }
    bool done(int event) override {
      work();
      const Event& e = *events_[static_cast<size_t>(event)];
      return e.done >= e.recorded;
    }

   private:
    void push(Task task) {
      tasks_.push_back(std::move(task));
      work();
    }
    void work() {
      if (calculations_ != nullptr && !tasks_.empty() && tasks_.front().kind == Task::Kind::kWait) calculations_->nudge();
      for (uint64_t some = random_() % 4; some > 0 && !tasks_.empty() && finished(tasks_.front()); --some) tasks_.pop_front();
    }
    bool finished(const Task& task) {
      switch (task.kind) {
        case Task::Kind::kWait: return task.event->done >= task.version;
        case Task::Kind::kRecord: task.event->done = std::max(task.event->done, task.version); return true;
        case Task::Kind::kTransfer: break;
      }
      return sends_ ? send(task) : receive(task);
    }
    bool send(const Task& task) {
      if (!under_way_) {
        if (task.bytes > 0) std::memcpy(meeting_->payload, task.payload, task.bytes);
        meeting_->bytes.store(task.bytes);
        meeting_->sent.fetch_add(1, std::memory_order_release);
        under_way_ = true;
      }
      if (meeting_->received.load(std::memory_order_acquire) != meeting_->sent.load()) return false;
      under_way_ = false;
      return true;
    }
    bool receive(const Task& task) {
      if (meeting_->sent.load(std::memory_order_acquire) == meeting_->received.load()) return false;
      if (meeting_->bytes.load() != task.bytes)
        throw LineFailure(LineFailure::Kind::kBroken,
                          fmt::format("{} bytes were sent and {} are received", meeting_->bytes.load(), task.bytes));
      if (task.bytes > 0) std::memcpy(task.payload, meeting_->payload, task.bytes);
      meeting_->received.fetch_add(1, std::memory_order_release);
      return true;
    }

    StandInDriver& driver_;
    bool sends_;
    std::mt19937_64 random_;
    std::string path_;
    Meeting* meeting_ = nullptr;
    StandInQueue* calculations_ = nullptr;
    uint64_t looks_ = 0;
    bool under_way_ = false;  // the first task's payload is in the meeting
    std::deque<Task> tasks_;
    std::vector<std::shared_ptr<Event>> events_;
  };

  StandInOptions options_;
  std::mt19937_64 random_;
  int64_t transfers_ = 0;
  int64_t allocated_ = 0;
};

}  // namespace millrace::testing_support
