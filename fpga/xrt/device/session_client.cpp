#include "fpga/xrt/device/session_client.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/xrt/device/engine_design.h"
#include "fpga/xrt/protocol/wire_format.h"

namespace millrace::xrt {

namespace {

namespace fs = std::filesystem;

constexpr int kSessionDescriptor = 3;

// Directly below /tmp, where XRT's shim puts its socket.
fs::path private_folder() {
  std::string name = "/tmp/millrace-xrt-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) fail(ErrorCode::kIo, "no folder like {}: {}", name, std::strerror(errno));
  return name;
}

template <typename T>
std::span<const uint8_t> raw(const T& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(values[0])};
}

}  // namespace

SessionClient::SessionClient(const SessionOptions& options) : seconds_(options.seconds) {
  if (!options.emulated && options.xclbin.empty())
    fail(ErrorCode::kUsage, "a board needs the file of its design; name it in MILLRACE_XCLBIN");
  fs::path xclbin = options.xclbin;
  if (!xclbin.empty()) {
    check_design(load_xclbin(xclbin), xclbin.string());
    xclbin = fs::absolute(xclbin);
  }
  if (options.session_program.empty() || access(options.session_program.c_str(), X_OK) != 0)
    fail(ErrorCode::kUnavailable,
         "this build does not drive FPGAs through XRT: the program millrace-xrt-session is missing{}; install libxrt-dev and build again",
         options.session_program.empty() ? "" : fmt::format(" ({})", options.session_program.string()));
  folder_ = private_folder();
  try {
    if (xclbin.empty()) {
      xclbin = folder_ / "engine.xclbin";
      save(engine_design(), xclbin);
    }
    if (!options.plan.empty()) write_atomically(folder_ / "plan.textproto", options.plan);
    auto [mine, theirs] = LocalSocket::pair();
    session_ = std::move(mine);
    start(options.session_program, theirs.descriptor());
    theirs.close();
    open(options, xclbin);
  } catch (...) {
    end();
    throw;
  }
}

SessionClient::~SessionClient() { end(); }

void SessionClient::start(const fs::path& program, int descriptor) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, descriptor, kSessionDescriptor);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, (folder_ / kSessionLog).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  // A neighbour must see this rank's connections end when it does, not when its session does.
  posix_spawn_file_actions_addclosefrom_np(&actions, kSessionDescriptor + 1);
#endif
  std::string name = program.string(), number = std::to_string(kSessionDescriptor);
  char* words[] = {name.data(), number.data(), nullptr};
  const int error = posix_spawn(&process_, name.c_str(), &actions, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process_ = 0;
    fail(ErrorCode::kUnavailable, "{} does not start: {}", name, std::strerror(error));
  }
}

void SessionClient::open(const SessionOptions& options, const fs::path& xclbin) {
  WireWriter call;
  call.text(1, xclbin.string());
  call.number(2, options.board);
  call.number(3, options.emulated ? 1 : 0);
  call.text(4, options.body);
  call.text(5, options.device_program.string());
  call.text(6, folder_.string());
  call.number(7, static_cast<uint64_t>(options.seconds));
  send(SessionCall::kOpen, call.message());
  const SessionMessage reply = answer();
  uint32_t identity = 0;
  WireReader reader(reply.fields, "the XRT session's answer");
  while (reader.next()) {
    if (reader.field() == 1) name_ = reader.text();
    if (reader.field() == 2) device_ = static_cast<pid_t>(reader.number());
    if (reader.field() == 3) identity = static_cast<uint32_t>(reader.number());
  }
  if (identity == kIdentity) return;
  if ((identity & 0xffff'0000) == kIdentityMark)
    fail(ErrorCode::kMismatch, "{}: the device has register map {}, and this program has {}; load the design that belongs to this version",
         name_, identity & 0xffff, kMapVersion);
  fail(ErrorCode::kMismatch, "{}: register {:#x} of the device holds {:#x}; its kernel does not have Millrace's register map", name_,
       kIdentityRegister, identity);
}

void SessionClient::send(SessionCall call, std::span<const uint8_t> fields) {
  if (!send_message(session_, call, fields)) answer();  // says why nobody takes it
}

SessionMessage SessionClient::answer() {
  // The session watches itself; this is for the case that it cannot.
  if (!session_.readable_within(1000 * (seconds_ + 30)))
    fail(ErrorCode::kTimeout, "the XRT session (process {}) has not answered within {} seconds", process_, seconds_ + 30);
  auto message = receive_message(session_);
  // One that had opened its device was killed: it answers as little as one that hangs, and another attempt may go well.
  if (!message) fail(name_.empty() ? ErrorCode::kUnavailable : ErrorCode::kTimeout, "the XRT session ended{}", last_words());
  if (message->call != SessionCall::kFailed) return std::move(*message);
  ErrorCode code = ErrorCode::kUnavailable;
  std::string why;
  WireReader reader(message->fields, "the XRT session's report");
  while (reader.next()) {
    if (reader.field() == 1 && reader.number() <= static_cast<uint64_t>(ErrorCode::kIo)) code = static_cast<ErrorCode>(reader.number());
    if (reader.field() == 2) why = reader.text();
  }
  fail(code, "{}", why);
}

// The end of what the session and XRT printed.
std::string SessionClient::last_words() const {
  std::ifstream log(folder_ / kSessionLog);
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(line);
  std::string words;
  for (size_t i = lines.size() > 3 ? lines.size() - 3 : 0; i < lines.size(); ++i) words += (words.empty() ? ": " : "; ") + lines[i];
  return words.empty() ? " without a word" : words;
}

void SessionClient::end() {
  session_.close();
  if (process_ > 0) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (waitpid(process_, nullptr, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > patience) {
        kill(-process_, SIGKILL);  // the session leads a group of its own
        kill(process_, SIGKILL);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process_ = 0;
  }
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

uint32_t SessionClient::allocate(uint64_t bytes) {
  WireWriter call;
  call.number(1, ++buffers_);
  call.number(2, bytes);
  call.number(3, kSource);  // check_design: all pointers lie in one memory
  send(SessionCall::kAllocate, call.message());
  return buffers_;
}

void SessionClient::release(uint32_t buffer) {
  WireWriter call;
  call.number(1, buffer);
  send(SessionCall::kRelease, call.message());
}

void SessionClient::write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data) {
  WireWriter call;
  call.number(1, buffer);
  call.number(2, offset);
  call.bytes(3, data);
  send(SessionCall::kWrite, call.message());
}

void SessionClient::run(const PhaseRegisters& registers) {
  std::array<uint32_t, kPointerCount> buffers{};
  for (size_t i = 0; i < kPointerCount; ++i) buffers[i] = static_cast<uint32_t>(registers.pointers[i]);
  WireWriter call;
  call.bytes(1, raw(registers.scalars));
  call.bytes(2, raw(buffers));
  send(SessionCall::kRun, call.message());
}

void SessionClient::read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data) {
  WireWriter call;
  call.number(1, buffer);
  call.number(2, offset);
  call.number(3, data.size());
  send(SessionCall::kRead, call.message());
  const SessionMessage reply = answer();
  WireReader reader(reply.fields, "the XRT session's data");
  while (reader.next()) {
    if (reader.field() != 1) continue;
    if (reader.bytes().size() != data.size())
      fail(ErrorCode::kMismatch, "the XRT session sent {} bytes of {}", reader.bytes().size(), data.size());
    if (!data.empty()) std::memcpy(data.data(), reader.bytes().data(), data.size());
  }
}

void SessionClient::finish() {
  send(SessionCall::kFinish, {});
  answer();
}

}  // namespace millrace::xrt
