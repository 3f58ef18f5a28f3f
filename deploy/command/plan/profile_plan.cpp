#include "deploy/command/plan/profile_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "core/base/error.h"
#include "core/base/index.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "partitioner/profile/stage_partition.h"

namespace millrace {
namespace {

// Longer lists of names are cut short; --json has them whole.
constexpr size_t kMostNames = 4;

// NaN is in no range.
void in_range(double value, double least, double most, std::string_view flag) {
  if (!(value >= least && value <= most)) fail(ErrorCode::kUsage, "{}: {} is not from {:g} to {:g}", flag, value, least, most);
}

StageTask task_of(const ProfilePlanFlags& flags) {
  if (flags.profile.empty()) fail(ErrorCode::kUsage, "--profile: \"\" names nothing");
  if (!flags.devices) fail(ErrorCode::kUsage, "--devices is missing; say how many to plan for, such as --devices 8");
  if (*flags.devices < 1) fail(ErrorCode::kUsage, "--devices: {} is below 1", *flags.devices);
  if (*flags.devices > kMostStageDevices) fail(ErrorCode::kUsage, "--devices: {} is above {}", *flags.devices, kMostStageDevices);
  StageTask task;
  task.devices = *flags.devices;
  task.exactly = !flags.at_most;
  static const std::vector<std::string> objectives = {"compute", "max", "sum"};
  if (std::find(objectives.begin(), objectives.end(), flags.objective) == objectives.end())
    fail(ErrorCode::kUsage, "--objective \"{}\" is unknown{}", flags.objective, suggestion(flags.objective, objectives));
  task.objective = stage_objective_from(flags.objective);
  task.link_gbps = {flags.link_gbps.value_or(kProfileLinkGbps)};
  if (task.link_gbps[0] == 0) fail(ErrorCode::kUsage, "--link-gbps: 0 is not above 0; nothing crosses such a link");
  in_range(task.link_gbps[0], kLeastLinkGbps, kMostLinkGbps, "--link-gbps");
  if (flags.memory_gb) {
    in_range(*flags.memory_gb, 1e-9, 1e9, "--memory-gb");
    task.memory_bytes = 1e9 * *flags.memory_gb;
  }
  static const std::vector<std::string> rules = {"1f1b", "stash", "sum"};
  if (std::find(rules.begin(), rules.end(), flags.memory_rule) == rules.end())
    fail(ErrorCode::kUsage, "--memory-rule \"{}\" is unknown{}", flags.memory_rule, suggestion(flags.memory_rule, rules));
  task.memory_rule = memory_rule_from(flags.memory_rule);
  if (flags.replicate && !flags.speeds.empty())
    fail(ErrorCode::kUsage, "--replicate and --speeds exclude each other; replicas share a stage evenly, so devices must be equal");
  if (!flags.speeds.empty() && flags.speeds.size() != to_size(task.devices))
    fail(ErrorCode::kUsage, "--speeds: {} given for {} devices; give one per device, such as 2,1,1", flags.speeds.size(), task.devices);
  for (const double speed : flags.speeds) in_range(speed, kLeastSpeed, kMostSpeed, "--speeds");
  task.speeds = flags.speeds;
  task.replicate = flags.replicate;
  return task;
}

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.3f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}
std::string time_or_dash(double seconds) { return seconds > 0 ? time_text(seconds) : "-"; }
std::string tenths_of_percent(double share) { return fmt::format("{:.1f}%", 100 * share); }

// Sums of many nodes' bytes may be larger than any integer.
std::string size_text(double bytes) {
  static constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) bytes /= 1000, ++unit;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string names_text(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNames);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

std::string_view word_of(CutKind cuts) {
  switch (cuts) {
    case CutKind::kChain: return "chain";
    case CutKind::kAntichains: return "antichains";
    case CutKind::kLinearised: return "linearised";
  }
  return "unknown";
}

double transfers_of(const Stage& stage) { return stage.in_seconds + stage.out_seconds; }

int64_t devices_used(const StagePartition& plan) {
  int64_t devices = 0;
  for (const Stage& stage : plan.stages) devices += stage.replicas;
  return devices;
}

// Of the time of all devices that work; waiting for transfers counts as idle.
double idle_fraction(const StagePartition& plan) {
  if (!(plan.max_stage_seconds > 0)) return 0;
  double busy = 0;
  for (const Stage& stage : plan.stages) busy += stage.compute_seconds * static_cast<double>(stage.replicas);
  return std::max(0.0, 1 - busy / (plan.max_stage_seconds * static_cast<double>(devices_used(plan))));
}

const Stage& slowest_of(const StagePartition& plan) {
  return *std::max_element(plan.stages.begin(), plan.stages.end(), [](const Stage& a, const Stage& b) { return a.seconds < b.seconds; });
}

std::string stage_text(const Stage& stage) {
  return stage.nodes.size() == 1 ? stage.first : fmt::format("{} to {}", stage.first, stage.last);
}

// Nodes that are not neighbours in the profile's order: one branch without the other.
bool takes_a_branch_alone(const Stage& stage) {
  return stage.nodes.back() - stage.nodes.front() + 1 != static_cast<int64_t>(stage.nodes.size());
}

std::string device_text(const Stage& stage) {
  return stage.replicas == 1 ? fmt::format("{}", stage.device) : fmt::format("{} to {}", stage.device, stage.device + stage.replicas - 1);
}

// What to change first.
std::string limit_text(const StagePartition& plan, const StageTask& task) {
  const Stage& stage = slowest_of(plan);
  if (plan.bottleneck.kind == "link")
    return fmt::format("the transfers of {}, most of all over the link from device {} to {}: {} there and back at {:g} Gb/s",
                       stage_text(stage), plan.bottleneck.index, plan.bottleneck.index + 1,
                       size_text(2 * std::max(stage.in_bytes, stage.out_bytes)), task.link_gbps[0]);
  if (stage.synchronise_seconds > stage.compute_seconds)
    return fmt::format("keeping the parameters of {} equal on {} devices: {} of them", stage_text(stage), stage.replicas,
                       size_text(stage.parameter_bytes));
  const std::string who = fmt::format("the computing of device{} {}", stage.replicas == 1 ? "" : "s", device_text(stage));
  if (stage.nodes.size() > 1) return who;
  return fmt::format("{}, all of it {}: no cut divides one node; a faster device would{}", who, stage.first,
                     task.replicate ? "" : ", and so would --replicate");
}

std::string cuts_text(const StagePartition& plan) {
  const int64_t inner = plan.cuts_searched - 2;
  switch (plan.cuts) {
    case CutKind::kChain:
      return fmt::format("all {} places where the chain can be cut were searched: nothing is faster in this model", inner);
    case CutKind::kAntichains:
      return fmt::format("all {} places where the graph can be cut (antichains) were searched: nothing is faster in this model", inner);
    case CutKind::kLinearised: break;
  }
  return fmt::format(
      "the graph can be cut in too many places, so it was linearised and the {} of one order were searched; another order may be up to "
      "{} faster (bound {})",
      inner, tenths_of_percent(plan.optimality_gap), time_text(plan.lower_bound_seconds));
}

std::string memory_text(const StagePartition& plan, const StageTask& task) {
  const Stage& fullest = *std::max_element(plan.stages.begin(), plan.stages.end(),
                                           [](const Stage& a, const Stage& b) { return a.memory_bytes < b.memory_bytes; });
  const std::string held = task.memory_rule == MemoryRule::kSum
                               ? "1 micro-batch"
                               : fmt::format("{} micro-batch{} in flight", fullest.in_flight, fullest.in_flight == 1 ? "" : "es");
  return fmt::format("{}{} on device {}: parameters{}, gradients, activations of {}; no optimizer state", size_text(fullest.memory_bytes),
                     task.memory_bytes > 0 ? fmt::format(" of {}", size_text(task.memory_bytes)) : "", fullest.device,
                     task.memory_rule == MemoryRule::kStash ? fmt::format(" in {} versions", fullest.in_flight) : "", held);
}

std::string objective_text(const StageTask& task, bool given) {
  const std::string links = fmt::format("{:g} Gb/s{}", task.link_gbps[0], given ? "" : " (no --link-gbps was given)");
  switch (task.objective) {
    case StageObjective::kCompute: return fmt::format("compute: transfers do not count; below, their times over {}", links);
    case StageObjective::kMax: return fmt::format("max: a stage computes and transfers side by side, over {}", links);
    case StageObjective::kSum: return fmt::format("sum: a stage computes and transfers in turns, over {}", links);
  }
  return "";
}

// "" unless fewer devices do as well.
std::string fewer_text(const Profile& profile, const StageTask& task, const StagePartition& plan) {
  constexpr double kQuick = 0.5;  // seconds that the same search once more may take
  if (!task.exactly || task.devices == 1 || plan.solve_seconds > kQuick) return "";
  StageTask fewer = task;
  fewer.exactly = false;
  const StagePartition other = partition_stages(profile, fewer);
  const int64_t used = devices_used(other);
  if (!other.feasible || used >= task.devices) return "";
  const double gain = plan.max_stage_seconds > 0 ? 1 - other.max_stage_seconds / plan.max_stage_seconds : 0;
  if (gain < 1e-9) return fmt::format("{} of the {} devices would be as fast (--at-most)", used, task.devices);
  return fmt::format("{} of the {} devices would be faster: {} (--at-most)", used, task.devices, time_text(other.max_stage_seconds));
}

std::string table_of(const Profile& profile, const StageTask& task, const StagePartition& plan, bool link_given) {
  const int64_t used = devices_used(plan);
  std::string text = fmt::format("{}: {} nodes in {} stage{} on {}{} device{}\n", profile.origin, profile.size(), plan.stages.size(),
                                 plan.stages.size() == 1 ? "" : "s", used, used < task.devices ? fmt::format(" of {}", task.devices) : "",
                                 task.devices == 1 ? "" : "s");
  text += fmt::format("(the nodes' times are measured{}; transfers, synchronisation and memory are modelled)\n\n",
                      task.speeds.empty() ? "" : ", over the speeds given");
  const auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("  {:<15}{}\n", name, value); };
  line("slowest stage", plan.max_stage_seconds > 0
                            ? fmt::format("{}: {:.4g} micro-batches/s", time_text(plan.max_stage_seconds), 1 / plan.max_stage_seconds)
                            : std::string("0: nothing takes time"));
  line("limited by", limit_text(plan, task));
  line("objective", objective_text(task, link_given));
  line("idle", fmt::format("{} of the devices' time", tenths_of_percent(idle_fraction(plan))));
  if (const std::string fewer = fewer_text(profile, task, plan); !fewer.empty()) line("devices", fewer);
  line("memory", memory_text(plan, task));
  line("cuts", cuts_text(plan));
  if (!profile.inputs.empty())
    line("left out", fmt::format("{}: reading data{}", names_text(profile.inputs),
                                 profile.input_seconds > 0 ? fmt::format(" ({})", time_text(profile.input_seconds)) : ""));
  if (!profile.unused.empty())
    line(profile.inputs.empty() ? "left out" : "",
         fmt::format("{}: nobody takes {}", names_text(profile.unused), profile.unused.size() == 1 ? "it" : "them"));
  line("planned in", fmt::format("{} (measured)", time_text(plan.solve_seconds)));
  if (task.objective == StageObjective::kCompute && plan.stages.size() > 1) {
    const auto worst = std::max_element(plan.stages.begin(), plan.stages.end(),
                                        [](const Stage& a, const Stage& b) { return transfers_of(a) < transfers_of(b); });
    if (transfers_of(*worst) > plan.max_stage_seconds)
      line("beware", fmt::format("the transfers of {} take {}, longer than any stage computes; --objective max or sum counts them",
                                 stage_text(*worst), time_text(transfers_of(*worst))));
  }

