#include "core/cpu/cpu_cost_model.h"

#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/cpu/convolution_rates.h"
#include "core/cpu/cpu_catalogue.h"
#include "core/cpu/instruction_set.h"
#include "core/device/catalogue_reader.h"
#include "core/device/shard_extent.h"

namespace millrace {

namespace {

PhaseEfficiency read_efficiency(CatalogueReader& read, const std::string& of) {
  PhaseEfficiency shares;
  shares.forward = read.positive("efficiency_" + of + "_forward");
  shares.error_back = read.positive("efficiency_" + of + "_error_back");
  shares.parameter_gradient = read.positive("efficiency_" + of + "_parameter_gradient");
  return shares;
}

std::optional<cpu::ConvolutionRate> rate_of(const cpu::ConvolutionRates& rates, const Node& node, int64_t micro_batch) {
  const std::optional<MeasuredConvolution> shape = cpu::shape_of(node, micro_batch);
  return shape ? rates.of(*shape) : std::nullopt;
}

// The roofline, and what is kept of weights in Winograd's form.
class CpuCostModel final : public CostModel {
 public:
  CpuCostModel(Roofline roofline, std::shared_ptr<const cpu::ConvolutionRates> rates)
      : bytes_per_second_(roofline.bytes_per_second), roofline_(make_roofline_cost_model(std::move(roofline))), rates_(std::move(rates)) {}

  std::string device() const override { return roofline_->device(); }
  ShardDemand demand_of(const ShardQuestion& question) const override {
    ShardDemand demand = roofline_->demand_of(question);
    demand.amounts[0] += copied_weight_bytes(question);
    return demand;
  }
  ShardCost cost_of(const ShardQuestion& question) const override {
    ShardCost cost = roofline_->cost_of(question);
    const double copies = copied_weight_bytes(question);
    cost.resources.at(0).amount += copies;
    if (question.node->trained) cost.update_seconds += copies / bytes_per_second_;
    return cost;
  }
  std::span<const NamedAmount> capacities() const override { return roofline_->capacities(); }
  size_t parameter_memory() const override { return roofline_->parameter_memory(); }
  std::vector<Constant> constants() const override { return roofline_->constants(); }
  int64_t channel_quantum() const override { return roofline_->channel_quantum(); }

 private:
  double copied_weight_bytes(const ShardQuestion& question) const {
    const std::optional<cpu::ConvolutionRate> rate = rate_of(*rates_, *question.node, question.micro_batch);
    return rate && rate->weight_copies > 0 ? rate->weight_copies * sizeof(float) * shard_extent_of(question).weights : 0;
  }

  double bytes_per_second_;
  std::unique_ptr<CostModel> roofline_;
  std::shared_ptr<const cpu::ConvolutionRates> rates_;
};

}  // namespace

std::unique_ptr<CostModel> make_cpu_cost_model(const CatalogueDevice& device) {
  CatalogueReader read(device);
  Roofline roofline;
  roofline.device = device.short_names.empty() ? device.name : device.short_names.front();
  const double threads = read.positive("threads");
  roofline.macs_per_second = threads * read.positive("macs_per_second");
  roofline.bytes_per_second = threads * read.positive("memory_bytes_per_second");
  roofline.memory_bytes = read.positive("memory_bytes");
  roofline.on_chip_bytes = threads * read.positive("cache_bytes");
  roofline.launch_seconds = read.positive_or("launch_seconds", 0);
  roofline.convolution = read_efficiency(read, "conv");
  roofline.dense = read_efficiency(read, "dense");
  roofline.channel_quantum = 16;  // of the blocked layouts
  std::vector<MeasuredConvolution> convolutions = cpu::convolutions_of(device);
  for (MeasuredConvolution& convolution : convolutions) {
    const std::string name = cpu::name_of(convolution);
    convolution.efficiency.forward = read.positive(name + "_forward");
    convolution.efficiency.error_back =
        device.has(name + "_error_back") ? read.positive(name + "_error_back") : roofline.convolution.error_back;
    convolution.efficiency.parameter_gradient = read.positive(name + "_parameter_gradient");
    convolution.weight_copies = read.positive_or(cpu::weight_copies_name_of(convolution), 0);
  }
  std::vector<MeasuredConvolution> shipped;
  if (device.has("shapes_of_avx")) {
    const double avx = read.positive("shapes_of_avx");
    if (avx != 2 && avx != 512)
      fail(ErrorCode::kMalformed, "the catalogue's device \"{}\": shapes_of_avx is {}; it is 2 or 512", device.name, avx);
    shipped = cpu::shipped_convolutions(static_cast<int>(avx));
  }
  roofline.constants = read.constants();
  auto rates = std::make_shared<const cpu::ConvolutionRates>(convolutions, shipped);
  roofline.convolution_of = [rates, other = roofline.convolution](const Node& node, int64_t micro_batch) {
    const std::optional<cpu::ConvolutionRate> rate = rate_of(*rates, node, micro_batch);
    return rate ? rate->efficiency : other;
  };
  return std::make_unique<CpuCostModel>(std::move(roofline), std::move(rates));
}

std::string_view cpu_instruction_set() { return cpu::name_of(cpu::instruction_set()); }

CpuProfile shipped_cpu_profile(std::string_view instruction_set) {
  CpuProfile profile;
  profile.shapes_of_avx = instruction_set == cpu::name_of(cpu::InstructionSet::kAvx512) ? 512 : 2;
  return profile;
}

std::unique_ptr<CostModel> make_cpu_cost_model(const CpuProfile& profile) { return make_cpu_cost_model(catalogue_device_of(profile)); }

}  // namespace millrace
