// A GPU without one: queues of work that run late, side by side and in an order that a seed decides, as far as events allow. Whoever
// leaves an event out gets numbers from before they were written: memory starts as NaN, and a copy into pinned memory that has not run
// yet has not happened.
//
//   auto engine = std::make_unique<QueuedEngine>(QueuedOptions{.seed = 3});
//   const QueuedEngine& counts = *engine;
//   auto device = make_gpu_device(std::move(engine));
//   ...  EXPECT_GT(counts.copies_beside_work(), 0);
//
// Calculations are the element and reduction work of gpu/device, plain loops for convolutions and products, and for recurrences the
// kernels of gpu/rnn on the emulator of GPU threads. `ignored_wait` leaves out one wait, counted from 0: the mistake that tests plant. Work
// runs in wait_here(), synchronize() and, now and then, when more is queued. Lines to other stand-ins follow its calculations as NCCL's
// follow a stream.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "fpga/conv_ce/arithmetic/convolution_sums.h"
#include "gpu/device/direct_convolution.h"
#include "gpu/device/gpu_device.h"
#include "tests/gpu/device/emulated_recurrences.h"
#include "tests/gpu/device/own_work.h"
#include "tests/transport/nccl/standin_driver.h"

namespace millrace::testing {

struct QueuedOptions {
  uint64_t seed = 1;
  size_t memory_bytes = size_t{1} << 30;
  int64_t ignored_wait = -1;
  bool eager = true;                            // some work runs as soon as it is queued
  bool direct = false;                          // convolutions by gpu/device/direct_convolution.h
  bool channels_last = true;                    // what these want in sixteen bits, but in groups
  unsigned long long patience = 2'000'000'000;  // emulated nanoseconds that a block waits for another one
  EmulatedRecurrences::Options recurrent = {};
  bool captures = true;
  int64_t breaks_capture_at = -1;  // the call, counted over all captures, that may not be captured
  bool forgets_last_call = false;  // in every replay: the mistake that tests plant
  int number = 0;                  // of the GPU that it is
  OwnWork* own_work = nullptr;     // in place of loops
};

class QueuedEngine final : public gpu::Engine, private testing_support::StandInQueue {
 public:
  explicit QueuedEngine(const QueuedOptions& options) : options_(options), random_(options.seed) {}
  ~QueuedEngine() override {
    for (const auto& [memory, size] : sizes_) delete[] static_cast<std::byte*>(memory);
  }

  int64_t waits() const { return waits_; }
  int64_t copies_beside_work() const { return copies_beside_work_; }
  int64_t choices() const { return choices_; }
  int64_t recurrences() const { return recurrences_; }
  int64_t replays() const { return replays_; }
  size_t used() const { return used_; }

  gpu::Facts facts() const override {
    return {.name = "queues on the host",
            .architecture = "0.0",
            .libraries = "plain loops",
            .id = fmt::format("GPU-{}", options_.number),
            .number = options_.number};
  }
  void* native(gpu::Queue queue) override {
    return queue == gpu::Queue::kCompute ? static_cast<testing_support::StandInQueue*>(this) : nullptr;
  }
  gpu::MemoryState memory() override { return {.free = options_.memory_bytes - used_, .total = options_.memory_bytes}; }

  void* allocate(size_t bytes) override {
    if (used_ + bytes > options_.memory_bytes) return nullptr;
    used_ += bytes;
    auto* memory = new std::byte[bytes];
    std::memset(memory, 0xff, bytes);
    sizes_[memory] = bytes;
    return memory;
  }
  void release(void* memory) noexcept override {
    const auto found = sizes_.find(memory);
    std::memset(memory, 0xff, found->second);  // late work writes where nobody should read
    used_ -= found->second;
    delete[] static_cast<std::byte*>(memory);
    sizes_.erase(found);
  }
  std::byte* allocate_pinned(size_t bytes) override { return new std::byte[bytes]; }
  void release_pinned(std::byte* memory) noexcept override { delete[] memory; }

