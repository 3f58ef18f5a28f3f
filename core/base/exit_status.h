// What the command ends with, in one place: --help prints this table, the guide shows it, and a test holds the two equal.
//
//   return kExitInterrupted;
//   for (const ExitMeaning& row : kExitMeanings) fmt::print("{:>4}  {}\n", row.status, row.meaning);
//
// Each is one attempt's, too, for `millrace launch`: it tries again after all but the first five, and ends with the last one's.
//
// A shell adds 128 to the number of a signal that ends the command at once: 130 for the second Ctrl-C, 137 for kill -9.
#pragma once

#include <array>
#include <string_view>

namespace millrace {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInfeasible = 3;
inline constexpr int kExitInterrupted = 4;
inline constexpr int kExitTimeout = 75;      // EX_TEMPFAIL
inline constexpr int kExitRankKilled = 137;  // mpirun's own
inline constexpr int kExitHostLost = 205;    // likewise

struct ExitMeaning {
  int status;
  std::string_view meaning;
};

inline constexpr std::array kExitMeanings = {
    ExitMeaning{kExitDone, "done"},
    ExitMeaning{kExitFailed, "failed, or not all of the output could be written; a message says why"},
    ExitMeaning{kExitUsage, "wrong usage: the words given, or the job, make no sense"},
    ExitMeaning{kExitInfeasible, "infeasible: understood, and there is no answer"},
    ExitMeaning{kExitInterrupted, "interrupted by a signal or --time-limit, and the run is saved: --resume goes on"},
    ExitMeaning{kExitTimeout, "a deadline passed: somebody stopped, was cut off or killed; --resume goes on, launch does so itself"},
    ExitMeaning{kExitRankKilled, "under mpirun: a rank was killed; likewise"},
    ExitMeaning{kExitHostLost, "under mpirun: a host was lost; likewise, and launch ends so when too few devices are left"},
};

}  // namespace millrace
