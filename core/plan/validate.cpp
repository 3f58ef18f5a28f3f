#include "core/plan/validate.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/schedule.h"

namespace millrace {
namespace {

template <typename... Arguments>
[[noreturn]] void malformed(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fail_with(ErrorCode::kMalformed, format, fmt::make_format_args(arguments...));
}

bool overlap(const Block& a, const Block& b) {
  return !intersection(a.inputs, b.inputs).empty() && !intersection(a.outputs, b.outputs).empty();
}

void check_batches(const Plan& plan) {
  if (plan.micro_batch < 1) malformed("micro_batch: {} must be positive", plan.micro_batch);
  if (plan.mini_batch < plan.micro_batch || plan.mini_batch % plan.micro_batch != 0)
    malformed("mini_batch: {} is not a multiple of micro_batch {}", plan.mini_batch, plan.micro_batch);
}

void check_windows(const Plan& plan) {
  if (static_cast<int64_t>(plan.windows.size()) != plan.devices())
    malformed("windows: {} entries for {} devices", plan.windows.size(), plan.devices());
  for (size_t d = 0; d < plan.windows.size(); ++d) {
    if (plan.windows[d] < 1) malformed("windows[{}]: {} must be at least 1", d, plan.windows[d]);
    if (plan.alignment == Alignment::kFlush && plan.windows[d] < plan.micro_batches())
      malformed("windows[{}]: {}, and under flush all {} micro-batches of a mini-batch are in flight", d, plan.windows[d],
                plan.micro_batches());
    if (d > 0 && plan.windows[d] > plan.windows[d - 1])
      malformed("windows[{}]: {} is more than the {} of the device before; windows never grow along the ring", d, plan.windows[d],
                plan.windows[d - 1]);
  }
  if (!drains(plan.alignment) && plan.windows.front() - 1 > plan.micro_batches())
    malformed("windows[0]: {} exceeds the {} micro-batches of a mini-batch by more than one, which alignment {} does not allow",
              plan.windows.front(), plan.micro_batches(), name_of(plan.alignment));
}

void check_links(const Plan& plan) {
  if (static_cast<int64_t>(plan.links.size()) != plan.devices() - 1)
    malformed("links: {} entries for {} devices, expected one fewer than devices", plan.links.size(), plan.devices());
  for (size_t i = 0; i < plan.links.size(); ++i) {
    const Link& link = plan.links[i];
    if (link.from != static_cast<int64_t>(i) || link.to != link.from + 1)
      malformed("links[{}]: joins {} and {}, expected {} and {}", i, link.from, link.to, i, i + 1);
    if (link.forward_bits_per_second <= 0)
      malformed("links[{}].forward_bits_per_second: {} must be positive", i, link.forward_bits_per_second);
    if (link.backward_bits_per_second <= 0)
      malformed("links[{}].backward_bits_per_second: {} must be positive", i, link.backward_bits_per_second);
    if (link.latency_picoseconds < 0) malformed("links[{}].latency_picoseconds: {} must not be negative", i, link.latency_picoseconds);
  }
}

void check_after(const Group& group, int64_t index, const Shard& shard, bool by_kind) {
  if (!by_kind || group.shards.size() < 3 || index != group.shards.back())
    malformed(
        "shards[{}].after (layer \"{}\"): what follows a layer has a device of its own behind the steps of a recurrent layer divided by "
        "kind, and there alone; leave it out",
        index, shard.layer);
  if (group.after.empty())
    malformed("shards[{}].after (layer \"{}\"): no layer follows it on the same devices; leave the shard out", index, shard.layer);
  if (!shard.blocks.empty() || !shard.units.empty())
    malformed("shards[{}] (layer \"{}\"): it has what follows the layer alone, and the plan gives it {}; leave them out", index,
              shard.layer, shard.blocks.empty() ? "units" : "blocks");
}

// Blocks lie inside the layer, do not overlap and cover it: disjoint rectangles whose areas add up.
void check_coverage(const Plan& plan, const Graph& graph, const Group& group, int64_t head) {
  const Node& node = graph.node(head);
  const int64_t inputs = node.input_shapes[0].channels;
  const int64_t outputs = sum_shape(node).channels;
  const int64_t conv_groups = traits_of(node.layer.operation).channel_groups;
  const bool by_kind = divided_by_kind(graph, group);
  const int64_t last = group.shards[makers_of(plan, group) - 1];
  std::vector<Block> blocks;
  int64_t area = 0;
  int64_t furthest_input = 0;
  for (const int64_t s : group.shards) {
    const Shard& shard = item(plan.shards, s);
    if (shard.after) {
      check_after(group, s, shard, by_kind);
      continue;
    }
    if (by_kind && (s == last || (shard.blocks.empty() && s != group.shards.front()))) {
      if (!shard.blocks.empty())
        malformed(
            "shards[{}] (layer \"{}\"): the last device of a divided recurrent layer makes its steps and has no blocks, the plan gives it "
            "{}; leave the layer whole on one device, or its products with the inputs to the devices before",
            s, shard.layer, shard.blocks.size());
      continue;
    }
    if (!shard.units.empty())
      malformed("shards[{}].units (layer \"{}\"): {}, but only devices that share the steps of a recurrent layer name units", s,
                shard.layer, text_of(shard.units));
    if (by_kind && s > group.shards[first_steps_of(plan, group)])
      malformed("shards[{}] (layer \"{}\"): blocks behind a device that makes steps; inputs are multiplied before", s, shard.layer);
    if (shard.blocks.empty() || shard.blocks.size() > 3)
      malformed("shards[{}] (layer \"{}\"): {} blocks, expected one to three", s, shard.layer, shard.blocks.size());
    for (const Block& block : shard.blocks) {
      const bool inside = block.inputs.begin >= 0 && block.inputs.end <= inputs && block.outputs.begin >= 0 &&
                          block.outputs.end <= outputs && !block.inputs.empty() && !block.outputs.empty();
      if (!inside)
        malformed("shards[{}] (layer \"{}\"): block {} x {} is empty or leaves the layer's {} x {} channels", s, shard.layer,
                  text_of(block.inputs), text_of(block.outputs), inputs, outputs);
      if (conv_groups > 1) {
        const int64_t in = inputs / conv_groups;
        const int64_t out = outputs / conv_groups;
        const bool aligned = block.inputs.begin % in == 0 && block.inputs.end % in == 0 && block.outputs.begin % out == 0 &&
                             block.outputs.end % out == 0 && block.inputs.begin / in == block.outputs.begin / out &&
                             block.inputs.end / in == block.outputs.end / out;
        if (!aligned)
          malformed("shards[{}] (layer \"{}\"): block {} x {} does not cover whole groups of the grouped convolution", s, shard.layer,
                    text_of(block.inputs), text_of(block.outputs));
        area += block.outputs.size() * in;
      } else {
        area += block.inputs.size() * block.outputs.size();
      }
      blocks.push_back(block);
    }
    if (shard.blocks.front().inputs.begin < furthest_input)
      malformed("shards[{}] (layer \"{}\"): inputs {} start before those of the shard upstream", s, shard.layer,
                text_of(shard.blocks.front().inputs));
    furthest_input = shard.blocks.front().inputs.begin;
  }
  for (size_t i = 0; i < blocks.size(); ++i)
    for (size_t j = i + 1; j < blocks.size(); ++j)
      if (overlap(blocks[i], blocks[j]))
        malformed("layer \"{}\": blocks {} x {} and {} x {} overlap", group.layer, text_of(blocks[i].inputs), text_of(blocks[i].outputs),
                  text_of(blocks[j].inputs), text_of(blocks[j].outputs));
  const int64_t expected = inputs / conv_groups * outputs;
  if (area != expected) malformed("layer \"{}\": its shards cover {} of {} input-output channel pairs", group.layer, area, expected);
}

void check_groups(const Plan& plan, const Graph& graph) {
  std::vector<int64_t> seen(plan.shards.size(), 0);
  int64_t last_device = 0;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    const LayerGroup& layers = graph.groups()[g];
    std::vector<std::string> after;
    for (const int64_t node : layers.after) after.push_back(graph.node(node).layer.name);
    if (after != group.after)
      malformed("groups[{}].after (layer \"{}\") does not list the layers that follow it in the model", g, group.layer);
    for (size_t i = 0; i < group.shards.size(); ++i) {
      const Shard& shard = item(plan.shards, group.shards[i]);
      ++item(seen, group.shards[i]);
      if (shard.device < 0 || shard.device >= plan.devices())
        malformed("shards[{}].device: {} is not one of {} devices", group.shards[i], shard.device, plan.devices());
      const bool contiguous = i == 0 ? shard.device >= last_device : shard.device == last_device + 1;
      if (!contiguous)
        malformed("shards[{}] (layer \"{}\") on device {} breaks the ring's order after device {}; a layer's devices are consecutive",
                  group.shards[i], shard.layer, shard.device, last_device);
      last_device = shard.device;
    }
    check_coverage(plan, graph, group, layers.head);
    if (const Split split = split_of(plan, graph, group); split != group.split)
      malformed("groups[{}].split (layer \"{}\"): {}, but its shards divide it by {}", g, group.layer, name_of(group.split),
                name_of(split));
  }
  for (size_t s = 0; s < seen.size(); ++s)
    if (seen[s] != 1) malformed("shards[{}] (layer \"{}\") belongs to {} groups, expected one", s, plan.shards[s].layer, seen[s]);
}

// Homes cover every trained parameter of every user exactly once.
void check_homes(const Plan& plan, const Graph& graph) {
  using User = std::tuple<std::string, std::string, int64_t>;
  std::map<User, std::vector<std::pair<int64_t, int64_t>>> slices;
  for (size_t i = 0; i < plan.homes.size(); ++i) {
    const ParameterHome& home = plan.homes[i];
    if (home.home < 0 || home.home >= plan.devices())
      malformed("homes[{}].home: {} is not one of {} devices", i, home.home, plan.devices());
    if (home.offset < 0 || home.count < 1) malformed("homes[{}]: [{}, +{}) is not a slice", i, home.offset, home.count);
    if (graph.find(home.layer) < 0) malformed("homes[{}].layer: \"{}\" is not a layer of the model", i, home.layer);
    slices[{home.layer, home.tensor, home.user}].push_back({home.offset, home.count});
  }
  // What assemble would give with every parameter at home tells who uses how much.
  const Placement placement(plan, graph);
  for (size_t index = 0; index < graph.nodes().size(); ++index) {
    const Node& node = graph.nodes()[index];
    for (size_t p = 0; p < node.parameters.size(); ++p) {
      if (!node.parameters[p].trained) continue;
      const auto check_user = [&](int64_t user, int64_t elements) {
        auto found = slices.find({node.layer.name, node.parameters[p].tensor, user});
        if (found == slices.end())
          malformed("homes: {}.{} used by device {} has no home", node.layer.name, node.parameters[p].tensor, user);
        std::sort(found->second.begin(), found->second.end());
        int64_t covered = 0;
        for (const auto& [offset, count] : found->second) {
          if (offset != covered)
            malformed("homes: {}.{} used by device {}: slice at {} leaves a gap or overlap at {}", node.layer.name,
                      node.parameters[p].tensor, user, offset, covered);
          covered += count;
        }
        if (covered != elements)
          malformed("homes: {}.{} used by device {} covers {} of {} elements", node.layer.name, node.parameters[p].tensor, user, covered,
                    elements);
        slices.erase(found);
      };
      for (const ParameterUse& use : uses_of(placement, static_cast<int64_t>(index), p)) check_user(use.device, use.elements);
    }
  }
  if (!slices.empty()) {
    const auto& [layer, tensor, user] = slices.begin()->first;
    malformed("homes: {}.{} names user {}, which does not use it", layer, tensor, user);
  }
}

// Devices that share the steps of a layer.
void check_shared_steps(const Plan& plan, const Graph& graph, const Group& group) {
  const auto& cell = std::get<Recurrent>(graph.node(graph.index_of(group.layer)).layer.operation);
  const size_t first = first_steps_of(plan, group);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable,
         "layer \"{}\": a GRU whose reset gate comes before the recurrent product takes two products a step; give its steps one device, or "
         "set "
         "reset_after",
         group.layer);
  int64_t covered = 0;
  const int64_t lender = item(plan.shards, group.shards[first]).device - 1;
  for (size_t i = first; i < makers_of(plan, group); ++i) {
    const Shard& shard = item(plan.shards, group.shards[i]);
    if (shard.units.begin != covered || shard.units.empty() || shard.units.end > cell.hidden)
      malformed(
          "shards[{}].units (layer \"{}\"): {} where the cells from {} to {} are left; every one belongs to one device, in their order",
          group.shards[i], group.layer, text_of(shard.units), covered, cell.hidden);
    if (const int64_t grain = grain_of(cell); shard.units.end % grain != 0)
      malformed(
          "shards[{}].units (layer \"{}\"): {}, and its {} cells are projected to {} features, which divide in the same proportion where "
          "cells come in multiples of {}",
          group.shards[i], group.layer, text_of(shard.units), cell.hidden, cell.projection, grain);
    covered = shard.units.end;
    if (item(plan.windows, shard.device) != plan.windows[to_size(lender) + 1])
      malformed("windows[{}]: {}, and devices that share the steps of layer \"{}\" take every micro-batch together, as device {} with {}",
                shard.device, item(plan.windows, shard.device), group.layer, lender + 1, plan.windows[to_size(lender) + 1]);
    for (const ParameterHome& home : plan.homes)
      if (home.layer == group.layer && home.user == shard.device && home.home != lender)
        malformed("homes: {}.{} of device {} is at home on device {}; devices that share steps load all from device {}, before the first",
                  home.layer, home.tensor, shard.device, home.home, lender);
  }
  if (covered != cell.hidden) malformed("layer \"{}\": its steps' devices make {} of {} cells", group.layer, covered, cell.hidden);
  if (!graph.node(graph.index_of(group.layer)).trained)
    malformed("layer \"{}\" is frozen, and several devices share its steps; give them one", group.layer);
}

