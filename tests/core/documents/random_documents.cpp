#include "tests/core/documents/random_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace millrace {
namespace {

constexpr int64_t kMostDimension = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostCount = int64_t{1} << 50;

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  bool coin() { return random_() % 2 == 0; }
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }
  // Small as a rule, sometimes an end of the range.
  int64_t integer(int64_t least, int64_t most) {
    if (below(12) == 0) return below(2) == 0 ? least : most;
    return least + below(std::min<int64_t>(most - least, 999) + 1);
  }
  uint64_t word() { return random_(); }
  // In [0, 1), all 53 bits in use.
  double fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  // From 0 over the subnormal to the enormous.
  double not_negative() {
    if (below(10) == 0) return 0;
    if (below(20) == 0) return std::numeric_limits<double>::max();
    if (below(20) == 0) return std::numeric_limits<double>::denorm_min();
    return std::ldexp(fraction(), static_cast<int>(below(600)) - 300);
  }
  double positive() { return std::max(not_negative(), std::numeric_limits<double>::denorm_min()); }
  double finite() { return coin() ? -not_negative() : not_negative(); }
  template <typename Enumeration>
  Enumeration one_of(int64_t count) {
    return static_cast<Enumeration>(below(count));
  }
  std::string name() {
    constexpr std::string_view kLetters = "abcxyzABCXYZ0189_.-/";
    std::string text(static_cast<size_t>(1 + below(8)), ' ');
    for (char& c : text) c = kLetters[static_cast<size_t>(below(static_cast<int64_t>(kLetters.size())))];
    return text;
  }
  std::string free_text() {
    static const std::vector<std::string> pieces = {"/data/", "it's",  "\"quoted\"", "back\\slash", "Müller",
                                                    "电路",   "{ } #", "😀",          " ",           "a:b"};
    std::string text;
    for (int64_t i = below(4); i > 0; --i) text += pieces[static_cast<size_t>(below(static_cast<int64_t>(pieces.size())))];
    return text;
  }
  std::string given_text() { return free_text() + "x"; }
  template <typename Make>
  auto list(int64_t least, int64_t most, Make make) {
    std::vector<decltype(make())> values;
    for (int64_t i = least + below(most - least + 1); i > 0; --i) values.push_back(make());
    return values;
  }

 private:
  std::mt19937_64& random_;
};

int64_t size(Draw& draw) { return draw.integer(1, kMostDimension); }

Operation random_operation(Draw& draw) {
  switch (draw.below(17)) {
    case 0: {
      Conv2d conv;
      conv.kernel_h = size(draw), conv.kernel_w = draw.coin() ? conv.kernel_h : size(draw);
      conv.stride_h = draw.integer(1, 3), conv.stride_w = draw.integer(1, 3);
      conv.pad_h = draw.integer(0, 2), conv.pad_w = draw.integer(0, 2);
      conv.dilation_h = draw.integer(1, 2), conv.dilation_w = draw.integer(1, 2);
      conv.groups = draw.integer(1, 4);
      conv.out_channels = conv.groups * draw.integer(1, 1000);
      conv.groups = conv.out_channels % conv.groups == 0 ? conv.groups : 1;
      conv.bias = draw.coin();
      return conv;
    }
    case 1: return Dense{size(draw), draw.coin()};
    case 2: {
      Pool2d pool;
      pool.kind = draw.one_of<PoolKind>(2);
      pool.kernel_h = draw.integer(1, 3), pool.kernel_w = draw.integer(1, 3);
      pool.stride_h = draw.integer(1, 3), pool.stride_w = draw.integer(1, 3);
      pool.pad_h = draw.integer(0, 2), pool.pad_w = draw.integer(0, 2);
      pool.ceil_mode = draw.coin();
      pool.count_include_pad = pool.kind == PoolKind::kAverage && draw.coin();
      return pool;
    }
    case 3: return GlobalPool{draw.one_of<PoolKind>(2)};
    case 4: {
      Activation activation;
      activation.kind = draw.one_of<ActivationKind>(std::ssize(kActivationKinds));
      if (activation.kind == ActivationKind::kLeakyRelu) activation.slope = draw.finite();
      return activation;
    }
    case 5: return BatchNorm{draw.positive(), draw.fraction(), draw.one_of<Statistics>(2)};
    case 6: return LocalResponseNorm{size(draw), draw.not_negative(), draw.finite(), draw.positive()};
    case 7: return Dropout{draw.fraction()};
    case 8: return Add{};
    case 9: return Concat{};
    case 10: return Flatten{};
    case 11: return SoftmaxCrossEntropy{};
    case 12: {
      Recurrent cell;
      cell.cell = draw.one_of<CellKind>(4);
      cell.hidden = size(draw);
      if (cell.cell == CellKind::kLstm) cell.projection = draw.integer(0, 64);
      cell.reset_after = cell.cell == CellKind::kGru && draw.coin();
      cell.bidirectional = draw.coin();
      cell.stateful = draw.coin();
      cell.truncation = draw.integer(0, 64);
      if (gates_of(cell.cell) > 1 && draw.coin()) cell.gate_activation = GateActivation::kHardSigmoid, cell.gate_slope = draw.positive();
      return cell;
    }
    case 13: return Embedding{size(draw), size(draw)};
    case 14: return ToSequence{};
    case 15: return LastStep{};
    default: return CtcLoss{draw.integer(0, 30)};
  }
}

