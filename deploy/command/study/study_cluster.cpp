// `millrace study --cluster`: mini-batches and strategies side by side on one cluster: where a pair of a GPU and a board stops paying.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/graph/norm_statistics.h"
#include "core/graph/zoo.h"
#include "core/plan/parts.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/pair_laps.h"
#include "deploy/session/ring_flags.h"
#include "partitioner/choice/choose.h"
#include "partitioner/planning/sample_word.h"

namespace millrace {
namespace {

struct ClusterPoint {
  int64_t mini_batch = 0;
  Strategy strategy = Strategy::kHybrid;
  std::string cluster;
  Outcome outcome;
  std::vector<std::string> divided;  // layers
  bool fastest = false;              // of its mini-batch
};

class ClusterStudy {
 public:
  explicit ClusterStudy(const StudyFlags& flags)
      : flags_(flags),
        graph_(
            with_choice(find_model(flags.model), flags.batch_norm.empty() ? BatchNormChoice::kAsModel : batch_norm_from(flags.batch_norm))),
        catalogue_(catalogue_with(flags.catalogues)) {}

  std::vector<ClusterPoint> points() {
    const std::vector<int64_t> batches = flags_.mini_batches.empty() ? std::vector<int64_t>{128} : flags_.mini_batches;
    const std::vector<std::string> strategies = flags_.strategies.empty() ? std::vector<std::string>{"hybrid"} : flags_.strategies;
    std::vector<ClusterPoint> made;
    for (const int64_t batch : batches) {
      const size_t first = made.size();
      for (const std::string& strategy : strategies) made.push_back(point(batch, strategy_from(strategy)));
      const auto slower = [](const ClusterPoint& a, const ClusterPoint& b) { return rate_of(a) < rate_of(b); };
      const auto best = std::max_element(made.begin() + static_cast<std::ptrdiff_t>(first), made.end(), slower);
      best->fastest = best->outcome.feasible;
    }
    return made;
  }
  const Graph& graph() const { return graph_; }

  static double rate_of(const ClusterPoint& point) { return point.outcome.feasible ? point.outcome.summary.images_per_second : 0; }

 private:
  ClusterPoint point(int64_t mini_batch, Strategy strategy) const {
    ClusterPoint made{.mini_batch = mini_batch, .strategy = strategy, .cluster = flags_.cluster, .outcome = {}, .divided = {}};
    const bool two = std::ranges::count(flags_.cluster, '+') == 1 && laps_of(flags_.cluster).second == 0;
    if (strategy == Strategy::kKind && two) made.cluster = with_laps(flags_.cluster, "auto", graph_);
    PlanTask task;
    task.graph = &graph_;
    task.cluster = cluster_from(made.cluster, catalogue_);
    std::optional<int64_t> bits;
    if (!flags_.bits.empty()) bits = flags_.bits.front();
    task.options.arithmetic = arithmetic_for(task.cluster, catalogue_, bits);
    const Accounting accounting = accounting_of(flags_.accounting, Accounting::kFull);
    const CostModels models = models_for(task.cluster, catalogue_, task.options.arithmetic, accounting, graph_);
    task.models = models.of_devices;
    const bool boards = std::ranges::any_of(models.of_devices, [](const CostModel* model) { return model->dedicated_engines(); });
    if (boards) task.options.optimizer.kind = OptimizerKind::kSgd;
    if (!flags_.optimizer.empty()) task.options.optimizer.kind = optimizer_from(flags_.optimizer);
    if (!flags_.alignments.empty()) task.options.alignment = alignment_from(flags_.alignments.front());
    task.options.strategy = strategy;
    task.options.mini_batch = mini_batch;
    if (flags_.micro_batch) task.options.micro_batch = *flags_.micro_batch;
    account(task, accounting);
    made.outcome = choose_plan(task, usual_freedom(task)).outcome;
    if (!made.outcome.plan) return made;
    for (const Group& group : made.outcome.plan->groups)
      if (divided_by_kind(graph_, group)) made.divided.push_back(group.layer);
    return made;
  }

  const StudyFlags& flags_;
  Graph graph_;
  Catalogue catalogue_;
};

}  // namespace

int run_study_cluster(const StudyFlags& flags) {
  for (const char* name : {"--device", "--count", "--topology", "--layers", "--simulate", "--out", "--link-gbps", "--link-gbps-both"})
    if (flags.has(name)) fail(ErrorCode::kUsage, "{} has no effect with --cluster, which names the ring; leave one of the two out", name);
  if (flags.alignments.size() > 1 || flags.bits.size() > 1)
    fail(ErrorCode::kUsage, "--cluster compares mini-batches and strategies; give one alignment and one width");
  if (flags.model.empty()) fail(ErrorCode::kUsage, "give --model, such as --model deepspeech2-lstm");
  ClusterStudy study(flags);
  const std::vector<ClusterPoint> points = study.points();
  const SampleWord sample = sample_word(study.graph());
  if (flags.json) {
    Json json{{"model", study.graph().model().name}, {"cluster", flags.cluster}, {"origin", "modelled"}, {"points", Json::array()}};
    for (const ClusterPoint& point : points)
      json["points"].push_back(
          {{"mini_batch", point.mini_batch},
           {"strategy", name_of(point.strategy)},
           {"cluster", point.cluster},
           {"feasible", point.outcome.feasible},
           {"reason", point.outcome.reason.text},
           {"images_per_second", point.outcome.feasible ? number_or_null(ClusterStudy::rate_of(point)) : Json(nullptr)},
           {"divided", point.divided},
           {"fastest", point.fastest}});
    write_out(json_text(json));
    return 0;
  }
  write_out(fmt::format("{} on {} (all figures modelled)\n\n", study.graph().model().name, flags.cluster));
  TextTable table({"strategy", "mini-batch", fmt::format("{}/s", sample.many), "layers divided", ""}, 1);
  for (const ClusterPoint& point : points)
    table.add({std::string(name_of(point.strategy)), fmt::format("{}", point.mini_batch),
               point.outcome.feasible ? fmt::format("{:.4g}", ClusterStudy::rate_of(point)) : "infeasible",
               fmt::format("{}", point.divided.size()), point.fastest ? "fastest" : ""});
  write_out(table.text());
  for (const ClusterPoint& point : points)
    if (!point.outcome.feasible)
      write_out(fmt::format("{} at {}: {}\n", name_of(point.strategy), point.mini_batch, point.outcome.reason.text));
  return 0;
}

}  // namespace millrace
