#include "deploy/session/cost_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/device/forwarding_cost_model.h"
#include "core/plan/recomputation.h"
#include "core/plan/validate.h"
#include "deploy/devices/device_registry.h"
#include "deploy/devices/hardware.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/plan_inference.h"
#include "deploy/session/ring_check.h"
#include "fpga/conv_ce/generator/layers_without_hardware.h"
#include "fpga/cost/fpga_cost_model.h"
#include "gpu/catalogue/gpu_cost_model.h"
#include "partitioner/choice/planner.h"

namespace millrace {
namespace {

struct ModelKind {
  Hardware hardware;
  std::function<std::unique_ptr<CostModel>(const CatalogueDevice&, const Arithmetic&, const InferenceBatch&,
                                           const std::shared_ptr<const GeneratedEngines>&, const std::optional<ChainDimensions>&)>
      make;
};

const std::vector<ModelKind>& model_kinds() {
  static const std::vector<ModelKind> all = {
      {Hardware::kFpga, make_fpga_cost_model},
      {Hardware::kGpu, [](const CatalogueDevice& device, const Arithmetic& arithmetic, const InferenceBatch&, const auto&,
                          const auto&) { return make_gpu_cost_model(device, arithmetic.compute); }},
      {Hardware::kCpu, [](const CatalogueDevice& device, const Arithmetic&, const InferenceBatch&, const auto&,
                          const auto&) { return make_cpu_cost_model(device); }},
  };
  return all;
}

std::unique_ptr<CostModel> model_of(const CatalogueDevice& device, const Arithmetic& arithmetic, const InferenceBatch& inference,
                                    const std::shared_ptr<const GeneratedEngines>& built, const std::optional<ChainDimensions>& chains) {
  std::vector<std::string> known;
  for (const ModelKind& kind : model_kinds()) {
    if (kind.hardware == hardware_of(device)) return kind.make(device, arithmetic, inference, built, chains);
    known.emplace_back(name_of(kind.hardware));
  }
  fail(ErrorCode::kMalformed, "the catalogue's device \"{}\" is of kind \"{}\", which has no cost model{}", device.name, device.kind,
       suggestion(device.kind, known));
}

const CatalogueDevice& device_named(const std::string& name, const Cluster& cluster, const Catalogue& catalogue) {
  try {
    return catalogue.find(name);
  } catch (const Error& error) {
    throw cluster.name.empty() ? error : error.within(fmt::format("cluster \"{}\"", cluster.name));
  }
}

// As the catalogue spells it: "VC709" and "XC7VX690T" are vc709.
std::string short_name_of(const CatalogueDevice& device, std::string_view given) {
  const auto same = [&](const std::string& own) {
    return std::equal(own.begin(), own.end(), given.begin(), given.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  };
  const auto found = std::find_if(device.short_names.begin(), device.short_names.end(), same);
  return found == device.short_names.end() ? device.short_names.front() : *found;
}

double link_gbps_of(const CatalogueDevice& device) {
  constexpr double kMost = 1e6;
  const double gbps = device.value_or("link_gbps", kDefaultLinkGbps);
  if (!(gbps > 0 && gbps <= kMost))
    fail(ErrorCode::kMalformed, "the catalogue's device \"{}\": link_gbps is {}; it must be above 0 and at most {}", device.name, gbps,
         kMost);
  return gbps;
}

Cluster cluster_from_shorthand(std::string_view shorthand, const Catalogue& catalogue) {
  if (const auto [cards, laps] = laps_of(shorthand); laps > 0) return folded(cluster_from_shorthand(cards, catalogue), laps);
  const Cluster written = parse_cluster_shorthand(shorthand);
  std::vector<const CatalogueDevice*> devices;
  std::string spelled;  // with the catalogue's names, so that devices are called after those
  size_t run = 0;       // devices of the kind at the end of `spelled`
  for (size_t i = 0; i < written.devices.size(); ++i) {
    const std::string& name = written.devices[i].device;
    const bool again = i > 0 && name == written.devices[i - 1].device;
    devices.push_back(again ? devices.back() : &device_named(name, written, catalogue));
    ++run;
    if (i + 1 < written.devices.size() && written.devices[i + 1].device == name) continue;
    spelled += fmt::format("{}{}x{}", spelled.empty() ? "" : "+", short_name_of(*devices.back(), name), run);
    run = 0;
  }
  Cluster cluster = parse_cluster_shorthand(spelled);
  cluster.name = written.name;
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    LinkEntry& link = cluster.links[i];
    link.forward_gbps = link.backward_gbps = std::min(link_gbps_of(*devices[i]), link_gbps_of(*devices[i + 1]));
  }
  return cluster;
}

Cluster cluster_from_file(const std::filesystem::path& path, const Catalogue& catalogue) {
  Cluster cluster = load_cluster(path);
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    std::string& name = cluster.devices[i].device;
    try {
      name = short_name_of(catalogue.find(name), name);
    } catch (const Error& error) {
      throw error.within(fmt::format("{}: devices[{}]", path.string(), i));
    }
  }
  return cluster;
}

// A ring with boards: what is built for them keeps step with the slowest clock.
std::shared_ptr<const GeneratedEngines> generated_engines_of(const Cluster& cluster, const Catalogue& catalogue, const Graph& graph) {
  double slowest = 0, slices = 0;
  for (const DeviceEntry& entry : cluster.devices) {
    const CatalogueDevice& device = device_named(entry.device, cluster, catalogue);
    const double clock = hardware_of(device) == Hardware::kFpga ? device.value_or("clock_hz", 0) : 0;
    if (clock <= 0) continue;
    slowest = slowest > 0 ? std::min(slowest, clock) : clock;
    slices = std::max(slices, device.value_or("dsp", 0) / std::min(1.0, device.value_or("dsp_per_mac_16", 1)));
  }
  return slowest > 0 ? std::make_shared<const GeneratedEngines>(graph, slowest, static_cast<int64_t>(slices)) : nullptr;
}

// A board whose hardware is generated, so it has no part in layers without any.
class BuiltBoard final : public ForwardingCostModel {
 public:
  BuiltBoard(std::unique_ptr<CostModel> model, std::map<std::string, std::string> refused) : BuiltBoard(*model, std::move(refused)) {
    owned_ = std::move(model);
  }
  BuiltBoard(const CostModel& model, std::map<std::string, std::string> refused)
      : ForwardingCostModel(model), model_(&model), refused_(std::move(refused)) {}

