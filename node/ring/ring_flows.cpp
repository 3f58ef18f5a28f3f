#include "node/ring/ring_flows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/check.h"
#include "core/plan/time_streams.h"

namespace millrace {

namespace {

bool carries_parameters(Stream stream) { return stream == Stream::kParameter || stream == Stream::kGradient; }

int64_t user_of(const Plan& plan, const Flow& flow) {
  const int64_t shard = flow.stream == Stream::kParameter ? flow.consumer_shard : flow.producer_shard;
  return plan.shards[static_cast<size_t>(shard)].device;
}

}  // namespace

RingFlows ring_flows(const Plan& plan, const Graph& graph) {
  constexpr int64_t kFewest = 2;  // one on its way while the other is worked on
  RingFlows flows{.table = flow_table(plan, kFewest), .saves = {}};
  const auto credit = [&](int64_t flow, int64_t link) {
    const int64_t ahead = plan.windows[static_cast<size_t>(link)] - plan.windows[static_cast<size_t>(link) + 1];
    int64_t& credits = flows.table.flows[static_cast<size_t>(flow)].credits;
    credits = std::max(credits, ahead);
  };
  for (size_t f = 0; f < plan.flows.size(); ++f)
    if (!carries_parameters(plan.flows[f].stream) && plan.flows[f].direction == Direction::kForward)
      credit(static_cast<int64_t>(f), plan.flows[f].link);
  const TimeStreams streams(plan, graph);
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    if (!streams.flow(static_cast<int64_t>(f))) continue;
    FlowSpec& spec = flows.table.flows[f];
    const Flow& flow = plan.flows[f];
    const int64_t steps = graph.shape_of(flow.tensor == kInputName ? kNetworkInput : graph.index_of(flow.tensor)).height;
    const int64_t most = (steps + plan.time_chunks - 1) / plan.time_chunks;
    spec.most_bytes = spec.most_bytes / static_cast<size_t>(steps) * static_cast<size_t>(most);
    spec.credits *= plan.time_chunks;
  }
  for (int64_t link = 0; link + 1 < plan.devices(); ++link) {
    flows.saves.push_back(static_cast<int64_t>(flows.table.flows.size()));
    flows.table.flows.push_back({.stream = Stream::kControl,
                                 .tensor = "checkpoint",
                                 .from = link + 1,
                                 .to = link,
                                 .most_bytes = kSavePieceBytes,
                                 .credits = kFewest});
    flows.table.twins.push_back(-1);
  }
  check(flows.table);
  return flows;
}

std::vector<SliceRoute> routes_of(const Plan& plan) {
  // What crosses a link for a slice is told from its name, its range and its user.
  using Key = std::tuple<Stream, std::string, int64_t, int64_t, int64_t>;
  std::map<Key, std::map<int64_t, int64_t>> by_link;
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    if (carries_parameters(flow.stream))
      by_link[{flow.stream, flow.tensor, flow.channels.begin, flow.channels.end, user_of(plan, flow)}][flow.link] = static_cast<int64_t>(f);
  }
  const auto way = [&](const ParameterHome& home, Stream stream, bool ascending) {
    const auto found = by_link.find({stream, home.layer + "." + home.tensor, home.offset, home.offset + home.count, home.user});
    std::vector<int64_t> flows;
    if (found != by_link.end())
      for (const auto& [link, flow] : found->second) flows.push_back(flow);
    MILLRACE_CHECK(static_cast<int64_t>(flows.size()) == std::abs(home.home - home.user), "{}.{} crosses {} links from device {} to {}",
                   home.layer, home.tensor, flows.size(), home.home, home.user);
    if (!ascending) std::reverse(flows.begin(), flows.end());
    return flows;
  };
  std::vector<SliceRoute> routes;
  for (size_t h = 0; h < plan.homes.size(); ++h) {
    const ParameterHome& home = plan.homes[h];
    if (home.home == home.user) continue;
    routes.push_back({.home = h,
                      .parameters = way(home, Stream::kParameter, home.home < home.user),
                      .gradients = way(home, Stream::kGradient, home.user < home.home)});
  }
  return routes;
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
