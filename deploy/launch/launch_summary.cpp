#include "deploy/launch/launch_summary.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/exit_status.h"

namespace millrace {

int64_t LaunchSummary::restarts() const {
  int64_t count = 0;
  for (size_t i = 0; i + 1 < attempts.size(); ++i) count += attempts[i].failed ? 1 : 0;
  return count;
}

int64_t LaunchSummary::lost_steps() const {
  int64_t sum = 0;
  for (const Attempt& attempt : attempts) sum += attempt.lost_steps();
  return sum;
}

double LaunchSummary::lost_seconds() const {
  double sum = 0;
  for (const Attempt& attempt : attempts) sum += attempt.lost_seconds + attempt.pause_seconds;
  return sum;
}

std::string text_of_status(int status) {
  for (const ExitMeaning& row : kExitMeanings) {
    if (row.status != status) continue;
    std::string_view meaning = row.meaning;
    if (const size_t colon = meaning.find("under mpirun: "); colon == 0) meaning.remove_prefix(14);
    return fmt::format("{}: {}", status, meaning.substr(0, meaning.find(';')));
  }
  if (status > 128 && status < 128 + 65) return fmt::format("{}: ended by signal {} ({})", status, status - 128, strsignal(status - 128));
  return fmt::format("{}", status);
}

std::string table_of(const LaunchSummary& summary) {
  std::string text = summary.attempts.empty() ? "" : "attempt  devices  ranks  from step  saved  reached  seconds  lost  ended with\n";
  for (size_t i = 0; i < summary.attempts.size(); ++i) {
    const Attempt& attempt = summary.attempts[i];
    text += fmt::format("{:>7}  {:>7}  {:>5}  {:>9}  {:>5}  {:>7}  {:>7.1f}  {:>4}  {}\n", i + 1, attempt.devices, attempt.ranks,
                        attempt.from_step, attempt.checkpoint_step, attempt.last_step, attempt.seconds, attempt.lost_steps(), attempt.end);
  }
  const auto count = [](int64_t number, std::string_view one) { return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s"); };
  text += fmt::format("launch: {}; {}, {}{}; lost {} and {:.1f} of {:.1f} s (measured)\n", summary.reason,
                      count(static_cast<int64_t>(summary.attempts.size()), "attempt"), count(summary.restarts(), "restart"),
                      summary.replans > 0 ? fmt::format(", planned again {}", count(summary.replans, "time")) : "",
                      count(summary.lost_steps(), "step"), summary.lost_seconds(), summary.seconds);
  return text;
}

std::string json_of(const LaunchSummary& summary) {
  using Json = nlohmann::ordered_json;
  Json attempts = Json::array();
  for (const Attempt& attempt : summary.attempts)
    attempts.push_back({{"devices", attempt.devices},
                        {"ranks", attempt.ranks},
                        {"hosts", attempt.hosts},
                        {"from_step", attempt.from_step},
                        {"checkpoint_step", attempt.checkpoint_step},
                        {"last_step", attempt.last_step},
                        {"status", attempt.status},
                        {"end", attempt.end},
                        {"seconds", attempt.seconds},
                        {"lost_seconds", attempt.lost_seconds},
                        {"pause_seconds", attempt.pause_seconds}});
  const Json line = {{"event", "launch"},
                     {"status", summary.status},
                     {"reason", summary.reason},
                     {"restarts", summary.restarts()},
                     {"replans", summary.replans},
                     {"lost_steps", summary.lost_steps()},
                     {"lost_seconds", summary.lost_seconds()},
                     {"seconds", summary.seconds},
                     {"attempts", attempts}};
  return line.dump() + "\n";
}

}  // namespace millrace
