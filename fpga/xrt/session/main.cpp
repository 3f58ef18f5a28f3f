// millrace-xrt-session DESCRIPTOR: drives one FPGA through XRT for one rank, which speaks to it over the socket of that number.
//
// The rank starts it (session_client.h) and says what to do (session_protocol.h). It ends when the rank closes the socket or
// is gone, when something fails, and when the emulated device's process is: a watch beside the main thread sees to that
// where XRT itself would wait for ever. What XRT prints goes to the log in the session's folder.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/xrt/protocol/session_protocol.h"
#include "fpga/xrt/protocol/wire_format.h"
#include "fpga/xrt/session/emulation_environment.h"
#include "fpga/xrt/session/xrt_board.h"

namespace millrace::xrt {
namespace {

struct OpenCall {
  std::string xclbin, body, device_program, folder;
  uint32_t board = 0;
  bool emulated = false;
  int seconds = 60;
};

OpenCall open_call_of(const SessionMessage& message) {
  OpenCall call;
  WireReader reader(message.fields, "the call to open a device");
  while (reader.next()) switch (reader.field()) {
      case 1: call.xclbin = reader.text(); break;
      case 2: call.board = static_cast<uint32_t>(reader.number()); break;
      case 3: call.emulated = reader.number() != 0; break;
      case 4: call.body = reader.text(); break;
      case 5: call.device_program = reader.text(); break;
      case 6: call.folder = reader.text(); break;
      case 7: call.seconds = static_cast<int>(reader.number()); break;
      default: break;
    }
  return call;
}

// Where XRT gives up (it aborts, or exits, when its device is gone): time for the watch to say why.
void linger() { std::this_thread::sleep_for(std::chrono::seconds(1)); }
void linger_at_signal(int) {
  for (int i = 0; i < 10; ++i) {
    timespec tenth{0, 100'000'000};
    nanosleep(&tenth, nullptr);
  }
}

class Session {
 public:
  explicit Session(int descriptor) : rank_(descriptor) {}

  [[noreturn]] void run() {
    try {
      const auto first = receive_message(rank_);
      if (!first || first->call != SessionCall::kOpen) leave(true);
      open(open_call_of(*first));
      while (auto message = receive_message(rank_)) {
        busy_since_ = now();
        serve(*message);
        busy_since_ = 0;
      }
    } catch (const Error& error) {
      report(error.code(), error.what());
    } catch (const std::exception& error) {
      report(ErrorCode::kUnavailable, error.what());
    }
    leave(true);
  }

 private:
  static int64_t now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void open(const OpenCall& call) {
    emulated_ = call.emulated;
    folder_ = call.folder;
    seconds_ = call.seconds;
    busy_since_ = now();
    std::thread([this] { watch(); }).detach();
    if (emulated_)
      enter_emulation({.folder = call.folder, .device_program = call.device_program, .body = call.body});
    else
      enter_board(call.folder);
    board_.emplace(call.xclbin, call.board, call.emulated, call.seconds);
    // The shim's handlers would take other processes along.
    for (const int signal : {SIGSEGV, SIGFPE, SIGUSR1, SIGCHLD}) std::signal(signal, SIG_DFL);
    std::signal(SIGABRT, linger_at_signal);
    std::signal(SIGPIPE, SIG_IGN);
    if (emulated_) std::atexit(linger);
    if (emulated_) device_ = std::atoi(read_text(folder_ / kPidFile).c_str());
    WireWriter reply;
    reply.text(1, board_->name());
    reply.number(2, static_cast<uint64_t>(device_.load()));
    reply.number(3, board_->identity());
    answer(reply);
    busy_since_ = 0;
  }

  void serve(const SessionMessage& message) {
    uint64_t numbers[4] = {};
    std::span<const uint8_t> data[4];
    WireReader reader(message.fields, fmt::format("call {} to the XRT session", static_cast<uint32_t>(message.call)));
    while (reader.next()) {
      if (reader.field() > 3) continue;
      const bool bytes = (message.call == SessionCall::kWrite && reader.field() == 3) || message.call == SessionCall::kRun;
      if (bytes)
        data[reader.field()] = reader.bytes();
      else
        numbers[reader.field()] = reader.number();
    }
    const auto buffer = static_cast<uint32_t>(numbers[1]);
    switch (message.call) {
      case SessionCall::kAllocate: board_->allocate(buffer, numbers[2], numbers[3]); return;
      case SessionCall::kRelease: board_->release(buffer); return;
      case SessionCall::kWrite: board_->write(buffer, numbers[2], data[3]); return;
      case SessionCall::kRun: {
        std::array<uint32_t, kScalarCount> scalars{};
        std::array<uint32_t, kPointerCount> buffers{};
        if (data[1].size() != sizeof(scalars) || data[2].size() != sizeof(buffers))
          fail(ErrorCode::kMalformed, "a run of {} and {} bytes of arguments", data[1].size(), data[2].size());
        std::memcpy(scalars.data(), data[1].data(), sizeof(scalars));
        std::memcpy(buffers.data(), data[2].data(), sizeof(buffers));
        board_->run(scalars, buffers);
        return;
      }
      case SessionCall::kRead: {
        WireWriter reply;
        board_->read(buffer, numbers[2], reply.room(1, numbers[3]));
        answer(reply);
        return;
      }
      case SessionCall::kFinish:
        board_->finish();
        answer({});
        return;
      default: fail(ErrorCode::kMalformed, "the rank sent call {}, which is none of its calls", static_cast<uint32_t>(message.call));
    }
  }

