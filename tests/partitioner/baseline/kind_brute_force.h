// Small chains of recurrent layers and devices, drawn, and the best of all rings by kind by trying every one of them: cuts between layers
// and between products and steps, and cells over boards side by side.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/device/roofline.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "core/plan/seats.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "partitioner/planning/planning.h"
#include "partitioner/planning/summary.h"

namespace millrace::testing_support {

inline const Catalogue& boards() {
  static const Catalogue all = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
  return all;
}

class DrawnChain {
 public:
  explicit DrawnChain(uint32_t seed) : random_(seed) {}
  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }

  Model model() {
    ModelBuilder net("drawn", {from_to(1, 20), from_to(2, 30), 1});
    const int64_t layers = from_to(1, 3);
    for (int64_t i = 0; i < layers; ++i) {
      if (from_to(0, 2) == 0) net.dense("dense" + std::to_string(i), from_to(1, 40));
      net.layer("rnn" + std::to_string(i),
                Recurrent{.cell = static_cast<CellKind>(from_to(0, 3)), .hidden = from_to(2, 30), .bidirectional = from_to(0, 2) == 0});
      // A board does the first two, and no norm that takes its statistics of the micro-batch.
      const int64_t follows = from_to(0, 5);
      if (follows % 2 == 1) net.layer("relu" + std::to_string(i), Activation{.kind = ActivationKind::kRelu});
      if (follows == 2) net.layer("norm" + std::to_string(i), BatchNorm{.statistics = Statistics::kRunning});
      if (follows == 3) net.layer("norm" + std::to_string(i), BatchNorm{});
    }
    net.dense("fc", 5);
    Model model = net.finish();
    model.input_kind = InputKind::kFeatures;
    return model;
  }
  std::unique_ptr<CostModel> device() {
    return make_roofline_cost_model({.device = "drawn",
                                     .macs_per_second = 1e9 * static_cast<double>(from_to(1, 50)),
                                     .bytes_per_second = 1e9 * static_cast<double>(from_to(1, 20)),
                                     .memory_bytes = 1e4 * static_cast<double>(from_to(2, 400)),
                                     .convolution = {},
                                     .dense = {},
                                     .launch_seconds = 1e-6 * static_cast<double>(from_to(0, 5)),
                                     .step_seconds = 1e-7 * static_cast<double>(from_to(0, 20)),
                                     .on_chip_bytes = 0,
                                     .refusal = {},
                                     .constants = {}});
  }

 private:
  std::mt19937 random_;
};

// Every way to give each device a run of layers, products and steps; the least period, 0 where none fits.
class BruteForce {
 public:
  explicit BruteForce(const PlanTask& task) : task_(task) {
    for (const LayerGroup& group : task.graph->groups()) {
      heads_.push_back(group.head);
      const bool recurrent = role_of(task.graph->node(group.head).layer.operation) == Role::kRecurrence;
      parts_of_.push_back(!recurrent ? 1 : group.after.empty() ? 2 : 3);
    }
  }

  double least() {
    place(0, 0, 0);
    return best_;
  }
  int64_t rings() const { return rings_; }

 private:
  // `device` takes part `part` of group `group`, or the next device does.
  void place(size_t group, int64_t part, int64_t device) {
    if (group == heads_.size()) {
      if (device == static_cast<int64_t>(task_.models.size()) - 1) weigh();
      return;
    }
    const bool last = part + 1 == parts_of_[group];
    if (task_.options.divide_all && part == 1 && devices_of_.back() == device) return;
    const auto devices = static_cast<int64_t>(task_.models.size());
    const bool alone = part == 1 && devices_of_.back() != device, steps = alone && is_board(device);
    devices_of_.push_back(device);
    for (const int64_t next : {device, device + 1})
      if (next < devices) {
        if (last && group + 1 == heads_.size() && next != device) continue;
        if (part == 1 && !last && !alone && next != device) continue;  // what follows is cut off behind steps alone
        place(last ? group + 1 : group, last ? 0 : part + 1, next);
      }
    // Or with the boards behind it, whatever cells each takes.
    for (int64_t end = device + 2; steps && end <= devices && is_board(end - 1); ++end) {
      rows_.emplace_back(group, end - device);
      if (!last) {
        for (const int64_t next : {end - 1, end})
          if (next < devices) place(group, 2, next);
      } else if (group + 1 == heads_.size()) {
        place(group + 1, 0, end - 1);
      } else if (end < devices) {
        place(group + 1, 0, end);
      }
      rows_.pop_back();
    }
    devices_of_.pop_back();
  }