  int make_event() override {
    events_.emplace_back();
    return static_cast<int>(events_.size()) - 1;
  }
  void record(int event, gpu::Queue queue) override {
    Event& e = events_[static_cast<size_t>(event)];
    const uint64_t version = ++e.recorded;
    push(queue, {.run = [&e, version] { e.done = std::max(e.done, version); }});
  }
  void wait(gpu::Queue queue, int event) override {
    if (waits_++ == options_.ignored_wait) return;
    const Event& e = events_[static_cast<size_t>(event)];
    push(queue, {.ready = [&e, version = e.recorded] { return e.done >= version; }});
  }
  void wait_here(int event) override {
    must_not_capture();
    const Event& e = events_[static_cast<size_t>(event)];
    while (e.done < e.recorded) run_one();
    check_recurrences();
  }
  void synchronize() override {
    must_not_capture();
    while (pending() > 0) run_one();
    check_recurrences();
  }

  void copy(gpu::Queue queue, const gpu::Copy& copy) override {
    push(queue, {.run = [this, copy, queue] {
           if (queue != gpu::Queue::kCompute && !queues_[0].empty()) ++copies_beside_work_;
           for (size_t row = 0; row < copy.rows; ++row)
             std::memcpy(static_cast<std::byte*>(copy.to) + row * copy.to_pitch,
                         static_cast<const std::byte*>(copy.from) + row * copy.from_pitch, copy.width);
         }});
  }
  void fill_zero(void* memory, size_t bytes) override {
    compute([=] { std::memset(memory, 0, bytes); });
  }

  gpu::ConvolutionChoice choose(const gpu::ConvolutionGeometry& geometry, gpu::ConvolutionPhase phase, gpu::Precision precision,
                                size_t most_workspace, bool measure) override {
    ++choices_;
    constexpr size_t kWorkspace = 96;
    if (most_workspace < kWorkspace) throw gpu::Failure(gpu::Failure::Kind::kBroken, "no deterministic algorithm fits into the workspace");
    return {.algorithm = static_cast<int64_t>(phase) + 7,
            .workspace = kWorkspace,
            .name = measure ? "measured loops" : "loops",
            .channels_last = gpu::is_narrow(precision) && geometry.groups == 1 && options_.channels_last};
  }

  void convolution(const gpu::Convolution& call) override {
    if (call.algorithm != static_cast<int64_t>(call.phase) + 7)
      throw gpu::Failure(gpu::Failure::Kind::kBroken, "not the algorithm that was chosen");
    if (options_.direct)
      return compute([this, work = gpu::direct_convolution(call)] {
        if (options_.own_work != nullptr) return options_.own_work->run(work, may_access());
        for (int64_t i = 0; i < work.elements(); ++i) work(i);
      });
    compute([call] {
      std::memset(call.workspace, 0xff, call.workspace_bytes);
      const gpu::ConvolutionGeometry& g = call.geometry;
      const ConvolutionShape one{g.inputs,   g.outputs, g.height, g.width,      g.kernel_h,   g.kernel_w, g.stride_h,
                                 g.stride_w, g.pad_h,   g.pad_w,  g.dilation_h, g.dilation_w, g.groups};
      const bool forward = call.phase == gpu::ConvolutionPhase::kForward;
      const bool gradient = call.phase == gpu::ConvolutionPhase::kWeightGradient;
      const auto x = static_cast<size_t>(g.input_elements()), y = static_cast<size_t>(g.output_elements()),
                 w = static_cast<size_t>(g.weight_elements());
      const gpu::ChannelsLast orders[] = {
          {g.inputs, g.height * g.width}, {g.inputs / g.groups, g.kernel_h * g.kernel_w}, {g.outputs, g.output_height * g.output_width}};
      const auto canonical = [&](const std::vector<float>& values, const gpu::ChannelsLast& order) {
        std::vector<float> moved(values);
        for (size_t i = 0; i < values.size() && call.channels_last; ++i)
          moved[i] = values[static_cast<size_t>(order.in_channels_last(static_cast<int64_t>(i)))];
        return moved;
      };
      const std::vector<float> first =
          canonical(floats(call.first, forward || gradient ? x : y, call.precision), orders[forward || gradient ? 0 : 2]);
      const std::vector<float> second = canonical(floats(call.second, gradient ? y : w, call.precision), orders[gradient ? 2 : 1]);
      const gpu::ChannelsLast& order = orders[forward ? 2 : gradient ? 1 : 0];
      std::vector<float> sums(forward ? y : gradient ? w : x);
      for (size_t n = 0; n < static_cast<size_t>(g.samples); ++n) {
        const auto part = [&](auto& all, size_t of) {
          const size_t size = of / static_cast<size_t>(g.samples);
          return std::span(all).subspan(n * size, size);
        };
        if (forward)
          add_forward<float, float>(one, part(first, x), second, part(sums, y));
        else if (gradient)
          add_gradient<float, float>(one, part(first, x), part(second, y), std::span<float>(sums));
        else
          add_error_back<float, float>(one, part(first, y), second, part(sums, x));
      }
      for (size_t i = 0; i < sums.size(); ++i) {
        if (gpu::is_narrow(call.precision)) {
          const int64_t at = call.channels_last ? order.in_channels_last(static_cast<int64_t>(i)) : static_cast<int64_t>(i);
          static_cast<uint16_t*>(call.result)[at] =
              call.precision == gpu::Precision::kBfloat16 ? gpu::bfloat16_of(sums[i]) : gpu::float16_of(sums[i]);
          continue;
        }
        float& result = static_cast<float*>(call.result)[i];
        result = call.adds ? result + sums[i] : sums[i];
      }
    });
  }

