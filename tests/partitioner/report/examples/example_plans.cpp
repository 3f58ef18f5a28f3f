#include "tests/partitioner/report/examples/example_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"

namespace millrace::testing_support {
namespace {

struct Kind {
  double macs_per_second = 0;
  bool engines = false;  // of their own, with DSPs
  std::vector<NamedAmount> budget;
};

const std::map<std::string, Kind>& kinds() {
  static const std::map<std::string, Kind> all = {
      {"vc709",
       {3060 * 200e6,
        true,
        {{"dsp", 3060},
         {"dsp_device", 3600},
         {"lut", 433200},
         {"ff", 866400},
         {"bram_bits", 54190080},
         {"bram36", 1470},
         {"dram_bytes", 8.59e9},
         {"multipliers", 3060},
         {"clock_hz", 200e6},
         {"macs_per_second", 3060 * 200e6},
         {"watts_idle", 16.6},
         {"watts_per_gops", 0.01264}}}},
      {"u280",
       {7670 * 300e6,
        true,
        {{"dsp", 7670},
         {"dsp_device", 9024},
         {"lut", 1303680},
         {"ff", 2607360},
         {"bram_bits", 74317824},
         {"bram36", 2016},
         {"dram_bytes", 34.3e9},
         {"multipliers", 7670},
         {"clock_hz", 300e6},
         {"macs_per_second", 7670 * 300e6},
         {"uram_bits", 283115520}}}},
      {"h200", {200e12, false, {{"memory_bytes", 141e9}, {"macs_per_second", 495e12}}}},
      {"cpu", {2e12, false, {{"memory_bytes", 64e9}, {"macs_per_second", 3.2e12}}}},
  };
  return all;
}

double work_of(const Graph& graph, int64_t group) {
  const LayerGroup& layers = graph.groups()[static_cast<size_t>(group)];
  return std::max(1.0, 3.0 * static_cast<double>(graph.node(layers.head).work.forward_macs));
}

// Cuts that give every device its share of the work.
std::vector<Cut> even_cuts(const Graph& graph, const std::vector<double>& speeds, const std::vector<Split>& splits) {
  const auto groups = static_cast<int64_t>(graph.groups().size());
  double total = 0, fast = 0;
  for (int64_t g = 0; g < groups; ++g) total += work_of(graph, g);
  for (const double speed : speeds) fast += speed;
  std::vector<Cut> cuts;
  double before = 0, target = 0;
  int64_t g = 0;
  for (size_t d = 0; d + 1 < speeds.size(); ++d) {
    target += total * speeds[d] / fast;
    while (g + 1 < groups && before + work_of(graph, g) < target) before += work_of(graph, g++);
    const LayerExtent extent = extent_of(graph, g);
    const bool by_inputs = splits[static_cast<size_t>(g)] == Split::kInputChannels;
    const double units = static_cast<double>(by_inputs ? extent.inputs : extent.outputs);
    const double place = std::clamp((target - before) / work_of(graph, g), 0.0, 1.0) * units;
    Cut cut{g, static_cast<int64_t>(place), 0};
    if (by_inputs) cut.outputs = static_cast<int64_t>((place - std::floor(place)) * static_cast<double>(extent.outputs));
    if (!cuts.empty() && cut <= cuts.back()) {
      cut = cuts.back();
      by_inputs ? ++cut.outputs : ++cut.channel;
    }
    cuts.push_back(cut);
  }
  return cuts;
}

class Builder {
 public:
  Builder(const Graph& graph, Cluster cluster) : graph_(graph), cluster_(std::move(cluster)) {
    for (const DeviceEntry& device : cluster_.devices) speeds_.push_back(kinds().at(device.device).macs_per_second);
  }

  Alignment alignment = Alignment::kFpdeep;
  bool balanced = false;

  Plan build() {
    std::vector<Split> splits;
    for (const LayerGroup& layers : graph_.groups()) {
      const Node& head = graph_.node(layers.head);
      const auto* conv = std::get_if<Conv2d>(&head.layer.operation);
      const bool first = head.input_shapes.front().channels < 8;
      splits.push_back(first || (conv != nullptr && conv->groups > 1) ? Split::kOutputChannels : Split::kInputChannels);
    }
    shards_ = shards_from_cuts(graph_, even_cuts(graph_, speeds_, splits), splits);
    double total = 0, fast = 0;
    for (int64_t g = 0; g < static_cast<int64_t>(graph_.groups().size()); ++g) total += work_of(graph_, g);
    for (const double speed : speeds_) fast += speed;
    period_ = total / fast;
    for (Shard& shard : shards_) fill(shard);
    PlanRequest request;
    request.cluster = cluster_;
    request.alignment = alignment;
    request.mini_batch = 1024;
    request.micro_batch = 1;
    request.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
    request.optimizer.kind = OptimizerKind::kSgd;
    if (balanced) request.remote_homes = homes();
    // As deep as what is under way between FP and EB of an image, not as the ring is long.
    if (!drains(alignment))
      request.windows.assign(cluster_.devices.size(), std::min<int64_t>(5, static_cast<int64_t>(cluster_.devices.size())));
    for (size_t d = 0; d < request.windows.size(); ++d)
      request.windows[d] = std::max<int64_t>(1, std::min(request.windows[d], static_cast<int64_t>(request.windows.size() - d)));
    Plan plan = assemble_plan(graph_, request, shards_);
    for (const auto& [name, kind] : kinds()) {
      const bool used =
          std::any_of(cluster_.devices.begin(), cluster_.devices.end(), [&](const DeviceEntry& d) { return d.device == name; });
      if (used) plan.budgets.push_back({name, kind.budget});
    }
    plan.constants = {{"vc709.clock_hz", 200e6, "paper"},   {"vc709.dsp_engine_share", 0.85, "fitted"},
                      {"vc709.watts_idle", 16.6, "fitted"}, {"vc709.watts_per_gops", 0.01264, "fitted"},
                      {"vc709.lut", 433200, "catalogue"},   {"cpu.macs_per_second", 51.23e9, "measured"}};
    plan.optimality_gap = 0.0123;
    return plan;
  }