  const bool replicas = task.replicate;
  std::vector<std::string> head{"device", "first", "last", "nodes", "compute"};
  if (replicas) head.emplace_back("synchronise");
  head.insert(head.end(), {"in", "out", "stage", "of slowest", "memory"});
  TextTable table(std::move(head), 3);
  for (const Stage& stage : plan.stages) {
    std::vector<std::string> row{device_text(stage), stage.first, stage.last, fmt::format("{}", stage.nodes.size()),
                                 time_or_dash(stage.compute_seconds)};
    if (replicas) row.push_back(time_or_dash(stage.synchronise_seconds));
    row.insert(row.end(), {time_or_dash(stage.in_seconds), time_or_dash(stage.out_seconds), time_or_dash(stage.seconds),
                           plan.max_stage_seconds > 0 ? tenths_of_percent(stage.seconds / plan.max_stage_seconds) : std::string("-"),
                           size_text(stage.memory_bytes)});
    table.add(std::move(row));
  }
  text += "\n" + table.text();
  if (std::any_of(plan.stages.begin(), plan.stages.end(), takes_a_branch_alone))
    text += "\nSome stages hold one branch of the graph without the other: --json lists the nodes of each.\n";
  return text;
}

// Whole numbers stay whole where a double is exact.
Json whole(double value) {
  return std::abs(value) < 9e15 && value == std::floor(value) ? Json(static_cast<int64_t>(value)) : number_or_null(value);
}

