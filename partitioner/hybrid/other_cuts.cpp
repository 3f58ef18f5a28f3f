#include "partitioner/hybrid/other_cuts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace millrace {
namespace {

// Of the links' speed: so slow ones ask for the lightest cuts that there are.
constexpr double kSlowest = 1.0 / 65'536;

// Whether some layer lies on several devices.
bool divides(const RingAttempt& attempt) {
  const Chain& chain = attempt.solver.chain();
  return std::ranges::any_of(attempt.solution.cuts,
                             [&](int64_t cut) { return cut > 0 && cut < chain.end() && chain.begin_of(chain.group_at(cut)) != cut; });
}

// As if each link were a part as fast.
PlanTask with_links(PlanTask task, double part) {
  for (LinkEntry& link : task.cluster.links) {
    link.forward_gbps *= part;
    link.backward_gbps *= part;
    link.shared_gbps *= part;
  }
  return task;
}

double fullest_link(const Candidate& candidate) {
  double seconds = 0;
  for (const LinkFigures& link : candidate.summary.links) seconds = std::max(seconds, link.seconds_per_image);
  return seconds;
}

}  // namespace

std::vector<Candidate> other_cuts(const PlanTask& task, const std::shared_ptr<const RingAttempt>& best, double wanted) {
  std::vector<Candidate> others;
  std::set<std::vector<int64_t>> known{best->solution.cuts};
  const double bound = best->solution.lower_bound;
  const bool streams_some = std::ranges::any_of(task.models, [](const CostModel* model) { return model->dedicated_engines(); });
  const double slowest = streams_some || task.models.size() > kLongRing ? 1 : kSlowest;
  bool some_divide = false;
  const auto add_from = [&](const std::shared_ptr<const RingAttempt>& start, const PlanTask& searched) {
    Candidate last = candidate_of(task, start, bound);
    some_divide = some_divide || divides(*start);
    if (known.insert(start->solution.cuts).second) others.push_back(last);
    for (double part = 0.5; part >= slowest; part /= 2) {
      const double link = fullest_link(last);
      if (link <= 0) break;
      if (link <= part * last.summary.seconds_per_image) continue;  // so slow links ask for nothing else
      const std::shared_ptr<const RingAttempt> slower = best_attempt(with_links(searched, part), best->solver.micro_batch());
      if (!slower->solution.feasible) break;
      last = candidate_of(task, slower, bound);
      if (last.summary.images_per_second <= wanted) break;
      some_divide = some_divide || divides(*slower);
      if (known.insert(slower->solution.cuts).second) others.push_back(last);
    }
  };
  add_from(best, task);
  const bool ordered =
      std::ranges::any_of(task.options.cuts, [](const auto& cut) { return cut.second.channel > 0 || cut.second.outputs > 0; });
  if (task.options.strategy != Strategy::kHybrid || !some_divide || ordered) return others;
  PlanTask layers = task;
  layers.options.strategy = Strategy::kLayer;
  const std::shared_ptr<const RingAttempt> whole = best_attempt(layers, best->solver.micro_batch());
  if (whole->solution.feasible) add_from(whole, layers);
  return others;
}

}  // namespace millrace
