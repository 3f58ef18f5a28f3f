#include "transport/nccl/nccl_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kLeaveWithin = 1s;

[[noreturn]] void fail_as_error(std::string_view what, const LineFailure& failure) {
  fail(failure.kind() == LineFailure::Kind::kNoMemory ? ErrorCode::kUnavailable : ErrorCode::kIo, "{}: {}", what, failure.what());
}

}  // namespace

// One end of a line.
class NcclLines::Queue final : public TransferQueue {
 public:
  Queue(const LineName& name, void* compute) : what_(text_of(name)), compute_(compute) {}
  ~Queue() override {
    if (end_ == nullptr || !leaving_) return;
    // An end that has finished is given back; one that has not by then is aborted.
    try {
      const Instant until = machine_clock().now() + kLeaveWithin;
      while (!end_->settled() && machine_clock().now() < until) machine_clock().nap(100us);
    } catch (const LineFailure&) {  // nothing follows
    }
  }

  // Apart from the constructor, so that failures name the line.
  void begin(LineDriver& driver, const LineName& name, int gpu, const LineId& id) {
    guarded([&] { end_ = driver.join(gpu, id, name.outgoing); });
  }
  bool joined() {
    return guarded([&] { return end_->settled(); });
  }

  // A line that failed has said so once, and does nothing any more: others are told over the host wire.
  bool can_launch() override {
    if (broken_) return false;
    return guarded([&] { return !launching_ || finish_launch(); });
  }

  void launch(const Transfer& transfer) override {
    MILLRACE_CHECK(!launching_, "{}: launched too early", what_);
    guarded([&] {
      if (const auto used = used_.find(transfer.payload); used != used_.end()) end_->wait(used->second);
      launching_ = true;
      if (transfer.bytes > 0) end_->transfer(transfer.payload, transfer.bytes);  // both ends know it, and leave empty ones out
      finish_launch();
    });
  }

  bool take_finished() override {
    if (broken_) return false;
    return guarded([&] {
      if (launching_) finish_launch();
      if (running_.empty()) return false;
      if (!end_->done(running_.front())) {
        static_cast<void>(end_->settled());  // a peer that died leaves the GPU waiting: only NCCL knows
        return false;
      }
      spare_.push_back(running_.front());
      running_.pop_front();
      return true;
    });
  }

  void in_use(std::byte* payload) override {
    if (broken_) return;
    guarded([&] {
      const auto [used, added] = used_.try_emplace(payload, 0);
      if (added) used->second = end_->make_event();
      end_->record_on(compute_, used->second);
    });
  }

  void leave() noexcept override {
    if (broken_ || end_ == nullptr || launching_ || !running_.empty() || std::uncaught_exceptions() > 0) return;
    try {
      if (!end_->settled()) return;
      end_->finish();
      leaving_ = true;
    } catch (const LineFailure&) {  // it is aborted
    }
  }

 private:
  template <typename Call>
  auto guarded(Call call) -> decltype(call()) {
    try {
      return call();
    } catch (const LineFailure& failure) {
      broken_ = true;
      fail_as_error(what_, failure);
    }
  }

  // The last transfer is on the stream: only now may an event follow it there.
  bool finish_launch() {
    if (!end_->settled()) return false;
    if (spare_.empty()) spare_.push_back(end_->make_event());
    end_->record(spare_.back());
    running_.push_back(spare_.back());
    spare_.pop_back();
    launching_ = false;
    return true;
  }

  std::string what_;
  void* compute_;
  std::unique_ptr<LineEnd> end_;
  bool launching_ = false;
  bool leaving_ = false;
  bool broken_ = false;
  std::deque<int> running_;  // events, one after each transfer
  std::vector<int> spare_;
  std::unordered_map<std::byte*, int> used_;  // by payload: after the work that may touch it
};

// The lines that have joined, for the wire.
class NcclLines::Side final : public DeviceSide {
 public:
  Side(std::shared_ptr<LineDriver> driver, std::vector<Line> lines) : driver_(std::move(driver)), lines_(std::move(lines)) {}

  std::unique_ptr<TransferQueue> connect(const LineName& name) override {
    Line& found = line(name);
    MILLRACE_CHECK(found.queue != nullptr, "{} is connected twice", text_of(name));
    return std::move(found.queue);
  }

  std::shared_ptr<std::byte> allocate(const LineName& name, size_t bytes) override {
    const int gpu = line(name).location.number;
    try {
      std::byte* memory = driver_->allocate(gpu, std::max<size_t>(bytes, 1));
      return {memory, [driver = driver_, gpu](std::byte* given) { driver->release(gpu, given); }};
    } catch (const LineFailure& failure) {
      fail_as_error(fmt::format("{}: {} bytes of message buffers on GPU {}", text_of(name), bytes, gpu), failure);
    }
  }

 private:
  Line& line(const LineName& name) {
    const auto found = std::ranges::find(lines_, name, &Line::name);
    if (found == lines_.end())
      fail(ErrorCode::kUnavailable,
           "{}: device memory travels between GPUs that have joined by NCCL, and these have not; keep these messages "
           "in host memory",
           text_of(name));
    return *found;
  }

  std::shared_ptr<LineDriver> driver_;
  std::vector<Line> lines_;
};

NcclLines::NcclLines(std::shared_ptr<LineDriver> driver) : driver_(std::move(driver)) {}
NcclLines::~NcclLines() = default;

void NcclLines::begin(const LineName& name, const DeviceLocation& location, const LineId& id) {
  auto queue = std::make_unique<Queue>(name, location.queue);
  queue->begin(*driver_, name, location.number, id);
  lines_.push_back({name, location, std::move(queue)});
}

NcclLines::Line& NcclLines::line(const LineName& name) {
  const auto found = std::ranges::find(lines_, name, &Line::name);
  MILLRACE_CHECK(found != lines_.end(), "{} was not begun", text_of(name));
  return *found;
}

bool NcclLines::joined(const LineName& name) { return line(name).queue->joined(); }

void NcclLines::drop(const LineName& name) noexcept {
  std::erase_if(lines_, [&](const Line& line) { return line.name == name; });
}

std::unique_ptr<DeviceSide> NcclLines::take() { return std::make_unique<Side>(driver_, std::move(lines_)); }

}  // namespace millrace
