#include "deploy/session/plan_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <tuple>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/off_chip.h"
#include "deploy/devices/hardware.h"
#include "fpga/cost/blocked_engines.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

namespace {

// Batches of so many sequences side by side are tried where nobody says how many.
constexpr int64_t kMostStreams = 4;

bool is_recurrent(const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; }

InferenceBatch batch_of(const InferenceRequest& request, int64_t streams) {
  return {.streams = streams,
          .steps = request.steps_per_pass.value_or(0),
          .blocks = request.blocks.value_or(0),
          .known = std::make_shared<KnownEngines>()};
}

void check_request(const InferenceRequest& request, const PlanTask& task, const Catalogue& catalogue) {
  for (const DeviceEntry& device : task.cluster.devices)
    if (task.options.strategy == Strategy::kKind && hardware_of(catalogue.find(device.device)) == Hardware::kFpga)
      fail(ErrorCode::kUsage,
           "--strategy kind with --inference plans processors alone, and {} is a board, whose engines take recurrent layers whole; plan "
           "with cpu in its place and name the board to eval or predict with --cluster, or leave out --strategy kind",
           device.device);
  if (!request.steps_per_pass && !request.blocks) return;
  const char* const flag = request.steps_per_pass ? "--steps-per-pass" : "--blocks";
  const Graph& graph = *task.graph;
  bool recurrent = false;
  const bool boards = std::ranges::any_of(
      task.cluster.devices, [&](const DeviceEntry& device) { return hardware_of(catalogue.find(device.device)) == Hardware::kFpga; });
  for (const Node& node : graph.nodes()) {
    if (!is_recurrent(node)) continue;
    recurrent = true;
    const int64_t steps = node.output.height, asked = request.steps_per_pass.value_or(1);
    if (steps % asked != 0)
      fail(ErrorCode::kUsage, "--steps-per-pass {}: layer \"{}\" has {} steps, and passes of {} do not make them up; give a divisor", asked,
           node.layer.name, steps, asked);
    const GateMatrix shape = boards && sbe_refusal(node).empty() ? sbe_shape_of(node) : GateMatrix{};
    if (const int64_t columns = shape.inputs + shape.features(); columns > 0 && request.blocks.value_or(1) > columns)
      fail(ErrorCode::kUsage, "--blocks {}: layer \"{}\" has {} columns of weights, which make at most so many blocks", *request.blocks,
           node.layer.name, columns);
  }
  if (!recurrent) fail(ErrorCode::kUsage, "{} has no effect: {} has no recurrent layer; leave it out", flag, graph.model().name);
  if (!boards) fail(ErrorCode::kUsage, "{} has no effect: it is about engines of boards, and the cluster has none; leave it out", flag);
}

double amount_of(const Shard& shard, std::string_view name) {
  for (const NamedAmount& amount : shard.resources)
    if (amount.name == name) return amount.amount;
  return 0;
}

// A board that a plan gives several recurrent layers, or one beside others, which leave it less than a board of its own.
struct SharedBoard {
  int64_t device = 0;
  FpgaResources resources;
  std::vector<const Node*> layers;
  BoardShare taken;  // by the others
};
std::vector<SharedBoard> shared_boards(const PlanTask& task, const Catalogue& catalogue, const Plan& plan) {
  std::map<int64_t, SharedBoard> boards;
  for (const Shard& shard : plan.shards) {
    const Node& node = task.graph->node(task.graph->index_of(shard.layer));
    SharedBoard& board = boards[shard.device];
    if (is_recurrent(node) && weight_stream_of(shard, node)) {
      board.layers.push_back(&node);
      continue;
    }
    board.taken.dsp += amount_of(shard, "dsp");
    board.taken.lut += kUsableLuts * amount_of(shard, "lut");
    board.taken.bram36 += amount_of(shard, "bram_bits") / kBram36Bits;
  }
  std::vector<SharedBoard> shared;
  for (auto& [device, board] : boards) {
    if (board.layers.empty() || (board.layers.size() == 1 && board.taken.dsp <= 0)) continue;
    board.device = device;
    board.resources = fpga_resources_of(catalogue.find(item(task.cluster.devices, device).device), 16);
    shared.push_back(std::move(board));
  }
  return shared;
}

struct Planned {
  Outcome outcome;
  CostModels models;
  PlanOptions options;
};
Planned planned_with(const PlanTask& task, const Catalogue& catalogue, const InferenceBatch& batch) {
  Planned planned{.outcome = {}, .models = models_for(task.cluster, catalogue, task.options.arithmetic, batch), .options = task.options};
  PlanTask one = task;
  one.models = planned.models.of_devices;
  one.options.optimizer.kind = OptimizerKind::kSgd;  // nothing is updated: no state
  one.options.micro_batch = batch.streams;
  one.options.mini_batch = (one.options.mini_batch + batch.streams - 1) / batch.streams * batch.streams;
  planned.outcome = make_plan(one);
  planned.options = one.options;
  return planned;
}

bool is_better(const Outcome& found, const Outcome& best) {
  return found.feasible && (!best.feasible || found.summary.images_per_second > best.summary.images_per_second * (1 + 1e-3));
}

// Layers that came to share a board are chosen together, and planned once more. What the others on the board take at another pace is not
// known before there is a plan: as much more as the pace, twice that, for engines grow in steps, or no more.
void improve(Planned& planned, const PlanTask& task, const Catalogue& catalogue, const InferenceBatch& batch) {
  if (!planned.outcome.plan) return;
  const std::vector<SharedBoard> boards = shared_boards(task, catalogue, *planned.outcome.plan);
  if (boards.empty()) return;
  const double period = planned.outcome.summary.seconds_per_image;
  for (const double growth : {1.0, 2.0, 0.0}) {
    auto together = std::make_shared<EnginesTogether>();
    for (const SharedBoard& board : boards) {
      BoardShare others = board.taken;
      if (growth > 0) {
        others.dsp *= growth, others.lut *= growth;
        together->of_layers.merge(engines_at_paces(board.layers, board.resources, batch, others, period).of_layers);
      } else {
        together->of_layers.merge(engines_together(board.layers, board.resources, batch, others).of_layers);
      }
    }
    if (together->of_layers.empty()) continue;
    InferenceBatch of_boards = batch;
    of_boards.together = std::move(together);
    Planned again = planned_with(task, catalogue, of_boards);
    if (is_better(again.outcome, planned.outcome)) planned = std::move(again);
  }
}

// Which board computes each recurrent layer, in the network's order, and the least time of a sequence that this allows: that of the
// boards' joint searches, with nothing else on the boards.
struct GivenBoards {
  std::vector<int64_t> boards;
  double seconds = 0;
};
std::vector<GivenBoards> placements_of(const PlanTask& task, const Catalogue& catalogue, const InferenceBatch& batch) {
  constexpr size_t kMost = 64;
  std::vector<const Node*> layers;
  for (const Node& node : task.graph->nodes())
    if (is_recurrent(node)) layers.push_back(&node);
  const size_t devices = task.cluster.devices.size();
  if (layers.size() < 2 || devices < 2) return {};
  for (const DeviceEntry& device : task.cluster.devices)
    if (hardware_of(catalogue.find(device.device)) != Hardware::kFpga) return {};
  std::vector<std::vector<int64_t>> all{{}};
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    std::vector<std::vector<int64_t>> longer;
    for (const std::vector<int64_t>& boards : all)
      for (int64_t board = boards.empty() ? 0 : boards.back(); board < static_cast<int64_t>(devices); ++board) {
        longer.push_back(boards);
        longer.back().push_back(board);
      }
    if (longer.size() > kMost) return {};
    all = std::move(longer);
  }
  std::map<std::tuple<std::string, size_t, size_t>, double> known;  // of layers [first, last) on a board
  const auto seconds_of = [&](int64_t board, size_t first, size_t last) {
    const std::string& name = item(task.cluster.devices, board).device;
    const auto [place, added] = known.try_emplace({name, first, last}, std::numeric_limits<double>::infinity());
    if (added) {
      const std::span own = std::span(layers).subspan(first, last - first);
      const EnginesTogether found = engines_together(own, fpga_resources_of(catalogue.find(name), 16), batch, {});
      if (!found.of_layers.empty()) place->second = found.of_layers.begin()->second.seconds.front();
    }
    return place->second;
  };
  std::vector<GivenBoards> placements;
  for (const std::vector<int64_t>& boards : all) {
    GivenBoards placement{.boards = boards};
    for (size_t first = 0, last = 0; first < boards.size(); first = last) {
      while (last < boards.size() && boards[last] == boards[first]) ++last;
      placement.seconds = std::max(placement.seconds, seconds_of(boards[first], first, last));
    }
    placements.push_back(std::move(placement));
  }
  std::ranges::stable_sort(placements, {}, &GivenBoards::seconds);
  return placements;
}

