#include "deploy/command/simulate/scenario_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/drawing/quantity.h"
#include "core/plan/rings_side_by_side.h"
#include "deploy/command/line/flag_checks.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/session/accounting.h"
#include "deploy/session/ring_flags.h"
#include "node/simulate/failures.h"

namespace millrace {
namespace {

constexpr double kHour = 3600;
constexpr double kMostMicroseconds = 1e9;
constexpr double kReplicaMicroseconds = 5;
constexpr int64_t kFailures = 20'000;
// Around Young's interval, in factors of the square root of two.
constexpr int kAround = 8;
constexpr double kMostOfMtbf = 5;  // longer intervals lose nearly everything

template <typename Number>
bool reads(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

Straggler straggler_from(std::string_view text) {
  Straggler straggler;
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || !reads(text.substr(0, equals), straggler.device) ||
      !reads(text.substr(equals + 1), straggler.factor) || !std::isfinite(straggler.factor))
    fail(ErrorCode::kUsage, "--straggler \"{}\": write DEVICE=FACTOR, such as 3=1.5", text);
  return straggler;
}

void read_drawn(std::string_view text, SimulationScenario& scenario) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || !reads(text.substr(0, colon), scenario.straggler_share) ||
      !reads(text.substr(colon + 1), scenario.straggler_most) || !(scenario.straggler_share > 0 && scenario.straggler_share <= 1) ||
      !(scenario.straggler_most > 1))
    fail(ErrorCode::kUsage,
         "--stragglers \"{}\": write SHARE:FACTOR, such as 0.1:2 for one device in ten, up to twice as slow; the share lies above 0, up to "
         "1, the "
         "factor above 1",
         text);
}

int64_t bits_per_second(const char* flag, double gbps) { return std::llround(1e9 * checked_gbps(flag, gbps)); }

int64_t picoseconds(const char* flag, double microseconds) {
  if (!(microseconds >= 0 && microseconds <= kMostMicroseconds))
    fail(ErrorCode::kUsage, "{} {:g}: a latency lies between 0 and {:g} us", flag, microseconds, kMostMicroseconds);
  return std::llround(1e6 * microseconds);
}

// Those that are asked for, else those of the plan.
void read_replicas(const ScenarioFlags& flags, int64_t of_plan, bool planned_here, Replicas& replicas) {
  const auto without = [](bool given, const char* flag, const char* what) {
    if (given) fail(ErrorCode::kUsage, "{} has no effect without {}; leave it out", flag, what);
  };
  const int64_t count = flags.replicas.value_or(of_plan);
  if (count == 1) {
    without(!flags.all_reduce.empty(), "--all-reduce", "--replicas");
    without(flags.gbps.has_value(), "--replica-gbps", "--replicas");
    without(flags.latency_us.has_value(), "--replica-latency-us", "--replicas");
    without(flags.group.has_value(), "--replica-group", "--replicas");
  }
  if (!flags.group) {
    without(flags.group_gbps.has_value(), "--group-gbps", "--replica-group");
    without(flags.group_latency_us.has_value(), "--group-latency-us", "--replica-group");
  }
  if (flags.replicas && *flags.replicas == 1 && of_plan == 1 && !planned_here)
    fail(ErrorCode::kUsage, "--replicas 1 has no effect; leave it out");
  if (count == 1) return;
  replicas.count = count;
  if (!flags.all_reduce.empty()) replicas.method = all_reduce_from(flags.all_reduce);
  replicas.outer = {bits_per_second("--replica-gbps", flags.gbps.value_or(kReplicaGbps)),
                    picoseconds("--replica-latency-us", flags.latency_us.value_or(kReplicaMicroseconds))};
  if (!flags.group) return;
  replicas.group_size = *flags.group;
  replicas.inner = {bits_per_second("--group-gbps", flags.group_gbps.value_or(10 * kReplicaGbps)),
                    picoseconds("--group-latency-us", flags.group_latency_us.value_or(1))};
}

// Of rings side by side each has fewer devices than the cluster.
void check_stragglers(const SimulationScenario& scenario, const ScenarioFlags& flags, const Plan& plan, bool planned_here) {
  if (scenario.replicas.count < 2) return;
  for (const Straggler& straggler : scenario.stragglers)
    if (straggler.device >= plan.devices())
      fail(ErrorCode::kUsage, "straggler {}: each of {} rings has devices 0 to {}{}", straggler.device, scenario.replicas.count,
           plan.devices() - 1, planned_here && !flags.replicas ? "; with --replicas 1 all devices are one ring" : "");
}

}  // namespace

