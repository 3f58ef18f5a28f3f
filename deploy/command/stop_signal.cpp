#include "deploy/command/stop_signal.h"

#include <signal.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/base/error.h"

namespace millrace {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // so that a handler may set it

// oneDNN's generated matrix products keep a data pointer in the stack pointer. A handler on the ordinary stack would
// write its frame into their buffers, so it gets a stack of its own.
alignas(64) std::array<std::byte, size_t{64} << 10> handler_stack;

void request_stop(int) { requested = true; }

}  // namespace

const std::atomic<bool>& stop_on_signals() {
  stack_t stack{};
  stack.ss_sp = handler_stack.data();
  stack.ss_size = handler_stack.size();
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_ONSTACK | SA_RESTART | static_cast<int>(SA_RESETHAND);  // the second signal finds the default
  sigemptyset(&action.sa_mask);
  bool set = sigaltstack(&stack, nullptr) == 0;
  for (const int signal : {SIGINT, SIGTERM}) set = set && sigaction(signal, &action, nullptr) == 0;
  if (!set) fail(ErrorCode::kIo, "cannot listen to SIGINT and SIGTERM: {}", std::strerror(errno));
  return requested;
}

}  // namespace millrace