  void gemm(const gpu::Gemm& g) override {
    compute([g] {
      if (g.m == 0 || g.n == 0) return;
      const int64_t row_a = g.row_a != 0 ? g.row_a : g.transpose_a ? g.m : g.k;
      const int64_t row_b = g.row_b != 0 ? g.row_b : g.transpose_b ? g.k : g.n, row_result = g.row_result != 0 ? g.row_result : g.n;
      const int64_t rows_a = g.transpose_a ? g.k : g.m, columns_a = g.transpose_a ? g.m : g.k;
      const std::vector<float> a =
          floats(g.a, static_cast<size_t>((g.batch - 1) * g.step_a + (rows_a - 1) * row_a + columns_a), g.precision);
      const int64_t rows_b = g.transpose_b ? g.n : g.k, columns_b = g.transpose_b ? g.k : g.n;
      const std::vector<float> b =
          floats(g.b, static_cast<size_t>((g.batch - 1) * g.step_b + (rows_b - 1) * row_b + columns_b), g.precision);
      for (int64_t batch = 0; batch < g.batch; ++batch)
        for (int64_t row = 0; row < g.m; ++row)
          for (int64_t column = 0; column < g.n; ++column) {
            float sum = 0;
            for (int64_t k = 0; k < g.k; ++k)
              sum += a[static_cast<size_t>(batch * g.step_a + (g.transpose_a ? k * row_a + row : row * row_a + k))] *
                     b[static_cast<size_t>(batch * g.step_b + (g.transpose_b ? column * row_b + k : k * row_b + column))];
            float& result = g.result[batch * g.step_result + row * row_result + column];
            result = g.adds ? result + sum : sum;
          }
    });
  }

  gpu::RecurrenceChoice choose(const gpu::RecurrenceGeometry& geometry) override {
    if (recurrent_ == nullptr) recurrent_ = std::make_unique<EmulatedRecurrences>(options_.recurrent, options_.seed, may_access());
    return recurrent_->choose(geometry);
  }
  void recurrence(const gpu::Recurrence& call) override {
    ++recurrences_;
    compute([this, call] { recurrent_->run(call); });
  }

  void run(const gpu::ElementWork& work) override {
    compute([this, work] {
      if (options_.own_work != nullptr) return options_.own_work->run(work, may_access());
      std::visit(
          [](const auto& w) {
            for (int64_t i = w.elements; i-- > 0;) w(i);  // any order is right
          },
          work);
    });
  }
  // As CUDA does it: what is called meanwhile is noted, and what may not be captured breaks the capture.
  bool begin_capture() override {
    must_not_capture();
    if (!options_.captures) return false;
    capturing_ = true;
    return true;
  }
  int end_capture() override {
    capturing_ = false;
    std::vector<std::function<void()>> graph = std::exchange(captured_, {});
    if (std::exchange(capture_is_broken_, false)) return -1;
    graphs_.push_back(std::move(graph));
    return static_cast<int>(graphs_.size()) - 1;
  }
  void replay(int graph) override {
    must_not_capture();
    ++replays_;
    const std::vector<std::function<void()>>& calls = graphs_.at(static_cast<size_t>(graph));
    for (size_t i = 0; i + (options_.forgets_last_call ? 1 : 0) < calls.size(); ++i) compute(calls[i]);
  }

