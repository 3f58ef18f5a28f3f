#include "partitioner/baseline/explain_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/plan/assemble.h"
#include "core/plan/parts.h"
#include "partitioner/baseline/kind_costs.h"
#include "partitioner/baseline/kind_units.h"
#include "partitioner/planning/sample_word.h"

namespace millrace {
namespace by_kind {
namespace {

class Divisions {
 public:
  Divisions(const PlanTask& task, const Plan& plan)
      : plan_(plan),
        places_(working(plan)),
        task_(of_places(task, places_)),
        units_(units_of(*task.graph)),
        costs_(task_, units_, request_of(task_, plan, places_)),
        whole_(task),
        boards_(whole_, units_, request_of(whole_, plan, every(plan))) {}

  std::vector<std::string> in_words() {
    std::vector<std::string> sentences;
    for (size_t unit = 0; unit < units_.size(); ++unit)
      if (units_[unit].part == Part::kProducts) sentences.push_back(of_layer(unit));
    return sentences;
  }

 private:
  // Neighbours are those that have work: a device without any only passes on.
  static std::vector<int64_t> working(const Plan& plan) {
    std::set<int64_t> found;
    for (const Shard& shard : plan.shards) found.insert(shard.device);
    return {found.begin(), found.end()};
  }
  static std::vector<int64_t> every(const Plan& plan) {
    std::vector<int64_t> all(to_size(plan.devices()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  static PlanTask of_places(const PlanTask& task, const std::vector<int64_t>& places) {
    PlanTask smaller = task;
    smaller.models.clear();
    smaller.cluster.devices.clear();
    for (const int64_t place : places) {
      smaller.models.push_back(item(task.models, place));
      smaller.cluster.devices.push_back(item(task.cluster.devices, place));
    }
    return smaller;
  }

  static PlanRequest request_of(const PlanTask& task, const Plan& plan, const std::vector<int64_t>& places) {
    PlanRequest request{.cluster = task.cluster,
                        .alignment = plan.alignment,
                        .mini_batch = plan.mini_batch,
                        .micro_batch = plan.micro_batch,
                        .optimizer = plan.optimizer,
                        .arithmetic = plan.arithmetic};
    for (const int64_t place : places) request.windows.push_back(item(plan.windows, place));
    return request;
  }

  std::string named(int64_t device) const {
    return fmt::format("device {} ({})", item(places_, device), item(task_.cluster.devices, device).device);
  }
  double seconds(int64_t device, size_t begin, size_t end) {
    Amounts taken{};
    return costs_.segment_seconds(to_size(device), begin, end, taken);
  }

  std::string of_layer(size_t unit) {
    const Graph& graph = *task_.graph;
    const std::string& layer = graph.node(fast_item(graph.groups(), units_[unit].group).head).layer.name;
    const Group& group = *std::ranges::find(plan_.groups, layer, &Group::layer);
    const auto device_of = [&](int64_t shard) {
      return std::ranges::lower_bound(places_, item(plan_.shards, shard).device) - places_.begin();
    };
    const size_t makers = makers_of(plan_, group);
    const bool apart = makers < group.shards.size();
    const int64_t first = device_of(group.shards.front()), last = device_of(group.shards[makers - 1]);
    if (!divided_by_kind(graph, group))
      return fmt::format("layer \"{}\" is whole on {}, {} per {}{}", layer, named(first), duration(seconds(first, unit, end_of(unit))),
                         sample_word(graph).one, on_a_board(unit));
    const int64_t steps = device_of(group.shards[first_steps_of(plan_, group)]);
    const double whole = seconds(first, unit, end_of(unit));
    const std::string behind = apart ? fmt::format(", what follows them is on {}", named(device_of(group.shards.back()))) : "";
    const std::string otherwise = whole == kNever ? fmt::format("whole it does not fit {}", named(first))
                                                  : fmt::format("whole it would take {} {}", named(first), duration(whole));
    if (shares_steps(plan_, graph, group))
      return fmt::format("layer \"{}\" is divided: devices {} to {} share its steps{}; {}", layer, item(places_, steps),
                         item(places_, last), behind, otherwise);
    return fmt::format("layer \"{}\" is divided: without its steps it takes {} {} per {}, and the steps take {} {}{}; {}", layer,
                       named(first), duration(seconds(first, unit, unit + 1)), sample_word(graph).one, named(last),
                       duration(seconds(last, unit + 1, apart ? unit + 2 : end_of(unit))), behind, otherwise);
  }

  // Behind the layer whose products are that unit.
  size_t end_of(size_t unit) const {
    const size_t end = unit + 2;
    return end < units_.size() && units_[end].part == Part::kAfter ? end + 1 : end;
  }

  // What its steps would take on the first board, with work or without.
  std::string on_a_board(size_t unit) {
    for (size_t d = 0; d < whole_.models.size(); ++d) {
      if (!boards_.is_board(d)) continue;
      const std::string board = fmt::format("device {} ({})", d, whole_.cluster.devices[d].device);
      Amounts taken{};
      const double alone = boards_.segment_seconds(d, unit + 1, end_of(unit), taken);
      return alone == kNever ? fmt::format("; its steps do not fit {}", board)
                             : fmt::format("; its steps alone would take {} {}", board, duration(alone));
    }
    return "";
  }

  const Plan& plan_;
  const std::vector<int64_t> places_;  // by the task's device, the plan's
  const PlanTask task_;
  const std::vector<Unit> units_;
  KindCosts costs_;
  const PlanTask& whole_;
  KindCosts boards_;
};

}  // namespace
}  // namespace by_kind

std::vector<std::string> divisions_in_words(const PlanTask& task, const Plan& plan) {
  if (task.options.strategy != Strategy::kKind) return {};
  return by_kind::Divisions(task, plan).in_words();
}

}  // namespace millrace