  void answer(const WireWriter& reply) {
    const std::lock_guard lock(sending_);
    send_message(rank_, SessionCall::kReply, reply.message());
  }

  // Ends the process; the rank hears why.
  [[noreturn]] void report(ErrorCode code, std::string why) {
    // What XRT says of a device that is gone is not what happened.
    if (auto death = death_of_device()) std::tie(code, why) = std::pair(death->code, std::move(death->why));
    std::fprintf(stderr, "%s\n", why.c_str());
    bool heard = false;
    // A thread that is stuck in the middle of a message keeps the lock: the rank then sees the end of the socket, and the log.
    if (const std::unique_lock lock(sending_, std::try_to_lock); lock) {
      WireWriter reply;
      reply.number(1, static_cast<uint64_t>(code));
      reply.text(2, why);
      heard = send_message(rank_, SessionCall::kFailed, reply.message());
    }
    leave(heard);
  }

  // With the folder removed, unless the rank has to read the log.
  [[noreturn]] void leave(bool removes_folder) {
    if (leaving_.test_and_set()) rest();  // the other thread is at it
    if (emulated_ && device_ > 0) kill(device_, SIGKILL);
    std::error_code ignored;
    if (removes_folder && !folder_.empty()) std::filesystem::remove_all(folder_, ignored);
    if (emulated_) _exit(0);  // XRT's own way out takes seconds
    board_.reset();
    std::exit(0);
  }

  [[noreturn]] static void rest() {
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

  struct Death {
    ErrorCode code;
    std::string why;
  };
  // How the emulated device's process ended; nothing while it lives.
  std::optional<Death> death_of_device() const {
    if (!emulated_ || device_ <= 0) return {};
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(device_.load()), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
    return ended(info);
  }
  Death ended(const siginfo_t& info) const {
    // One that is killed answers as little as one that hangs, and another attempt may go well.
    if (info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED)
      return {ErrorCode::kTimeout, fmt::format("the emulated device's process {} was killed by signal {}", info.si_pid, info.si_status)};
    // It says why before it ends by itself.
    std::ifstream log(folder_ / kSessionLog);
    std::string why;
    for (std::string line; std::getline(log, line);)
      if (line.starts_with("millrace-xrt-device: ")) why = line;
    return {ErrorCode::kUnavailable, fmt::format("the emulated device's process {} ended with status {}{}{}", info.si_pid, info.si_status,
                                                 why.empty() ? "" : ": ", why)};
  }

  // Beside the main thread, which may be inside XRT for as long as XRT likes.
  [[noreturn]] void watch() {
    Dead dead;
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      const int64_t since = busy_since_;
      if (rank_.closed_by_peer() && since != 0) leave(true);
      if (since != 0 && now() - since > 1000 * int64_t{seconds_} + 2000)
        report(ErrorCode::kTimeout, fmt::format("XRT has not answered within {} seconds", seconds_));
      if (!emulated_) continue;
      if (auto death = death_of_device()) report(death->code, std::move(death->why));
      if (device_ > 0) continue;
      if (const auto found = dead_device(dead)) {
        Death death = ended(*found);
        report(death.code, std::move(death.why));
      }
    }
  }

  // A child that has ended and that nobody has waited for, and for how many looks.
  static constexpr int kLooksAtTheUnknown = 20;  // a tenth of a second apart
  struct Dead {
    pid_t process = 0;
    int looks = 0;
  };
  // Before the shim is ready. The shim starts others, too, and waits for them at once, but on a busy machine at once may be seconds: the
  // device says who it is as soon as it runs. One that never came to run ends with a status, which the helpers do not.
  std::optional<siginfo_t> dead_device(Dead& dead) const {
    siginfo_t info{};
    const auto has_ended = [&](idtype_t whom, pid_t process) {
      return waitid(whom, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
    };
    std::ifstream file(folder_ / kPidFile);
    if (pid_t device = 0; file >> device) return has_ended(P_PID, device) ? std::optional(info) : std::nullopt;
    if (!has_ended(P_ALL, 0)) {
      dead = {};
      return {};
    }
    dead = {info.si_pid, info.si_pid == dead.process ? dead.looks + 1 : 1};
    const bool failed = info.si_code != CLD_EXITED || info.si_status != 0;
    return failed && dead.looks > kLooksAtTheUnknown ? std::optional(info) : std::nullopt;
  }

  LocalSocket rank_;
  bool emulated_ = false;
  std::filesystem::path folder_;
  int seconds_ = 60;
  std::optional<XrtBoard> board_;
  std::atomic<pid_t> device_{0};
  std::atomic<int64_t> busy_since_{0};  // 0: waiting for the rank
  std::mutex sending_;
  std::atomic_flag leaving_ = ATOMIC_FLAG_INIT;
};

}  // namespace
}  // namespace millrace::xrt

int main(int count, char** words) {
  if (count != 2) {
    fmt::print(stderr, "millrace-xrt-session is started by millrace, for one FPGA; it is of no use by itself\n");
    return 2;
  }
  setsid();  // what XRT sends to its process group stays here
  millrace::xrt::Session(std::atoi(words[1])).run();
}
