#include "partitioner/study/study.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/index.h"
#include "partitioner/choice/planner.h"

namespace millrace {
namespace {

constexpr size_t kMostPoints = 4096;
constexpr double kFreeGbps = 1e6;

LinkEntry free_link(const StudyTask& task) { return {kFreeGbps, kFreeGbps, 0, task.link.latency_us}; }

bool keeps(const PlanSummary& summary, const LinkEntry& link) {
  return std::all_of(summary.links.begin(), summary.links.end(), [&](const LinkFigures& figures) {
    const double forward = 1e-9 * figures.forward_bits_per_image * summary.images_per_second;
    const double backward = 1e-9 * figures.backward_bits_per_image * summary.images_per_second;
    return forward <= link.forward_gbps && backward <= link.backward_gbps &&
           (link.shared_gbps <= 0 || forward + backward <= link.shared_gbps);
  });
}

// The rate at which the fullest link is full, if every image moves what the plan moves.
double roof_of(const PlanSummary& summary, const LinkEntry& link) {
  double roof = std::numeric_limits<double>::infinity();
  for (const LinkFigures& figures : summary.links) {
    const double forward = 1e-9 * figures.forward_bits_per_image;
    const double backward = 1e-9 * figures.backward_bits_per_image;
    if (forward > 0) roof = std::min(roof, link.forward_gbps / forward);
    if (backward > 0) roof = std::min(roof, link.backward_gbps / backward);
    if (link.shared_gbps > 0 && forward + backward > 0) roof = std::min(roof, link.shared_gbps / (forward + backward));
  }
  return roof;
}

struct Pace {
  Outcome outcome;  // within the budget
  double full_speed = 0;
  double roof = 0;
};

Pace pace_of(const StudyTask& task, int64_t devices) {
  Pace pace;
  pace.outcome = make_plan(plan_task_of(task, devices, free_link(task)));
  if (!pace.outcome.feasible) return pace;
  pace.full_speed = pace.outcome.summary.images_per_second;
  if (pace.outcome.plan) pace.roof = roof_of(pace.outcome.summary, task.link);
  // The plans of rings overlap computing and sending; the others wait, so that averages over links tell nothing.
  if (pace.outcome.plan && keeps(pace.outcome.summary, task.link)) return pace;
  Outcome within = make_plan(plan_task_of(task, devices, task.link));
  within.solve_seconds += pace.outcome.solve_seconds;
  // Cuts that send less have a higher roof than those of full speed: without it the ring would pass what is said to bound it.
  if (within.feasible && within.plan && pace.roof > 0) pace.roof = std::max(pace.roof, roof_of(within.summary, task.link));
  pace.outcome = std::move(within);
  return pace;
}

StudyPoint point_of(const StudyTask& task, int64_t devices, const Pace& pace) {
  const Outcome& outcome = pace.outcome;
  const PlanSummary& summary = outcome.summary;
  StudyPoint point;
  point.devices = devices;
  point.feasible = outcome.feasible;
  point.reason = outcome.reason.text;
  point.solve_seconds = outcome.solve_seconds;
  if (!outcome.feasible) return point;
  point.images_per_second = summary.images_per_second;
  point.full_speed_images_per_second = pace.full_speed;
  point.link_roof_images_per_second = pace.roof;
  point.max_link_gbps = summary.max_link_gbps;
  point.max_link_gbps_both = summary.max_link_gbps_both;
  point.idle_fraction = summary.idle_fraction;
  point.hours_per_epoch = task.epoch_images > 0 ? summary.hours_per_epoch(task.epoch_images) : std::numeric_limits<double>::infinity();
  point.gops_per_device = summary.gops_per_device;
  point.gops_per_joule = summary.gops_per_joule;
  for (const DeviceFigures& device : summary.devices) point.memory_fraction = std::max(point.memory_fraction, device.memory_fraction);
  point.in_flight_samples = summary.in_flight_samples;
  point.flop_utilisation = summary.flop_utilisation;
  point.storage_bits = summary.storage_bits;
  point.communication_bits = summary.communication_bits;
  point.communication_gbps = summary.communication_gbps;
  point.bottleneck = summary.bottleneck;
  return point;
}

void add_devices(const PlanSummary& summary, StudyPoint& point) {
  for (const DeviceFigures& device : summary.devices) {
    if (device.dsp_capacity > 0) point.device_dsp.push_back(device.dsp / device.dsp_capacity);
    point.device_memory.push_back(device.memory_fraction);
    point.device_busy.push_back(1 - device.idle_fraction);
  }
}

StudyPoint whole_point(const StudyTask& task, int64_t devices) {
  const Pace pace = pace_of(task, devices);
  StudyPoint point = point_of(task, devices, pace);
  if (!point.feasible) return point;
  add_devices(pace.outcome.summary, point);
  if (!task.simulate || !pace.outcome.plan) return point;
  // With the links that there are: the plan of the devices alone says others.
  const Outcome outcome = make_plan(plan_task_of(task, devices, task.link));
  if (outcome.plan) point.simulated = task.simulate(*outcome.plan);
  return point;
}

int64_t integer_of(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    fail(ErrorCode::kUsage, "\"{}\": \"{}\" is not a whole number; write FROM:TO:STEP, one number, or a list with commas", whole, text);
  if (error != std::errc{} || value < 1 || value > kMostStudyDevices)
    fail(ErrorCode::kUsage, "\"{}\": {} devices; a ring has from 1 to {}", whole, text, kMostStudyDevices);
  return value;
}

void add_counts(std::string_view part, std::string_view whole, std::set<int64_t>& counts) {
  std::vector<int64_t> numbers;
  while (true) {
    const size_t colon = part.find(':');
    numbers.push_back(integer_of(part.substr(0, colon), whole));
    if (colon == std::string_view::npos) break;
    part = part.substr(colon + 1);
  }
  if (numbers.size() > 3) fail(ErrorCode::kUsage, "\"{}\": a range is FROM:TO or FROM:TO:STEP", whole);
  const int64_t to = numbers.size() > 1 ? numbers[1] : numbers[0];
  const int64_t step = numbers.size() > 2 ? numbers[2] : 1;
  if (to < numbers[0]) fail(ErrorCode::kUsage, "\"{}\": the range from {} to {} runs backwards", whole, numbers[0], to);
  for (int64_t count = numbers[0]; count <= to; count += step) counts.insert(count);
}

}  // namespace

std::vector<int64_t> parse_counts(std::string_view text) {
  std::set<int64_t> counts;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    add_counts(rest.substr(0, comma), text, counts);
    if (comma == std::string_view::npos) break;
    rest = rest.substr(comma + 1);
  }
  if (counts.size() > kMostPoints) fail(ErrorCode::kUsage, "\"{}\": {} points; {} at most", text, counts.size(), kMostPoints);
  return {counts.begin(), counts.end()};
}

PlanTask plan_task_of(const StudyTask& task, int64_t devices, const LinkEntry& link) {
  PlanTask plan;
  plan.graph = task.graph;
  plan.cluster = uniform_cluster(task.device, devices, link);
  plan.models.assign(to_size(devices), task.model);
  plan.options = task.options;
  plan.mini_batch_time = task.mini_batch_time;
  plan.waiting_words = task.waiting_words;
  plan.finds_blocks = task.finds_blocks;
  return plan;
}

StudyPoint study_point(const StudyTask& task, int64_t devices) { return whole_point(task, devices); }

StudyPoint study_probe(const StudyTask& task, int64_t devices) { return point_of(task, devices, pace_of(task, devices)); }

}  // namespace millrace