// Cuts are found before layers that share a board are chosen together. Where there are few, every other placement of the recurrent layers
// that could be faster is planned, too, the most promising first, so that cuts and engines are found together.
void try_placements(Planned& planned, const PlanTask& task, const Catalogue& catalogue, const InferenceBatch& batch) {
  if (!task.options.pins.empty() || !task.options.cuts.empty()) return;
  std::vector<int64_t> tried;
  if (planned.outcome.plan)
    for (const Node& node : task.graph->nodes())
      for (const Shard& shard : planned.outcome.plan->shards)
        if (is_recurrent(node) && shard.layer == node.layer.name) tried.push_back(shard.device);
  for (const GivenBoards& placement : placements_of(task, catalogue, batch)) {
    if (placement.boards == tried) continue;
    const Outcome& best = planned.outcome;
    if (best.feasible && !(placement.seconds * (1 + 1e-3) < best.summary.seconds_per_image)) return;
    if (!std::isfinite(placement.seconds)) return;
    PlanTask pinned = task;
    size_t layer = 0;
    for (const Node& node : task.graph->nodes())
      if (is_recurrent(node)) pinned.options.pins[node.layer.name] = placement.boards[layer++];
    Planned other = planned_with(pinned, catalogue, batch);
    improve(other, pinned, catalogue, batch);
    other.options.pins.clear();  // nobody asked for them
    if (is_better(other.outcome, best)) planned = std::move(other);
  }
}