  bool is_board(int64_t device) const { return task_.models[static_cast<size_t>(device)]->dedicated_engines(); }

  void weigh() {
    shared_.clear();
    divide(rows_, 0);
  }
  void divide(const std::vector<std::pair<size_t, int64_t>>& rows, size_t row) {
    if (row == rows.size()) return weigh_ring();
    const auto [group, boards] = rows[row];
    const auto& cell = std::get<Recurrent>(task_.graph->node(heads_[group]).layer.operation);
    if (cell.cell == CellKind::kGru && !cell.reset_after) return;
    std::vector<int64_t> cuts = {0};
    const std::function<void()> cut = [&] {
      const auto left = boards - static_cast<int64_t>(cuts.size());
      if (left == 0) {
        cuts.push_back(cell.hidden);
        std::vector<ChannelRange>& units = shared_[group];
        units.clear();
        for (size_t i = 0; i + 1 < cuts.size(); ++i) units.push_back({cuts[i], cuts[i + 1]});
        divide(rows, row + 1);
        cuts.pop_back();
        return;
      }
      for (int64_t c = cuts.back() + 1; c + left <= cell.hidden; ++c) {
        if (c * cell.features() % cell.hidden != 0) continue;  // features divide with the cells
        cuts.push_back(c);
        cut();
        cuts.pop_back();
      }
    };
    cut();
  }