  void run(const gpu::ReductionWork& work) override {
    compute([this, work] {
      if (options_.own_work != nullptr) return options_.own_work->run(work, may_access());
      std::visit(
          [](const auto& w) {
            for (int64_t group = w.groups; group-- > 0;) w.finish(group, gpu::reduced(w, group));
          },
          work);
    });
  }

 private:
  void queue_behind(std::function<void()> work) override { compute(std::move(work)); }
  void nudge() override {
    if (any_ready()) run_one();
  }

  struct Task {
    std::function<void()> run = {};
    std::function<bool()> ready = {};  // a wait
  };
  struct Event {
    uint64_t recorded = 0;
    uint64_t done = 0;
  };

  static std::vector<float> floats(const void* memory, size_t count, gpu::Precision precision) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
      values[i] = !gpu::is_narrow(precision)               ? static_cast<const float*>(memory)[i]
                  : precision == gpu::Precision::kBfloat16 ? gpu::float_of_bfloat16(static_cast<const uint16_t*>(memory)[i])
                                                           : gpu::float_of_float16(static_cast<const uint16_t*>(memory)[i]);
    return values;
  }

  OwnWork::MayAccess may_access() const {
    return [this](uint64_t address, size_t bytes) {
      auto after = sizes_.upper_bound(reinterpret_cast<void*>(address));
      if (after == sizes_.begin()) return false;
      --after;
      return address + bytes <= reinterpret_cast<uint64_t>(after->first) + after->second;
    };
  }

  void must_not_capture() {
    if (!capturing_) return;
    capture_is_broken_ = true;
    throw gpu::Failure(gpu::Failure::Kind::kBroken, "not while calls are captured");
  }
  void compute(std::function<void()> work) {
    if (!capturing_) return push(gpu::Queue::kCompute, {.run = std::move(work)});
    if (calls_captured_++ == options_.breaks_capture_at) must_not_capture();
    captured_.push_back(std::move(work));
  }
  void push(gpu::Queue queue, Task task) {
    must_not_capture();
    queues_[static_cast<size_t>(queue)].push_back(std::move(task));
    if (options_.eager && random_() % 4 == 0)
      for (uint64_t i = random_() % 6; i > 0 && any_ready(); --i) run_one();
  }
  void check_recurrences() const {
    if (recurrent_ != nullptr) recurrent_->check();
  }
  size_t pending() const { return queues_[0].size() + queues_[1].size() + queues_[2].size(); }
  bool ready(size_t queue) const { return !queues_[queue].empty() && (!queues_[queue].front().ready || queues_[queue].front().ready()); }
  bool any_ready() const { return ready(0) || ready(1) || ready(2); }
  void run_one() {
    if (!any_ready()) throw gpu::Failure(gpu::Failure::Kind::kBroken, "the queues wait for each other");
    // One queue runs ahead of the others for a while.
    if (random_() % 8 == 0) favourite_ = random_() % gpu::kQueues;
    size_t queue = favourite_;
    while (!ready(queue)) queue = random_() % gpu::kQueues;
    const Task task = std::move(queues_[queue].front());
    queues_[queue].pop_front();
    if (task.run) task.run();
  }

  QueuedOptions options_;
  std::mt19937_64 random_;
  size_t favourite_ = 0;
  std::deque<Task> queues_[gpu::kQueues];
  std::deque<Event> events_;
  std::map<void*, size_t> sizes_;
  size_t used_ = 0;
  int64_t waits_ = 0;
  int64_t copies_beside_work_ = 0;
  int64_t choices_ = 0;
  int64_t recurrences_ = 0;
  bool capturing_ = false, capture_is_broken_ = false;
  int64_t calls_captured_ = 0;
  std::vector<std::function<void()>> captured_;
  std::vector<std::vector<std::function<void()>>> graphs_;
  int64_t replays_ = 0;
  std::unique_ptr<EmulatedRecurrences> recurrent_;
};

// The GPU device on such an engine, which it owns.
struct Queued {
  explicit Queued(const QueuedOptions& options = {}, const GpuOptions& gpu = {.staging_bytes = 256}) {
    auto made = std::make_unique<QueuedEngine>(options);
    engine = made.get();
    device = make_gpu_device(std::move(made), gpu);
  }
  QueuedEngine* engine = nullptr;
  std::unique_ptr<Device> device;
};

}  // namespace millrace::testing