Planned best_planned(const InferenceRequest& request, const PlanTask& task, const Catalogue& catalogue) {
  const bool recurrent = std::ranges::any_of(task.graph->nodes(), is_recurrent);
  std::optional<Planned> best;
  const int64_t least = request.streams.value_or(1), most = request.streams ? *request.streams : recurrent ? kMostStreams : 1;
  for (int64_t streams = least; streams <= most; streams *= 2) {
    const InferenceBatch batch = batch_of(request, streams);
    Planned planned = planned_with(task, catalogue, batch);
    improve(planned, task, catalogue, batch);
    try_placements(planned, task, catalogue, batch);
    if (!best || is_better(planned.outcome, best->outcome)) best = std::move(planned);
  }
  return std::move(*best);
}

}  // namespace

void check_engines(const Plan& plan, const Graph& graph) {
  if (plan.purpose != Purpose::kInference) return;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    steps_of_pass(shard, node);
    if (!is_recurrent(node)) continue;
    if (plan.time_chunks > node.output.height)
      fail(ErrorCode::kMalformed, "the plan's time_chunks is {}, and layer \"{}\" has {} steps; choose at most so many", plan.time_chunks,
           shard.layer, node.output.height);
    weight_stream_of(shard, node);
  }
}

Outcome plan_inference(const InferenceRequest& request, const Catalogue& catalogue, PlanTask& task, CostModels& models) {
  check_request(request, task, catalogue);
  const auto started = std::chrono::steady_clock::now();
  Planned best = best_planned(request, task, catalogue);
  Outcome& outcome = best.outcome;
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();  // of all that was tried
  if (!outcome.feasible && (request.steps_per_pass || request.blocks)) {
    const InferenceRequest freely{.streams = request.streams, .steps_per_pass = {}, .blocks = {}};
    if (best_planned(freely, task, catalogue).outcome.feasible)
      outcome.reason.text += fmt::format("; without {} there is a plan", !request.blocks          ? "--steps-per-pass"
                                                                         : request.steps_per_pass ? "--steps-per-pass and --blocks"
                                                                                                  : "--blocks");
  }
  task.options = best.options;
  models = std::move(best.models);
  task.models = models.of_devices;
  if (outcome.plan) outcome.plan->purpose = Purpose::kInference;
  // Engines chosen together stand in the planner's table by the period that they were looked for, and may be faster: what cuts can reach
  // is no less than what was found.
  if (outcome.plan && outcome.summary.lower_bound_images_per_second > 0) {
    double& seconds = outcome.plan->lower_bound_seconds_per_image;
    seconds = std::min(seconds, outcome.summary.seconds_per_image);
    double& rate = outcome.summary.lower_bound_images_per_second;
    rate = std::max(rate, outcome.summary.images_per_second);
  }
  return std::move(outcome);
}

