// Rules between the fields of a plan that need no model: numbers that stand for something exist, ranges run forward,
// sums can be counted. What the plan means is core/plan/validate.h's.
#include "core/base/index.h"
#include "core/documents/plan_fields.h"

namespace millrace::text {
namespace {

void check_index(int64_t index, size_t count, std::string_view what, const Path& where) {
  if (index >= static_cast<int64_t>(count)) where.fail("{} is none of the {} {}", index, count, what);
}

void check_links(const Plan& plan, const Path& where) {
  const size_t devices = plan.cluster.devices.size();
  if (plan.links.size() + 1 != devices) Path(where, "links").fail("{} given; {} devices have {}", plan.links.size(), devices, devices - 1);
  for (size_t i = 0; i < plan.links.size(); ++i) {
    const Path here(where, "links", i);
    const auto from = static_cast<int64_t>(i);
    if (plan.links[i].from != from) Path(here, "from").fail("{} must be {}, for links stand in ring order", plan.links[i].from, from);
    if (plan.links[i].to != from + 1) Path(here, "to").fail("{} must be {}, for links join neighbours", plan.links[i].to, from + 1);
  }
}

void check_batches(const Plan& plan, const Path& where) {
  if (plan.mini_batch % plan.micro_batch != 0)
    Path(where, "micro_batch").fail("{} must divide mini_batch, which is {}", plan.micro_batch, plan.mini_batch);
  if (plan.windows.size() != plan.cluster.devices.size())
    Path(where, "windows").fail("{} given; there is one for each of {} devices", plan.windows.size(), plan.cluster.devices.size());
}

void check_indices(const Plan& plan, const Path& where) {
  const size_t devices = plan.cluster.devices.size();
  for (size_t i = 0; i < plan.shards.size(); ++i)
    check_index(plan.shards[i].device, devices, "devices", Path(Path(where, "shards", i), "device"));
  for (size_t i = 0; i < plan.groups.size(); ++i)
    for (size_t k = 0; k < plan.groups[i].shards.size(); ++k)
      check_index(plan.groups[i].shards[k], plan.shards.size(), "shards", Path(Path(where, "groups", i), "shards", k));
  for (size_t i = 0; i < plan.homes.size(); ++i) {
    check_index(plan.homes[i].home, devices, "devices", Path(Path(where, "homes", i), "home"));
    check_index(plan.homes[i].user, devices, "devices", Path(Path(where, "homes", i), "user"));
  }
  for (size_t i = 0; i < plan.flows.size(); ++i) {
    const Path here(where, "flows", i);
    check_index(plan.flows[i].link, plan.links.size(), "links", Path(here, "link"));
    check_index(plan.flows[i].producer_shard, plan.shards.size(), "shards", Path(here, "producer_shard"));
    check_index(plan.flows[i].consumer_shard, plan.shards.size(), "shards", Path(here, "consumer_shard"));
    check_index(plan.flows[i].home, plan.homes.size(), "homes", Path(here, "home"));
  }
}

// Whoever adds up the bits of flows does so in 64 bits.
void check_loads(const Plan& plan, const Path& where) {
  constexpr double kMostBits = 0x1p62;
  double bits = 0;
  for (size_t i = 0; i < plan.flows.size(); ++i) {
    const Flow& flow = plan.flows[i];
    const double elements = static_cast<double>(flow.elements_per_sample) * static_cast<double>(plan.mini_batch) +
                            static_cast<double>(flow.elements_per_pass) * static_cast<double>(flow.passes_per_mini_batch);
    bits += elements * static_cast<double>(bits_of(flow.wire));
    if (bits > kMostBits)
      Path(where, "flows", i).fail("{:.3g} bits per mini-batch, with those before it, are more than can be counted", bits);
  }
}

}  // namespace

void Fields<ChannelRange>::check(const ChannelRange& range, const Path& where) {
  if (range.end < range.begin) where.fail("{} ends before it begins", text_of(range));
}

void Fields<Block>::check(const Block& block, const Path& where) {
  if (block.inputs.empty()) Path(where, "inputs").fail("{} must not be empty", text_of(block.inputs));
  if (block.outputs.empty()) Path(where, "outputs").fail("{} must not be empty", text_of(block.outputs));
  check_value(block.inputs.end, kSize, Path(Path(where, "inputs"), "end"));
  check_value(block.outputs.end, kSize, Path(Path(where, "outputs"), "end"));
}

void Fields<Shard>::check(const Shard& shard, const Path& where) {
  constexpr size_t kMostBlocks = 3;
  if (shard.blocks.size() > kMostBlocks) Path(where, "blocks").fail("{} given; a shard has at most {}", shard.blocks.size(), kMostBlocks);
  bool seen[3] = {};
  for (size_t i = 0; i < shard.phases.size(); ++i) {
    bool& known = item(seen, shard.phases[i].phase);
    if (known) Path(Path(where, "phases", i), "phase").fail("{} is given twice", name_of(shard.phases[i].phase));
    known = true;
  }
}

void Fields<Plan>::check(const Plan& plan, const Path& where) {
  check_links(plan, where);
  check_batches(plan, where);
  check_indices(plan, where);
  check_loads(plan, where);
}

}  // namespace millrace::text
