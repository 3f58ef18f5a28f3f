#include "gpu/catalogue/gpu_cost_model.h"

#include <utility>

#include "core/base/error.h"
#include "core/device/catalogue_reader.h"
#include "core/device/roofline.h"

namespace millrace {

namespace {

// Of registers and shared memory; the rest is what a kernel works with. A model of 50 MiB fits the 62.4 of an H200.
constexpr double kWeightShare = 0.8;

std::string refusal_of(const Node& node) {
  const auto* cell = std::get_if<Recurrent>(&node.layer.operation);
  if (cell != nullptr && cell->gate_activation == GateActivation::kHardSigmoid)
    return "has gates of HARD_SIGMOID, which GPUs do not compute; use gate_activation SIGMOID";
  return "";
}

}  // namespace

std::unique_ptr<CostModel> make_gpu_cost_model(const CatalogueDevice& device, ElementType compute) {
  const std::string& name = device.short_names.empty() ? device.name : device.short_names.front();
  if (compute == ElementType::kFloat64)
    fail(ErrorCode::kUsage, "device \"{}\": there is no cost model for {} on a GPU; use 32 or 16 bits", name, name_of(compute));
  const bool half = bits_of(compute) == 16;
  CatalogueReader read(device);
  Roofline roofline;
  roofline.device = name;
  roofline.macs_per_second = read.positive("macs_per_second_fp32");
  double ratio = 1;
  if (half && device.has("macs_per_second_fp16")) {
    roofline.macs_per_second = read.positive("macs_per_second_fp16");
    ratio = read.positive_or("efficiency_fp16_ratio", 1);
  }
  roofline.convolution.forward = ratio * read.positive("efficiency_conv_forward");
  roofline.convolution.error_back = ratio * read.positive("efficiency_conv_error_back");
  roofline.convolution.parameter_gradient = ratio * read.positive("efficiency_conv_parameter_gradient");
  const double dense = ratio * read.positive("efficiency_dense");
  roofline.dense = {dense, dense, dense};
  roofline.memory_bytes = read.positive("memory_bytes");
  roofline.bytes_per_second = read.positive("memory_bytes_per_second") * read.positive_or("efficiency_memory", 1);
  roofline.element_bytes = half ? 2 : 4;
  roofline.launch_seconds = read.positive_or("launch_seconds", 0);
  roofline.update_launch_seconds = roofline.launch_seconds;
  roofline.step_seconds = read.positive_or("step_seconds", 0);
  roofline.on_chip_bytes = kWeightShare * read.positive_or("on_chip_bytes", 0);
  roofline.channel_quantum = half ? 8 : 1;  // tensor cores take channels by eight
  roofline.watts = read.positive_or("watts", 0);
  roofline.refusal = refusal_of;
  roofline.constants = read.constants();
  roofline.constants.push_back({"on_chip_weight_share", kWeightShare, "fitted"});
  return make_roofline_cost_model(std::move(roofline));
}

}  // namespace millrace
