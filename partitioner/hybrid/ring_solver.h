// One task, solved: cuts and homes of the fastest plan found, and the bound it is measured against.
//
//   const RingSolver solver(task, micro_batch);
//   RingSolution solution = solver.solve();
//   if (!solution.feasible) explain(solution.shortage);
//
// Three exact steps and one that is not:
//   1. the least period T for which cuts exist when parameters may live anywhere (cut_search.h): the lower bound, by a bisection that takes
//      the same steps whatever is known, and asks only what a few looks around T have left open
//   2. with links held to T, the least period of the devices, so that a plan limited by a link is still balanced
//   3. given the cuts, the homes with the smallest memory peak whose traffic the links carry within T (parameter_homes.h)
// When 3 fails, cuts and homes are searched together (joint_search.h), by bisection over the period: exact where a model's places are
// few (where weights differ in storage per element, all choices are gone through then: exhaustive_search.h), elsewhere between a period
// that works and one that is shown not to. The distance is the gap, a part of the answer. A ring is called infeasible when no period at all
// works, which is shown the same way. Borrows the task. Immutable, thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/cuts.h"
#include "partitioner/hybrid/cut_loads.h"
#include "partitioner/hybrid/cut_search.h"
#include "partitioner/hybrid/exhaustive_search.h"
#include "partitioner/hybrid/joint_search.h"
#include "partitioner/hybrid/parameter_homes.h"
#include "partitioner/hybrid/segment_load.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// What stands in the way of any plan.
struct Shortage {
  enum class Kind { kNone, kTooManyDevices, kOneDeviceTooSmall, kTogetherTooSmall, kOrders, kNotDecided } kind = Kind::kNone;
  int64_t device = -1;
  std::string layer;
  std::string resource;
  double missing = 0;
  bool one_part = false;  // the device cannot even take the smallest part of `layer`
  bool whole = false;     // which is all of it, where layers are not divided
  std::string refusal;    // why the device has no engine for it (CostModel::refusal), where that is what it lacks
};

struct RingSolution {
  bool feasible = false;
  Shortage shortage;
  std::vector<int64_t> cuts;  // positions on the chain
  double compute_period = 0;  // engines are sized for it
  double period = 0;          // of devices and links
  double lower_bound = 0;     // no plan of this model has a shorter period
  bool least_room = false;    // boards stream all they may, to have room for the weights of others
  Homes homes;
};

// Seconds per sample, thirty years: what is longer is no answer to anything.
inline constexpr double kLongestPeriod = 1e9;

enum class Effort {
  kThorough,
  kQuick,  // whether there is a plan, and about how fast; not the best of those where cuts and homes depend on each other
};

class RingSolver {
 public:
  // Fails with kUsage on orders (pins, cuts, batches) that make no sense for the model or the ring.
  RingSolver(const PlanTask& task, int64_t micro_batch);
  RingSolver(const RingSolver&) = delete;
  RingSolver& operator=(const RingSolver&) = delete;

  // `found`: told the shortest period that cuts keep, if there is one, before they are looked for; homes may ask for a longer one.
  RingSolution solve(Effort effort = Effort::kThorough, const std::function<void(double period)>& found = {}) const;
  // Whether engines are counted in several sizes, where memory is short.
  bool counts_engines() const;
  // The longest period, up to this one, that cuts are shown not to keep, whatever homes are; to some 0.01%. `known`: one of those.
  double longest_ruled_out(double period, double known = 0) const;
  // Any cuts and homes that keep a period, if some are found at once.
  RingSolution solve_within(double period) const;
  // Shows, without solving it all, that no cuts and homes keep the period. False proves nothing.
  bool rules_out(double period, Effort effort = Effort::kThorough) const;

  const Chain& chain() const { return chain_; }
  const SegmentLoads& segments() const { return segments_; }
  const std::vector<double>& lifetimes() const { return lifetimes_; }
  // Per device, in micro-batches; where every device streams rows they cost no memory, and follow from the period (streaming_windows).
  const std::vector<int64_t>& windows() const { return windows_; }
  int64_t micro_batch() const { return micro_batch_; }

 private:
  struct Bracket {
    double infeasible = 0;
    double feasible = 0;
  };
  Bracket likely_bracket(const Storage& storage) const;
  std::optional<Bracket> least_period(const Storage& storage, double tolerance) const;
  double least_compute_period(double link_period, const Storage& storage) const;
  void add_stored(int64_t device, int64_t from, int64_t to, double period, bool least_room, HomeProblem& problem) const;
  HomeProblem home_problem(const std::vector<int64_t>& cuts, double period, bool least_room) const;
  double link_period(const std::vector<int64_t>& cuts, const Homes& homes) const;
  std::optional<Homes> best_homes(const HomeProblem& problem, const std::vector<int64_t>& cuts, double period) const;
  std::optional<RingSolution> solution_at(const Periods& periods, const Storage& storage) const;
  std::optional<RingSolution> solution_of(std::vector<int64_t> cuts, const Periods& periods) const;
  std::optional<RingSolution> solution_as_kept(const ExhaustiveAnswer& answer, const Periods& periods) const;
  class JointBisection;
  Storage anywhere() const;
  // A bisection has come so close: its part of the search is [begin, begin + 0.5).
  void tell(double begin, double distance, double tolerance) const;
  Shortage shortage() const;
  Shortage shortage_together(const std::vector<int64_t>& cuts, double period) const;

  const PlanTask* task_;
  int64_t micro_batch_;
  Chain chain_;
  std::vector<double> lifetimes_;
  std::vector<int64_t> windows_;
  SegmentLoads segments_;
  CutLoads cut_loads_;
  std::vector<Link> links_;
  CutSearch search_;
  HomeTraffic traffic_;
  JointSearch joint_;
  ExhaustiveSearch exhaustive_;
};

}  // namespace millrace