  const CostModel& among(std::span<const CostModel* const> working) const override {
    const CostModel& model = model_->among(working);
    if (&model == model_) return *this;
    const std::scoped_lock lock(mutex_);
    std::unique_ptr<const BuiltBoard>& other = others_[&model];
    if (!other) other = std::make_unique<BuiltBoard>(model, refused_);
    return *other;
  }

  std::string refusal(const Node& node) const override {
    if (std::string own = ForwardingCostModel::refusal(node); !own.empty()) return own;
    const auto found = refused_.find(node.layer.name);
    return found == refused_.end() ? "" : "cannot be on a board: " + found->second;
  }

 private:
  std::unique_ptr<CostModel> owned_;
  const CostModel* model_;
  std::map<std::string, std::string> refused_;
  mutable std::mutex mutex_;
  mutable std::map<const CostModel*, std::unique_ptr<const BuiltBoard>> others_;
};

// What stands for a board by its functional model needs no hardware.
bool is_built(const CatalogueDevice& device, const std::string& name, const Arithmetic& arithmetic) {
  return hardware_of(device) == Hardware::kFpga && !can_compute_on(name) && arithmetic.wire == ElementType::kFixed16;
}

CostModels models_with(const Cluster& cluster, const Catalogue& catalogue, const Arithmetic& arithmetic, const InferenceBatch& inference,
                       const std::shared_ptr<const GeneratedEngines>& built, const std::optional<ChainDimensions>& chains = {},
                       const std::map<std::string, std::string>& refused = {}) {
  CostModels models;
  std::map<std::string, const CostModel*> known;
  for (const DeviceEntry& entry : cluster.devices) {
    const auto [place, added] = known.emplace(entry.device, nullptr);
    if (added) {
      CatalogueDevice device = device_named(entry.device, cluster, catalogue);
      device.short_names = {entry.device};
      models.owned.push_back(model_of(device, arithmetic, inference, built, chains));
      if (!refused.empty() && is_built(device, entry.device, arithmetic))
        models.owned.back() = std::make_unique<BuiltBoard>(std::move(models.owned.back()), refused);
      place->second = models.owned.back().get();
    }
    models.of_devices.push_back(place->second);
  }
  return models;
}

}  // namespace

CostModels models_for(const Cluster& cluster, const Catalogue& catalogue, const Arithmetic& arithmetic, const InferenceBatch& inference) {
  return models_with(cluster, catalogue, arithmetic, inference, nullptr);
}

CostModels models_for(const Cluster& cluster, const Catalogue& catalogue, const Arithmetic& arithmetic, Accounting accounting,
                      const Graph& graph, const std::optional<ChainDimensions>& chains) {
  const bool builds = accounting == Accounting::kFull;
  if (!builds) return models_with(cluster, catalogue, arithmetic, {}, nullptr, chains);
  return models_with(cluster, catalogue, arithmetic, {}, generated_engines_of(cluster, catalogue, graph), chains,
                     layers_without_hardware(graph));
}

Cluster cluster_from(std::string_view shorthand_or_path, const Catalogue& catalogue) {
  const bool is_path = shorthand_or_path.ends_with(".textproto") || shorthand_or_path.find('/') != std::string_view::npos;
  return is_path ? cluster_from_file(std::filesystem::path(shorthand_or_path), catalogue)
                 : cluster_from_shorthand(shorthand_or_path, catalogue);
}

Plan load_timed_plan(const std::filesystem::path& path) {
  Plan plan = load_plan(path);
  const bool timed = std::ranges::any_of(plan.shards, [](const Shard& shard) { return !shard.phases.empty(); });
  if (timed || plan.devices() != 1) {
    const Graph graph(plan.model);
    if (plan.purpose == Purpose::kInference)
      check_engines(plan, graph);
    else
      check_built_engines(plan, graph, path.string());
    return plan;
  }
  const Graph graph(plan.model);
  const CostModels models = models_for(plan.cluster, shipped_catalogue(), plan.arithmetic, plan.accounting, graph);
  PlanTask task;
  task.graph = &graph;
  task.cluster = plan.cluster;
  task.models = models.of_devices;
  task.options.alignment = plan.alignment;
  task.options.mini_batch = plan.mini_batch;
  task.options.micro_batch = plan.micro_batch;
  task.options.optimizer = plan.optimizer;
  task.options.recompute = recomputes(plan);
  task.options.arithmetic = plan.arithmetic;
  account(task, plan.accounting);
  Outcome outcome = make_plan(task);
  if (!outcome.plan)
    fail(ErrorCode::kInfeasible, "{}: it carries no engine times, and none can be modelled: {}", path.string(), outcome.reason.text);
  return std::move(*outcome.plan);
}

}  // namespace millrace
