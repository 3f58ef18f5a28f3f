#include "deploy/session/stop_signal.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/base/error.h"

namespace millrace {
namespace {

TrainingSignals process_signals;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);  // so that a handler may set them

// oneDNN's generated matrix products keep a data pointer in the stack pointer. A handler on the ordinary stack would
// write its frame into their buffers, so it gets a stack of its own.
alignas(64) std::array<std::byte, size_t{64} << 10> handler_stack;

// Two places, so that a handler reads the one while the other is written.
std::array<std::array<char, 1024>, 2> words_places{};
std::atomic<const char*> last_words = nullptr;

// Outside the process's own name space a sender has number 0, as has a parent there: it may be anybody.
bool sent_by_parent(const siginfo_t& info) { return info.si_code <= 0 && info.si_pid != 0 && info.si_pid == getppid(); }

void note(int signal, siginfo_t* info, void*) {
  if (const char* const words = last_words.load(); signal == SIGTERM && words != nullptr) {
    const int kept = errno;
    [[maybe_unused]] const ssize_t wrote = ::write(STDERR_FILENO, words, std::strlen(words));
    errno = kept;
  }
  if (signal != SIGUSR1)
    process_signals.stop = true;
  else if (sent_by_parent(*info))
    ++process_signals.shared_checkpoints;
  else
    process_signals.checkpoint = true;
  if (signal == SIGTERM) process_signals.describe = true;
  process_signals.any = true;
}

void listen(int signal, int flags) {
  struct sigaction action {};
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | flags;
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
  // A terminal that goes away sends more than one.
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) listen(SIGHUP, 0);
  return process_signals;
}

void set_last_words(std::string_view line) {
  std::array<char, 1024>& place = words_places[last_words.load() == words_places[0].data() ? 1 : 0];
  const size_t length = std::min(line.size(), place.size() - 2);
  std::copy_n(line.begin(), length, place.begin());
  place[length] = '\n';
  place[length + 1] = '\0';
  last_words = place.data();
}

}  // namespace millrace