ChannelRange random_range(Draw& draw, int64_t least_size, int64_t most) {
  const int64_t begin = draw.below(1000);
  return {begin, draw.below(10) == 0 ? most : begin + least_size + draw.below(1000)};
}

LinkEntry random_link(Draw& draw) {
  const auto bandwidth = [&] { return draw.coin() ? 100 : 1e-9 + draw.fraction() * 1e5; };
  LinkEntry link{bandwidth(), bandwidth(), draw.coin() ? 0 : bandwidth(), draw.coin() ? 0.5 : draw.fraction() * 1e3};
  if (draw.coin()) link.backward_gbps = link.forward_gbps;
  return link;
}

OptimizerSettings random_optimizer(Draw& draw) {
  return {draw.one_of<OptimizerKind>(5), draw.fraction(), draw.fraction(), draw.fraction(), draw.positive(),
          draw.not_negative(),           draw.fraction()};
}

Shard random_shard(Draw& draw, int64_t devices) {
  const auto amount = [&] { return NamedAmount{draw.name(), draw.not_negative()}; };
  Shard shard;
  shard.device = draw.below(devices);
  shard.layer = draw.name();
  shard.blocks = draw.list(0, 3, [&] { return Block{random_range(draw, 1, kMostDimension), random_range(draw, 1, kMostDimension)}; });
  shard.unit = draw.one_of<StreamingUnit>(3);
  for (int phase = 0; phase < 3; ++phase)
    if (draw.coin())
      shard.phases.push_back({static_cast<Phase>(phase), draw.name(), draw.integer(0, kMostCount), draw.integer(0, kMostCount)});
  shard.resources = draw.list(0, 3, amount);
  shard.buffers = draw.list(0, 3, amount);
  shard.act_ram_bits = draw.integer(0, kMostCount);
  shard.update_picoseconds = draw.integer(0, kMostCount);
  if (draw.coin()) shard.units = random_range(draw, 1, kMostDimension);
  shard.after = draw.coin();
  return shard;
}

Flow random_flow(Draw& draw, int64_t links, int64_t shards, int64_t homes) {
  Flow flow;
  flow.link = draw.below(links);
  flow.direction = draw.one_of<Direction>(2);
  flow.stream = draw.one_of<Stream>(7);
  flow.tensor = draw.name() + ":sum";
  flow.channels = random_range(draw, 0, kMostCount);
  flow.producer_shard = draw.below(shards + 1) - 1;
  flow.consumer_shard = draw.below(shards + 1) - 1;
  flow.home = draw.below(homes + 1) - 1;
  flow.elements_per_sample = draw.below(1 << 20);
  flow.elements_per_pass = draw.below(1 << 20);
  flow.passes_per_mini_batch = draw.below(100);
  flow.wire = draw.one_of<ElementType>(5);
  return flow;
}

}  // namespace