void add_scenario_flags(CLI::App& command, ScenarioFlags& flags) {
  constexpr const char* kRing = "What befalls the ring";
  command.add_option("--straggler", flags.stragglers, "a slow device: DEVICE=FACTOR, such as 3=1.5, or a list with commas")
      ->delimiter(',')
      ->group(kRing);
  command.add_option("--stragglers", flags.drawn, "drawn ones: SHARE:FACTOR, such as 0.1:2 for one device in ten, up to twice as slow")
      ->group(kRing);
  CLI::Option* jitter =
      command.add_option("--jitter-us", flags.jitter_us, "messages come up to so much later than the links' latency, drawn");
  real(jitter->group(kRing), Least::kAboveZero);

  constexpr const char* kReplicas = "Replicas";
  const auto option = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kReplicas);
  };
  whole(option("--replicas", flags.replicas, "so many rings train together: an all-reduce per device column after each mini-batch"), 1,
        1 << 20);
  option("--all-reduce", flags.all_reduce, "ring, tree [ring]");
  real(option("--replica-gbps", flags.gbps, "of the links between replicas, per device and direction [10]"), Least::kAboveZero);
  real(option("--replica-latency-us", flags.latency_us, "of the links between replicas [5]"), Least::kZero);
  whole(option("--replica-group", flags.group, "replicas in a group with links of its own, faster ones"), 2, 1 << 20);
  real(option("--group-gbps", flags.group_gbps, "of the links within a group [100]"), Least::kAboveZero);
  real(option("--group-latency-us", flags.group_latency_us, "of the links within a group [1]"), Least::kZero);
}

void add_failure_flags(CLI::App& command, FailureFlags& flags) {
  constexpr const char* kFailing = "Failures";
  const auto option = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(kFailing);
  };
  real(option("--mtbf-hours", flags.mtbf_hours,
              "each device fails once in so many hours on average; the ring goes on from its last checkpoint"),
       Least::kAboveZero);
  real(option("--checkpoint-seconds", flags.checkpoint_seconds, "what writing a checkpoint takes [10]"), Least::kAboveZero);
  real(option("--restart-seconds", flags.restart_seconds, "from a failure until the ring works again [60]"), Least::kZero);
  real(option("--checkpoint-every", flags.every, "seconds of work between two checkpoints, or a list with commas [around the best]")
           ->delimiter(','),
       Least::kAboveZero);
}

void add_seed_flag(CLI::App& command, std::optional<int64_t>& seed) {
  whole(command.add_option("--seed", seed, "of what is drawn: stragglers, jitter, failures [0]")->group("What befalls the ring"), 0);
}

SimulationScenario scenario_of(const ScenarioFlags& flags, const std::optional<int64_t>& seed, const Plan& plan, bool planned_here) {
  SimulationScenario scenario;
  for (const std::string& straggler : flags.stragglers) scenario.stragglers.push_back(straggler_from(straggler));
  if (!flags.drawn.empty()) read_drawn(flags.drawn, scenario);
  if (flags.jitter_us) {
    scenario.jitter_picoseconds = picoseconds("--jitter-us", *flags.jitter_us);
    if (scenario.jitter_picoseconds == 0)
      fail(ErrorCode::kUsage, "--jitter-us {:g} is less than a picosecond, which has no effect", *flags.jitter_us);
  }
  scenario.seed = static_cast<uint64_t>(seed.value_or(0));
  read_replicas(flags, rings_side_by_side(plan), planned_here, scenario.replicas);
  check_stragglers(scenario, flags, plan, planned_here);
  if (flags.replicas && scenario.replicas.count > 1 && plan.devices() > 0 &&
      std::all_of(plan.homes.begin(), plan.homes.end(), [](const ParameterHome& home) { return home.count == 0; }))
    fail(ErrorCode::kUsage, "--replicas has no effect on a model without parameters");
  return scenario;
}

