// Measures what the cost model wants to know of a GPU: products, a convolution in each phase, memory and copies.
//
//   const GpuProfile profile = measure_gpu_profile(*device, "NVIDIA H200", memory_bytes);
//   const CatalogueDevice here = measured_device(profile, catalogue.find("h200"));
//
// About a second on a GPU. Rates are those of the device's precision. Every figure is the fastest of a few runs.
#pragma once

#include <string>

#include "core/device/device.h"
#include "core/documents/catalogue.h"

namespace millrace {

struct GpuProfile {
  std::string measured_on;
  std::string precision = "fp32";
  double macs_per_second = 0;                                                                      // the fastest thing seen
  double convolution_forward = 0, convolution_error_back = 0, convolution_parameter_gradient = 0;  // shares of it
  double dense = 0;
  double bytes_per_second = 0;           // within the GPU's memory, reading and writing
  double upload_bytes_per_second = 0;    // from the host's memory
  double download_bytes_per_second = 0;  // to it
  double launch_seconds = 0;             // from one small piece of work to the next
  double memory_bytes = 0;
};

// How large the work is that is measured.
struct ProfileSizes {
  int64_t dense = 4096;
  int64_t channels = 256;
  int64_t extent = 28;
  int64_t batch = 64;
  int64_t copied = int64_t{1} << 26;  // elements
};

GpuProfile measure_gpu_profile(Device& device, std::string measured_on, double memory_bytes, const ProfileSizes& sizes = {});

// A catalogue's device with what was measured in the place of what it said; the rest (links, power, ...) stays. Origin "measured".
CatalogueDevice measured_device(const GpuProfile& profile, CatalogueDevice base);

}  // namespace millrace
