// What an FPGA board has, out of the device catalogue: checked once, then plain numbers.
//
//   const FpgaResources board = fpga_resources_of(catalogue.find("vc709"), /*element_bits=*/16);
//   board.engine_dsps();    // 3,060 of 3,600
//
// The catalogue must give: dsp, lut, ff, bram36, clock_hz, dsp_engine_share, dsp_per_mac_16 or dsp_per_mac_32.
// It may give: uram, lutram_lut, dram_bytes, dram_bytes_per_second, hbm_bytes, hbm_bytes_per_second, watts_idle,
// watts_per_gops, dsp_multiplier_share (FPDeep's alpha, 1 unless given: the share of multipliers built of DSP slices).
// Fails with kMalformed on a value that is missing or makes no sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/catalogue.h"
#include "core/documents/plan.h"
#include "fpga/pe_chain/board_row.h"

namespace millrace {

struct FpgaResources {
  std::string name;  // short
  double dsps = 0;
  double luts = 0;
  double flip_flops = 0;
  double bram36 = 0;
  double urams = 0;
  double lutram_luts = 0;
  int64_t clock_hz = 0;
  double dsp_engine_share = 1;
  double dsps_per_mac = 1;
  double dsp_multiplier_share = 1;
  double off_chip_bytes = 0;
  double off_chip_bytes_per_second = 0;
  double watts_idle = 0;
  double watts_per_gops = 0;
  std::optional<ChainDimensions> chains = {};  // of the engine for recurrent steps, where it is given by hand
  std::vector<Constant> constants;             // those of the values above that the catalogue gives, with their origin

  // How many slices engines may take, the one rule for all plans. Of engines of convolutions the multipliers are counted, and FPDeep's fit
  // leaves them `dsp_engine_share` of a board. Engines of blocked columns are counted with all that they take, as synthesis finds it, and
  // may have every slice. Where both share a board, in plans for inference, all slices are offered, and each of a convolution's engine
  // stands for 1 / dsp_engine_share: alone it comes to the same.
  double engine_dsps() const;
  double on_chip_bits() const;
};

FpgaResources fpga_resources_of(const CatalogueDevice& device, int64_t element_bits);

}  // namespace millrace
