#include "node/simulate/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/index.h"
#include "node/simulate/network.h"

namespace millrace {

using simulation::Cause;

namespace {

// Differences below this are not worth a sentence.
constexpr double kNotable = 0.01;
constexpr double kNotableWait = 0.005;

std::string percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

double busy_share(const SimulatedStage& stage) {
  return stage.window > 0 ? static_cast<double>(stage.busy) / static_cast<double>(stage.window) : 0;
}

void add_rate(const Plan& plan, const SimulationResult& result, const SimulationForecast& prediction,
              std::vector<SimulationFinding>& found) {
  const double over_all = result.picoseconds > 0 ? 1e12 * static_cast<double>(result.samples) / static_cast<double>(result.picoseconds) : 0;
  const double pace = compared_pace(result, prediction);
  if (over_all < (1 - kNotable) * pace)
    found.push_back({"fill", fmt::format("filling the pipeline: the first {} is done after {:.4g} ms, so that {} {} take {:.4g} {}/s on "
                                         "average; the steady rate is that of {}",
                                         prediction.one, 1e-9 * static_cast<double>(result.fill_picoseconds), result.samples,
                                         prediction.many, over_all, prediction.many, part_of_pace(plan, prediction))});
  if (prediction.images_per_second <= 0) return;
  const double difference = pace / prediction.images_per_second - 1;
  if (std::abs(difference) <= kNotable) return;
  found.push_back({"rate", fmt::format("{} {} than the plan's {:.4g} {}/s", percent(std::abs(difference)),
                                       difference < 0 ? "slower" : "faster", prediction.images_per_second, prediction.many)});
  if (difference > 0 && drains(plan.alignment))
    found.push_back({"drain", "the plan counts every stage as long as the slowest while the pipeline drains; shorter ones drain faster"});
}

double share_of(const SimulatedStage& stage, Cause cause) {
  return stage.window > 0 ? static_cast<double>(item(stage.waited, cause)) / static_cast<double>(stage.window) : 0;
}

// What the stage that sets the pace waits for, and the stages where such waiting begins.
void add_waits(const Plan& plan, const SimulationResult& result, const PaceSetter& setter, std::vector<SimulationFinding>& found) {
  const SimulatedStage* pace = busiest_stage(result);
  if (pace == nullptr) return;
  // An engine that waits for a full link, or for other rings, sets no pace.
  const bool sets = setter.stage == pace;
  if (!sets) found.push_back({"pace", fmt::format("{} sets the pace, at work for {} of the time", setter.who, percent(setter.share))});
  bool waits = false;
  const auto add = [&](Cause cause, const char* reason, const char* what) {
    if (share_of(*pace, cause) < kNotableWait) return;
    waits = true;
    found.push_back({reason, fmt::format("{}{} waits {} of its time for {}", name_of(*pace, plan), sets ? " sets the pace and" : "",
                                         percent(share_of(*pace, cause)), what)});
  };
  add(Cause::kInput, "input", "rows or errors");
  add(Cause::kOutput, "back-pressure", "room downstream of it");
  add(Cause::kParameters, "parameters", "parameters stored on other devices");
  add(Cause::kUpdate, "update", "the update at the end of a mini-batch");
  if (!waits) return;
  const auto add_worst = [&](Cause cause, const char* reason, const char* what) {
    const SimulatedStage* worst = nullptr;
    for (const SimulatedStage& stage : result.stages)
      if (worst == nullptr || share_of(stage, cause) > share_of(*worst, cause)) worst = &stage;
    if (worst != nullptr && worst != pace && share_of(*worst, cause) >= kNotableWait)
      found.push_back(
          {reason, fmt::format("{} waits {} of its time for {}", name_of(*worst, plan), percent(share_of(*worst, cause)), what)});
  };
  add_worst(Cause::kOutput, "back-pressure", "room downstream of it");
  add_worst(Cause::kParameters, "parameters", "parameters stored on other devices");
  add_worst(Cause::kUpdate, "update",
            "the update at the end of a mini-batch: the pipeline is deeper than its window, or gradients are under way");
}

void add_memory(const SimulationResult& result, std::vector<SimulationFinding>& found) {
  double worst = 1 + 0.02;
  int64_t worst_device = -1;
  int64_t over = 0;
  for (const SimulatedDevice& device : result.devices) {
    if (device.act_ram_plan_bits <= 0) continue;
    const double ratio = static_cast<double>(device.act_ram_peak_bits) / static_cast<double>(device.act_ram_plan_bits);
    if (ratio > 1.02) ++over;
    if (ratio <= worst) continue;
    worst = ratio;
    worst_device = device.index;
  }
  if (worst_device < 0) return;
  const SimulatedDevice& device = item(result.devices, worst_device);
  found.push_back(
      {"buffer", fmt::format("on {} of {} devices activations take more than the plan's Act-RAM: most on device {}, {:.4g} Mb where the "
                             "plan has {:.4g} Mb ({:.2f} times): rows wait for busy links, or for room downstream, which its formula "
                             "leaves out",
                             over, result.devices.size(), worst_device, 1e-6 * static_cast<double>(device.act_ram_peak_bits),
                             1e-6 * static_cast<double>(device.act_ram_plan_bits), worst)});
}

}  // namespace

const SimulatedStage* busiest_stage(const SimulationResult& result) {
  const SimulatedStage* busiest = nullptr;
  for (const SimulatedStage& stage : result.stages)
    if (stage.window > 0 && stage.busy > 0 && (busiest == nullptr || busy_share(stage) > busy_share(*busiest))) busiest = &stage;
  return busiest;
}

PaceSetter pace_setter(const Plan& plan, const SimulationResult& result, const SimulationForecast& prediction) {
  PaceSetter setter;
  setter.stage = busiest_stage(result);
  if (setter.stage == nullptr) return setter;
  setter.who = name_of(*setter.stage, plan);
  setter.share = busy_share(*setter.stage);
  const auto consider = [&](double share, std::string who) {
    if (share <= setter.share) return;
    setter = {std::move(who), share, nullptr};
  };
  for (const SimulatedLink& link : result.links)
    consider(link.utilisation, fmt::format("the link between devices {} and {}", link.from, link.to));
  consider(prediction.all_reduce_share, "the all-reduce of the replicas");
  setter.share = std::min(setter.share, 1.0);
  return setter;
}

std::string name_of(const SimulatedStage& stage, const Plan& plan) {
  if (stage.shard < 0) return fmt::format("device {}", stage.device);
  static constexpr const char* kPhases[] = {"FP", "EB", "PG"};
  return fmt::format("{} of {} on device {}", item(kPhases, stage.phase), item(plan.shards, stage.shard).layer, stage.device);
}

std::vector<SimulationFinding> findings(const Plan& plan, const SimulationResult& result, const SimulationForecast& prediction) {
  std::vector<SimulationFinding> found;
  add_rate(plan, result, prediction, found);
  add_waits(plan, result, pace_setter(plan, result, prediction), found);
  add_memory(result, found);
  if (prediction.in_flight_samples > 0 && result.in_flight_samples > prediction.in_flight_samples)
    found.push_back({"in flight", fmt::format("{} samples are in flight at once where the plan counts with {}", result.in_flight_samples,
                                              prediction.in_flight_samples)});
  if (drains(plan.alignment) && result.samples < 2 * plan.mini_batch)
    found.push_back(
        {"fill", fmt::format("{} {} are fewer than two mini-batches of {}: the drain at each update is not in the rate; simulate "
                             "{} or more",
                             result.samples, prediction.many, plan.mini_batch, 3 * plan.mini_batch)});
  return found;
}

}  // namespace millrace
