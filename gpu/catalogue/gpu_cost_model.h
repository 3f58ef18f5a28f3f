// What a shard would cost on a GPU, without one: the roofline of core/device/roofline.h at the figures of the catalogue.
//
//   std::unique_ptr<CostModel> model = make_gpu_cost_model(catalogue.find("h200"), ElementType::kFloat32);
//
// Values of the catalogue:
//   macs_per_second_fp32 macs_per_second_fp16     peak; without the latter 16-bit elements compute at the former
//   efficiency_conv_{forward,error_back,parameter_gradient} efficiency_dense     shares of the peak in fp32
//   efficiency_fp16_ratio                         16-bit efficiencies next to those; 1 when absent
//   memory_bytes memory_bytes_per_second efficiency_memory     the last is the share of the bandwidth that is reached
//   launch_seconds                                per kernel: one for each layer, phase and micro-batch, and at an
//                                                 update one for each tensor of parameters
//   step_seconds on_chip_bytes                    of persistent recurrent kernels: the least time of a step, and registers
//                                                 with shared memory, of which weights get four fifths
//   watts                                         the board's limit, taken as its power at work
// For people: link_gbps, pcie_bytes_per_second, sms, clock_hz.
// Limits: no float64. Fixed point on other devices of a ring is half precision here: both have 16 bits.
// Pure once made; thread safe.
#pragma once

#include <memory>

#include "core/device/cost_model.h"
#include "core/documents/catalogue.h"

namespace millrace {

// Fails with kUsage on float64, with kMalformed on a value that is missing or absurd.
std::unique_ptr<CostModel> make_gpu_cost_model(const CatalogueDevice& device, ElementType compute);

}  // namespace millrace
