// The paper's figures: what holds, what cannot, and curves whose model and simulation agree.
#include "fpga/sbe/paper_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "fpga/sbe/paper_equations.h"

namespace millrace {

TEST(BbLstmRows, EachHasAVerdictAndWhatCannotHoldSaysSo) {
  const std::vector<BbLstmRow> rows = bb_lstm_rows();
  std::map<std::string_view, int> verdicts;
  for (const BbLstmRow& row : rows) {
    ++verdicts[row.verdict];
    EXPECT_FALSE(row.paper_text.empty()) << row.id;
    EXPECT_EQ(std::ranges::count(rows, row.id, &BbLstmRow::id), 1) << row.id;
    EXPECT_EQ(row.verdict == "not reproduced", !row.expected_to_hold) << row.id;
  }
  EXPECT_EQ(verdicts["not reproduced"], 1);  // 356 GOPS on the VX690T
  EXPECT_GE(verdicts["holds"], 13);
  EXPECT_EQ(verdicts["paper contradicts itself"], 3);
}

TEST(BbLstmRows, TheEquationsAsPrinted) {
  const GateMatrix lrcn{1792, 256, 4};
  const auto share = [&](int64_t blocks, double batch) {
    return paper_products_per_cycle({.shape = lrcn, .multipliers = 1024, .words_per_cycle = 16, .blocks = blocks, .batch = batch}) / 1024;
  };
  EXPECT_DOUBLE_EQ(share(8, 64), 1);
  EXPECT_DOUBLE_EQ(share(8, 32), 0.5);
  EXPECT_NEAR(share(16, 64), 0.889, 0.0005);
  EXPECT_NEAR(share(32, 64), 0.113, 0.0005);
}

TEST(BbLstmRows, CurvesOfTheModelAreThoseOfTheSimulation) {
  for (const BbLstmCurve& curve : bb_lstm_curves())
    for (const CurvePoint& point : curve.points) EXPECT_NEAR(point.model / point.simulated, 1, 0.005) << curve.id << " at " << point.x;
}

TEST(BbLstmRows, MemoryByBlocksIsNotThatByBits) {
  for (const MemoryPoint& point : bb_lstm_memory()) {
    if (point.blocks == 8) {
      EXPECT_EQ(point.by_bits, 242);
      EXPECT_EQ(point.one_memory, 288.5);
    }
    if (point.blocks == 16) {
      EXPECT_EQ(point.by_bits, 121);
      EXPECT_EQ(point.two_memories, 537.0);
      EXPECT_TRUE(point.fits_two);
    }
    if (point.blocks == 4) {
      EXPECT_FALSE(point.fits_two);
    }
  }
}

}  // namespace millrace
