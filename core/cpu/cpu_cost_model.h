// What a shard would cost on a CPU, without computing it: a roofline (core/device/roofline.h) of this machine or another.
//
//   std::unique_ptr<CostModel> model = make_cpu_cost_model();                        // the shipped profile
//   std::unique_ptr<CostModel> here = make_cpu_cost_model(measure_cpu_profile());    // this machine, a few seconds
//   std::unique_ptr<CostModel> given = make_cpu_cost_model(catalogue.find("cpu"));   // from a catalogue
//
// Pure once made; thread safe.
#pragma once

#include <memory>
#include <string>

#include "core/device/roofline.h"
#include "core/documents/catalogue.h"

namespace millrace {

// The default is what measure_cpu_profile() found on one core of an AMD EPYC (Zen 4, AVX-512, virtual): figures of that
// machine, to plan with where no device is at hand. It is also the catalogue's device "cpu" (cpu_catalogue.h).
struct CpuProfile {
  int threads = 1;
  double macs_per_second = 59.6e9;  // of one thread, fp32
  double bytes_per_second = 35e9;   // of one thread, reading and writing
  double memory_bytes = 21.5e9;
  double cache_bytes = 4e6;  // one thread's part of the caches, estimated: a recurrent layer's weights may stay there
  // What a layer's phase costs whatever its size: its kernel's call and its part of what the trainer does around it, messages included. Not
  // of that machine: digits-cnn trained on four ranks with micro-batches of 1 and of 8, on an Intel Xeon. measure_cpu_profile keeps it.
  double launch_seconds = 5e-6;
  PhaseEfficiency convolution{1.00, 0.99, 0.95};
  PhaseEfficiency dense{0.62, 0.92, 0.91};
  std::string measured_on = "an AMD EPYC (Zen 4) with AVX-512";
};

std::unique_ptr<CostModel> make_cpu_cost_model(const CpuProfile& profile = {});
// Fails with kMalformed when the device lacks a value or has an absurd one; cpu_catalogue.h says which it needs.
std::unique_ptr<CostModel> make_cpu_cost_model(const CatalogueDevice& device);

// This machine: a matrix product, a copy through memory, one convolution in each phase, and the memory that is free.
// Takes a few seconds. Fails with kUsage on fewer than one thread.
CpuProfile measure_cpu_profile(int threads = 1);

}  // namespace millrace
