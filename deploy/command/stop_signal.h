// Signals as wishes that a training looks at between its actions.
//
//   const TrainingSignals& signals = listen_to_signals();
//   options.signals = {.stop = &signals.stop, ...};
//
// | SIGINT, SIGTERM, SIGUSR2 | stop at the next update, with a checkpoint; the second SIGINT or SIGTERM ends the process at once |
// | SIGTERM                  | says besides what each device is at and what the rank waits for                                 |
// | SIGUSR1                  | make a checkpoint at the next update and go on                                                  |
// mpirun passes SIGUSR1 and SIGUSR2 on to all ranks; at SIGINT and SIGTERM it ends the job by itself within a second.
//
// The flags live as long as the process. Call it from the main thread, which the system prefers for signals.
#pragma once

#include <atomic>

namespace millrace {

struct TrainingSignals {
  std::atomic<bool> stop = false;
  std::atomic<bool> checkpoint = false;
  std::atomic<bool> describe = false;
  std::atomic<bool> any = false;
};

TrainingSignals& listen_to_signals();

}  // namespace millrace
