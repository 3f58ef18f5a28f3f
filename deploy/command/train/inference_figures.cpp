#include "deploy/command/train/inference_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "deploy/session/plan_inference.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/timing.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

namespace {

constexpr int64_t kMemoryLatency = 100;  // cycles, of the memory outside, as cosim has it

double megahertz(const EngineFigures& engine) { return 1e-6 * engine.cycles_per_batch / engine.batch_seconds; }

std::string origin_of(const InferenceFigures& figures) {
  if (figures.engines.empty()) return "model";
  return fmt::format("model at {:.0f} MHz (projected)", megahertz(figures.engines.front()));
}

// Of one shard's forward pass, a sample.
double seconds_of(const Node& node, const Shard& shard) {
  double seconds = 0;
  for (const PhaseEngine& phase : shard.phases)
    if (phase.phase == Phase::kForward) seconds += planned_seconds(node, shard.unit, phase);
  return seconds;
}

}  // namespace

std::optional<InferenceFigures> inference_figures(const Plan& plan, const Graph& graph, double frames_per_second) {
  if (plan.purpose != Purpose::kInference) return std::nullopt;
  check_engines(plan, graph);
  InferenceFigures figures;
  figures.batch_streams = plan.micro_batch;
  double slowest = 0;
  int64_t steps_of_sequence = 1;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    const double seconds = seconds_of(node, shard);
    slowest = std::max(slowest, seconds);
    figures.batch_steps = std::max(figures.batch_steps, steps_of_pass(shard, node));
    if (role_of(node.layer.operation) != Role::kRecurrence) continue;
    const std::optional<SbeConfig> config = weight_stream_of(shard, node);
    if (!config) continue;
    steps_of_sequence = node.output.height;
    EngineFigures engine{.layer = shard.layer, .device = shard.device, .streams = config->streams, .steps = config->steps};
    engine.cycles_per_batch = built_cycles(*config, kMemoryLatency).batch;
    engine.batch_seconds = seconds * static_cast<double>(config->vectors()) / static_cast<double>(node.output.height);
    engine.words_from_memory = batch_timing(*config).weight_words;
    figures.engines.push_back(std::move(engine));
  }
  if (slowest <= 0) return std::nullopt;
  figures.sequences_per_second = 1 / slowest;
  // Of the sequence's steps, a batch's part; layers behind the last step take a sequence at a time all the same.
  const double part = static_cast<double>(figures.batch_streams * figures.batch_steps) / static_cast<double>(steps_of_sequence);
  for (const Shard& shard : plan.shards) figures.pass_seconds += part * seconds_of(graph.node(graph.index_of(shard.layer)), shard);
  if (frames_per_second > 0) figures.waiting_seconds = static_cast<double>(figures.batch_steps) / frames_per_second;
  for (const Link& link : plan.links) {
    double bits = 0;
    for (const Flow& flow : plan.flows)
      if (flow.link == link.from && flow.direction == Direction::kForward)
        bits += part * static_cast<double>(flow.elements_per_sample * bits_of(flow.wire));
    if (bits > 0 && link.forward_bits_per_second > 0)
      figures.link_seconds +=
          bits / static_cast<double>(link.forward_bits_per_second) + 1e-12 * static_cast<double>(link.latency_picoseconds);
  }
  return figures;
}

std::string text_of(const InferenceFigures& figures) {
  std::string text = fmt::format("modelled: {:.4g} sequences/s ({})\n", figures.sequences_per_second, origin_of(figures));
  for (const EngineFigures& engine : figures.engines)
    text += fmt::format("  {} on device {}: a batch of {} x {} steps in {:.0f} cycles, {:.4g} steps/s, {} words of weights fetched\n",
                        engine.layer, engine.device, engine.streams, engine.steps, engine.cycles_per_batch, engine.frames_per_second(),
                        engine.words_from_memory);
  text += fmt::format("  first result after {:.3g} ms: {:.3g} waiting for {} step{} of a sequence, {:.3g} passing, {:.3g} on links\n",
                      1e3 * figures.first_result_seconds(), 1e3 * figures.waiting_seconds, figures.batch_steps,
                      figures.batch_steps == 1 ? "" : "s", 1e3 * figures.pass_seconds, 1e3 * figures.link_seconds);
  return text;
}

nlohmann::ordered_json json_of(const InferenceFigures& figures) {
  nlohmann::ordered_json engines = nlohmann::ordered_json::array();
  for (const EngineFigures& engine : figures.engines)
    engines.push_back({{"layer", engine.layer},
                       {"device", engine.device},
                       {"streams", engine.streams},
                       {"steps", engine.steps},
                       {"cycles_per_batch", engine.cycles_per_batch},
                       {"batch_seconds", engine.batch_seconds},
                       {"frames_per_second", engine.frames_per_second()},
                       {"words_from_memory", engine.words_from_memory},
                       {"origin", fmt::format("model at {:.0f} MHz (projected)", megahertz(engine))}});
  return {{"sequences_per_second", figures.sequences_per_second},
          {"first_result_seconds", figures.first_result_seconds()},
          {"latency",
           {{"waiting_seconds", figures.waiting_seconds}, {"pass_seconds", figures.pass_seconds}, {"link_seconds", figures.link_seconds}}},
          {"engines", engines},
          {"origin", origin_of(figures)}};
}

}  // namespace millrace
