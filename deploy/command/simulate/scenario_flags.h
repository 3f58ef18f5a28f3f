// Flags that say what befalls a ring: slow devices, unsteady links, replicas, failures; for `simulate` and `study`.
//
//   add_scenario_flags(*command, flags->scenario);
//   options.scenario = scenario_of(flags.scenario, seed, plan, /*planned_here=*/false);
//   sweep.failures = failure_study(flags.failures, flags.seed, devices, images_per_second);
//
// All fail with kUsage, naming the flag; one that has no effect is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "node/simulate/scenario.h"
#include "partitioner/study/study_sweep.h"

namespace CLI {
class App;
}

namespace millrace {

struct FailureFlags {
  std::optional<double> mtbf_hours, checkpoint_seconds, restart_seconds;
  std::vector<double> every;  // seconds
};

struct ScenarioFlags {
  std::vector<std::string> stragglers;  // "3=1.5"
  std::string drawn;                    // "0.1:2"
  std::optional<double> jitter_us;
  std::optional<int64_t> replicas, group;
  std::string all_reduce;
  std::optional<double> gbps, latency_us, group_gbps, group_latency_us;
};

void add_scenario_flags(CLI::App& command, ScenarioFlags& flags);
void add_failure_flags(CLI::App& command, FailureFlags& flags);
void add_seed_flag(CLI::App& command, std::optional<int64_t>& seed);

// `planned_here`: the plan was not loaded, and with --replicas it is of one ring of all devices.
SimulationScenario scenario_of(const ScenarioFlags& flags, const std::optional<int64_t>& seed, const Plan& plan, bool planned_here);
bool wants_failures(const FailureFlags& flags);
// By intervals between checkpoints: those given, or around Young's.
FailureStudy failure_study(const FailureFlags& flags, const std::optional<int64_t>& seed, int64_t devices, double images_per_second);
void refuse_idle_seed(const std::optional<int64_t>& seed, bool drawn);

// For people, who read what a sample is, and JSON's text.
std::string failure_table(const FailureStudy& failures, std::string_view samples);
std::string failure_json(const FailureStudy& failures);

}  // namespace millrace
