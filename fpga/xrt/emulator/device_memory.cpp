#include "fpga/xrt/emulator/device_memory.h"

#include "core/base/error.h"

namespace millrace::xrt {

bool DeviceMemory::allocate(uint64_t address, uint64_t bytes) {
  if (bytes > most_ - used_ || address + bytes < address) return false;
  const auto next = buffers_.lower_bound(address);
  if (next != buffers_.end() && next->first < address + bytes) return false;
  if (next != buffers_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size > address) return false;
  }
  auto* zeros = static_cast<uint8_t*>(std::calloc(bytes == 0 ? 1 : bytes, 1));
  if (zeros == nullptr) return false;
  buffers_.emplace(address, Buffer{std::unique_ptr<uint8_t, Freed>(zeros), bytes});
  used_ += bytes;
  return true;
}

bool DeviceMemory::release(uint64_t address) {
  const auto found = buffers_.find(address);
  if (found == buffers_.end()) return false;
  used_ -= found->second.size;
  buffers_.erase(found);
  return true;
}

std::span<uint8_t> DeviceMemory::at(uint64_t address, uint64_t bytes) {
  const auto next = buffers_.upper_bound(address);
  if (next != buffers_.begin()) {
    auto& [start, buffer] = *std::prev(next);
    const uint64_t offset = address - start;
    if (offset <= buffer.size && bytes <= buffer.size - offset) return {buffer.bytes.get() + offset, bytes};
  }
  fail(ErrorCode::kMalformed, "{} bytes at {:#x} of the device's memory: no buffer holds them", bytes, address);
}

uint8_t* DeviceMemory::checked(uint64_t address, uint64_t count, uint64_t size) {
  if (count > UINT64_MAX / size || address % size != 0)
    fail(ErrorCode::kMalformed, "{} numbers of {} bytes at {:#x}: not an address for them", count, size, address);
  return at(address, count * size).data();
}

}  // namespace millrace::xrt
