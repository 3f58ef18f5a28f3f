#include "fpga/xrt/session/xrt_board.h"

#include <experimental/xrt_system.h>

#include <chrono>
#include <exception>
#include <thread>

#include "core/base/error.h"

namespace millrace::xrt {

namespace {

// XRT's exceptions become ours, with what was tried.
template <typename Function>
auto tried(const std::string& what, Function&& function) {
  try {
    return function();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(ErrorCode::kUnavailable, "XRT: {}: {}", what, error.what());
  }
}

}  // namespace

XrtBoard::XrtBoard(const std::string& xclbin, uint32_t index, bool emulated, int seconds) : emulated_(emulated), seconds_(seconds) {
  // In emulation XRT counts none, and opens them all the same.
  const uint32_t boards = emulated ? 1 : tried("looking for boards", [] { return ::xrt::system::enumerate_devices(); });
  if (!emulated && index >= boards)
    fail(ErrorCode::kUnavailable,
         "no FPGA board {}: XRT finds {} on this machine; load its driver (xocl) and see `xbutil examine`, or use xrt-emulated-fpga", index,
         boards);
  tried(fmt::format("opening device {}", index), [&] { device_ = ::xrt::device(index); });
  tried("the device's name", [&] { name_ = device_.get_info<::xrt::info::device::name>(); });
  const auto uuid = tried(fmt::format("loading {}", xclbin), [&] { return device_.load_xclbin(xclbin); });
  tried(fmt::format("opening kernel {}", kKernelName), [&] {
    kernel_ = ::xrt::kernel(device_, uuid, std::string(kKernelName), ::xrt::kernel::cu_access_mode::exclusive);
    identity_ = kernel_.read_register(kIdentityRegister);
    for (UnderWay& slot : runs_) slot.run = ::xrt::run(kernel_);
  });
}

XrtBoard::Buffer& XrtBoard::buffer_of(uint32_t number, uint64_t offset, uint64_t bytes) {
  const auto found = buffers_.find(number);
  if (found == buffers_.end()) fail(ErrorCode::kMismatch, "no buffer {} on the device", number);
  const uint64_t size = found->second.object.size();
  if (offset > size || bytes > size - offset)
    fail(ErrorCode::kMismatch, "{} bytes at {} of buffer {}, which has {}", bytes, offset, number, size);
  return found->second;
}

void XrtBoard::allocate(uint32_t buffer, uint64_t bytes, size_t pointer) {
  tried(fmt::format("{} bytes of the device's memory", bytes), [&] {
    const auto memory = kernel_.group_id(static_cast<int>(kScalarCount + pointer));
    buffers_.insert_or_assign(buffer, Buffer{::xrt::bo(device_, bytes, static_cast<::xrt::memory_group>(memory))});
  });
}

void XrtBoard::release(uint32_t buffer) {
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return;
  wait_for(found->second.last_run);
  buffers_.erase(found);
}

void XrtBoard::write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data) {
  Buffer& target = buffer_of(buffer, offset, data.size());
  wait_for(target.last_run);
  tried("a transfer to the device", [&] {
    target.object.write(data.data(), data.size(), offset);
    target.object.sync(XCL_BO_SYNC_BO_TO_DEVICE, data.size(), offset);
  });
}

void XrtBoard::read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data) {
  Buffer& source = buffer_of(buffer, offset, data.size());
  wait_for(source.last_run);
  tried("a transfer from the device", [&] {
    source.object.sync(XCL_BO_SYNC_BO_FROM_DEVICE, data.size(), offset);
    source.object.read(data.data(), data.size(), offset);
  });
}

void XrtBoard::run(std::span<const uint32_t, kScalarCount> scalars, std::span<const uint32_t, kPointerCount> buffers) {
  UnderWay& slot = runs_[(started_ + 1) % runs_.size()];
  wait_for(slot.number);
  tried("starting a run", [&] {
    for (size_t i = 0; i < kScalarCount; ++i) slot.run.set_arg(static_cast<int>(i), scalars[i]);
    for (size_t i = 0; i < kPointerCount; ++i)
      if (buffers[i] != 0) slot.run.set_arg(static_cast<int>(kScalarCount + i), buffer_of(buffers[i], 0, 0).object);
    slot.run.start();
  });
  slot.number = ++started_;
  for (const uint32_t buffer : buffers)
    if (buffer != 0) buffer_of(buffer, 0, 0).last_run = slot.number;
}

// Of a run that has ended, or is late. A board's wait sleeps until the interrupt; the emulation's spins, and takes the
// processor away from the device it waits for.
ert_cmd_state XrtBoard::ended_state(::xrt::run& run) const {
  if (!emulated_) return run.wait(std::chrono::seconds(seconds_));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_);
  ert_cmd_state state = run.state();
  while (state < ERT_CMD_STATE_COMPLETED && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    state = run.state();
  }
  return state;
}

void XrtBoard::wait_for(uint64_t number) {
  while (finished_ < number) {
    UnderWay& slot = runs_[(finished_ + 1) % runs_.size()];
    tried("waiting for a run", [&] {
      const ert_cmd_state state = ended_state(slot.run);
      if (state == ERT_CMD_STATE_COMPLETED) return;
      const bool late = state == ERT_CMD_STATE_NEW || state == ERT_CMD_STATE_QUEUED || state == ERT_CMD_STATE_RUNNING ||
                        state == ERT_CMD_STATE_SUBMITTED || state == ERT_CMD_STATE_TIMEOUT;
      if (late) fail(ErrorCode::kTimeout, "a run on {} has not ended after {} seconds", name_, seconds_);
      fail(ErrorCode::kUnavailable, "a run on {} ended in state {} of ert_cmd_state", name_, static_cast<int>(state));
    });
    ++finished_;
  }
}

void XrtBoard::finish() { wait_for(started_); }

}  // namespace millrace::xrt
