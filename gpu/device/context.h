// What all kernels and tensors of one GPU share: the engine, the order of its queues, memory, pinned buffers, scratch space and the
// choices of convolutions' algorithms. Internal to gpu/device.
//
//   auto context = std::make_shared<Context>(std::move(engine), options);
//   Buffer buffer = context->allocate(bytes, "layer \"conv1\": weights");
//   context->run(AddBias{...}, {&bias}, {&values});             // reads and writes: the buffers that the work names
//
// Buffers wait for the last work that uses them when they go. Fails as gpu_device.h says.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/index.h"
#include "gpu/device/algorithm_book.h"
#include "gpu/device/gpu_device.h"
#include "gpu/device/queue_order.h"

namespace millrace::gpu {

class Context;

// A piece of the GPU's memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Context& context, std::shared_ptr<Context> owner, void* memory, size_t bytes)
      : context_(&context), owner_(std::move(owner)), memory_(memory), bytes_(bytes) {}
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }

  size_t bytes() const { return bytes_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  Footprint* footprint() const { return &footprint_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(owner_, other.owner_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    std::swap(footprint_, other.footprint_);
  }

  Context* context_ = nullptr;
  std::shared_ptr<Context> owner_;  // null: the context's own
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  mutable Footprint footprint_;
};

// Space that a kernel uses within a call.
enum class Scratch : uint8_t { kWorkspace, kFirst, kSecond, kResult, kNorms };

class Context : public std::enable_shared_from_this<Context> {
 public:
  using Buffers = std::initializer_list<const Buffer*>;  // null ones do not count

  Context(std::unique_ptr<Engine> engine, const GpuOptions& options);
  ~Context();

  Engine& engine() { return *engine_; }
  const GpuOptions& options() const { return options_; }

  Buffer allocate(size_t bytes, std::string_view what);
  // At least that large from now on.
  void reserve(Scratch scratch, size_t bytes, std::string_view what);
  const Buffer& scratch(Scratch scratch) const { return item(scratch_, scratch); }

  // Queues `enqueue` for calculation, after whatever still writes what it reads or reads what it writes.
  template <typename Enqueue>
  void compute(Buffers reads, Buffers writes, Enqueue enqueue) {
    issue(Queue::kCompute, reads, writes, enqueue);
  }
  void run(const ElementWork& work, Buffers reads, Buffers writes) {
    compute(reads, writes, [&] { engine_->run(work); });
  }
  void reduce(const ReductionWork& work, Buffers reads, Buffers writes) {
    compute(reads, writes, [&] { engine_->run(work); });
  }
  void zero(const Buffer& buffer) {
    compute({}, {&buffer}, [&] { engine_->fill_zero(buffer.as<void>(), buffer.bytes()); });
  }

  // Where rows of `width` bytes lie in a buffer.
  struct Rows {
    size_t offset = 0;
    size_t pitch = 0;
    size_t width = 0;
    size_t rows = 1;
  };
  // Bytes [begin, begin + size) of all rows one after the other: give() fills them, take() gets them. upload() returns when the last
  // byte was given, download() when the last was taken.
  using Give = std::function<void(size_t begin, std::byte* to, size_t size)>;
  using Take = std::function<void(size_t begin, const std::byte* from, size_t size)>;
  void upload(const Buffer& to, const Rows& rows, const Give& give);
  void download(const Buffer& from, const Rows& rows, const Take& take);

  const ConvolutionChoice& choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase);

  // What was queued for calculation so far is a unit: copies that wait for a part of it wait for no more.
  void end_of_calculation() { order_->leave_mark(Queue::kCompute); }
  void wait_for(const Footprint& footprint) { order_->wait_here(footprint); }
  void synchronize() { engine_->synchronize(); }

 private:
  friend class Buffer;
  struct Slot {
    std::byte* memory = nullptr;
    uint64_t ticket = 0;  // of the last copy
  };
  using Slots = std::array<Slot, 2>;

  template <typename Enqueue>
  uint64_t issue(Queue queue, Buffers reads, Buffers writes, Enqueue enqueue) {
    const auto footprint = [](const Buffer* buffer) { return buffer == nullptr ? nullptr : buffer->footprint(); };
    std::array<Footprint*, kMostOperands> r{}, w{};
    std::transform(reads.begin(), reads.end(), r.begin(), footprint);
    std::transform(writes.begin(), writes.end(), w.begin(), footprint);
    return order_->issue(queue, {r[0], r[1], r[2], r[3], r[4], r[5]}, {w[0], w[1], w[2], w[3], w[4], w[5]}, enqueue);
  }
  static constexpr size_t kMostOperands = 6;

  void* take(size_t bytes, std::string_view what);
  Slot& next(Slots& slots, size_t& turn);

  std::unique_ptr<Engine> engine_;
  GpuOptions options_;
  AlgorithmBook book_;
  std::unique_ptr<QueueOrder> order_;
  Slots up_, down_;
  size_t up_turn_ = 0, down_turn_ = 0;
  std::array<Buffer, 5> scratch_;
};

// Runs `call`, with failures of the engine as errors.
template <typename Call>
decltype(auto) translated(Call call) {
  try {
    return call();
  } catch (const Failure& failure) {
    fail_as_error(failure);
  }
}

}  // namespace millrace::gpu
