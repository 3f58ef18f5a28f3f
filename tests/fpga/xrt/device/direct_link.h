// A device without XRT: its memory and its body in this process.
//
//   auto link = std::make_unique<DirectLink>();
//   link->damage = [](const PhaseRegisters& registers, DeviceMemory& memory) { ... };     // after every run
//
// Buffers stand a mebibyte and more apart. For tests.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "fpga/xrt/device/device_link.h"
#include "fpga/xrt/emulator/phase_body.h"

namespace millrace::xrt {

class DirectLink final : public DeviceLink {
 public:
  uint32_t allocate(uint64_t bytes) override {
    const auto number = static_cast<uint32_t>(addresses_.size() + 1);
    addresses_[number] = next_;
    EXPECT_TRUE(memory_.allocate(next_, bytes));
    next_ += (bytes / (1 << 20) + 2) << 20;
    return number;
  }
  void release(uint32_t buffer) override { memory_.release(addresses_.at(buffer)); }
  void write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data) override {
    std::ranges::copy(data, memory_.at(addresses_.at(buffer) + offset, data.size()).begin());
  }
  void run(const PhaseRegisters& registers) override {
    PhaseRegisters placed = registers;
    for (uint64_t& pointer : placed.pointers) pointer = pointer == 0 ? 0 : addresses_.at(static_cast<uint32_t>(pointer));
    body_->run(placed, memory_);
    if (damage) damage(placed, memory_);
  }
  void read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data) override {
    std::ranges::copy(memory_.at(addresses_.at(buffer) + offset, data.size()), data.begin());
  }
  void finish() override {}

  std::function<void(const PhaseRegisters&, DeviceMemory&)> damage;

 private:
  DeviceMemory memory_;
  std::unique_ptr<PhaseBody> body_ = make_phase_body("functional");
  std::map<uint32_t, uint64_t> addresses_;
  uint64_t next_ = 1 << 20;
};

}  // namespace millrace::xrt
