#include "core/plan/parts.h"

#include <algorithm>
#include <numeric>

#include "core/base/index.h"
#include "core/plan/flows.h"

namespace millrace {

bool divided_by_kind(const Graph& graph, const Group& group) {
  return group.shards.size() > 1 && role_of(graph.node(graph.index_of(group.layer)).layer.operation) == Role::kRecurrence;
}

namespace {

// Of the steps that `user` makes without blocks: where their parameters are at home, -1 where they are the user's own.
int64_t lender_of(const Plan& plan, std::string_view layer, int64_t user) {
  for (const ParameterHome& home : plan.homes)
    if (home.user == user && home.home != user && home.layer == layer) return home.home;
  return -1;
}

}  // namespace

int64_t gradients_of_steps_at(const Plan& plan, const Graph& graph, const Group& group) {
  if (!divided_by_kind(graph, group)) return -1;
  return lender_of(plan, group.layer, item(plan.shards, group.shards[makers_of(plan, group) - 1]).device);
}

size_t first_steps_of(const Plan& plan, const Group& group) {
  const auto has_blocks = [&](int64_t shard) { return !item(plan.shards, shard).blocks.empty(); };
  const auto first = to_size(std::ranges::find_if_not(group.shards, has_blocks) - group.shards.begin());
  return std::clamp<size_t>(first, 1, std::max<size_t>(1, makers_of(plan, group) - 1));  // in plans that are not valid, too
}

bool shares_steps(const Plan& plan, const Graph& graph, const Group& group) {
  return divided_by_kind(graph, group) && makers_of(plan, group) > first_steps_of(plan, group) + 1;
}

int64_t error_vectors_of(const Recurrent& cell) { return gates_of(cell.cell) + (cell.cell == CellKind::kGru ? 1 : 0); }

int64_t grain_of(const Recurrent& cell) { return cell.projection > 0 ? cell.hidden / std::gcd(cell.hidden, cell.projection) : 1; }

ChannelRange features_of(const Recurrent& cell, const ChannelRange& units) {
  return {units.begin * cell.features() / cell.hidden, units.end * cell.features() / cell.hidden};
}

namespace {

constexpr std::string_view kProjectedUnits = ":m", kOutputs = ":h", kErrorsOfOutputs = ":dh", kErrors = ":delta";

}  // namespace

std::vector<StateRow> state_rows_of(const Recurrent& cell, bool errors) {
  const bool projects = cell.projection > 0;
  std::vector<StateRow> rows = {
      {.ending = errors ? kErrors : kOutputs, .vectors = errors ? error_vectors_of(cell) : 1, .of_features = projects && !errors}};
  if (projects) rows.insert(rows.begin(), {.ending = errors ? kErrorsOfOutputs : kProjectedUnits, .vectors = 1, .of_features = errors});
  return rows;
}

ChannelRange channels_of(const Recurrent& cell, const StateRow& row, const ChannelRange& units) {
  return row.of_features ? features_of(cell, units) : units;
}

int64_t elements_of(const Recurrent& cell, const StateRow& row, const ChannelRange& units) {
  return cell.directions() * row.vectors * channels_of(cell, row, units).size();
}

std::string state_name(std::string_view layer, const StateRow& row) { return std::string(layer).append(row.ending); }

std::string_view layer_of_state(std::string_view tensor) {
  for (const std::string_view ending : {kProjectedUnits, kOutputs, kErrorsOfOutputs, kErrors})
    if (tensor.ends_with(ending)) return tensor.substr(0, tensor.size() - ending.size());
  return {};
}

bool is_forward_state(std::string_view tensor) { return tensor.ends_with(kOutputs) || tensor.ends_with(kProjectedUnits); }

double exchange_seconds(std::span<const Link> links, int64_t first, int64_t last, int64_t device, int64_t row_bits) {
  const auto way = [&](int64_t from, int64_t to, Direction direction) {
    double seconds = 0;
    for (int64_t l = from; l < to; ++l) {
      const Link& link = item(links, l);
      int64_t rate = direction == Direction::kForward ? link.forward_bits_per_second : link.backward_bits_per_second;
      if (link.shared_bits_per_second > 0) rate = std::min(rate, link.shared_bits_per_second);
      seconds += 1e-12 * static_cast<double>(link.latency_picoseconds) + static_cast<double>(row_bits) / static_cast<double>(rate);
    }
    return seconds;
  };
  return std::max(way(first, device, Direction::kForward), way(device, last, Direction::kBackward));
}

double exchange_seconds(const Node& recurrent, std::span<const Link> links, int64_t first, int64_t last, int64_t device, int64_t cells,
                        int64_t bits_of_cell) {
  const auto& cell = std::get<Recurrent>(recurrent.layer.operation);
  double step = 0;
  for (const bool errors : {false, true})
    for (const StateRow& row : state_rows_of(cell, errors))
      if (!errors || recurrent.error_needed)
        step += exchange_seconds(links, first, last, device, bits_of_cell * elements_of(cell, row, {0, cells}));
  return step;
}

double exchange_seconds(const Plan& plan, const Graph& graph, const Group& group, int64_t device) {
  if (!shares_steps(plan, graph, group)) return 0;
  const auto shard = [&](size_t place) -> const Shard& { return item(plan.shards, group.shards[place]); };
  const size_t begin = first_steps_of(plan, group), end = makers_of(plan, group) - 1;
  int64_t cells = 0;
  for (size_t s = begin; s <= end; ++s) cells = std::max(cells, shard(s).units.size());
  const Node& head = graph.node(graph.index_of(group.layer));
  const double step = exchange_seconds(head, plan.links, shard(begin).device, shard(end).device, device, cells,
                                       plan.micro_batch * bits_of(plan.arithmetic.compute));
  return step * static_cast<double>(sum_shape(head).plane()) / static_cast<double>(plan.micro_batch);
}

bool loads_every_pass(const Plan& plan, int64_t device) {
  const auto here = std::ranges::equal_range(plan.shards, device, {}, &Shard::device);
  return std::ranges::any_of(here, [&](const Shard& shard) { return shard.blocks.empty() && lender_of(plan, shard.layer, device) >= 0; });
}

std::vector<ParameterHome> homes_before_steps(const Node& recurrent, int64_t steps_device) {
  std::vector<ParameterHome> homes;
  for (const ParameterSpec& parameter : recurrent.parameters)
    if (parameter.trained && input_direction_of(parameter) < 0)
      homes.push_back({.layer = recurrent.layer.name,
                       .tensor = parameter.tensor,
                       .offset = 0,
                       .count = parameter.elements(),
                       .home = steps_device - 1,
                       .user = steps_device});
  return homes;
}

std::vector<ParameterHome> homes_before_steps(const Node& recurrent, int64_t first_device, std::span<const ChannelRange> units) {
  std::vector<ParameterHome> homes;
  const int64_t hidden = std::get<Recurrent>(recurrent.layer.operation).hidden;
  for (size_t board = 0; board < units.size(); ++board)
    for (ParameterHome& home : homes_before_steps(recurrent, first_device + static_cast<int64_t>(board))) {
      home.count = home.count / hidden * units[board].size();
      home.home = first_device - 1;
      homes.push_back(std::move(home));
    }
  return homes;
}

int64_t record_channels_of(const Node& recurrent) {
  const auto& cell = std::get<Recurrent>(recurrent.layer.operation);
  const int64_t projected = cell.projection > 0 ? cell.hidden + cell.features() : 0;
  return cell.directions() * (cell.features() + projected + (cell.cell == CellKind::kGru ? cell.hidden : 0));
}

std::string record_name(std::string_view layer) { return std::string(layer).append(":record"); }

int64_t input_direction_of(const ParameterSpec& parameter) {
  if (parameter.tensor == "weight_ih") return 0;
  return parameter.tensor == "weight_ih_reverse" ? 1 : -1;
}

int64_t directions_of(const Node& recurrent) { return std::get<Recurrent>(recurrent.layer.operation).directions(); }

std::optional<Block> within_direction(const Node& recurrent, int64_t direction, const Block& block) {
  const int64_t rows = sum_shape(recurrent).channels / directions_of(recurrent), first = direction * rows;
  const ChannelRange here = intersection(block.outputs, {first, first + rows});
  if (here.empty()) return std::nullopt;
  return Block{block.inputs, {here.begin - first, here.end - first}};
}

std::vector<ParameterUse> uses_of(const Placement& placement, int64_t index, size_t p) {
  const Node& node = placement.graph().node(index);
  const ParameterSpec& parameter = node.parameters[p];
  const Group& group = placement.group_of(index);
  const bool by_kind = node.computes && divided_by_kind(placement.graph(), group);
  const int64_t direction = by_kind ? input_direction_of(parameter) : -1;
  if (by_kind && direction < 0 && shares_steps(placement.plan(), placement.graph(), group)) {
    std::vector<ParameterUse> uses;
    const int64_t hidden = std::get<Recurrent>(node.layer.operation).hidden;
    for (size_t s = first_steps_of(placement.plan(), group); s < makers_of(placement.plan(), group); ++s) {
      const Shard& shard = item(placement.plan().shards, group.shards[s]);
      uses.push_back({shard.device, parameter.elements() / hidden * shard.units.size()});
    }
    return uses;
  }
  if (!node.computes || (by_kind ? direction < 0 : p > 0)) return {{placement.owner_of(index), parameter.elements()}};
  std::vector<ParameterUse> uses;
  for (const int64_t s : group.shards) {
    const Shard& shard = item(placement.plan().shards, s);
    int64_t elements = 0;
    for (const Block& block : shard.blocks) {
      if (!by_kind) elements += weight_elements(placement.graph(), index, block);
      const std::optional<Block> rows = by_kind ? within_direction(node, direction, block) : std::nullopt;
      if (rows) elements += rows->inputs.size() * rows->outputs.size();
    }
    if (elements > 0) uses.push_back({shard.device, elements});
  }
  return uses;
}

}  // namespace millrace