// Steps of a layer divided by kind keep all their parameters, or none: then the device before them does, for it makes the gradients.
void check_steps(const Plan& plan, const Graph& graph) {
  for (const Group& group : plan.groups) {
    if (!divided_by_kind(graph, group)) continue;
    if (shares_steps(plan, graph, group)) {
      check_shared_steps(plan, graph, group);
      continue;
    }
    const int64_t index = group.shards[makers_of(plan, group) - 1], steps = item(plan.shards, index).device;
    if (const ChannelRange& units = item(plan.shards, index).units; !units.empty())
      malformed("shards[{}].units (layer \"{}\"): {}, but it makes all steps alone; leave units out", index, group.layer, text_of(units));
    const bool away = gradients_of_steps_at(plan, graph, group) >= 0;
    for (size_t i = 0; i < plan.homes.size(); ++i) {
      const ParameterHome& home = plan.homes[i];
      if (home.layer != group.layer || home.user != steps || home.home == (away ? steps - 1 : steps)) continue;
      malformed(
          "homes[{}].home: {} for {}.{}, which the steps on device {} use; all their parameters are at home there, or all on device {}, "
          "which then makes the gradients",
          i, home.home, home.layer, home.tensor, steps, steps - 1);
    }
    if (!away) continue;
    if (!graph.node(graph.index_of(group.layer)).trained)
      malformed("layer \"{}\" is frozen, and its steps on device {} have their parameters on device {}; keep them with the steps",
                group.layer, steps, steps - 1);
  }
}

