// Boards written down by hand, so that these tests do not move with the catalogue.
#pragma once

#include "core/documents/catalogue.h"

namespace millrace::testing_support {

inline CatalogueDevice vc709() {
  CatalogueDevice board{.name = "XC7VX690T", .short_names = {"vc709"}, .kind = "fpga", .summary = "", .values = {}};
  const auto value = [&](const char* name, double amount, const char* origin) { board.values.push_back({name, amount, "1", origin, ""}); };
  value("lut", 433200, "catalogue");
  value("ff", 866400, "catalogue");
  value("lutram_lut", 174200, "catalogue");
  value("bram36", 1470, "catalogue");
  value("dsp", 3600, "catalogue");
  value("dsp_per_mac_16", 1, "catalogue");
  value("dsp_per_mac_32", 4, "catalogue");
  value("dsp_engine_share", 0.85, "fitted");
  value("clock_hz", 200e6, "paper");
  value("dram_bytes", 8589934592.0, "catalogue");
  value("dram_bytes_per_second", 29.86e9, "catalogue");
  value("watts_idle", 16.6, "fitted");
  value("watts_per_gops", 0.01264, "fitted");
  return board;
}

// The same board with another amount of something, or with something it lacked.
inline CatalogueDevice with(CatalogueDevice board, const char* name, double amount) {
  for (CatalogueValue& value : board.values) {
    if (value.name != name) continue;
    value.value = amount;
    return board;
  }
  board.values.push_back({name, amount, "1", "projected", ""});
  return board;
}

}  // namespace millrace::testing_support