Json stages_json(const Profile& profile, const StagePartition& plan) {
  Json stages = Json::array();
  for (const Stage& stage : plan.stages) {
    Json nodes = Json::array();
    for (const int64_t node : stage.nodes) nodes.push_back(item(profile.nodes, node).name);
    stages.push_back({{"first", stage.first},
                      {"last", stage.last},
                      {"seconds", number_or_null(stage.seconds)},
                      {"device", stage.device},
                      {"replicas", stage.replicas},
                      {"compute_seconds", number_or_null(stage.compute_seconds)},
                      {"synchronise_seconds", number_or_null(stage.synchronise_seconds)},
                      {"in_seconds", number_or_null(stage.in_seconds)},
                      {"out_seconds", number_or_null(stage.out_seconds)},
                      {"in_bytes", whole(stage.in_bytes)},
                      {"out_bytes", whole(stage.out_bytes)},
                      {"parameter_bytes", whole(stage.parameter_bytes)},
                      {"activation_bytes", whole(stage.activation_bytes)},
                      {"in_flight", stage.in_flight},
                      {"memory_bytes", whole(stage.memory_bytes)},
                      {"nodes", std::move(nodes)}});
  }
  return stages;
}

Json devices_json(const StageTask& task, const StagePartition& plan) {
  Json devices = Json::array();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (int64_t device = stage.device; device < stage.device + stage.replicas; ++device)
      devices.push_back(
          {{"index", device},
           {"name", fmt::format("device{}", device)},
           {"stage", s},
           {"speed", task.speeds.empty() ? 1.0 : item(task.speeds, device)},
           {"seconds", number_or_null(stage.seconds)},
           {"idle_fraction",
            plan.max_stage_seconds > 0 ? number_or_null(std::max(0.0, 1 - stage.compute_seconds / plan.max_stage_seconds)) : Json(0.0)},
           {"memory_bytes", whole(stage.memory_bytes)},
           {"memory_fraction", task.memory_bytes > 0 ? number_or_null(stage.memory_bytes / task.memory_bytes) : Json(nullptr)}});
  }
  return devices;
}

