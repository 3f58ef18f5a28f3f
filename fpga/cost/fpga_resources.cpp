#include "fpga/cost/fpga_resources.h"

#include <cmath>

#include "core/base/error.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/common/cost/fabric_costs.h"

namespace millrace {

namespace {

// Reads values one by one, checks each against its range and notes it as a constant of the plan.
class Reader {
 public:
  Reader(const CatalogueDevice& device, std::vector<Constant>& constants) : device_(device), constants_(constants) {}

  double at_least(double least, const char* name) { return checked(name, device_.value(name), least, kMost); }
  double above_zero(const char* name, double most = kMost) { return checked(name, device_.value(name), kLeast, most); }
  double optional(const char* name, double otherwise, double most = kMost) {
    return device_.has(name) ? checked(name, device_.value(name), 0, most) : otherwise;
  }

 private:
  static constexpr double kLeast = 1e-9;
  static constexpr double kMost = 1e15;  // sums of thousands stay exact enough to compare

  double checked(const char* name, double value, double least, double most) {
    if (!(value >= least && value <= most))
      fail(ErrorCode::kMalformed, "the catalogue's device {}: {} is {}; it must be from {} to {}", device_.name, name, value, least, most);
    const CatalogueValue* entry = device_.entry(name);
    constants_.push_back({name, value, entry->origin.empty() ? "catalogue" : entry->origin});
    return value;
  }

  const CatalogueDevice& device_;
  std::vector<Constant>& constants_;
};

}  // namespace

double FpgaResources::engine_dsps() const { return std::floor(dsps * dsp_engine_share + 1e-6); }

double FpgaResources::on_chip_bits() const { return bram36 * static_cast<double>(kBram36Bits) + urams * static_cast<double>(kUramBits); }

FpgaResources fpga_resources_of(const CatalogueDevice& device, int64_t element_bits) {
  FpgaResources board;
  board.name = device.short_names.empty() ? device.name : device.short_names.front();
  Reader read(device, board.constants);
  const FabricUse once = interconnection_fabric();
  board.dsps = read.at_least(1, "dsp");
  board.luts = read.at_least(once.luts, "lut");
  board.flip_flops = read.at_least(once.flip_flops, "ff");
  board.bram36 = read.at_least(1, "bram36");
  board.urams = read.optional("uram", 0);
  board.lutram_luts = read.optional("lutram_lut", 0);
  board.clock_hz = std::llround(read.at_least(1, "clock_hz"));
  board.dsp_engine_share = read.above_zero("dsp_engine_share", 1);
  board.dsps_per_mac = read.above_zero(element_bits == 16 ? "dsp_per_mac_16" : "dsp_per_mac_32");
  board.dsp_multiplier_share = read.optional("dsp_multiplier_share", 1, 1);
  board.off_chip_bytes = read.optional("dram_bytes", 0) + read.optional("hbm_bytes", 0);
  board.off_chip_bytes_per_second = read.optional("dram_bytes_per_second", 0) + read.optional("hbm_bytes_per_second", 0);
  board.watts_idle = read.optional("watts_idle", 0);
  board.watts_per_gops = read.optional("watts_per_gops", 0);
  return board;
}

}  // namespace millrace
