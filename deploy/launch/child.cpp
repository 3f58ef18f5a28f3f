#include "deploy/launch/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "core/base/error.h"

namespace millrace {

pid_t start_process(const std::vector<std::string>& words, const StartOptions& options) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) fail(ErrorCode::kIo, "cannot start {}: {}", words.front(), std::strerror(errno));
  if (process > 0) {
    setpgid(process, process);  // here as well: whoever comes first
    return process;
  }
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = open("/dev/null", O_RDWR);
  if (nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    if (options.quiet) dup2(nothing, STDOUT_FILENO), dup2(nothing, STDERR_FILENO);
    if (nothing > STDERR_FILENO) close(nothing);
  }
  if (options.kept >= 0) fcntl(options.kept, F_SETFD, 0);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  execvp(arguments.front(), arguments.data());
  const std::string text = std::string("millrace: cannot start ") + words.front() + ": " + std::strerror(errno) + "\n";
  [[maybe_unused]] const ssize_t wrote = write(STDERR_FILENO, text.data(), text.size());
  _exit(127);
}

std::optional<int> ended(pid_t process) {
  int status = 0;
  const pid_t found = waitpid(process, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
  if (found < 0) return 127;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

SignalInbox::SignalInbox(std::initializer_list<int> signals) {
  sigemptyset(&awaited_);
  for (const int signal : signals) {
    struct sigaction action {};
    const bool ignored = sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored || signal == SIGCHLD) sigaddset(&awaited_, signal);
  }
  sigprocmask(SIG_BLOCK, &awaited_, &before_);
}

// One that came and was not taken would end the program now, with its summary unwritten and another exit status.
SignalInbox::~SignalInbox() {
  while (wait(std::chrono::milliseconds(0))) {
  }
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalInbox::wait(std::chrono::milliseconds longest) {
  const timespec time{.tv_sec = static_cast<time_t>(longest.count() / 1000),
                      .tv_nsec = static_cast<long>(longest.count() % 1000 * 1'000'000)};
  const int signal = sigtimedwait(&awaited_, nullptr, &time);
  if (signal < 0) return std::nullopt;
  return signal;
}

}  // namespace millrace
