// FARNN's rows against figures that another program computed from the same formulas, and the recursion of events against its closed form.
#include "fpga/pe_chain/paper_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace millrace {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct WrittenDown {
  std::string_view id;
  double paper, four;
  std::string_view verdict_four;
  double wide;
  std::string_view verdict_wide;
};

// From the page of FARNN's figures, whose own model is a script of its own.
const WrittenDown kRows[] = {
    {"eff_b1", 82.8, 82.4036456, "holds", 83.3829482, "holds"},
    {"eff_b2", 88, 88.5493605, "holds", 88.9792982, "holds"},
    {"eff_b4", 92.5, 91.9792969, "holds", 92.0689595, "holds"},
    {"b4_b1", 3.4, 3.58357363, "paper contradicts itself", 3.6226302, "paper contradicts itself"},
    {"b4_b1_own", 3.58054054, 3.58357363, "holds", 3.6226302, "holds"},
    {"lstm_9_13", 1.23076923, 1.2594603, "holds", 1.20390781, "holds"},
    {"gru_9_13", 1.36, 1.36097322, "holds", 1.20657093, "not reproduced"},
    {"pair_GBs", 732, 501.653782, "holds", 817.508395, "not reproduced"},
    {"std_T1600", 3.6, 2.94329498, "not reproduced", 4.62622471, "not reproduced"},
    {"std_T100", 1, 0.955450186, "holds", 1.08506654, "holds"},
    {"std_B4", 1, 0.932665218, "holds", 1.04508505, "not reproduced"},
    {"pd_std", 1, 0.728854341, "holds", 0.696705907, "holds"},
    {"rmvm_peak", 2, 2.69706335, "not pinned", 4.39520643, "not pinned"},
    {"all_fpga", 2, 1.94764338, "holds", 1.97369123, "holds"},
    {"no_overlap", 1.2, 1.38050934, "holds", 1.4710236, "holds"},
    {"x8", 6, 9.52856715, "not pinned", 27.6635768, "not pinned"},
    {"x8_identity", 1.39, 1.37714162, "holds", 1.37714162, "holds"},
    {"link_rate", 0.11, 1.52409302, "paper contradicts itself", 2.56, "paper contradicts itself"},
    {"cycles_768", 1536, 1536, "holds", 1536, "holds"},
    {"cycles_768_1", 2048, 2048, "holds", 2048, "holds"},
    {"slices_256", 4, 4, "holds", 4, "holds"},
    {"words_256", 4096, 4096, "holds", 4096, "holds"},
    {"uram_pair", 4096, 4096, "holds", 4096, "holds"},
    {"most_4k", 1024, 1024, "holds", 1248, "not reproduced"},
    {"gru_4k", 4096, 3840, "holds", 3200, "holds"},
    {"vu9p_mb", 40, 45.34272, "holds", 45.34272, "holds"},
    {"hidden_204", 0, 222, "paper contradicts itself", 222, "paper contradicts itself"},
    {"more_than_256", 257, 192, "paper contradicts itself", 192, "paper contradicts itself"},
    {"rnnt_fits", 6.5536, 6.291456, "paper contradicts itself", 6.291456, "paper contradicts itself"},
    {"rnnt_9_13", 1.55555556, 1.2579447, "not pinned", 1.49355828, "not pinned"},
    {"rnnt_share9", 65, 63.5294118, "paper contradicts itself", 63.5294118, "paper contradicts itself"},
    {"rnnt_share13", 65, 63, "paper contradicts itself", 63, "paper contradicts itself"},
    {"rnnt_power", 1.27, 1.11111111, "paper contradicts itself", 1.11111111, "paper contradicts itself"},
    {"ds2_steps", 576, 548, "paper contradicts itself", 548, "paper contradicts itself"},
    {"ds2_b2", 52, kNone, "not pinned", kNone, "not pinned"},
    {"rnnt_up_to", 4.2, kNone, "not pinned", kNone, "not pinned"},
    {"versal", 1.45, kNone, "not pinned", kNone, "not pinned"},
    {"cpu_tpu", 6, kNone, "not pinned", kNone, "not pinned"},
    {"ds2_energy", 0.68503937, 0.68503937, "not pinned", 0.68503937, "not pinned"},
};

}  // namespace

TEST(FarnnRows, AreThoseWrittenDown) {
  const std::vector<FarnnRow> rows = farnn_rows();
  ASSERT_EQ(rows.size(), std::size(kRows));
  for (size_t i = 0; i < rows.size(); ++i) {
    const FarnnRow& row = rows[i];
    const WrittenDown& known = kRows[i];
    EXPECT_EQ(row.id, known.id);
    EXPECT_NEAR(row.paper, known.paper, 1e-8 * std::fabs(known.paper)) << row.id;
    const auto same = [&](double model, double figure) {
      if (std::isnan(figure)) return std::isnan(model);
      return std::fabs(model - figure) <= 1e-8 * std::fabs(figure);
    };
    EXPECT_TRUE(same(row.four, known.four)) << row.id << ": " << row.four << ", expected " << known.four;
    EXPECT_TRUE(same(row.wide, known.wide)) << row.id << ": " << row.wide << ", expected " << known.wide;
    EXPECT_EQ(row.verdict_four, known.verdict_four) << row.id;
    EXPECT_EQ(row.verdict_wide, known.verdict_wide) << row.id;
  }
}

