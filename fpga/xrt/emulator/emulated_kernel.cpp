#include "fpga/xrt/emulator/emulated_kernel.h"

#include <cstring>

namespace millrace::xrt {

EmulatedKernel::EmulatedKernel(std::unique_ptr<PhaseBody> body, DeviceMemory& memory, uint32_t identity)
    : body_(std::move(body)), memory_(memory), registers_(kMapBytes), worker_([this] { work(); }) {
  std::memcpy(registers_.data() + kIdentityRegister, &identity, sizeof(identity));
}

EmulatedKernel::~EmulatedKernel() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void EmulatedKernel::write(uint64_t offset, std::span<const uint8_t> bytes) {
  const std::lock_guard lock(mutex_);
  if (fault_) std::rethrow_exception(fault_);
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    const uint64_t at = offset + i;
    const bool writable = at >= kFirstArgument && at < kMapBytes && (at < kIdentityRegister || at >= kIdentityRegister + 4);
    if (writable) registers_[at] = bytes[i];
  }
  if (offset != kControl || bytes.empty() || (bytes[0] & kStartBit) == 0) return;
  queue_.push_back(registers_from(registers_));
  changed_.notify_all();
}

uint32_t EmulatedKernel::read(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  if (fault_) std::rethrow_exception(fault_);
  if (offset == kControl) {
    if (unseen_ > 0) {
      --unseen_;
      return kDoneBit | kIdleBit;
    }
    return queue_.empty() ? kIdleBit : kStartBit;
  }
  uint32_t value = 0;
  if (offset + sizeof(value) <= kMapBytes) std::memcpy(&value, registers_.data() + offset, sizeof(value));
  return value;
}

void EmulatedKernel::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty(); });
}

void EmulatedKernel::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !queue_.empty(); });
    if (ends_) return;
    const PhaseRegisters registers = queue_.front();
    lock.unlock();
    std::exception_ptr fault;
    try {
      body_->run(registers, memory_);
    } catch (...) {
      fault = std::current_exception();
    }
    lock.lock();
    if (fault) fault_ = fault;
    queue_.pop_front();
    ++unseen_;
    changed_.notify_all();
  }
}

}  // namespace millrace::xrt
