// What became of a launch: its attempts one by one, and what failures cost.
//
//   LaunchSummary summary;
//   summary.attempts.push_back({...});
//   fmt::print("{}", table_of(summary));           // for people; json_of(summary): one line for scripts
//
// The JSON's keys are a contract: event ("launch"), status, reason, restarts, replans, lost_steps, lost_seconds, seconds,
// attempts[{devices, ranks, hosts, from_step, checkpoint_step, last_step, status, end, seconds, lost_seconds, pause_seconds}].
// Times are measured. Lost steps: those that records tell of beyond the newest checkpoint, and so at least as many as were lost. Lost
// time: that since the newest checkpoint, and the pauses; starting again is not among them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

struct Attempt {
  int64_t devices = 0;
  int64_t ranks = 0;
  int64_t hosts = 1;
  int64_t from_step = 0;        // of the checkpoint it began with; 0: from the beginning
  int64_t checkpoint_step = 0;  // the newest at its end
  int64_t last_step = 0;        // that records tell of
  int status = 0;
  std::string end = {};  // in words
  bool failed = false;
  double seconds = 0;
  double lost_seconds = 0;
  double pause_seconds = 0;  // after it

  int64_t lost_steps() const { return failed ? last_step - checkpoint_step : 0; }
};

struct LaunchSummary {
  std::vector<Attempt> attempts;
  int status = 0;
  std::string reason;
  int64_t replans = 0;  // starts on other devices than the one before
  double seconds = 0;

  int64_t restarts() const;
  int64_t lost_steps() const;
  double lost_seconds() const;
};

// "137: a rank was killed"
std::string text_of_status(int status);

std::string table_of(const LaunchSummary& summary);
std::string json_of(const LaunchSummary& summary);

}  // namespace millrace
