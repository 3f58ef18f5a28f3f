#include "partitioner/baseline/explain_kind.h"

#include <fmt/format.h>

#include <algorithm>

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
      : task_(task), plan_(plan), units_(units_of(*task.graph)), costs_(task, units_, request_of(task, plan)) {}

  std::vector<std::string> in_words() {
    std::vector<std::string> sentences;
    for (size_t unit = 0; unit < units_.size(); ++unit)
      if (units_[unit].part == Part::kProducts) sentences.push_back(of_layer(unit));
    return sentences;
  }

 private:
  static PlanRequest request_of(const PlanTask& task, const Plan& plan) {
    PlanRequest request{.cluster = task.cluster,
                        .alignment = plan.alignment,
                        .mini_batch = plan.mini_batch,
                        .micro_batch = plan.micro_batch,
                        .optimizer = plan.optimizer,
                        .arithmetic = plan.arithmetic};
    request.windows = plan.windows;
    return request;
  }

  std::string named(int64_t device) const {
    return fmt::format("device {} ({})", device, task_.cluster.devices[static_cast<size_t>(device)].device);
  }
  double seconds(int64_t device, size_t begin, size_t end) {
    Amounts taken{};
    return costs_.segment_seconds(static_cast<size_t>(device), begin, end, taken);
  }

  std::string of_layer(size_t unit) {
    const Graph& graph = *task_.graph;
    const std::string& layer = graph.node(graph.groups()[static_cast<size_t>(units_[unit].group)].head).layer.name;
    const Group& group = *std::ranges::find(plan_.groups, layer, &Group::layer);
    const auto device_of = [&](int64_t shard) { return plan_.shards[static_cast<size_t>(shard)].device; };
    const int64_t first = device_of(group.shards.front()), last = device_of(group.shards.back());
    if (!divided_by_kind(graph, group))
      return fmt::format("layer \"{}\" is whole on {}, {} per {}{}", layer, named(first), duration(seconds(first, unit, unit + 2)),
                         sample_word(graph).one, on_a_board(unit));
    const int64_t steps = device_of(group.shards[first_steps_of(plan_, group)]);
    const double whole = seconds(first, unit, unit + 2);
    const std::string otherwise = whole == kNever ? fmt::format("whole it does not fit {}", named(first))
                                                  : fmt::format("whole it would take {} {}", named(first), duration(whole));
    if (shares_steps(plan_, graph, group))
      return fmt::format("layer \"{}\" is divided: devices {} to {} share its steps; {}", layer, steps, last, otherwise);
    return fmt::format("layer \"{}\" is divided: without its steps it takes {} {} per {}, and the steps take {} {}; {}", layer,
                       named(first), duration(seconds(first, unit, unit + 1)), sample_word(graph).one, named(last),
                       duration(seconds(last, unit + 1, unit + 2)), otherwise);
  }

  // What its steps would take there.
  std::string on_a_board(size_t unit) {
    for (size_t d = 0; d < task_.models.size(); ++d) {
      if (!costs_.is_board(d)) continue;
      const double alone = seconds(static_cast<int64_t>(d), unit + 1, unit + 2);
      return alone == kNever ? fmt::format("; its steps do not fit {}", named(static_cast<int64_t>(d)))
                             : fmt::format("; its steps alone would take {} {}", named(static_cast<int64_t>(d)), duration(alone));
    }
    return "";
  }

  const PlanTask& task_;
  const Plan& plan_;
  const std::vector<Unit> units_;
  KindCosts costs_;
};

}  // namespace
}  // namespace by_kind

std::vector<std::string> divisions_in_words(const PlanTask& task, const Plan& plan) {
  if (task.options.strategy != Strategy::kKind) return {};
  return by_kind::Divisions(task, plan).in_words();
}

}  // namespace millrace
