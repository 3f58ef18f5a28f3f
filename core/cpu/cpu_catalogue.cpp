#include "core/cpu/cpu_catalogue.h"

#include <fmt/format.h>

#include "core/cpu/convolution_rates.h"
#include "core/documents/cluster.h"

namespace millrace {

std::string cpu_catalogue_text(std::string_view instruction_set) {
  return text_of(Catalogue{{catalogue_device_of(shipped_cpu_profile(instruction_set))}});
}

CatalogueDevice catalogue_device_of(const CpuProfile& profile) {
  CatalogueDevice device;
  device.name = "CPU";
  device.short_names = {"cpu"};
  device.kind = "cpu";
  device.summary = profile.threads == 1 ? fmt::format("one core of {}", profile.measured_on)
                                        : fmt::format("{} cores of {}", profile.threads, profile.measured_on);
  const std::string note = "on " + profile.measured_on;
  const auto measured = [&](const char* name, double value, const char* unit) {
    device.values.push_back({name, value, unit, "measured", note});
  };
  const auto projected = [&](const char* name, double value, const char* unit, const char* why) {
    device.values.push_back({name, value, unit, "projected", why});
  };
  const auto efficiency = [&](const std::string& of, const PhaseEfficiency& shares) {
    measured(("efficiency_" + of + "_forward").c_str(), shares.forward, "1");
    measured(("efficiency_" + of + "_error_back").c_str(), shares.error_back, "1");
    measured(("efficiency_" + of + "_parameter_gradient").c_str(), shares.parameter_gradient, "1");
  };
  measured("threads", profile.threads, "1");
  measured("macs_per_second", profile.macs_per_second, "1/s");
  efficiency("conv", profile.convolution);
  efficiency("dense", profile.dense);
  for (const MeasuredConvolution& convolution : profile.convolutions) {
    efficiency(cpu::name_of(convolution).substr(std::string_view("efficiency_").size()), convolution.efficiency);
    if (convolution.weight_copies > 0)
      device.values.push_back({cpu::weight_copies_name_of(convolution), convolution.weight_copies, "1", "measured", note});
  }
  if (profile.shapes_of_avx != 0)
    device.values.push_back(
        {"shapes_of_avx", static_cast<double>(profile.shapes_of_avx), "1", "measured", cpu::shipped_convolutions_origin()});
  measured("memory_bytes", profile.memory_bytes, "B");
  measured("memory_bytes_per_second", profile.bytes_per_second, "B/s");
  device.values.push_back({"launch_seconds", profile.launch_seconds, "s", "fitted",
                           "to digits-cnn on four ranks of a Xeon, micro-batches of 1 and 8, messages included"});
  projected("cache_bytes", profile.cache_bytes, "B", "one core's part of the last level of cache");
  projected("link_gbps", kDefaultLinkGbps, "Gb/s", "a ring of hosts; processes of one host exchange through memory");
  return device;
}

}  // namespace millrace
