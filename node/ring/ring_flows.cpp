#include "node/ring/ring_flows.h"

#include "core/base/index.h"
#include "core/plan/credits.h"
#include "core/plan/flows.h"
#include "core/plan/time_chunking.h"

namespace millrace {

RingFlows ring_flows(const Plan& plan, const Graph& graph) {
  RingFlows flows{.table = flow_table(plan, kFewestCredits), .saves = {}};
  for (size_t f = 0; f < plan.flows.size(); ++f) flows.table.flows[f].credits = messages_ahead(plan, plan.flows[f]);
  const TimeChunking streams(plan, graph);
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    if (!streams.flow(static_cast<int64_t>(f))) continue;
    FlowSpec& spec = flows.table.flows[f];
    const Flow& flow = plan.flows[f];
    const int64_t steps = graph.shape_of(tensor_of(graph, flow).node).height;
    const int64_t most = (steps + plan.time_chunks - 1) / plan.time_chunks;
    spec.most_bytes = spec.most_bytes / to_size(steps) * to_size(most);
    spec.credits *= plan.time_chunks;
  }
  // States travel step by step, in evaluation, too.
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    if (plan.flows[f].stream != Stream::kState) continue;
    const auto steps = to_size(graph.shape_of(tensor_of(graph, plan.flows[f]).node).height);
    for (const int64_t flow : {static_cast<int64_t>(f), flows.table.twins[f]})
      if (flow >= 0) item(flows.table.flows, flow).most_bytes /= steps;
  }
  for (int64_t link = 0; link + 1 < plan.devices(); ++link) {
    flows.saves.push_back(static_cast<int64_t>(flows.table.flows.size()));
    flows.table.flows.push_back({.stream = Stream::kControl,
                                 .tensor = "checkpoint",
                                 .from = link + 1,
                                 .to = link,
                                 .most_bytes = kSavePieceBytes,
                                 .credits = kFewestCredits});
    flows.table.twins.push_back(-1);
  }
  check(flows.table);
  return flows;
}

Plan run_plan(Plan plan) {
  const auto widen = [](ElementType& type) {
    if (type == ElementType::kFixed16) type = ElementType::kFloat32;
  };
  widen(plan.arithmetic.compute);
  widen(plan.arithmetic.wire);
  for (Flow& flow : plan.flows) widen(flow.wire);
  return plan;
}

}  // namespace millrace