std::string flow_text(const Flow& flow) {
  return fmt::format("link {} {} {} {} {} ({} per sample, {} per pass)", flow.link, name_of(flow.direction), name_of(flow.stream),
                     flow.tensor, text_of(flow.channels), flow.elements_per_sample, flow.elements_per_pass);
}

void check_flows(const Plan& plan, const Graph& graph) {
  const std::vector<Flow> expected = flows_of(plan, graph);
  for (size_t i = 0; i < std::max(expected.size(), plan.flows.size()); ++i) {
    if (i >= plan.flows.size()) malformed("flows: {} is missing", flow_text(expected[i]));
    if (i >= expected.size()) malformed("flows[{}]: {} follows from nothing in the plan", i, flow_text(plan.flows[i]));
    if (!(plan.flows[i] == expected[i])) malformed("flows[{}]: {} should be {}", i, flow_text(plan.flows[i]), flow_text(expected[i]));
  }
}

}  // namespace

void validate(const Plan& plan, const Graph& graph, std::string_view origin) {
  try {
    if (plan.cluster.devices.empty()) malformed("cluster: no devices");
    check_batches(plan);
    check_windows(plan);
    check_links(plan);
    const Placement placement(plan, graph);
    check_groups(plan, graph);
    check_homes(plan, graph);
    check_steps(plan, graph);
    check_flows(plan, graph);
    if (const std::string digest = digest_of(text_of(plan.model)); digest != plan.model_digest)
      malformed("model_digest: {} but the model inside the plan has {}; it was edited, plan again", plan.model_digest, digest);
    if (const std::string digest = digest_of(text_of(plan.cluster)); digest != plan.cluster_digest)
      malformed("cluster_digest: {} but the cluster inside the plan has {}; it was edited, plan again", plan.cluster_digest, digest);
  } catch (const Error& error) {
    throw error.within(std::string(origin));
  }
}

Plan load_plan(const std::filesystem::path& path) {
  Plan plan = parse_plan(read_text(path), path.string());
  validate(plan, Graph(plan.model), path.string());
  return plan;
}

}  // namespace millrace