void refuse_idle_seed(const std::optional<int64_t>& seed, bool drawn) {
  if (seed && !drawn)
    fail(ErrorCode::kUsage, "--seed has no effect where nothing is drawn (--stragglers, --jitter-us, --mtbf-hours); leave it out");
}

bool wants_failures(const FailureFlags& flags) {
  if (flags.mtbf_hours) return true;
  for (const auto& [given, name] :
       {std::pair(flags.checkpoint_seconds.has_value(), "--checkpoint-seconds"),
        std::pair(flags.restart_seconds.has_value(), "--restart-seconds"), std::pair(!flags.every.empty(), "--checkpoint-every")})
    if (given) fail(ErrorCode::kUsage, "{} has no effect without --mtbf-hours; leave it out", name);
  return false;
}

FailureStudy failure_study(const FailureFlags& flags, const std::optional<int64_t>& seed, int64_t devices, double images_per_second) {
  const FailureModel model{.devices = devices,
                           .device_mtbf_seconds = kHour * flags.mtbf_hours.value(),
                           .checkpoint_seconds = flags.checkpoint_seconds.value_or(10),
                           .restart_seconds = flags.restart_seconds.value_or(60),
                           .seed = static_cast<uint64_t>(seed.value_or(0))};
  FailureStudy study{.devices = devices,
                     .images_per_second = images_per_second,
                     .device_mtbf_seconds = model.device_mtbf_seconds,
                     .ring_mtbf_seconds = model.ring_mtbf_seconds(),
                     .checkpoint_seconds = model.checkpoint_seconds,
                     .restart_seconds = model.restart_seconds,
                     .young_seconds = young_interval(model),
                     .daly_seconds = daly_interval(model),
                     .failures = kFailures,
                     .points = {}};
  std::vector<double> intervals = flags.every;
  if (intervals.empty())
    for (int i = -kAround; i <= kAround; ++i)
      if (const double interval = study.young_seconds * std::pow(2.0, 0.5 * i);
          interval < kMostOfMtbf * study.ring_mtbf_seconds || i == -kAround)
        intervals.push_back(interval);
  std::sort(intervals.begin(), intervals.end());
  intervals.erase(std::unique(intervals.begin(), intervals.end()), intervals.end());
  for (const double interval : intervals)
    study.points.push_back({interval, expected_lost(model, interval), simulate_failures(model, interval, kFailures).lost});
  return study;
}

std::string failure_table(const FailureStudy& failures, std::string_view samples) {
  std::string text = fmt::format(
      "failures of {} devices: each once in {}, the ring once in {} on average; a checkpoint takes {}, a restart {}\n"
      "best interval between checkpoints: {} (Young), {} (Daly), closed forms; {} failures simulated for each\n\n",
      failures.devices, duration(failures.device_mtbf_seconds), duration(failures.ring_mtbf_seconds), duration(failures.checkpoint_seconds),
      duration(failures.restart_seconds), duration(failures.young_seconds), duration(failures.daly_seconds), separated(failures.failures));
  TextTable table({"interval s", "lost, expected", "lost, simulated", fmt::format("{}/s", samples)}, 0);
  for (const FailurePoint& point : failures.points)
    table.add({significant(point.interval_seconds, 4), fmt::format("{:.2f}%", 100 * point.lost_modelled),
               fmt::format("{:.2f}%", 100 * point.lost_simulated),
               significant((1 - point.lost_simulated) * failures.images_per_second, 4)});
  return text + table.text();
}

std::string failure_json(const FailureStudy& failures) {
  Json json{{"devices", failures.devices},
            {"images_per_second", failures.images_per_second},
            {"device_mtbf_seconds", failures.device_mtbf_seconds},
            {"ring_mtbf_seconds", failures.ring_mtbf_seconds},
            {"checkpoint_seconds", failures.checkpoint_seconds},
            {"restart_seconds", failures.restart_seconds},
            {"young_seconds", failures.young_seconds},
            {"daly_seconds", failures.daly_seconds},
            {"failures", failures.failures},
            {"points", Json::array()}};
  for (const FailurePoint& point : failures.points)
    json["points"].push_back({{"interval_seconds", point.interval_seconds},
                              {"lost_modelled", point.lost_modelled},
                              {"lost_simulated", point.lost_simulated},
                              {"images_per_second", (1 - point.lost_simulated) * failures.images_per_second}});
  return json.dump();
}

}  // namespace millrace
