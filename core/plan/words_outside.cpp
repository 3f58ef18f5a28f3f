#include "core/plan/words_outside.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "core/base/index.h"
#include "core/plan/off_chip.h"

namespace millrace {
namespace {

std::optional<double> amount_of(const Shard& shard, std::string_view name) {
  const auto found = std::ranges::find(shard.resources, name, &NamedAmount::name);
  return found == shard.resources.end() ? std::nullopt : std::optional(found->amount);
}

double bandwidth_of(const Plan& plan, int64_t device) {
  const std::string& board = item(plan.cluster.devices, device).device;
  const auto budget = std::ranges::find(plan.budgets, board, &DeviceBudget::device);
  return budget == plan.budgets.end() ? 0 : off_chip_bandwidth(budget->amounts);
}

}  // namespace

double act_ram_bytes(const Shard& shard) { return amount_of(shard, kActRamBytesPerSample).value_or(0); }

bool keeps_act_ram_outside(const Shard& shard) { return act_ram_bytes(shard) > 0; }

double words_outside(const Shard& shard, const Node& node, int64_t micro_batch) {
  const std::optional<double> waiting = amount_of(shard, kWaitingBytesPerSample);
  return off_chip_bytes_per_sample(shard, node, micro_batch) + (waiting ? *waiting : act_ram_bytes(shard));
}

void wait_for_words(std::span<Shard> shards, const Graph& graph, int64_t micro_batch,
                    const std::function<double(int64_t device)>& bandwidth) {
  std::map<int64_t, double> seconds;  // by device
  const auto node_of = [&](const Shard& shard) -> const Node& { return graph.node(graph.index_of(shard.layer)); };
  for (const Shard& shard : shards) {
    const double bytes = words_outside(shard, node_of(shard), micro_batch);
    if (const double rate = bytes > 0 ? bandwidth(shard.device) : 0; rate > 0) seconds[shard.device] += bytes / rate;
  }
  for (Shard& shard : shards) {
    const auto of_device = seconds.find(shard.device);
    const Node& node = node_of(shard);
    if (of_device == seconds.end() || words_outside(shard, node, micro_batch) <= 0) continue;
    for (PhaseEngine& engine : shard.phases) {
      int64_t units = 1;
      if (shard.unit != StreamingUnit::kSample)
        units = std::max<int64_t>(1, engine.phase == Phase::kErrorBack ? node.input_shapes[0].height : node.output.height);
      const auto each = static_cast<int64_t>(std::ceil(1e12 * of_device->second / static_cast<double>(units)));
      engine.picoseconds_per_unit = std::max(engine.picoseconds_per_unit, each);
    }
  }
}

double seconds_outside(const Plan& plan, int64_t device, double bytes) {
  const double rate = bandwidth_of(plan, device);
  return rate > 0 ? bytes / rate : 0;
}

void add_words_outside(Plan& plan, const Graph& graph, const std::vector<WaitingWords>& waiting) {
  for (const WaitingWords& words : waiting)
    item(plan.shards, words.shard).resources.push_back({std::string(kWaitingBytesPerSample), words.bytes});
  if (waiting.empty()) return;
  wait_for_words(plan.shards, graph, plan.micro_batch, [&](int64_t device) { return bandwidth_of(plan, device); });
}

}  // namespace millrace
