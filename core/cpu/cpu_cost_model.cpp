#include "core/cpu/cpu_cost_model.h"

#include "core/cpu/cpu_catalogue.h"
#include "core/device/catalogue_reader.h"

namespace millrace {

namespace {

PhaseEfficiency read_efficiency(CatalogueReader& read, const std::string& of) {
  PhaseEfficiency shares;
  shares.forward = read.positive("efficiency_" + of + "_forward");
  shares.error_back = read.positive("efficiency_" + of + "_error_back");
  shares.parameter_gradient = read.positive("efficiency_" + of + "_parameter_gradient");
  return shares;
}

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
  roofline.constants = read.constants();
  return make_roofline_cost_model(std::move(roofline));
}

std::unique_ptr<CostModel> make_cpu_cost_model(const CpuProfile& profile) { return make_cpu_cost_model(catalogue_device_of(profile)); }

}  // namespace millrace
