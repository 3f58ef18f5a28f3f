#include "deploy/session/rtl_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/random.h"
#include "core/plan/off_chip.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/cost/blocked_engines.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/sbe/generator/engine_files.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/rtl/engine_hardware.h"
#include "fpga/sbe/timing.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

namespace {

constexpr int64_t kMemoryLatency = 100;  // cycles, of the memory outside

// One shard's engine. What it fetches passes a port of its own, and the memory that all on a board share.
struct Engine {
  int64_t device = 0;
  std::string layer, engine;
  int64_t planned_multipliers = 0, built_multipliers = 0;
  double planned_seconds = 0, built_seconds = 0;  // per sample
  double bytes_fetched = 0;                       // per sample, from the memory outside
  std::string reason;                             // why there is none; empty: it is built
};

// What the shard holds, as a convolution over the rows that come; of a dense layer, steps that share its weights are one row.
ConvolutionShape held_shape(const Node& node, const Shard& shard) {
  ChannelRange inputs = shard.blocks.front().inputs, outputs = shard.blocks.front().outputs;
  for (const Block& block : shard.blocks) {
    inputs = hull(inputs, block.inputs);
    outputs = hull(outputs, block.outputs);
  }
  const Shape& in = node.input_shapes[0];
  const int64_t together = steps_of_pass(shard, node);
  ConvolutionShape shape{inputs.size(), outputs.size(), in.height / together, in.width * together};
  if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation))
    shape = {inputs.size(),  outputs.size(), in.height,   in.width,         conv->kernel_h,   conv->kernel_w, conv->stride_h,
             conv->stride_w, conv->pad_h,    conv->pad_w, conv->dilation_h, conv->dilation_w, conv->groups};
  return shape;
}

// The smallest rectangle of lanes whose forward pass keeps up, of those the fastest.
std::optional<EngineParallelism> smallest_forward_engine(const ConvolutionShape& shape, int64_t cycles) {
  std::optional<EngineParallelism> best;
  int64_t best_cycles = 0;
  for (int64_t in = 1; in <= std::min(shape.inputs / shape.groups, kMostEngineLanes); ++in)
    for (int64_t out = 1; out <= std::min(shape.outputs / shape.groups, kMostEngineLanes); ++out) {
      if (best && in * out > best->tiles()) break;
      if (shape.groups > 1 && ((shape.inputs / shape.groups) % in != 0 || (shape.outputs / shape.groups) % out != 0)) continue;
      const EngineParallelism engine = engine_of(shape, in, out);
      const int64_t taken = engine_cycles(engine, shape).forward;
      if (taken > cycles || (best && engine.tiles() == best->tiles() && taken >= best_cycles)) continue;
      best = engine;
      best_cycles = taken;
    }
  return best;
}

// Of the memory outside; nothing where what it moves is free.
bool is_fetched(const Shard& shard) {
  return std::ranges::find(shard.resources, kOffChipBytesPerSample, &NamedAmount::name) != shard.resources.end();
}

double off_chip_bandwidth_of(const Plan& plan, int64_t device) {
  for (const DeviceBudget& budget : plan.budgets)
    if (budget.device == item(plan.cluster.devices, device).device) return off_chip_bandwidth(budget.amounts);
  return 0;
}

