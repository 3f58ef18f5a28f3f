#include "deploy/command/stop_signal.h"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/base/error.h"

namespace millrace {
namespace {

TrainingSignals signals;
static_assert(std::atomic<bool>::is_always_lock_free);  // so that a handler may set it

// oneDNN's generated matrix products keep a data pointer in the stack pointer. A handler on the ordinary stack would
// write its frame into their buffers, so it gets a stack of its own.
alignas(64) std::array<std::byte, size_t{64} << 10> handler_stack;

void note(int signal) {
  (signal == SIGUSR1 ? signals.checkpoint : signals.stop) = true;
  if (signal == SIGTERM) signals.describe = true;
  signals.any = true;
}

void listen(int signal, int flags) {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_ONSTACK | SA_RESTART | flags;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) fail(ErrorCode::kIo, "cannot listen to signal {}: {}", signal, std::strerror(errno));
}

}  // namespace

TrainingSignals& listen_to_signals() {
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  if (sigaltstack(&stack, nullptr) != 0) fail(ErrorCode::kIo, "cannot give signals a stack of their own: {}", std::strerror(errno));
  for (const int signal : {SIGINT, SIGTERM}) listen(signal, static_cast<int>(SA_RESETHAND));  // the second finds the default
  for (const int signal : {SIGUSR1, SIGUSR2}) listen(signal, 0);
  return signals;
}

}  // namespace millrace