 private:
  double weights_of(const Shard& shard) const {
    double weights = 0;
    for (const Block& block : shard.blocks) weights += static_cast<double>(weight_elements(graph_, graph_.index_of(shard.layer), block));
    return weights;
  }

  void fill(Shard& shard) {
    const Node& node = graph_.node(graph_.index_of(shard.layer));
    const Kind& kind = kinds().at(cluster_.devices[static_cast<size_t>(shard.device)].device);
    const double weights = weights_of(shard);
    double all = 1;
    for (const ParameterSpec& spec : node.parameters)
      if (&spec == &node.parameters.front()) all = static_cast<double>(spec.elements());
    const double share = std::min(1.0, weights / all);
    const double macs = std::max(1.0, share * static_cast<double>(node.work.forward_macs));
    const double inputs = share * static_cast<double>(node.work.input_elements);
    const auto* conv = std::get_if<Conv2d>(&node.layer.operation);
    const double tap = conv != nullptr ? static_cast<double>(conv->kernel_h * conv->kernel_w) : 1;
    const double clock = kind.engines ? kind.macs_per_second / kind.budget[0].amount : 1;
    double dsp = 0;
    shard.unit = kind.engines && conv != nullptr ? StreamingUnit::kRow : StreamingUnit::kSample;
    for (const Phase phase : {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient}) {
      double units = 1;
      if (shard.unit == StreamingUnit::kRow)
        units = static_cast<double>(phase == Phase::kErrorBack ? node.input_shapes[0].height : node.output.height);
      PhaseEngine engine{.phase = phase, .engine = conv != nullptr ? "conv_ce" : "pe_chain"};
      double seconds = macs / kind.macs_per_second;
      if (kind.engines) {
        const double tiles = macs / (period_ * clock * tap), multipliers = tap * (tiles < 8 ? std::ceil(tiles) : std::round(tiles));
        engine.multipliers = static_cast<int64_t>(multipliers);
        dsp += multipliers;
        seconds = macs / (multipliers * clock);
      } else {
        engine.engine = "roofline";
      }
      engine.picoseconds_per_unit = static_cast<int64_t>(std::ceil(seconds / units * 1e12));
      shard.phases.push_back(engine);
    }
    const double held = inputs * 16 * 1.1, line = static_cast<double>(node.output.channels * node.output.width) * 3 * 16 * share;
    shard.act_ram_bits = static_cast<int64_t>(held);
    if (!kind.engines) {
      shard.resources = {{"memory_bytes", (held + line) * 4}, {"parameter_memory_bytes", weights * 8}};
      shard.act_ram_bits *= 24;
      return;
    }
    shard.resources = {{"dsp", dsp},
                       {"lut", 62 * dsp + 5200},
                       {"ff", 118 * dsp + 9100},
                       {"bram_bits", held + line},
                       {"bram36", std::ceil((held + line) / 36864 * 1.25)}};
    if (conv == nullptr) {
      shard.resources.push_back({"dram_bytes", weights * 4});
    } else {
      shard.resources.push_back({"parameter_bram_bits", weights * 32});
      shard.resources.push_back({"parameter_bram36", std::ceil(weights * 32 / 36864 * 1.1)});
    }
  }

