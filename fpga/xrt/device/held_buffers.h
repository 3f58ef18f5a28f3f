// The buffers of a kernel's runs, by pointer: what the device holds already is not sent again. Internal to fpga/xrt/device.
//
//   HeldBuffers buffers(link);
//   registers.pointers[kSource] = buffers.holding(kSource, parts.bytes());
//   registers.pointers[kResult] = buffers.with_room(kResult, bytes);
//
// `link` is borrowed, and outlives it.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "fpga/xrt/device/device_link.h"

namespace millrace::xrt {

// One after the other as they go to the device.
class Parts {
 public:
  template <typename T>
  Parts& add(std::span<const T> values) {
    const auto* first = reinterpret_cast<const uint8_t*>(values.data());
    bytes_.insert(bytes_.end(), first, first + values.size_bytes());
    return *this;
  }
  template <typename T>
  Parts& add(const std::vector<T>& values) {
    return add(std::span<const T>(values));
  }
  template <typename T>
  Parts& add_one(const T& value) {
    return add(std::span<const T>(&value, 1));
  }
  std::vector<uint8_t> bytes() { return std::move(bytes_); }  // once

 private:
  std::vector<uint8_t> bytes_;
};

// One after the other as they come back.
class Taken {
 public:
  explicit Taken(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  template <typename T>
  void take(T& value) {
    copy(&value, sizeof(value));
  }
  template <typename T>
  void take_all(std::vector<T>& values) {
    copy(values.data(), values.size() * sizeof(T));
  }

 private:
  void copy(void* to, size_t size) {
    if (size > 0) std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }
  std::vector<uint8_t> bytes_;
  size_t at_ = 0;
};

class HeldBuffers {
 public:
  explicit HeldBuffers(DeviceLink& link) : link_(link) {}

  uint32_t holding(Pointer pointer, std::vector<uint8_t> bytes) {
    Held& held = buffers_[pointer];
    if (held.buffer != 0 && held.content == bytes) return held.buffer;
    with_room(pointer, bytes.size());
    if (!bytes.empty()) link_.write(held.buffer, 0, bytes);
    held.content = std::move(bytes);
    return held.buffer;
  }
  uint32_t with_room(Pointer pointer, uint64_t bytes) {
    Held& held = buffers_[pointer];
    if (held.buffer != 0 && held.capacity >= bytes) return held.buffer;
    if (held.buffer != 0) link_.release(held.buffer);
    held.capacity = (std::max<uint64_t>(bytes, 1) + kRoom - 1) / kRoom * kRoom;
    held.buffer = link_.allocate(held.capacity);
    held.content.clear();
    return held.buffer;
  }
  Taken read(Pointer pointer, uint64_t bytes) {
    std::vector<uint8_t> content(bytes);
    link_.read(buffers_[pointer].buffer, 0, content);
    return Taken(std::move(content));
  }

 private:
  static constexpr uint64_t kRoom = 4096;  // buffers are multiples
  struct Held {
    uint32_t buffer = 0;
    uint64_t capacity = 0;
    std::vector<uint8_t> content;
  };
  DeviceLink& link_;
  std::array<Held, kPointerCount> buffers_;
};

}  // namespace millrace::xrt
