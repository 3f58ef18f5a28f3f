// Sweeps: what a ring of so many of one device would do, as a function of how many.
//
//   StudyTask task{.graph = &graph, .device = "vc709", .model = &model, .link = {150, 150, 150, 0.5}};
//   task.counts = parse_counts("5:100:5");
//   const Study study = run_study(task, [&](int64_t done, int64_t of) { ... });
//   study.linear_up_to;                                  // 58: with one device more, links slow the ring down
//
// Every point is a plan. Where links bind, two: one with free links says how fast the devices alone would be, one with the
// budget how fast the ring is.
// linear_up_to follows FPDeep's roofline: the first number of devices, of all between the smallest and the largest count,
// whose demand at the devices' full speed exceeds the links' budget, minus one. The planner is exact, so demand exceeds the
// budget when the best plan within it is slower than the devices alone, by more than kLinearTolerance: the demand is a
// staircase, and one of its steps may cost next to nothing. Infeasible rings are passed over: the answer is the largest
// feasible number below the first that is slowed, or of all when none is. 0: there is no such number.
// Everything is modelled, but for what task.simulate adds. Threads plan several rings at once, ranks share the points out, and
// a journal keeps them (study_work.h); the result does not depend on any of that. The task's graph and model must outlive it.
//
//   const std::vector<Study> studies = run_sweep({task_of(hybrid), task_of(layer)}, work, progress);     // curve by curve
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/planning/planning.h"
#include "partitioner/study/study_work.h"

namespace millrace {

inline constexpr double kLinearTolerance = 1e-3;
inline constexpr int64_t kMostStudyDevices = 4096;
// ImageNet's training set of 2012.
inline constexpr double kImageNetImages = 1281167;

// What a simulation of the point's plan adds (node/simulate); the study itself does not simulate.
struct SimulatedFigures {
  double images_per_second = 0;
  double idle_fraction = 0;
  int64_t in_flight_samples = 0;
  double max_link_gbps = 0;
};

struct StudyTask {
  const Graph* graph = nullptr;
  std::string device;  // the catalogue's short name
  const CostModel* model = nullptr;
  LinkEntry link{kDefaultLinkGbps, kDefaultLinkGbps, 0, kDefaultLatencyUs};  // between any two neighbours
  PlanOptions options;
  // For full accounting, as PlanTask has them; called by several threads.
  std::function<MiniBatchTime(const Plan&, const Graph&)> mini_batch_time = {};
  std::function<std::vector<WaitingWords>(const Plan&, const Graph&)> waiting_words = {};
  std::function<bool(const Plan&, const Graph&, bool thoroughly)> finds_blocks = {};
  std::vector<int64_t> counts;            // ascending
  double epoch_images = kImageNetImages;  // 0: no epoch is known
  int threads = 0;                        // 0: as many as the machine has, within reason
  // Of a point's plan; called by several threads. None: closed forms alone.
  std::function<SimulatedFigures(const Plan&)> simulate;
};

struct StudyPoint {
  int64_t devices = 0;
  bool feasible = false;
  std::string reason;  // when it is not
  double images_per_second = 0;
  double full_speed_images_per_second = 0;  // with free links
  // What the links' budget carries of the traffic that full speed makes: FPDeep's roof; or of that of the cuts that were chosen, where
  // they send less. Infinite where nothing is sent, 0 where the strategy's time is not the slower of computing and sending.
  double link_roof_images_per_second = 0;
  double max_link_gbps = 0;
  double max_link_gbps_both = 0;
  double idle_fraction = 0;
  double hours_per_epoch = 0;
  double gops_per_device = 0;
  double gops_per_joule = 0;
  double memory_fraction = 0;  // of the fullest device
  int64_t in_flight_samples = 0;
  // FPDeep's Fig 5.
  double flop_utilisation = 0;  // 0: some device's peak is not known
  double storage_bits = 0;
  double communication_bits = 0;
  double communication_gbps = 0;
  Bottleneck bottleneck;
  // By device, of its engines' multipliers, of its memory, of its time at work: FPDeep's Fig 14. Not of the points between those asked for.
  std::vector<double> device_dsp, device_memory, device_busy;
  double solve_seconds = 0;
  std::optional<SimulatedFigures> simulated;
};

struct Study {
  std::vector<StudyPoint> points;  // as counts
  int64_t linear_up_to = 0;
  int64_t first_slowed = 0;  // by its links; 0: none was found
};

using StudyProgress = std::function<void(int64_t done, int64_t of)>;

// "5:100:5" (from, to, step; the step may be left out), "8", and lists of these with commas. Ascending, each once. Fails with
// kUsage on anything else, on counts below 1 or above 4096, and on more than 4096 of them.
std::vector<int64_t> parse_counts(std::string_view text);

// The task of one point, and its plan within the budget.
PlanTask plan_task_of(const StudyTask& task, int64_t devices, const LinkEntry& link);
StudyPoint study_point(const StudyTask& task, int64_t devices);
// What linear_up_to needs of it: no devices one by one, no simulation.
StudyPoint study_probe(const StudyTask& task, int64_t devices);

// `progress` is called now and then, never by two threads at once.
Study run_study(const StudyTask& task, const StudyProgress& progress = {});
// Sweeps that share `work` are told apart by `name`.
std::vector<Study> run_sweep(const std::vector<StudyTask>& tasks, StudyWork& work, const StudyProgress& progress = {},
                             const std::string& name = {});

}  // namespace millrace
