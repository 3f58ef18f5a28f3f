#include "fpga/xrt/device/mini_batch_device.h"

#include <algorithm>
#include <cstring>

namespace millrace::xrt {

MiniBatchDevice::MiniBatchDevice(DeviceLink& link, std::string description, size_t gradients, size_t bytes_reached)
    : link_(link), description_(std::move(description)), gradients_(gradients), bytes_reached_(bytes_reached) {
  result_ = link_.allocate(sizeof(ResultHeader) + sizeof(int32_t) * gradients_);
}

std::vector<int32_t> MiniBatchDevice::run(std::span<const int16_t> parameters, int64_t samples) {
  PhaseRegisters registers = registers_of_mini_batch(samples, kLoads | kStores, ++run_);
  // A device that is sent nothing has its buffer too: what it streams lies there.
  if (parameters_ == 0 || !std::ranges::equal(parameters, held_)) {
    if (parameters_ != 0 && parameters.size() != held_.size()) {
      link_.release(parameters_);
      parameters_ = 0;
    }
    if (parameters_ == 0) parameters_ = link_.allocate(std::max(parameters.size_bytes(), bytes_reached_));
    link_.write(parameters_, 0, {reinterpret_cast<const uint8_t*>(parameters.data()), parameters.size_bytes()});
    held_.assign(parameters.begin(), parameters.end());
  }
  registers.pointers[kParameters] = parameters_;
  registers.pointers[kResult] = result_;
  link_.run(registers);

  std::vector<uint8_t> bytes(sizeof(ResultHeader) + sizeof(int32_t) * gradients_);
  link_.read(result_, 0, bytes);
  ResultHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  check_result(header, run_, "MB", description_);
  std::vector<int32_t> gradients(gradients_);
  if (!gradients.empty()) std::memcpy(gradients.data(), bytes.data() + sizeof(header), sizeof(int32_t) * gradients.size());
  return gradients;
}

}  // namespace millrace::xrt
