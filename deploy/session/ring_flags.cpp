#include "deploy/session/ring_flags.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "deploy/devices/hardware.h"

namespace millrace {
namespace {

constexpr double kLeastGbps = 1e-6;
constexpr double kMostGbps = 1e6;

}  // namespace

double checked_gbps(std::string_view flag, double gbps) {
  if (!(gbps >= kLeastGbps && gbps <= kMostGbps))
    fail(ErrorCode::kUsage, "{} {:g}: links have from {:g} to {:g} Gb/s", flag, gbps, kLeastGbps, kMostGbps);
  return gbps;
}

void set_link_gbps(Cluster& cluster, std::optional<double> each, std::optional<double> both) {
  if (each && both) fail(ErrorCode::kUsage, "--link-gbps and --link-gbps-both exclude each other; choose one");
  for (LinkEntry& link : cluster.links) {
    if (each) link.forward_gbps = link.backward_gbps = checked_gbps("--link-gbps", *each);
    if (both) link.forward_gbps = link.backward_gbps = link.shared_gbps = checked_gbps("--link-gbps-both", *both);
  }
}

Arithmetic arithmetic_for(const Cluster& cluster, const Catalogue& catalogue, std::optional<int64_t> bits) {
  const auto count_of = [&](Hardware hardware) {
    return std::count_if(cluster.devices.begin(), cluster.devices.end(),
                         [&](const DeviceEntry& entry) { return hardware_of(catalogue.find(entry.device)) == hardware; });
  };
  const auto fpgas = count_of(Hardware::kFpga);
  const auto all = static_cast<int64_t>(cluster.devices.size());
  if (bits && *bits != 16 && *bits != 32) fail(ErrorCode::kUsage, "--bits {}: elements are 16 or 32 bits wide", *bits);
  if (bits.value_or(fpgas > 0 ? 16 : 32) == 32) return {ElementType::kFloat32, ElementType::kFloat32};
  if (fpgas == all) return {ElementType::kFixed16, ElementType::kFixed16};
  if (fpgas > 0) return {ElementType::kFloat32, ElementType::kFixed16};
  if (count_of(Hardware::kCpu) > 0) fail(ErrorCode::kUsage, "--bits 16: CPUs compute in 32 bits; leave --bits out");
  return {ElementType::kFloat16, ElementType::kFloat16};
}

}  // namespace millrace