Engine engine_of_shard(const Plan& plan, const Graph& graph, const Shard& shard, double period) {
  const Node& node = graph.node(graph.index_of(shard.layer));
  const PhaseEngine& phase = shard.phases.front();
  const double clock = planned_clock(plan, item(plan.cluster.devices, shard.device).device);
  if (clock <= 0) fail(ErrorCode::kMismatch, "the plan does not say the clock of device {}; plan again, for boards", shard.device);
  Engine made{.device = shard.device, .layer = shard.layer, .engine = phase.engine, .planned_multipliers = phase.multipliers, .reason = ""};
  made.planned_seconds = planned_seconds(node, shard.unit, phase);
  if (phase.engine == "sbe") {
    const std::optional<SbeConfig> config = weight_stream_of(shard, node);
    if (!config) fail(ErrorCode::kMismatch, "layer \"{}\": the plan does not say how its engine is built; plan again", shard.layer);
    const auto batches = static_cast<double>(node.output.height / config->steps) / static_cast<double>(config->streams);
    try {
      check_buildable(*config);
    } catch (const Error& error) {
      made.reason = error.message();
      return made;
    }
    made.built_multipliers = config->multipliers();
    made.built_seconds = built_cycles(*config, kMemoryLatency).batch * batches / clock;
    if (is_fetched(shard)) made.bytes_fetched = 2 * static_cast<double>(batch_timing(*config).weight_words) * batches;
    return made;
  }
  const auto cycles = static_cast<int64_t>(period * clock * (1 + 1e-9));
  const ConvolutionShape shape = held_shape(node, shard);
  std::optional<EngineParallelism> engine = smallest_forward_engine(shape, cycles);
  if (!engine) {
    made.reason = fmt::format("no rectangle of lanes takes a sample in {} cycles", cycles);
    return made;
  }
  made.built_multipliers = engine->tiles() * engine->taps();
  int64_t taken = engine_cycles(*engine, shape).forward;
  if (is_fetched(shard)) {
    // Words without gaps: as wide as divides what a sweep needs.
    while (engine->tiles() % engine->kernels_per_word != 0) ++engine->kernels_per_word;
    const int64_t beats = weight_stream_cycles({}, *engine, shape).forward;
    taken = std::max(taken, beats);
    made.bytes_fetched = static_cast<double>(beats) * static_cast<double>(kMostBeatBits) / 8;
  }
  made.built_seconds = static_cast<double>(taken) / clock;
  return made;
}

// Engines whose words come from one memory wait for all that it brings within a sample.
void wait_for_memory(const Plan& plan, std::vector<Engine>& engines) {
  std::map<int64_t, double> bytes;
  for (const Engine& engine : engines) bytes[engine.device] += engine.bytes_fetched;
  for (Engine& engine : engines) {
    const double bandwidth = off_chip_bandwidth_of(plan, engine.device);
    if (engine.bytes_fetched > 0 && bandwidth > 0) engine.built_seconds = std::max(engine.built_seconds, bytes[engine.device] / bandwidth);
  }
}

std::vector<Engine> engines_of(const Plan& plan, const Graph& graph) {
  double period = 0;
  for (const Shard& shard : plan.shards)
    for (const PhaseEngine& phase : shard.phases)
      period = std::max(period, planned_seconds(graph.node(graph.index_of(shard.layer)), shard.unit, phase));
  std::vector<Engine> engines;
  for (const Shard& shard : plan.shards)
    if (!shard.phases.empty() && shard.phases.front().multipliers > 0) engines.push_back(engine_of_shard(plan, graph, shard, period));
  wait_for_memory(plan, engines);
  return engines;
}

// The built ring's pace over the planned one; nothing where an engine is missing.
std::optional<double> pace_ratio_of(const std::vector<Engine>& engines) {
  double planned = 0, built = 0;
  for (const Engine& engine : engines) {
    if (!engine.reason.empty()) return std::nullopt;
    planned = std::max(planned, engine.planned_seconds);
    built = std::max(built, engine.built_seconds);
  }
  return built > 0 ? std::optional(planned / built) : std::nullopt;
}

}  // namespace

std::optional<double> inference_pace_ratio(const Plan& plan, const Graph& graph) { return pace_ratio_of(engines_of(plan, graph)); }

