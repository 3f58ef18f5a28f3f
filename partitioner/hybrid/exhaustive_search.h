// Cuts and homes of a small ring whose weights differ in storage per element: every choice, so that the answer is always yes or no.
//
//   const ExhaustiveSearch search(segments, cut_loads, links, cut_search, traffic, allow_empty, home_problem_of_device);
//   std::optional<ExhaustiveAnswer> answer = search.at(periods);
//   if (answer && answer->possible) use(answer->cuts, answer->kept);
//
// With one size of element the least excess that goes upstream is a number, and JointSearch is exact. With several it is a choice: a device
// that keeps a large element spares the link one crossing, one that keeps two small ones spares it two, and the devices before it are left
// with more to store or with less. Here the walk from the last device to the first keeps, for every place, all combinations of counts of
// which none is less than another in every size. Nothing where the ring is too large for that (more units, devices or combinations than
// anyone waits for) or where boards may place weights as they like. Borrows all it is made of. Immutable, thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "partitioner/hybrid/cut_loads.h"
#include "partitioner/hybrid/cut_search.h"
#include "partitioner/hybrid/joint_search.h"
#include "partitioner/hybrid/parameter_homes.h"
#include "partitioner/hybrid/segment_load.h"

namespace millrace {

struct ExhaustiveAnswer {
  bool possible = false;
  std::vector<int64_t> cuts;
  std::vector<KeptWeights> kept;  // by device
};

class ExhaustiveSearch {
 public:
  // What a device stores of a stretch: itself, and the weights that it uses.
  using Stored = std::function<void(int64_t device, int64_t from, int64_t to, double period, HomeProblem& problem)>;

  ExhaustiveSearch(const SegmentLoads& segments, const CutLoads& cuts, std::span<const Link> links, const CutSearch& search,
                   HomeTraffic traffic, bool allow_empty, Stored stored);

  std::optional<ExhaustiveAnswer> at(const Periods& periods) const;

 private:
  struct Label;
  struct Walk;
  bool is_small() const;
  bool pass_device(int64_t device, const Periods& periods, Walk& walk) const;
  bool carries(int64_t link, int64_t position, const Label& label, double period) const;

  const SegmentLoads* segments_;
  const CutLoads* cuts_;
  std::span<const Link> links_;
  const CutSearch* search_;
  HomeTraffic traffic_;
  bool allow_empty_;
  Stored stored_;
};

}  // namespace millrace
