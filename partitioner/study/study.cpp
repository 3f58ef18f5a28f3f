#include "partitioner/study/study.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <mutex>
#include <set>

#include "core/base/error.h"
#include "partitioner/planner/planner.h"
#include "partitioner/study/parallel.h"

namespace millrace {
namespace {

constexpr int64_t kMostDevices = 4096;
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

struct Pace {
  Outcome outcome;  // within the budget
  double full_speed = 0;
};

Pace pace_of(const StudyTask& task, int64_t devices) {
  Pace pace;
  pace.outcome = make_plan(plan_task_of(task, devices, free_link(task)));
  if (!pace.outcome.feasible) return pace;
  pace.full_speed = pace.outcome.summary.images_per_second;
  // The plans of rings overlap computing and sending; the others wait, so that averages over links tell nothing.
  if (pace.outcome.plan && keeps(pace.outcome.summary, task.link)) return pace;
  Outcome within = make_plan(plan_task_of(task, devices, task.link));
  within.solve_seconds += pace.outcome.solve_seconds;
  pace.outcome = std::move(within);
  return pace;
}

bool slowed(const Pace& pace) {
  return pace.outcome.feasible && pace.outcome.summary.images_per_second < pace.full_speed * (1 - kLinearTolerance);
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
  point.max_link_gbps = summary.max_link_gbps;
  point.max_link_gbps_both = summary.max_link_gbps_both;
  point.idle_fraction = summary.idle_fraction;
  point.hours_per_epoch = summary.hours_per_epoch(task.epoch_images);
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

// Which rings their links slow down, told by several threads.
class Verdicts {
 public:
  void add(int64_t devices, const Pace& pace) {
    if (!pace.outcome.feasible) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (slowed(pace)) {
      first_slowed_ = std::min(first_slowed_, devices);
    } else {
      linear_.insert(devices);
    }
  }
  // Whether this number can still change the answer.
  bool matters(int64_t devices) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return devices < first_slowed_;
  }
  void tell(Study& study) const {
    const auto above = linear_.lower_bound(first_slowed_);
    study.linear_up_to = above == linear_.begin() ? 0 : *std::prev(above);
    study.first_slowed = first_slowed_ == kNever ? 0 : first_slowed_;
  }

 private:
  static constexpr int64_t kNever = kMostDevices + 1;

  mutable std::mutex mutex_;
  int64_t first_slowed_ = kNever;
  std::set<int64_t> linear_;
};

void check(const StudyTask& task) {
  if (task.counts.empty()) fail(ErrorCode::kUsage, "a study needs a number of devices at least");
  if (!(task.epoch_images > 0)) fail(ErrorCode::kUsage, "an epoch of {} images has no length", task.epoch_images);
}

int threads_of(const StudyTask& task) { return task.threads > 0 ? task.threads : default_threads(); }

int64_t integer_of(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size())
    fail(ErrorCode::kUsage, "\"{}\": \"{}\" is not a whole number; write FROM:TO:STEP, one number, or a list with commas", whole, text);
  if (error != std::errc{} || value < 1 || value > kMostDevices)
    fail(ErrorCode::kUsage, "\"{}\": {} devices; a ring has from 1 to {}", whole, text, kMostDevices);
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
  plan.models.assign(static_cast<size_t>(devices), task.model);
  plan.options = task.options;
  return plan;
}

StudyPoint study_point(const StudyTask& task, int64_t devices) { return point_of(task, devices, pace_of(task, devices)); }

Study run_study(const StudyTask& task, const StudyProgress& progress) {
  check(task);
  const int64_t smallest = *std::min_element(task.counts.begin(), task.counts.end());
  const int64_t largest = *std::max_element(task.counts.begin(), task.counts.end());
  Study study;
  study.points.resize(task.counts.size());
  Verdicts verdicts;
  std::mutex mutex;
  int64_t done = 0;
  const auto advance = [&] {
    const std::lock_guard<std::mutex> lock(mutex);
    if (progress) progress(++done, largest - smallest + 1);
  };
  for_each_in_parallel(task.counts.size(), threads_of(task), [&](size_t i) {
    const Pace pace = pace_of(task, task.counts[i]);
    study.points[i] = point_of(task, task.counts[i], pace);
    verdicts.add(task.counts[i], pace);
    advance();
  });
  // Then the numbers between them, which only linear_up_to needs, as long as no smaller one is known to be over.
  const std::set<int64_t> known(task.counts.begin(), task.counts.end());
  std::vector<int64_t> between;
  for (int64_t devices = smallest; devices < largest && verdicts.matters(devices); ++devices)
    if (!known.contains(devices)) between.push_back(devices);
  for_each_in_parallel(between.size(), threads_of(task), [&](size_t i) {
    if (verdicts.matters(between[i])) verdicts.add(between[i], pace_of(task, between[i]));
    advance();
  });
  verdicts.tell(study);
  if (progress) progress(largest - smallest + 1, largest - smallest + 1);
  return study;
}

}  // namespace millrace
