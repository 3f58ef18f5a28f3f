// Memory of the CPU device: aligned buffers, and one arena of scratch that all kernels of a device take turns with.
// Internal to core/cpu.
//
//   ScratchPlan plan;                                   // when a kernel is made
//   const size_t packed = plan.add(bytes);
//   arena.reserve(plan.total());
//   float* scratch = arena.at<float>(packed);           // in each call: nothing is allocated any more
//
// The arena grows when kernels are made, never in a call; its address may change then. Contents do not outlive a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

namespace millrace::cpu {

inline constexpr size_t kAlignment = 64;
inline constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Starts out as zeros.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);

  std::byte* data() const { return memory_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

class Arena {
 public:
  void reserve(size_t bytes) {
    if (bytes > buffer_.bytes()) buffer_ = Buffer(bytes);
  }
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(buffer_.data() + offset);
  }

 private:
  Buffer buffer_;
};

class ScratchPlan {
 public:
  // Offset of that many bytes.
  size_t add(size_t bytes) {
    const size_t offset = total_;
    total_ += aligned(bytes);
    return offset;
  }
  size_t total() const { return total_; }

 private:
  size_t total_ = 0;
};

}  // namespace millrace::cpu
