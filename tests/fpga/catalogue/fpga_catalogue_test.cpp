#include "fpga/catalogue/fpga_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/documents/catalogue.h"

namespace millrace {
namespace {

const Catalogue& boards() {
  static const Catalogue catalogue = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
  return catalogue;
}

TEST(FpgaCatalogue, HasTheBoardsPeopleNameInClusters) {
  for (const char* name : {"vc709", "zc706", "vu9p", "u200", "vu13p", "u250", "u280", "u55c", "vc1802", "XC7VX690T", "XC7Z045"})
    EXPECT_EQ(boards().find(name).kind, "fpga") << name;
  EXPECT_EQ(&boards().find("vu9p"), &boards().find("u200"));
  EXPECT_EQ(&boards().find("vu13p"), &boards().find("u250"));
}

TEST(FpgaCatalogue, EveryBoardHasWhatItsKindNeeds) {
  for (const CatalogueDevice& board : boards().devices) {
    SCOPED_TRACE(board.name);
    EXPECT_FALSE(board.summary.empty());
    for (const char* needed :
         {"lut", "ff", "lutram_lut", "bram36", "uram", "dsp", "dsp_per_mac_16", "dsp_per_mac_32", "dsp_engine_share", "clock_hz",
          "transceivers", "transceiver_gbps", "link_gbps", "ring_ports", "pcie_bytes_per_second", "watts_idle", "watts_per_gops"})
      EXPECT_TRUE(board.has(needed)) << needed;
    for (const char* memory : {"dram", "hbm"})
      EXPECT_EQ(board.has(std::string(memory) + "_bytes"), board.has(std::string(memory) + "_bytes_per_second")) << memory;
    EXPECT_TRUE(board.has("dram_bytes") || board.has("hbm_bytes"));
  }
}

TEST(FpgaCatalogue, EveryValueSaysWhereItIsFrom) {
  for (const CatalogueDevice& board : boards().devices)
    for (const CatalogueValue& value : board.values) {
      EXPECT_FALSE(value.note.empty()) << board.name << " " << value.name;
      if (value.name != "uram") {
        EXPECT_GT(value.value, 0) << board.name << " " << value.name;
      }
    }
}

TEST(FpgaCatalogue, FiguresAreSane) {
  for (const CatalogueDevice& board : boards().devices) {
    SCOPED_TRACE(board.name);
    EXPECT_EQ(board.value("ff"), 2 * board.value("lut")) << "two flip-flops to a LUT, in every family here";
    EXPECT_LE(board.value("lutram_lut"), 0.51 * board.value("lut")) << "half of the slices, roughly";
    const double block_ram_bits = board.value("bram36") * 36864;
    EXPECT_GT(block_ram_bits, 19e6);
    EXPECT_LT(block_ram_bits, 200e6);
    EXPECT_LT(board.value("uram") * 294912, 400e6);
    EXPECT_GE(board.value("dsp"), 900);
    EXPECT_LT(board.value("dsp"), 15000);
    EXPECT_GE(board.value("dsp_per_mac_32"), board.value("dsp_per_mac_16"));
    EXPECT_LE(board.value("dsp_engine_share"), 1);
    EXPECT_GE(board.value("clock_hz"), 100e6);
    EXPECT_LE(board.value("clock_hz"), 500e6);
    // What goes out at all its lanes bounds what goes to two neighbours.
    EXPECT_LE(2 * board.value("link_gbps"), board.value("transceivers") * board.value("transceiver_gbps"));
    EXPECT_GE(board.value("ring_ports"), 2);
    EXPECT_LT(board.value_or("hbm_bytes_per_second", 0), 1e12);
    EXPECT_LT(board.value_or("dram_bytes_per_second", 0), 2e11);
    const double gops = 2e-9 * board.value("dsp") * board.value("dsp_engine_share") * board.value("clock_hz");
    EXPECT_LT(board.value("watts_idle") + board.value("watts_per_gops") * gops, 225) << "no card here may draw more";
  }
}

// What FPDeep's figures stand on.
TEST(FpgaCatalogue, TheVc709IsTheBoardOfFpdeep) {
  const CatalogueDevice& board = boards().find("vc709");
  EXPECT_EQ(board.value("dsp"), 3600);
  EXPECT_EQ(board.value("dsp") * board.value("dsp_engine_share"), 3060);
  EXPECT_NEAR(board.value("bram36") * 36864 / 1e6, 54.19, 0.005);
  EXPECT_EQ(board.value("clock_hz"), 200e6);
  EXPECT_EQ(2 * board.value("link_gbps"), 150);
  EXPECT_EQ(board.value("ring_ports"), 10);
  // 15 boards, one network after the other: GOPS per board and joule of Table 6.
  for (const auto& [gops, per_joule] : {std::pair(1157.0, 37.09), std::pair(1197.0, 37.88), std::pair(1220.0, 38.13)})
    EXPECT_NEAR(gops / (board.value("watts_idle") + board.value("watts_per_gops") * gops), per_joule, 0.02 * per_joule);
  EXPECT_EQ(board.entry("clock_hz")->origin, "paper");
  EXPECT_EQ(board.entry("dsp")->origin, "catalogue");
  EXPECT_EQ(board.entry("watts_idle")->origin, "fitted");
}

TEST(FpgaCatalogue, TheZc706IsTheBoardOfBbLstm) {
  const CatalogueDevice& board = boards().find("zc706");
  EXPECT_EQ(board.value("bram36"), 545);
  EXPECT_NEAR(221.4 / (board.value("watts_idle") + board.value("watts_per_gops") * 221.4), 20.84, 0.05);
}

}  // namespace
}  // namespace millrace