std::vector<std::string> engines_in_words(const Plan& plan, const Graph& graph) {
  std::vector<std::string> words;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    if (!is_recurrent(node)) {
      if (const int64_t steps = steps_of_pass(shard, node); steps > 1)
        words.push_back(
            fmt::format("{} on device {}: {} steps share a pass over its weights; {:.0f} words of them from outside for a sequence",
                        shard.layer, shard.device, steps, amount_of(shard, kOffChipBytesPerSample) / 2));
      continue;
    }
    const std::optional<SbeConfig> config = weight_stream_of(shard, node);
    if (!config) continue;
    const int64_t batches = node.output.height / config->steps;
    const int64_t weight_words = batches * batch_timing(*config).weight_words;
    words.push_back(fmt::format("{} on device {}: {}; {} words of weights from outside for {} sequence{}", shard.layer, shard.device,
                                text_of(*config), weight_words, config->streams, config->streams == 1 ? "" : "s"));
  }
  return words;
}

std::vector<std::string> fronts_in_words(const InferenceRequest& request, const PlanTask& task, const Catalogue& catalogue,
                                         const Plan& plan) {
  constexpr size_t kShown = 8;
  std::vector<std::string> words;
  for (const Shard& shard : plan.shards) {
    const Node& node = task.graph->node(task.graph->index_of(shard.layer));
    if (!is_recurrent(node) || !weight_stream_of(shard, node)) continue;
    const GateMatrix shape = sbe_shape_of(node);
    const std::string& board = item(task.cluster.devices, shard.device).device;
    const Exploration found = explore(planned_space(shape, node.output.height, batch_of(request, plan.micro_batch)),
                                      sbe_board_of(fpga_resources_of(catalogue.find(board), 16)));
    words.push_back(fmt::format("layer {} alone on {}: {} ways to build its engine fit, {} of which nothing beats", shard.layer, board,
                                found.feasible, found.front.size()));
    for (size_t i = 0; i < std::min(kShown, found.front.size()); ++i)
      words.push_back(fmt::format("layer {}: {:.0f} steps/s, {:.1f} BRAM36, {:.0f} DSP with {}", shard.layer,
                                  found.front[i].steps_per_second, found.front[i].use.bram36, found.front[i].use.dsp,
                                  text_of(found.front[i].config)));
  }
  for (const SharedBoard& board : shared_boards(task, catalogue, plan)) {
    std::string names;
    for (const Node* layer : board.layers) names += (names.empty() ? "" : ", ") + layer->layer.name;
    const EnginesTogether chosen = engines_together(board.layers, board.resources, batch_of(request, plan.micro_batch), board.taken);
    if (chosen.of_layers.empty()) continue;
    const EnginesTogether::Ways& first = chosen.of_layers.at(board.layers.front()->layer.name);
    for (size_t i = 0; i < std::min(kShown, first.seconds.size()); ++i) {
      double blocks = 0;
      for (const auto& [layer, ways] : chosen.of_layers) blocks += ways.engines[i].point.use.bram36;
      words.push_back(fmt::format("layer{} {} together on device {}, every combination looked at: {:.4g} sequences/s on {:.1f} BRAM36",
                                  board.layers.size() == 1 ? "" : "s", names, board.device, 1 / first.seconds[i], blocks));
    }
  }
  return words;
}

}  // namespace millrace
