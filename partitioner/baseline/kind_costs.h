// What parts of a ring by kind take on its devices, and which part lacks least where one does not fit. Internal to partitioner/baseline.
//
//   KindCosts costs(task, units, request);
//   const double seconds = costs.segment_seconds(device, begin, end, amounts);     // kNever where it does not fit: costs.lack()
//   plan: costs.question(device, part).asked
//
// Borrows the task and the units. Everything is of a sample.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/plan/assemble.h"
#include "core/plan/retention.h"
#include "partitioner/baseline/kind_units.h"
#include "partitioner/planning/planning.h"

namespace millrace::by_kind {

inline constexpr double kNever = std::numeric_limits<double>::infinity();
using Amounts = std::array<double, kMostResources>;

class KindCosts {
 public:
  KindCosts(const PlanTask& task, const std::vector<Unit>& units, const PlanRequest& request)
      : task_(task),
        graph_(*task.graph),
        units_(units),
        request_(request),
        held_(held_by_devices(request.alignment, request.mini_batch / request.micro_batch, request.windows)),
        devices_(task.models.size()) {}

  // A question borrows blocks and layers.
  struct Asked {
    std::vector<Block> blocks;
    std::vector<const Node*> after;
    ShardQuestion asked;
  };
  Asked question(size_t device, const Unit& unit) const;
  // Of steps that boards up to `last` share: what follows the layer is on that one, and all take every micro-batch together.
  Asked shared_question(size_t device, const Unit& steps, size_t last, const ChannelRange& units) const;

  bool is_board(size_t device) const { return task_.models[device]->dedicated_engines(); }
  // A board makes the steps of one layer, whose x W is on the CPU or GPU before it; the last device of all is none.
  bool may_have(size_t device, size_t begin, size_t end) const {
    if (!may_end(units_, begin, end)) return false;
    if (!is_board(device)) return !task_.options.divide_all || !has_whole_layer(begin, end);
    return steps_alone(begin, end) && device > 0 && !is_board(device - 1);
  }
  // Nothing but a layer's steps, with or without what follows it.
  bool steps_alone(size_t begin, size_t end) const {
    return units_[begin].part == Part::kSteps && (end == begin + 1 || (end == begin + 2 && units_[begin + 1].part == Part::kAfter));
  }
  // Ends where a board makes the steps of its last layer: the device keeps their parameters, and makes their gradients.
  bool lends(size_t device, size_t end) const {
    return device + 1 < devices_ && end < units_.size() && is_board(device + 1) && !is_board(device) && units_[end].part == Part::kSteps;
  }
  // The gradients alone of steps that another device makes, as this one would make them.
  ShardCost gradients_of(size_t device, const Unit& steps) const;
  // Of so many cells' steps, without what they wait for others' rows; infinite where they do not fit.
  double board_seconds(size_t device, const Unit& steps, size_t last, int64_t units);
  // Of units [begin, end), and what they take of the device's capacities; kNever where they do not fit.
  double segment_seconds(size_t device, size_t begin, size_t end, Amounts& amounts);

  void refuse_steps(size_t device, const Unit& steps, const std::string& why);
  // What lacks least is what is told.
  void refuse(size_t device, const std::string& resource, double missing, std::string text);
  const Reason& lack() const { return lack_; }

 private:
  // Both parts of some recurrent layer.
  bool has_whole_layer(size_t begin, size_t end) const {
    for (size_t unit = begin + 1; unit < end; ++unit)
      if (units_[unit].part == Part::kSteps) return true;
    return false;
  }
  const ShardDemand& demand(size_t device, const Unit& unit);

  const PlanTask& task_;
  const Graph& graph_;
  const std::vector<Unit>& units_;
  const PlanRequest request_;
  const HeldByDevice held_;
  size_t devices_;
  std::map<std::pair<size_t, int64_t>, ShardDemand> demands_;
  std::map<std::tuple<const CostModel*, int64_t, bool, bool, int64_t, int64_t>, double> shares_;
  Reason lack_;
};

}  // namespace millrace::by_kind
