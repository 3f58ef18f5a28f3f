// What a shard would cost on a CPU, without computing it: a roofline (core/device/roofline.h) of this machine or another.
//
//   std::unique_ptr<CostModel> model = make_cpu_cost_model();                        // the shipped profile
//   std::unique_ptr<CostModel> here = make_cpu_cost_model(measure_cpu_profile());    // this machine, a few seconds
//   std::unique_ptr<CostModel> given = make_cpu_cost_model(catalogue.find("cpu"));   // from a catalogue
//   measure_convolutions(profile, graph, /*micro_batch=*/8);                         // each convolution of a network by itself
//
// A convolution whose shape was measured takes the shares of the peak of the nearest one: same kernel and stride, at most a factor of
// four away in channels and positions taken together; between measured micro-batches times are straight lines. Any other takes
// `convolution`. The choice follows from the layer, not from the part of it that a device has, so a larger part never costs less. Where
// Winograd's transformed weights are kept beside the weights, they count as memory, and their writing as part of an update. Pure once made;
// thread safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/roofline.h"
#include "core/documents/catalogue.h"
#include "core/graph/graph.h"

namespace millrace {

// One convolution and what it reaches in each phase, in shares of macs_per_second.
struct MeasuredConvolution {
  int64_t in_channels = 0, out_channels = 0;
  int64_t height = 0, width = 0;  // of the output
  int64_t kernel = 1, stride = 1;
  int64_t micro_batch = 1;
  PhaseEfficiency efficiency;
  double weight_copies = 0;  // what is kept of the weights in Winograd's form, in multiples of the weights
};

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
  std::vector<MeasuredConvolution> convolutions = {};  // by shape; may be empty
  // 512 or 2: the shapes that are shipped for AVX-512 or AVX2, too, and how they depend on the micro-batch; 0: none.
  int shapes_of_avx = 0;
  std::string measured_on = "an AMD EPYC (Zen 4) with AVX-512";
};

// What this processor uses, "avx512_core" or "avx2", the same as kernel tables have it.
std::string_view cpu_instruction_set();
// The default with the shapes that are shipped for an instruction set (core/cpu/convolution_rates.csv): those of AVX-512 where it is
// that, else those of AVX2.
CpuProfile shipped_cpu_profile(std::string_view instruction_set = cpu_instruction_set());

std::unique_ptr<CostModel> make_cpu_cost_model(const CpuProfile& profile = {});
// Fails with kMalformed when the device lacks a value or has an absurd one; cpu_catalogue.h says which it needs.
std::unique_ptr<CostModel> make_cpu_cost_model(const CatalogueDevice& device);

// This machine: a matrix product, a copy through memory, one convolution in each phase, and the memory that is free.
// Takes a few seconds. Fails with kUsage on fewer than one thread.
CpuProfile measure_cpu_profile(int threads = 1);
// Adds the network's convolutions at a micro-batch, each shape once, with the threads and the peak of the profile. Square kernels without
// groups or dilation alone; in a convolution that passes no error back, that phase counts as `convolution` says. Takes a second or two for
// small maps, minutes for large ones. Fails with kUsage on a micro-batch below one.
void measure_convolutions(CpuProfile& profile, const Graph& graph, int64_t micro_batch, const std::function<bool()>& stops = {});

}  // namespace millrace
