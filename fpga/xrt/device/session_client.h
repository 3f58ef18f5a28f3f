// A device behind XRT: a session of its own (session_protocol.h) is started for it and ended with it. Internal to fpga/xrt.
//
//   SessionClient device({.emulated = true, .session_program = found, .device_program = other});
//   fmt::print("{}\n", device.description());
//
// Whatever happens to the session or to the emulated device's process comes back as an error of the next call that waits:
// kUnavailable with what the session said, or the end of its log. Nothing waits longer than `seconds` for one answer.
// Owns the session's process and its private folder below /tmp; both are gone when the client is.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "fpga/xrt/device/device_link.h"
#include "fpga/xrt/protocol/session_protocol.h"

namespace millrace::xrt {

struct SessionOptions {
  bool emulated = true;
  uint32_t board = 0;               // of those that XRT lists
  std::filesystem::path xclbin;     // emulation: empty for our own design
  std::string body = "functional";  // of the emulated device
  std::string plan;                 // text that the body finds as plan.textproto in its folder
  std::filesystem::path session_program;
  std::filesystem::path device_program;
  int seconds = 120;
};

class SessionClient final : public DeviceLink {
 public:
  explicit SessionClient(const SessionOptions& options);
  ~SessionClient() override;
  SessionClient(const SessionClient&) = delete;
  SessionClient& operator=(const SessionClient&) = delete;

  const std::string& name() const { return name_; }
  pid_t session_process() const { return process_; }
  pid_t device_process() const { return device_; }  // 0: a board

  uint32_t allocate(uint64_t bytes) override;
  void release(uint32_t buffer) override;
  void write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data) override;
  void run(const PhaseRegisters& registers) override;
  void read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data) override;
  void finish() override;

 private:
  void start(const std::filesystem::path& program, int descriptor);
  void open(const SessionOptions& options, const std::filesystem::path& xclbin);
  void send(SessionCall call, std::span<const uint8_t> fields);
  SessionMessage answer();
  void end();
  std::string last_words() const;

  std::filesystem::path folder_;
  int seconds_;
  LocalSocket session_{-1};
  pid_t process_ = 0, device_ = 0;
  std::string name_;
  uint32_t buffers_ = 0;
};

}  // namespace millrace::xrt
