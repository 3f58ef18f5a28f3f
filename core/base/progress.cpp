#include "core/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace millrace {
namespace {

ProgressMode mode = ProgressMode::kAuto;

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

}  // namespace

void set_progress_mode(ProgressMode wanted) { mode = wanted; }

bool terminal_colours() { return isatty(STDERR_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)),
      total_(std::max<int64_t>(total, 1)),
      terminal_(isatty(STDERR_FILENO) == 1),
      started_(std::chrono::steady_clock::now()),
      drawn_(started_) {}

Progress::~Progress() {
  if (!finished_ && terminal_ && mode != ProgressMode::kOff && done_ > 0) std::fputc('\n', stderr);
}

void Progress::advance(int64_t amount, const std::string& note) {
  done_ += amount;
  if (mode == ProgressMode::kOff) return;
  const auto now = std::chrono::steady_clock::now();
  const auto period = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
  if (now - drawn_ < period) return;
  drawn_ = now;
  note_ = note;
  draw(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (mode != ProgressMode::kOff && terminal_) draw(true);
}

void Progress::draw(bool last) {
  const double fraction = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  const double left = fraction > 0 ? elapsed * (1 - fraction) / fraction : 0;
  const std::string time = last ? duration_text(elapsed) : duration_text(left) + " left";
  if (!terminal_) {
    fmt::print(stderr, "{}: {}/{} ({:.0f}%), {}{}{}\n", what_, done_, total_, 100 * fraction, time, note_.empty() ? "" : ", ", note_);
    return;
  }
  constexpr size_t kWidth = 28;
  const auto filled = static_cast<size_t>(fraction * kWidth);
  std::string bar;
  for (size_t i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "╌";
  fmt::print(stderr, "\r\x1b[K{} {} {:3.0f}% {} {}{}", what_, bar, 100 * fraction, time, note_, last ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace millrace
