#include "partitioner/choice/idle_devices.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "core/plan/assemble.h"
#include "core/plan/engine_period.h"
#include "partitioner/hybrid/ring_plan.h"

namespace millrace {
namespace {

LinkEntry joined(std::span<const LinkEntry> links) {
  LinkEntry sum = links.front();
  for (const LinkEntry& link : links.subspan(1)) {
    sum.forward_gbps = std::min(sum.forward_gbps, link.forward_gbps);
    sum.backward_gbps = std::min(sum.backward_gbps, link.backward_gbps);
    if (link.shared_gbps > 0) sum.shared_gbps = sum.shared_gbps > 0 ? std::min(sum.shared_gbps, link.shared_gbps) : link.shared_gbps;
    sum.latency_us += link.latency_us;
  }
  return sum;
}

}  // namespace

PlanTask without_devices(const PlanTask& task, std::span<const int64_t> kept) {
  PlanTask smaller = task;
  smaller.counts_enough = false;  // of the whole ring alone
  smaller.models.clear();
  smaller.cluster.devices.clear();
  smaller.cluster.links.clear();
  smaller.bridges.clear();
  for (size_t i = 0; i < kept.size(); ++i) {
    const auto device = to_size(kept[i]);
    smaller.models.push_back(task.models[device]);
    smaller.cluster.devices.push_back(task.cluster.devices[device]);
    if (i == 0) continue;
    const auto before = to_size(kept[i - 1]);
    if (device - before > 1) smaller.bridges.insert(static_cast<int64_t>(i) - 1);
    smaller.cluster.links.push_back(joined(std::span(task.cluster.links).subspan(before, device - before)));
  }
  const std::vector<const CostModel*> working = smaller.models;
  for (const CostModel*& model : smaller.models) model = &model->among(working);
  if (task.mini_batch_time) {
    smaller.mini_batch_time = [&task, places = std::vector<int64_t>(kept.begin(), kept.end())](const Plan& plan, const Graph& graph) {
      return task.mini_batch_time(on_whole_ring(plan, task, places), graph);
    };
  }
  if (task.finds_blocks) {
    smaller.finds_blocks = [&task, places = std::vector<int64_t>(kept.begin(), kept.end())](const Plan& plan, const Graph& graph,
                                                                                            bool thoroughly) {
      return task.finds_blocks(on_whole_ring(plan, task, places), graph, thoroughly);
    };
  }
  if (task.waiting_words) {
    smaller.waiting_words = [&task, places = std::vector<int64_t>(kept.begin(), kept.end())](const Plan& plan, const Graph& graph) {
      return task.waiting_words(on_whole_ring(plan, task, places), graph);
    };
  }
  return smaller;
}

Plan on_whole_ring(const Plan& plan, const PlanTask& whole, std::span<const int64_t> kept) {
  const auto place = [&](int64_t device) { return fast_item(kept, device); };
  PlanRequest request{.cluster = whole.cluster,
                      .alignment = plan.alignment,
                      .mini_batch = plan.mini_batch,
                      .micro_batch = plan.micro_batch,
                      .optimizer = plan.optimizer,
                      .arithmetic = plan.arithmetic,
                      .time_chunks = plan.time_chunks};
  size_t next = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(whole.models.size()); ++d) {
    while (next + 1 < kept.size() && kept[next] < d) ++next;
    request.windows.push_back(plan.windows[next]);
  }
  for (ParameterHome home : plan.homes) {
    if (home.home == home.user) continue;
    home.home = place(home.home);
    home.user = place(home.user);
    request.remote_homes.push_back(std::move(home));
  }
  std::vector<Shard> shards = plan.shards;
  for (Shard& shard : shards) shard.device = place(shard.device);
  Plan result = assemble_plan(*whole.graph, request, std::move(shards));
  result.strategy = plan.strategy;
  result.accounting = plan.accounting;
  result.purpose = plan.purpose;
  result.lower_bound_seconds_per_image = plan.lower_bound_seconds_per_image;
  result.optimality_gap = plan.optimality_gap;
  result.budgets = plan.budgets;
  result.constants = plan.constants;
  for (const CostModel* model : whole.models) add_figures_of(*model, result);
  // What works may have a faster clock.
  std::vector<const CostModel*> working;
  for (const int64_t device : kept) working.push_back(fast_item(whole.models, device));
  const bool builds = result.accounting == Accounting::kFull;
  if (const double clock = slowest_clock(working); builds && clock > slowest_clock(whole.models) && stream_clock_of(result) == 0)
    result.constants.push_back({std::string(kStreamClock), clock, "modelled"});
  return result;
}

}  // namespace millrace
