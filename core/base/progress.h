// Progress of long work. On a terminal a bar that redraws in place with time left; elsewhere a plain line at most
// every ten seconds, so that logs stay readable; nothing at all when switched off (--json keeps it on standard error).
//
//   Progress progress("training", total_steps);
//   for (...) { work(); progress.advance(1, fmt::format("loss {:.3f}", loss)); }
//   progress.finish();
//
// Not thread safe; one at a time. Drawing costs nothing between redraws (ten a second).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace millrace {

enum class ProgressMode { kAuto, kOff };
void set_progress_mode(ProgressMode mode);
// True when standard error is a terminal and NO_COLOR is unset.
bool terminal_colours();

class Progress {
 public:
  Progress(std::string what, int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(int64_t amount = 1, const std::string& note = {});
  void finish();

 private:
  void draw(bool last);

  std::string what_;
  std::string note_;
  int64_t total_;
  int64_t done_ = 0;
  bool terminal_ = false;
  bool finished_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace millrace