Json links_json(const StagePartition& plan) {
  Json links = Json::array();
  for (size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    const int64_t from = plan.stages[s].device + plan.stages[s].replicas - 1;
    const double bits = 8 * plan.stages[s].out_bytes;
    links.push_back({{"from", from},
                     {"to", from + 1},
                     {"forward_bits", whole(bits)},
                     {"backward_bits", whole(bits)},
                     {"seconds", number_or_null(plan.stages[s].out_seconds)},
                     {"gbps", plan.max_stage_seconds > 0 ? number_or_null(1e-9 * bits / plan.max_stage_seconds) : Json(nullptr)}});
  }
  return links;
}

std::string json_of(const Profile& profile, const StageTask& task, const StagePartition& plan) {
  Json json;
  json["model"] = profile.origin;
  json["strategy"] = "profile";
  json["feasible"] = plan.feasible;
  json["reason"] = plan.reason.text;
  json["objective"] = name_of(task.objective);
  json["exactly"] = task.exactly;
  json["replicate"] = task.replicate;
  json["link_gbps"] = task.link_gbps[0];
  json["memory_rule"] = name_of(task.memory_rule);
  if (plan.feasible) {
    json["max_stage_seconds"] = number_or_null(plan.max_stage_seconds);
    json["micro_batches_per_second"] = plan.max_stage_seconds > 0 ? number_or_null(1 / plan.max_stage_seconds) : Json(nullptr);
    json["bottleneck"] = {{"kind", plan.bottleneck.kind}, {"index", plan.bottleneck.index}};
    json["idle_fraction"] = number_or_null(idle_fraction(plan));
    json["lower_bound_seconds"] = number_or_null(plan.lower_bound_seconds);
    json["optimality_gap"] = number_or_null(plan.optimality_gap);
  } else {
    json["shortage"] = {{"device", plan.reason.device},
                        {"resource", plan.reason.resource},
                        {"missing", whole(plan.reason.missing)},
                        {"smallest_count", plan.reason.smallest_count}};
  }
  json["cuts"] = word_of(plan.cuts);
  json["cuts_searched"] = plan.cuts_searched;
  json["solve_seconds"] = number_or_null(plan.solve_seconds);
  json["stages"] = stages_json(profile, plan);
  json["devices"] = devices_json(task, plan);
  json["links"] = links_json(plan);
  json["left_out"] = {{"inputs", profile.inputs}, {"unused", profile.unused}};
  json["origin"] = {{"compute_seconds", "measured"}, {"transfers", "modelled"}, {"memory", "modelled"}, {"solve_seconds", "measured"}};
  // A file's name need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

int plan_from_profile(const ProfilePlanFlags& flags, bool json) {
  const StageTask task = task_of(flags);
  const Profile profile = load_profile(flags.profile);
  const StagePartition plan = partition_stages(profile, task);
  if (json) fmt::print("{}", json_of(profile, task, plan));
  if (!plan.feasible) {
    const bool too_few_nodes = plan.reason.resource == "nodes";
    fmt::print(stderr, "millrace: infeasible: {}{}\n", plan.reason.text, too_few_nodes ? "; --at-most leaves the others unused" : "");
    return exit_status_of(ErrorCode::kInfeasible);
  }
  if (!json) fmt::print("{}", table_of(profile, task, plan, flags.link_gbps.has_value()));
  return 0;
}

}  // namespace millrace