  // What does not fit under 78% of a device's memory goes to the nearest devices upstream that have room.
  std::vector<ParameterHome> homes() const {
    std::vector<double> used(cluster_.devices.size());
    const auto cap = [&](size_t d) {
      for (const NamedAmount& amount : kinds().at(cluster_.devices[d].device).budget)
        if (amount.name == "bram_bits") return .78 * amount.amount;
      return 0.0;
    };
    for (const Shard& shard : shards_)
      for (const NamedAmount& amount : shard.resources)
        if (amount.name.ends_with("bram_bits")) used[static_cast<size_t>(shard.device)] += amount.amount;
    std::vector<ParameterHome> moved;
    for (size_t i = shards_.size(); i-- > 0;) {
      const Shard& shard = shards_[i];
      const auto user = static_cast<size_t>(shard.device);
      if (std::none_of(shard.resources.begin(), shard.resources.end(),
                       [](const NamedAmount& a) { return a.name == "parameter_bram_bits"; }))
        continue;
      auto left = static_cast<int64_t>(weights_of(shard));
      int64_t offset = 0;
      for (size_t home = user; home-- > 0 && left > 0 && used[user] > cap(user);) {
        const double room = std::min(cap(home) - used[home], used[user] - cap(user));
        const auto count = std::min(left, static_cast<int64_t>(room / 32));
        if (count < 1000) continue;
        const Node& node = graph_.node(graph_.index_of(shard.layer));
        moved.push_back({shard.layer, node.parameters.front().tensor, offset, count, static_cast<int64_t>(home), shard.device});
        used[home] += 32.0 * static_cast<double>(count);
        used[user] -= 32.0 * static_cast<double>(count);
        offset += count;
        left -= count;
      }
    }
    return moved;
  }

  const Graph& graph_;
  Cluster cluster_;
  std::vector<double> speeds_;
  std::vector<Shard> shards_;
  double period_ = 0;
};

ReportContext context_of(const Plan& plan, const PlanSummary& summary) {
  ReportContext context;
  context.command = fmt::format("millrace plan --model {} --cluster {} --bits 16 --mini-batch {} --report report", plan.model.name,
                                plan.cluster.name, plan.mini_batch);
  if (summary.bottleneck.kind == "link") {
    context.explanation = {"Links of twice the bandwidth would raise the throughput by 31%; more devices would not."};
  } else {
    context.explanation = {"One more device of the same kind would raise the throughput by 6.7%.",
                           "Links do not limit this plan: the fullest could carry more than its load."};
  }
  context.epoch_images = 1281167;
  context.solve_seconds = 0.184;
  return context;
}

Example finish(Graph graph, Plan plan) {
  PlanSummary summary = summarize(plan, graph);
  plan.lower_bound_seconds_per_image = summary.seconds_per_image / (1 + plan.optimality_gap);
  summary = summarize(plan, graph);
  ReportContext context = context_of(plan, summary);
  return {std::move(graph), std::move(plan), std::move(summary), std::move(context)};
}

Cluster cluster_of(std::string_view shorthand, double gbps = kDefaultLinkGbps) {
  Cluster cluster = parse_cluster_shorthand(shorthand);
  for (LinkEntry& link : cluster.links) link.forward_gbps = link.backward_gbps = gbps;
  return cluster;
}

// Names that a graph takes are harmless; these come in behind it, as from a damaged or malicious document.
Example hostile() {
  Example example = example_on("digits-cnn", "vc709x3");
  const std::string layer = "]]></style><img src=x onerror=alert(1)>";
  example.plan.model.name = "<script>alert('model')</script> & \"co\"";
  example.plan.cluster.name = "a \"cluster\" <of> boards & 'more'";
  example.summary.devices[0].name = "</svg><script>x</script>";
  example.summary.devices[1].name = std::string(200, 'n');
  example.summary.devices[2].name = "caf\xC3\xA9 \xF0\x9F\x8C\x8A \xFF\x01";
  example.summary.devices[1].shards.front().layer = layer;
  example.summary.devices[1].segment.front().layer = layer;
  example.plan.shards.front().phases.front().engine = "<engine & co>";
  example.plan.strategy = "<i>hybrid</i>";
  example.plan.constants.push_back({"<constant>", 1e300, "<origin>"});
  example.plan.constants.push_back({"of watts", std::nan(""), "\"><b>"});
  example.context.command = "millrace plan --model '<x>' && echo \"$HOME\"";
  example.context.explanation = {"</li><script>alert(2)</script>"};
  return example;
}

}  // namespace

std::vector<std::string> example_names() { return {"vgg16", "alone", "mixed", "crowded", "deep", "hundreds", "thousand", "hostile"}; }

Example example_on(std::string_view model, std::string_view cluster) {
  Graph graph{zoo_model(model)};
  Plan plan = Builder(graph, cluster_of(cluster)).build();
  return finish(std::move(graph), std::move(plan));
}

Example example_of(std::string_view name) {
  if (name == "alone") return example_on("digits-cnn", "cpu");
  if (name == "mixed") return example_on("resnet50", "u280x6+h200x2+cpu");
  if (name == "hundreds") return example_on("vgg19", "vc709x120");
  if (name == "thousand") return example_on("vgg16", "vc709x1000");
  if (name == "crowded") {
    Graph graph{zoo_model("alexnet")};
    Builder builder(graph, cluster_of("vc709x20", 9));
    builder.alignment = Alignment::kFlush;
    Plan plan = builder.build();
    return finish(std::move(graph), std::move(plan));
  }
  if (name == "hostile") return hostile();
  Graph graph{zoo_model(name == "deep" ? "resnet152" : "vgg16")};
  Builder builder(graph, cluster_of(name == "deep" ? "vc709x48" : "vc709x15"));
  builder.balanced = true;
  Plan plan = builder.build();
  return finish(std::move(graph), std::move(plan));
}

}  // namespace millrace::testing_support
