// Signals as wishes that a training looks at between its actions.
//
//   const TrainingSignals& signals = listen_to_signals();
//   options.signals = {.stop = &signals.stop, ...};
//
// | SIGINT, SIGTERM, SIGHUP, SIGUSR2 | stop at the next update, with a checkpoint; the second SIGINT or SIGTERM ends the process at once  |
// | SIGTERM                          | says besides what each device is at and what the rank waits for, and writes the last words at once |
// | SIGHUP                           | is left alone where it is ignored already: that is what nohup is for                               |
// | SIGUSR1                          | make a checkpoint at the next update and go on                                                     |
// mpirun passes SIGUSR1 and SIGUSR2 on to all ranks. It is the process that started them (on another host its daemon is), by which a
// rank tells a SIGUSR1 that all of them get, sooner or later, from one that was sent to it alone. At SIGINT, SIGTERM and SIGHUP it ends the
// job by itself: ranks get a SIGTERM and have a second, which may be less than an update takes; what the last words are for.
//
// The flags live as long as the process. Call it from the main thread, which the system prefers for signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace millrace {

struct TrainingSignals {
  std::atomic<bool> stop = false;
  std::atomic<bool> checkpoint = false;         // asked of this process
  std::atomic<int64_t> shared_checkpoints = 0;  // how often the process that started this one has asked for one
  std::atomic<bool> describe = false;
  std::atomic<bool> any = false;
};

TrainingSignals& listen_to_signals();

// One line that SIGTERM writes to standard error from its handler, whatever the training is at; none until it is called.
void set_last_words(std::string_view line);

}  // namespace millrace
