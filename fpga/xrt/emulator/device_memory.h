// The off-chip memory of an emulated device: buffers at the addresses that the host's runtime gave them. Internal to fpga/xrt.
//
//   DeviceMemory memory;
//   memory.allocate(0x4000, 4096);
//   std::memcpy(memory.at(0x4100, 16).data(), source, 16);
//
// A range lies within one buffer, or it fails with kMalformed naming address and size. Buffers start as zeros and take memory
// as they are written.
// Limits: `most` bytes altogether; the caller sees to it that nobody works on a buffer that is freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#include "core/base/index.h"

namespace millrace::xrt {

class DeviceMemory {
 public:
  explicit DeviceMemory(uint64_t most = uint64_t{16} << 30) : most_(most) {}

  // False where it does not fit, or overlaps another buffer.
  bool allocate(uint64_t address, uint64_t bytes);
  bool release(uint64_t address);
  std::span<uint8_t> at(uint64_t address, uint64_t bytes);
  // As at(), of numbers of a kind; the address is a multiple of their size.
  template <typename T>
  std::span<T> of(uint64_t address, uint64_t count) {
    return {reinterpret_cast<T*>(checked(address, count, sizeof(T))), to_size(count)};
  }

 private:
  struct Freed {
    void operator()(uint8_t* bytes) const { std::free(bytes); }
  };
  struct Buffer {
    std::unique_ptr<uint8_t, Freed> bytes;
    uint64_t size = 0;
  };

  uint8_t* checked(uint64_t address, uint64_t count, uint64_t size);

  uint64_t most_;
  uint64_t used_ = 0;
  std::map<uint64_t, Buffer> buffers_;  // by address
};

}  // namespace millrace::xrt