Model random_model(std::mt19937_64& random) {
  Draw draw(random);
  Model model;
  model.name = draw.name();
  model.input_kind = draw.one_of<InputKind>(3);
  model.input = {draw.integer(1, 1 << 12), draw.integer(1, 1 << 12), draw.integer(1, 1 << 12)};
  for (int64_t i = 0, layers = 1 + draw.below(30); i < layers; ++i) {
    const auto before = [&] {
      const int64_t k = draw.below(i + 1);
      return k == 0 ? std::string(kInputName) : model.layers[static_cast<size_t>(k - 1)].name;
    };
    Layer layer;
    layer.name = fmt::format("{}.{}", draw.name(), i);
    layer.operation = random_operation(draw);
    layer.inputs = draw.list(1, 3, before);
    if (draw.coin()) layer.inputs = {i == 0 ? std::string(kInputName) : model.layers.back().name};
    layer.frozen = draw.coin();
    layer.initializer = draw.one_of<Initializer>(6);
    model.layers.push_back(layer);
  }
  return model;
}

Cluster random_cluster(std::mt19937_64& random) {
  Draw draw(random);
  const int64_t count = 1 + draw.below(8);
  Cluster cluster = uniform_cluster(draw.coin() ? "cpu" : "vc709", count, random_link(draw));
  cluster.name = draw.free_text();
  const std::string host = draw.free_text();
  for (DeviceEntry& device : cluster.devices) device.host = host;
  if (draw.coin())
    for (LinkEntry& link : cluster.links) link = random_link(draw);
  if (draw.coin())
    for (size_t i = 0; i < cluster.devices.size(); ++i)
      cluster.devices[i] = {fmt::format("{}.{}", draw.name(), i), draw.name(), draw.free_text(), fmt::format("{}.{}", draw.free_text(), i)};
  return cluster;
}

Plan random_plan(std::mt19937_64& random) {
  Draw draw(random);
  Plan plan;
  plan.model = random_model(random);
  plan.model_digest = draw.free_text();
  plan.cluster = random_cluster(random);
  plan.cluster_digest = draw.free_text();
  plan.strategy = draw.name();
  plan.optimizer = random_optimizer(draw);
  plan.arithmetic = {draw.one_of<ElementType>(5), draw.one_of<ElementType>(5)};
  plan.alignment = draw.one_of<Alignment>(5);
  plan.micro_batch = 1 + draw.below(64);
  plan.mini_batch = plan.micro_batch * (1 + draw.below(64));
  plan.time_chunks = 1 + draw.below(16);
  plan.accounting = draw.one_of<Accounting>(2);
  const int64_t devices = plan.devices();
  for (int64_t d = 0; d < devices; ++d) plan.windows.push_back(draw.integer(1, kMostCount));
  for (int64_t d = 0; d + 1 < devices; ++d)
    plan.links.push_back(
        {d, d + 1, draw.integer(1, kMostCount), draw.integer(1, kMostCount), draw.integer(0, kMostCount), draw.integer(0, kMostCount)});
  plan.shards = draw.list(1, 6, [&] { return random_shard(draw, devices); });
  const auto shards = static_cast<int64_t>(plan.shards.size());
  plan.groups = draw.list(0, 4, [&] {
    return Group{draw.name(), draw.one_of<Split>(3), draw.list(0, 4, [&] { return draw.below(shards); }),
                 draw.list(0, 3, [&] { return draw.name(); })};
  });
  plan.homes = draw.list(0, 4, [&] {
    return ParameterHome{draw.name(),         draw.name(),        draw.integer(0, kMostCount), draw.integer(1, kMostCount),
                         draw.below(devices), draw.below(devices)};
  });
  const std::ptrdiff_t homes = std::ssize(plan.homes);
  if (devices > 1) plan.flows = draw.list(0, 6, [&] { return random_flow(draw, devices - 1, shards, homes); });
  plan.lower_bound_seconds_per_image = draw.not_negative();
  plan.optimality_gap = draw.not_negative();
  const auto amount = [&] { return NamedAmount{draw.name(), draw.not_negative()}; };
  plan.budgets = draw.list(0, 3, [&] { return DeviceBudget{draw.name(), draw.list(0, 3, amount)}; });
  plan.constants = draw.list(0, 3, [&] { return Constant{draw.given_text(), draw.finite(), draw.given_text()}; });
  return plan;
}

