// Progress of long work. On a terminal a bar that redraws in place with time left, never wider than the terminal; elsewhere, and
// where the cursor cannot be moved (TERM=dumb), a plain line at most every ten seconds, so that logs stay readable; nothing at all
// when switched off (--json keeps it on standard error). core/base/terminal.h knows which, and keeps the log's lines off the bar.
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

// One line of at most `columns`: "training ━━━━━━╌╌╌╌  52% 3s left epoch 1.1". What does not fit is given up in this order: the bar's
// length down to a third, the note, the bar, the end of `what`.
std::string progress_line(const std::string& what, double fraction, const std::string& time, const std::string& note, int64_t columns);

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
  bool in_place_ = false;
  bool finished_ = false;
  std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace millrace