int tell_inference_check(const Plan& plan, const Graph& graph, bool json) {
  const std::vector<Engine> engines = engines_of(plan, graph);
  const std::optional<double> ratio = pace_ratio_of(engines);
  if (json) {
    nlohmann::ordered_json all = {{"purpose", "inference"}, {"engines", nlohmann::ordered_json::array()}, {"pace_ratio", nullptr}};
    for (const Engine& engine : engines)
      all["engines"].push_back({{"device", engine.device},
                                {"layer", engine.layer},
                                {"engine", engine.engine},
                                {"generated", engine.reason.empty()},
                                {"reason", engine.reason},
                                {"planned_multipliers", engine.planned_multipliers},
                                {"built_multipliers", engine.built_multipliers},
                                {"planned_seconds", engine.planned_seconds},
                                {"built_seconds", engine.built_seconds},
                                {"bytes_fetched_per_sample", engine.bytes_fetched}});
    if (ratio) all["pace_ratio"] = *ratio;
    all["origin"] = "planned: the plan's cost model; built: modelled as generated, engine by engine";
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{:>6} {:<20} {:<8} {:>20} {:>18} {:>12} {:>12}\n", "device", "layer", "engine", "planned multipliers", "built multipliers",
               "planned ms", "built ms");
    for (const Engine& engine : engines) {
      fmt::print("{:>6} {:<20} {:<8} {:>20} ", engine.device, engine.layer, engine.engine, engine.planned_multipliers);
      if (engine.reason.empty())
        fmt::print("{:>18} {:>12.4f} {:>12.4f}\n", engine.built_multipliers, 1e3 * engine.planned_seconds, 1e3 * engine.built_seconds);
      else
        fmt::print("not built: {}\n", engine.reason);
    }
    if (engines.empty())
      fmt::print("no board of the plan computes: nothing to generate\n");
    else if (ratio)
      fmt::print("pace_ratio {:.3f}: the built engines' pace over the planned one (modelled); no top joins a device's engines yet\n",
                 *ratio);
    else
      fmt::print("no pace_ratio while an engine is missing\n");
  }
  return ratio || engines.empty() ? 0 : exit_status_of(ErrorCode::kInfeasible);
}

std::vector<std::string> write_inference_engines(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights,
                                                 const LayerFormats& formats, const std::filesystem::path& folder, uint64_t seed) {
  std::vector<std::string> written;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    if (shard.device != device || role_of(node.layer.operation) != Role::kRecurrence) continue;
    const std::optional<SbeConfig> config = weight_stream_of(shard, node);
    if (!config) fail(ErrorCode::kMismatch, "layer \"{}\": the plan does not say how its engine is built; plan again", shard.layer);
    const auto& cell = std::get<Recurrent>(node.layer.operation);
    std::vector<std::vector<float>> values;
    for (const ParameterSpec& parameter : node.parameters) {
      const std::vector<double> exact = weights(node, parameter);
      values.emplace_back(exact.begin(), exact.end());
    }
    ArithmeticCounters counters;
    const FixedRecurrent layer =
        fixed_recurrent(cell, node.input_shapes[0].channels,
                        {values.at(0), values.at(1), values.at(2), values.at(3), cell.projection > 0 ? values.at(4) : std::vector<float>{}},
                        recurrent_formats_of(formats, shard.layer, cell), gate_forms_of(cell, TanhForm::kPlan), counters);
    constexpr int64_t kBatches = 2;
    const Philox draw(seed, stream_id("rtl inputs", shard.layer));
    std::vector<int16_t> x(to_size(kBatches * config->vectors() * layer.inputs));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int16_t>(static_cast<int64_t>(draw.below(i, 1 << 13)) - (1 << 12));
    RecurrentRun run;
    run.streams = config->streams;
    run.steps = config->steps;
    write_engine(folder / shard.layer, *config, layer, {.run = run, .x = x, .batches = kBatches},
                 {.memory_latency = kMemoryLatency, .seed = static_cast<int64_t>(seed)});
    written.push_back(shard.layer);
  }
  if (written.empty())
    fail(ErrorCode::kUnavailable,
         "device {} of this plan for inference computes no recurrent layer, and no hardware is generated yet for "
         "forward passes of other layers; --check tells their engines",
         device);
  return written;
}

}  // namespace millrace
