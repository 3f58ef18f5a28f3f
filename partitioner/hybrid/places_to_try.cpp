#include "partitioner/hybrid/places_to_try.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/plan/schedule.h"
#include "partitioner/hybrid/ring_attempt.h"
#include "partitioner/hybrid/ring_plan.h"
#include "partitioner/hybrid/streamed_layers.h"

namespace millrace {
namespace {

// Numbers of layers that are tried on chip, none among them.
constexpr int64_t kMostPlaces = 4;
// Samples that may share a micro-batch unasked: cost models know the memory of a million, and nothing gains from so many.
constexpr int64_t kMostTogether = 65'536;
// Devices that a micro-batch fills one after the other while a ring drains: with fewer micro-batches than an eighth of the devices almost
// all of them wait.
constexpr int64_t kMostFilled = 8;

// The samples of a few micro-batches share a pass over gradients off chip: of more of them less is moved, and more activations are held.
// Not where a trained batch norm's statistics are those of a micro-batch.
bool passes_may_be_shared(const PlanTask& task) {
  if (task.options.accounting != Accounting::kFull) return false;
  const std::vector<Node>& nodes = task.graph->nodes();
  const auto normalises = [](const Node& node) {
    const auto* norm = std::get_if<BatchNorm>(&node.layer.operation);
    return norm != nullptr && norm->statistics == Statistics::kExact;
  };
  if (std::any_of(nodes.begin(), nodes.end(), normalises)) return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return lies_off_chip(task, node); });
}

}  // namespace

bool lies_off_chip(const PlanTask& task, const Node& node) {
  return node.computes && role_of(node.layer.operation) == Role::kProduct && !task.options.on_chip.contains(node.layer.name) &&
         std::any_of(task.models.begin(), task.models.end(), [&](const CostModel* model) { return model->keeps_off_chip(node); });
}

std::vector<PlanTask> places_to_try(const PlanTask& given) {
  PlanTask task = given;
  task.options.off_chip = streamable_convolutions(given);
  std::vector<PlanTask> places{task};
  if (task.options.accounting == Accounting::kFull && !task.options.all_off_chip) {
    double bits = 0;  // of weights that are on chip anyway
    std::vector<std::pair<double, std::string>> layers;
    const auto copies = static_cast<double>((2 + task.options.optimizer.slots()) * bits_of(task.options.arithmetic.wire));
    for (const Node& node : task.graph->nodes()) {
      if (node.parameters.empty() || !node.computes) continue;
      const double held = copies * static_cast<double>(node.parameters.front().elements());
      if (lies_off_chip(task, node)) {
        layers.emplace_back(held, node.layer.name);
      } else if (role_of(node.layer.operation) == Role::kConvolution) {
        bits += held;
      }
    }
    std::sort(layers.begin(), layers.end());
    double room = 0;
    for (const CostModel* model : task.models) room += model->capacities()[model->parameter_memory()].amount;
    const bool counts_bits = streams_rows(task);  // devices of other kinds have room that is counted otherwise
    PlanTask placed = task;
    for (const auto& [held, layer] : layers) {
      bits += held;
      if (counts_bits && bits > room) break;
      placed.options.on_chip.insert(layer);
      places.push_back(placed);
    }
    // Some are enough, of as many as fit among them.
    if (std::ssize(places) > kMostPlaces) places.erase(places.begin() + 1, places.end() - kMostPlaces + 1);
  }
  return places;
}

bool may_wait_outside(const PlanTask& task) {
  if (task.options.accounting != Accounting::kFull || task.options.act_rams_outside) return false;
  const std::vector<Node>& nodes = task.graph->nodes();
  if (std::ranges::none_of(nodes, [](const Node& node) { return role_of(node.layer.operation) == Role::kConvolution; })) return false;
  return std::ranges::any_of(task.models, [](const CostModel* model) { return model->may_wait_outside(); });
}

std::vector<PlanTask> rooms_to_try(const PlanTask& task, const std::vector<PlanTask>& places, bool outside_first) {
  if (!may_wait_outside(task)) return places;
  std::vector<PlanTask> all;
  for (const PlanTask& place : places)
    for (const bool outside : {outside_first, !outside_first}) {
      all.push_back(place);
      all.back().options.act_rams_outside = outside;
    }
  return all;
}

std::vector<PlanTask> last_resorts(const PlanTask& task) {
  PlanTask all_off_chip = task;
  all_off_chip.options.all_off_chip = true;
  all_off_chip.options.off_chip = streamable_convolutions(task);
  std::vector<PlanTask> resorts{all_off_chip};
  if (!may_wait_outside(task) || has_two_kinds(task)) return resorts;
  resorts.push_back(std::move(all_off_chip));
  resorts.back().options.act_rams_outside = true;
  return resorts;
}

std::vector<int64_t> micro_batches_to_try(const PlanTask& task, int64_t devices) {
  if (task.options.micro_batch > 0) return {task.options.micro_batch};
  const bool streams = streams_rows(task);
  if (streams && !passes_may_be_shared(task)) return {1};
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= std::min(task.options.mini_batch, kMostTogether); size *= 2)
    if (task.options.mini_batch % size == 0) sizes.push_back(size);
  if (streams) return sizes;
  // Unaligned schedules take a mini-batch of at least D micro-batches, but where chunks of time make up for them: with D-1 a window reaches
  // beyond a mini-batch, and the six that are simulated say too much. Draining ones wait for a ring that fills and drains with fewer than
  // D, which larger products may outweigh; long rings are not planned so often.
  if (devices == 0) devices = std::ssize(task.models);
  const int64_t chunks = chooses_chunks(task) ? kMostChunks : task.options.time_chunks;
  const bool may_wait = drains(task.options.alignment) && task.models.size() <= kLongRing;
  const int64_t passes = std::max<int64_t>(chunks, 1) * (may_wait ? kMostFilled : 1);
  std::erase_if(sizes, [&](int64_t size) { return size > 1 && task.options.mini_batch / size * passes < devices; });
  return sizes;
}

}  // namespace millrace
