#include "core/base/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "core/base/terminal.h"

namespace millrace {
namespace {

ProgressMode mode = ProgressMode::kAuto;

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

constexpr int64_t kWidestBar = 28;
constexpr int64_t kNarrowestBar = 9;

std::string bar_of(double fraction, int64_t columns) {
  const bool utf8 = terminal_abilities().utf8;
  const auto filled = static_cast<int64_t>(fraction * static_cast<double>(columns));
  std::string bar;
  for (int64_t i = 0; i < columns; ++i) bar += i < filled ? (utf8 ? "━" : "#") : (utf8 ? "╌" : "-");
  return bar;
}

}  // namespace

void set_progress_mode(ProgressMode wanted) { mode = wanted; }

std::string progress_line(const std::string& what, double fraction, const std::string& time, const std::string& note, int64_t columns) {
  std::string end = fmt::format("{:3.0f}% {}", 100 * fraction, time);
  const int64_t without_note = columns - columns_of(what) - columns_of(end) - 2;  // room for a bar
  const int64_t with_note = without_note - columns_of(note) - 1;
  if (!note.empty() && with_note >= kNarrowestBar)
    return fmt::format("{} {} {} {}", fit_columns(what, columns), bar_of(fraction, std::min(with_note, kWidestBar)), end,
                       fit_columns(note, columns));
  if (without_note >= kNarrowestBar)
    return fmt::format("{} {} {}", fit_columns(what, columns), bar_of(fraction, std::min(without_note, kWidestBar)), end);
  const int64_t for_what = columns - columns_of(end) - 1;
  return for_what > 0 ? fmt::format("{} {}", fit_columns(what, for_what), end) : fit_columns(end, columns);
}

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)),
      total_(std::max<int64_t>(total, 1)),
      in_place_(terminal_abilities().in_place),
      started_(std::chrono::steady_clock::now()),
      drawn_(started_) {}

Progress::~Progress() {
  if (!finished_) leave_status();
}

void Progress::advance(int64_t amount, const std::string& note) {
  done_ += amount;
  if (mode == ProgressMode::kOff) return;
  note_ = note;  // the last one stays
  const auto now = std::chrono::steady_clock::now();
  const auto period = in_place_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
  if (now - drawn_ < period) return;
  drawn_ = now;
  draw(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (mode == ProgressMode::kOff || !in_place_) return;
  draw(true);
  leave_status();
}

void Progress::draw(bool last) {
  const double fraction = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  const double left = fraction > 0 ? elapsed * (1 - fraction) / fraction : 0;
  const std::string time = last ? duration_text(elapsed) : duration_text(left) + " left";
  if (in_place_) {
    show_status(progress_line(what_, fraction, time, note_, status_columns()));
    return;
  }
  std::string line = fmt::format("{}: {}/{} ({:.0f}%), {}", what_, done_, total_, 100 * fraction, time);
  if (!note_.empty()) line += ", " + note_;
  // A log keeps the whole line; a terminal that cannot erase keeps it on one.
  // Standard error may be a disk that is full: no reason to end what is under way.
  std::fputs(((terminal_abilities().terminal ? fit_columns(line, status_columns()) : line) + "\n").c_str(), stderr);
}

}  // namespace millrace