Job random_job(std::mt19937_64& random) {
  Draw draw(random);
  Job job;
  job.model = draw.given_text();
  job.data = draw.given_text();
  job.cluster = draw.given_text();
  job.plan = draw.free_text();
  job.alignment = draw.one_of<Alignment>(5);
  job.epochs = 1e-6 + draw.fraction() * 1e6;
  job.steps = draw.integer(0, kMostCount);
  job.mini_batch = draw.integer(1, 1 << 24);
  job.micro_batch = draw.integer(0, 1 << 24);
  job.time_chunks = draw.integer(1, 64);
  job.recompute = draw.coin();
  job.strategy = draw.free_text();
  job.divide = draw.free_text();
  job.seed = draw.word();
  job.optimizer = random_optimizer(draw);
  LearningRate& rate = job.learning_rate;
  rate.kind = draw.one_of<LearningRateKind>(4);
  rate.base = draw.not_negative();
  rate.warmup_epochs = draw.not_negative();
  rate.step_epochs = draw.list(0, 5, [&] { return draw.positive(); });
  std::sort(rate.step_epochs.begin(), rate.step_epochs.end());
  rate.step_epochs.erase(std::unique(rate.step_epochs.begin(), rate.step_epochs.end()), rate.step_epochs.end());
  rate.factor = draw.positive();
  rate.final_rate = draw.not_negative();
  rate.power = draw.positive();
  job.clip = draw.one_of<ClipKind>(3);
  job.clip_limit = draw.positive();
  job.augmentation = {draw.integer(0, 1 << 16), draw.coin()};
  job.replicas = draw.integer(1, 1 << 16);
  job.threads = draw.integer(1, 4096);
  job.out = draw.free_text();
  job.checkpoint_every = draw.integer(0, kMostCount);
  job.keep_checkpoints = draw.integer(1, kMostCount);
  job.evaluate_every_epochs = draw.not_negative();
  job.init_from = draw.free_text();
  job.time_limit_seconds = draw.not_negative();
  job.label_smoothing = draw.fraction();
  job.batch_norm = draw.one_of<BatchNormChoice>(3);
  job.keep_best = draw.one_of<EvaluationMetric>(3);
  job.early_stop = {draw.integer(0, kMostCount), draw.one_of<EvaluationMetric>(3), draw.not_negative()};
  for (int64_t i = draw.below(4); i > 0; --i) job.pins[draw.name()] = draw.integer(0, 65535);
  for (int64_t i = draw.below(4); i > 0; --i)
    job.cuts[draw.integer(0, 65534)] = {draw.name(), draw.integer(0, kMostDimension), draw.integer(0, kMostDimension)};
  return job;
}

Catalogue random_catalogue(std::mt19937_64& random) {
  constexpr const char* kOrigins[] = {"catalogue", "paper", "fitted", "measured", "projected"};
  Draw draw(random);
  int64_t names = 0;
  // Never a count at the end, and told apart by more than capitals.
  const auto short_name = [&] { return fmt::format("{}.{}", draw.name(), ++names); };
  int64_t values = 0;
  const auto value = [&] {
    return CatalogueValue{fmt::format("{}.{}", draw.name(), ++values), draw.finite(), draw.given_text(), kOrigins[draw.below(5)],
                          draw.free_text()};
  };
  Catalogue catalogue;
  catalogue.devices = draw.list(0, 4, [&] {
    return CatalogueDevice{draw.given_text(), draw.list(1, 3, short_name), draw.name(), draw.free_text(), draw.list(0, 6, value)};
  });
  return catalogue;
}

}  // namespace millrace
