// A process of its own group that is started, told signals and waited for; and signals to this process as words in an inbox.
//
//   SignalInbox inbox({SIGINT, SIGTERM, SIGCHLD});                 // blocked from now on: they come here
//   const pid_t process = start_process({"/usr/bin/mpirun", "-n", "2", "true"});
//   while (!(status = ended(process))) if (auto signal = inbox.wait(500ms)) kill(process, *signal);
//
// The group keeps a terminal's Ctrl-C from the child: who started it decides what it hears. It reads nothing, and when its parent
// dies it gets a SIGTERM. Linux.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

struct StartOptions {
  std::map<std::string, std::string> environment = {};  // besides ours
  bool quiet = false;                                   // what it says goes nowhere
  int kept = -1;                                        // a descriptor that stays open in it
};

// The first word is a path, or sought in PATH. Fails with kIo.
pid_t start_process(const std::vector<std::string>& words, const StartOptions& options = {});
// Its exit status as a shell tells it (128 + signal) once it has ended; nothing before. Ask until it answers, then no more.
std::optional<int> ended(pid_t process);

class SignalInbox {
 public:
  // Signals that are ignored already (nohup) stay so, but for SIGCHLD.
  explicit SignalInbox(std::initializer_list<int> signals);
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  std::optional<int> wait(std::chrono::milliseconds longest);

 private:
  sigset_t awaited_{};
  sigset_t before_{};
};

}  // namespace millrace