TEST(FarnnRows, CountsAndReasons) {
  std::map<std::string_view, int> four, wide;
  std::set<std::string_view> ids;
  for (const FarnnRow& row : farnn_rows()) {
    ++four[row.verdict_four];
    ++wide[row.verdict_wide];
    EXPECT_TRUE(ids.insert(row.id).second) << row.id;
    EXPECT_EQ(row.verdict_four == "not reproduced", !row.expected_to_hold) << row.id;
    if (row.verdict_four != "holds") {
      EXPECT_FALSE(row.note.empty()) << row.id << " has no reason";
    }
  }
  EXPECT_EQ(four,
            (std::map<std::string_view, int>{{"holds", 21}, {"not pinned", 8}, {"not reproduced", 1}, {"paper contradicts itself", 9}}));
  EXPECT_EQ(wide,
            (std::map<std::string_view, int>{{"holds", 17}, {"not pinned", 8}, {"not reproduced", 5}, {"paper contradicts itself", 9}}));
}

// One layer's parts by hand: LSTM-1024, 1,600 steps, batch 1, 256 elements.
TEST(FarnnMachine, OneLayerByHand) {
  const FarnnParts parts = parts_of({}, farnn_readings()[0].vu9p);
  EXPECT_NEAR(parts.forward, 1600 * (4096 + 204) / 400e6, 1e-12);      // 17.2 ms
  EXPECT_NEAR(parts.back, 1600 * 4096 / 400e6, 1e-12);                 // 16.384 ms
  EXPECT_NEAR(parts.load, 16777216 / 7.5e9 + 0.0005, 1e-12);           // 2.737 ms
  EXPECT_NEAR(parts.input, 2.0 * 4194304 * 1600 / 8.37e12, 1e-12);     // 1.604 ms
  EXPECT_NEAR(parts.gradient, 2.0 * 8388608 * 1600 / 8.37e12, 1e-12);  // 3.207 ms
  EXPECT_NEAR(parts.update, 8388608 * 20 / 732e9, 1e-12);              // 0.229 ms
  EXPECT_NEAR(parts.link, 1600 * 20480 / 7.5e9, 1e-12);                // 4.369 ms
  EXPECT_NEAR(training_step_seconds({}, farnn_readings()[0].vu9p), 0.19883, 5e-6);
}

TEST(FarnnMachine, EventsAreTheClosedFormWhereStepsSetThePace) {
  int held = 0;
  for (const FarnnReading& reading : farnn_readings())
    for (const int64_t batch : {1, 2, 4})
      for (const int64_t steps : {100, 548, 1600})
        for (const int64_t directions : {1, 2}) {
          const FarnnNetwork network{.steps = steps, .batch = batch, .layers = directions == 1 ? 5 : 7, .directions = directions};
          const FarnnParts p = parts_of(network, reading.vu9p);
          if (std::min(p.forward, p.back) < p.input + p.gradient + p.update) continue;
          ++held;
          EXPECT_NEAR(training_step_seconds(network, reading.vu9p) / training_step_seconds_closed(network, reading.vu9p), 1, 1e-4);
        }
  EXPECT_GE(held, 16);
}

TEST(FarnnCurves, PassThroughTheRows) {
  std::set<std::string> ids;
  for (const FarnnCurve& curve : farnn_curves()) {
    EXPECT_TRUE(ids.insert(curve.id).second);
    for (const FarnnSeries& series : curve.series)
      for (const auto& [x, y] : series.points) EXPECT_TRUE(std::isfinite(y) && y > 0) << curve.id << " at " << x;
    if (curve.id == "fig8_four") {
      EXPECT_NEAR(curve.series[1].points.back().second, 3.6, 1e-9);  // what cuDNN-Std is calibrated to
      EXPECT_NEAR(curve.series[0].points.front().second, 0.955450186, 1e-8);
    }
    if (curve.id == "fig9_four") {
      EXPECT_LT(curve.series[0].points[2].second, 1);  // batch 4: VU9P loses, VU13P wins
      EXPECT_GT(curve.series[1].points[2].second, 1);
    }
  }
  EXPECT_EQ(ids.size(), 8U);
}

TEST(FarnnConstants, EachHasAnOrigin) {
  for (const Constant& constant : farnn_constants()) EXPECT_FALSE(constant.origin.empty()) << constant.name;
}

}  // namespace millrace