  void weigh_ring() {
    const Graph& graph = *task_.graph;
    std::vector<Shard> shards;
    size_t unit = 0;
    for (size_t g = 0; g < heads_.size(); ++g) {
      const Node& head = graph.node(heads_[g]);
      const std::vector<Block> all = {{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}}};
      const int64_t first = devices_of_[unit], second = devices_of_[unit + (parts_of_[g] > 1 ? 1 : 0)];
      const int64_t third = devices_of_[unit + static_cast<size_t>(parts_of_[g]) - 1];
      const std::vector<ChannelRange> units = shared_.contains(g) ? shared_[g] : std::vector<ChannelRange>{ChannelRange{}};
      unit += static_cast<size_t>(parts_of_[g]);
      Shard& here = shards.emplace_back();
      here.device = first;
      here.layer = head.layer.name;
      here.blocks = all;
      if (second == first) continue;
      for (size_t b = 0; b < units.size(); ++b) {
        Shard& steps = shards.emplace_back();
        steps.device = second + static_cast<int64_t>(b);
        steps.layer = head.layer.name;
        steps.units = units[b];
      }
      if (third < second + static_cast<int64_t>(units.size())) continue;
      Shard& behind = shards.emplace_back();
      behind.device = third;
      behind.layer = head.layer.name;
      behind.after = true;
    }
    PlanRequest request{.cluster = task_.cluster,
                        .alignment = task_.options.alignment,
                        .mini_batch = task_.options.mini_batch,
                        .micro_batch = task_.options.micro_batch,
                        .optimizer = task_.options.optimizer,
                        .arithmetic = task_.options.arithmetic};
    const auto board = [&](int64_t device) { return is_board(device); };
    for (const Shard& shard : shards) {
      if (!board(shard.device)) continue;
      const auto others = std::ranges::count(shards, shard.device, &Shard::device);
      const Node& head = graph.node(graph.index_of(shard.layer));
      const auto group = static_cast<size_t>(std::ranges::find(heads_, graph.index_of(shard.layer)) - heads_.begin());
      const auto above =
          shard.device - (shared_.contains(group) ? std::ranges::find(shared_[group], shard.units) - shared_[group].begin() : 0);
      if (others > 1 || shard.after || !shard.blocks.empty() || board(above - 1)) return;  // steps alone, behind what multiplies
      for (ParameterHome& home :
           shared_.contains(group) ? homes_before_steps(head, above, shared_[group]) : homes_before_steps(head, above))
        if (home.user == shard.device) request.remote_homes.push_back(std::move(home));
    }
    Plan plan = assemble_plan(graph, request, shards);
    const std::vector<int64_t> seats = seats_of(task_.cluster);
    std::vector<double> memory(task_.models.size(), 0), more(task_.models.size(), 0);  // of a card, all its places; of a place
    for (Shard& shard : plan.shards) {
      const LayerGroup& layers = graph.groups()[static_cast<size_t>(graph.node(graph.index_of(shard.layer)).group)];
      const Node& head = graph.node(layers.head);
      const std::vector<Block> blocks = shard.blocks.empty() ? std::vector<Block>{{{0, 0}, {0, sum_shape(head).channels}}} : shard.blocks;
      const Group& group = plan.groups[static_cast<size_t>(head.group)];
      const size_t makers = makers_of(plan, group);
      const bool owner = shard.after || &plan.shards[static_cast<size_t>(group.shards[makers - 1])] == &shard;
      std::vector<const Node*> after;
      for (const int64_t node : layers.after)
        if (shard.after || (owner && makers == group.shards.size())) after.push_back(&graph.node(node));
      const auto device = static_cast<size_t>(shard.device);
      const Node* const first_node = shard.after ? after.front() : &head;
      if (shard.after) after.erase(after.begin());
      const ShardQuestion question{.node = first_node,
                                   .blocks = shard.after ? std::span<const Block>() : std::span<const Block>(blocks),
                                   .after = after,
                                   .units = shard.units,
                                   .owner = owner,
                                   .micro_batch = plan.micro_batch,
                                   .window = plan.windows[device],
                                   .optimizer_slots = task_.options.optimizer.slots(),
                                   .arithmetic = task_.options.arithmetic};
      if (board(shard.device)) {
        if (!task_.models[device]->steps_refusal(question).empty()) return;
        for (const Node* const node : after)
          if (!task_.models[device]->refusal(*node).empty()) return;
        // Its x W keeps the weights and makes the gradients, as it would at home.
        Node copy = head;
        copy.input_error_needed = true;
        ShardQuestion at_home = question;
        const auto home = static_cast<size_t>(gradients_of_steps_at(plan, graph, group));
        at_home.node = &copy;
        at_home.after = {};
        at_home.units = {};
        at_home.owner = true;
        at_home.window = plan.windows[home];
        if (shard.units.begin == 0) {
          memory[static_cast<size_t>(seats[home])] += task_.models[home]->demand_of(at_home).parameters;
          for (const PhaseEngine& engine : task_.models[home]->cost_of(at_home).phases)
            if (engine.phase == Phase::kParameterGradient) more[home] += 1e-12 * static_cast<double>(engine.picoseconds_per_unit);
        }
      }
      const ShardDemand demand = task_.models[device]->demand_of(question);
      if (board(shard.device)) {
        for (size_t i = 0; i < task_.models[device]->capacities().size(); ++i)
          if (demand.amounts[i] > task_.models[device]->capacities()[i].amount) return;
      } else {
        memory[static_cast<size_t>(seats[device])] += demand.amounts[0] + demand.parameters;
      }
      const ShardCost cost = task_.models[device]->cost_of(question);
      shard.unit = cost.unit;
      shard.phases = cost.phases;
    }
    ++rings_;
    for (size_t d = 0; d < memory.size(); ++d)
      if (!board(static_cast<int64_t>(d)) && memory[d] > task_.models[d]->capacities()[0].amount) return;
    const PlanSummary summary = summarize(plan, graph);
    double period = summary.seconds_per_image;
    std::vector<double> of_card(more.size(), 0);
    for (size_t d = 0; d < more.size(); ++d) of_card[static_cast<size_t>(seats[d])] += summary.devices[d].seconds_per_image + more[d];
    for (const double seconds : of_card) period = std::max(period, seconds);
    if (best_ == 0 || period < best_) best_ = period;
  }

  const PlanTask& task_;
  std::vector<int64_t> heads_, parts_of_, devices_of_;
  std::vector<std::pair<size_t, int64_t>> rows_;        // groups whose steps several boards share, and how many
  std::map<size_t, std::vector<ChannelRange>> shared_;  // the cells of each
  int64_t rings_ = 0;
  double best_ = 0;
};

}  // namespace millrace::testing_support
