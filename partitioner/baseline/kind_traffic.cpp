#include "partitioner/baseline/kind_traffic.h"

#include <algorithm>
#include <array>

#include "core/base/index.h"
#include "core/plan/flow_load.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"

namespace millrace::by_kind {

KindTraffic::KindTraffic(const Graph& graph, const std::vector<Unit>& units, const PlanRequest& request)
    : graph_(graph), units_(units), request_(request) {
  bits_.assign(units_.size() + 1, {0, 0});
  remote_bits_ = bits_;
  PlanRequest two = request_;
  two.cluster = uniform_cluster("cpu", 2);
  two.windows.clear();
  for (size_t cut = 1; cut < units_.size(); ++cut) {
    two.remote_homes.clear();
    if (units_[cut].part == Part::kAfter) {
      bits_[cut] = bits_behind_steps(cut);
      continue;
    }
    count_link(two, cut, bits_[cut]);
    if (units_[cut].part != Part::kSteps) continue;
    two.remote_homes = homes_before_steps(graph_.node(fast_item(graph_.groups(), units_[cut].group).head), 1);
    count_link(two, cut, remote_bits_[cut]);
  }
}

void KindTraffic::count_link(const PlanRequest& two, size_t cut, std::pair<double, double>& bits) const {
  std::vector<Shard> shards;
  for (const Unit& unit : parts_between(units_, 0, cut)) shards.push_back(shard_of(graph_, unit, 0));
  for (const Unit& unit : parts_between(units_, cut, units_.size())) shards.push_back(shard_of(graph_, unit, 1));
  const Plan plan = assemble_plan(graph_, two, std::move(shards));
  for (const Flow& flow : plan.flows) (flow.direction == Direction::kForward ? bits.first : bits.second) += bits_per_sample(flow, plan);
}

// What follows a layer has a device of its own behind its steps alone.
std::pair<double, double> KindTraffic::bits_behind_steps(size_t cut) const {
  std::vector<Shard> shards;
  const std::array<size_t, 4> cuts = {0, cut - 1, cut, units_.size()};
  for (size_t device = 0; device < 3; ++device)
    for (const Unit& unit : parts_between(units_, cuts[device], cuts[device + 1]))
      shards.push_back(shard_of(graph_, unit, static_cast<int64_t>(device)));
  PlanRequest three = request_;
  three.cluster = uniform_cluster("cpu", 3);
  three.windows.clear();
  three.remote_homes.clear();
  const Plan plan = assemble_plan(graph_, three, std::move(shards));
  std::pair<double, double> bits{0, 0};
  for (const Flow& flow : plan.flows)
    if (flow.link == 1) (flow.direction == Direction::kForward ? bits.first : bits.second) += bits_per_sample(flow, plan);
  return bits;
}

double KindTraffic::seconds(const LinkEntry& entry, size_t cut, bool remote) const {
  const auto& [forward, backward] = bits(cut, remote);
  const double shared = entry.shared_gbps > 0 ? (forward + backward) / (1e9 * entry.shared_gbps) : 0;
  return std::max({forward / (1e9 * entry.forward_gbps), backward / (1e9 * entry.backward_gbps), shared});
}

// From plans of as few cells before it as can be, and of as few behind.
std::vector<std::pair<double, double>> KindTraffic::lines_between(size_t unit, const LinkEntry& entry) {
  auto [found, fresh] = shared_bits_.try_emplace(unit);
  const auto& cell = std::get<Recurrent>(graph_.node(fast_item(graph_.groups(), units_[unit].group).head).layer.operation);
  const int64_t cells = cell.hidden, grain = grain_of(cell);
  if (fresh)
    for (const int64_t before : {grain, cells - grain}) found->second.push_back(bits_between(unit, before, cells));
  const auto [f1, b1] = found->second[0];
  const auto [f2, b2] = found->second[1];
  const auto line = [&](double at_one, double at_last, double gbps) {
    const double slope = cells > 2 * grain ? (at_last - at_one) / static_cast<double>(cells - 2 * grain) : 0;
    return std::pair{(at_one - static_cast<double>(grain) * slope) / (1e9 * gbps), slope / (1e9 * gbps)};
  };
  std::vector<std::pair<double, double>> lines = {line(f1, f2, entry.forward_gbps), line(b1, b2, entry.backward_gbps)};
  if (entry.shared_gbps > 0) lines.push_back(line(f1 + b1, f2 + b2, entry.shared_gbps));
  return lines;
}

std::pair<double, double> KindTraffic::bits_between(size_t unit, int64_t before, int64_t cells) const {
  const std::vector<ChannelRange> units = {{0, before}, {before, cells}};
  std::vector<Shard> shards;
  for (const Unit& part : parts_between(units_, 0, unit)) shards.push_back(shard_of(graph_, part, 0));
  for (const int64_t board : {0, 1}) {
    shards.push_back(shard_of(graph_, units_[unit], 1 + board));
    shards.back().units = fast_item(units, board);
  }
  for (const Unit& part : parts_between(units_, unit + 1, units_.size())) shards.push_back(shard_of(graph_, part, 3));
  PlanRequest request = request_;
  request.cluster = uniform_cluster("cpu", unit + 1 < units_.size() ? 4 : 3);
  request.windows.clear();
  request.remote_homes = homes_before_steps(graph_.node(fast_item(graph_.groups(), units_[unit].group).head), 1, units);
  const Plan plan = assemble_plan(graph_, request, std::move(shards));
  std::pair<double, double> bits{0, 0};
  for (const Flow& flow : plan.flows)
    if (flow.link == 1) (flow.direction == Direction::kForward ? bits.first : bits.second) += bits_per_sample(flow, plan);
  return bits;
}

}  // namespace millrace::by_kind
