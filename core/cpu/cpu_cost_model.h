// What a shard would cost on a CPU, without computing it: a roofline of arithmetic and memory traffic.
//
//   std::unique_ptr<CostModel> model = make_cpu_cost_model();                        // the shipped profile
//   std::unique_ptr<CostModel> here = make_cpu_cost_model(measure_cpu_profile());    // this machine, a few seconds
//
// Per phase the time is the larger of macs / (peak * efficiency) and bytes / bandwidth. Efficiencies are shares of the
// peak that count a convolution's nominal macs, so Winograd can take them above one. Weights are read once per
// micro-batch. The update is not counted: it comes once per mini-batch, which a shard does not know.
// memory_bytes holds the shard's input and inner activations times the window, one set of errors, and the parameters of
// the layers after the sum; the layer's own, with gradients and optimizer slots, are parameter_memory_bytes.
// Pure once made; thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device/cost_model.h"

namespace millrace {

// Shares of the peak, per phase.
struct PhaseEfficiency {
  double forward = 1;
  double error_back = 1;
  double parameter_gradient = 1;
};

// The default is what measure_cpu_profile() found on one core of an AMD EPYC (Zen 4, AVX-512, virtual): figures of that
// machine, to plan with where no device is at hand.
struct CpuProfile {
  int threads = 1;
  double macs_per_second = 59.6e9;  // of one thread, fp32
  double bytes_per_second = 35e9;   // of one thread, reading and writing
  double memory_bytes = 21.5e9;
  PhaseEfficiency convolution{1.00, 0.99, 0.95};
  PhaseEfficiency dense{0.62, 0.92, 0.91};
  std::string origin = "measured on an AMD EPYC (Zen 4) with AVX-512";
};

std::unique_ptr<CostModel> make_cpu_cost_model(const CpuProfile& profile = {});

// This machine: a matrix product, a copy through memory, one convolution in each phase, and the memory that is free.
// Takes a few seconds. Fails with kUsage on fewer than one thread.
CpuProfile measure_cpu_profile(int threads = 1);

}  // namespace millrace
