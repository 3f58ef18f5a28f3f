// SIGINT and SIGTERM (Ctrl-C; mpirun and Slurm) as a wish to end: the first sets a flag that a training looks at between
// updates, the second ends the process at once.
//
//   options.stop = &stop_on_signals();
//
// The flag lives as long as the process. Call it from the main thread, which the system prefers for signals.
#pragma once

#include <atomic>

namespace millrace {

const std::atomic<bool>& stop_on_signals();

}  // namespace millrace
