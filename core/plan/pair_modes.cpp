#include "core/plan/pair_modes.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"

namespace millrace {
namespace {

class ModePlan {
 public:
  ModePlan(const Plan& plan, const Graph& graph) : plan_(plan), graph_(graph) {
    for (const Link& link : plan.links)
      if (link.forward_bits_per_second != plan.links.front().forward_bits_per_second ||
          link.backward_bits_per_second != plan.links.front().backward_bits_per_second)
        fail(ErrorCode::kUsage, "a pair's modes are compared on links that are alike, and link {} differs from the first; make them alike",
             link.from);
    for (const Group& group : plan.groups)
      if (gradients_of_steps_at(plan, graph, group) >= 0) layers_.push_back(group);
    if (layers_.empty())
      fail(ErrorCode::kUsage,
           "no board of this plan makes the steps of a recurrent layer, so nothing overlaps with it; leave the mode out, or have every "
           "layer divided (--divide all)");
  }

  Plan take() {
    load_in_the_phases();
    return std::move(plan_);
  }
  void one_at_a_time() {
    for (DeviceEntry& device : plan_.cluster.devices) device.seat = "all";
  }
  void products_on_boards() {
    for (const Group& group : layers_) {
      const Node& head = graph_.node(graph_.index_of(group.layer));
      const size_t first = first_steps_of(plan_, group);
      for (size_t s = 0; s < makers_of(plan_, group); ++s) {
        Shard& shard = item(plan_.shards, group.shards[s]);
        if (s < first)
          std::erase_if(shard.phases, [](const PhaseEngine& engine) { return engine.phase != Phase::kParameterGradient; });
        else
          add_to_phases(shard, head, seconds_of_products(shard) + seconds_of_weights(shard, head));
      }
      const std::string sum = sum_name(group.layer);
      for (Flow& flow : plan_.flows)
        if (flow.tensor == sum && (flow.stream == Stream::kPartial || flow.stream == Stream::kError))
          flow.elements_per_sample = head.input_shapes[0].elements();
    }
  }

 private:
  static double seconds_of_products(const Shard& shard) {
    const auto found = std::ranges::find(shard.resources, kInputProductSeconds, &NamedAmount::name);
    if (found == shard.resources.end())
      fail(ErrorCode::kUsage, "layer \"{}\" on device {} does not say what its products with the inputs would take there; plan it anew",
           shard.layer, shard.device);
    return found->amount;
  }

  // A sample's part of what the weights of its products take to come.
  double seconds_of_weights(const Shard& shard, const Node& head) const {
    const auto& cell = std::get<Recurrent>(head.layer.operation);
    const double units = shard.units.empty() ? 1 : static_cast<double>(shard.units.size()) / static_cast<double>(cell.hidden);
    const Link& link = item(plan_.links, shard.device - 1);
    return units * static_cast<double>(head.input_shapes[0].channels * sum_shape(head).channels * bits_of(plan_.arithmetic.wire)) /
           static_cast<double>(link.forward_bits_per_second) / static_cast<double>(plan_.micro_batch);
  }

  // Seconds of a sample more, in F and in E.
  void add_to_phases(Shard& shard, const Node& head, double seconds) const {
    for (PhaseEngine& engine : shard.phases) {
      const int64_t units = shard.unit == StreamingUnit::kSample ? 1
                            : engine.phase == Phase::kErrorBack  ? head.input_shapes[0].height
                                                                 : head.output.height;
      engine.picoseconds_per_unit += std::llround(1e12 * seconds / static_cast<double>(units));
    }
  }

  void load_in_the_phases() {
    for (const Group& group : layers_) {
      const Node& head = graph_.node(graph_.index_of(group.layer));
      for (size_t s = first_steps_of(plan_, group); s < makers_of(plan_, group); ++s) {
        Shard& shard = item(plan_.shards, group.shards[s]);
        double seconds = 0;
        for (const Flow& flow : plan_.flows) {
          const Link& link = item(plan_.links, flow.link);
          if (flow.stream != Stream::kParameter || link.to != shard.device || item(plan_.homes, flow.home).user != shard.device) continue;
          seconds += static_cast<double>(flow.elements_per_pass * bits_of(flow.wire)) / static_cast<double>(link.forward_bits_per_second);
        }
        add_to_phases(shard, head, seconds / static_cast<double>(plan_.micro_batch));
      }
    }
    for (Flow& flow : plan_.flows)
      if (flow.stream == Stream::kParameter && loads_every_pass(plan_, item(plan_.homes, flow.home).user)) {
        flow.elements_per_pass = 1;
        item(plan_.homes, flow.home).count = 1;
      }
  }

  Plan plan_;
  const Graph& graph_;
  std::vector<Group> layers_;
};

}  // namespace

std::string_view name_of(PairMode mode) {
  switch (mode) {
    case PairMode::kOverlap: return "overlap";
    case PairMode::kNoOverlap: return "no-overlap";
    case PairMode::kAllFpga: return "all-fpga";
  }
  return "";
}

PairMode pair_mode_from(std::string_view name) {
  std::vector<std::string> names;
  for (const PairMode mode : {PairMode::kOverlap, PairMode::kNoOverlap, PairMode::kAllFpga}) {
    if (name == name_of(mode)) return mode;
    names.emplace_back(name_of(mode));
  }
  fail(ErrorCode::kUsage, "--mode \"{}\" is unknown{}", name, suggestion(name, names));
}

bool has_pair(const Plan& plan, const Graph& graph) {
  return std::ranges::any_of(plan.groups, [&](const Group& group) { return gradients_of_steps_at(plan, graph, group) >= 0; });
}

Plan in_mode(const Plan& plan, const Graph& graph, PairMode mode) {
  if (mode == PairMode::kOverlap) return plan;
  ModePlan made(plan, graph);
  if (mode == PairMode::kNoOverlap)
    made.one_at_a_time();
  else
    made.products_on_boards();
  return made.take();
}

}  // namespace millrace
