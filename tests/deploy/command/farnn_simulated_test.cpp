// FARNN's figures from training steps that are simulated, beside those by formulas.
#include "deploy/command/study/farnn_simulated.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// The lowest layer makes no errors of its inputs and the highest gives out one step, where the formula of NoOverlap counts all alike.
constexpr double kMost = 0.005, kMostNoOverlap = 0.013;

TEST(FarnnSimulated, FiguresAreThoseOfTheFormulas) {
  const FarnnTimes times = simulated_farnn_times();
  const std::vector<FarnnRow> formulas = farnn_rows(), simulated = farnn_rows(times);
  ASSERT_EQ(formulas.size(), simulated.size());
  int64_t timed = 0;
  for (size_t i = 0; i < formulas.size(); ++i) {
    const FarnnRow &row = formulas[i], &other = simulated[i];
    EXPECT_EQ(row.verdict_four, other.verdict_four) << row.id;
    EXPECT_EQ(row.verdict_wide, other.verdict_wide) << row.id;
    EXPECT_EQ(row.timed, other.timed);
    if (!row.timed) continue;
    ++timed;
    const double most = row.id == "no_overlap" ? kMostNoOverlap : kMost;
    EXPECT_NEAR(other.four / row.four, 1, most) << row.id;
    EXPECT_NEAR(other.wide / row.wide, 1, most) << row.id;
    EXPECT_NE(other.four, row.four) << row.id << " is not simulated";
  }
  EXPECT_EQ(timed, 17);
}

// Ratios hide what both sides have in common: the seconds themselves.
TEST(FarnnSimulated, SecondsAreThoseOfTheFormulas) {
  const FarnnTimes formulas = farnn_formulas(), simulated = simulated_farnn_times();
  for (const FarnnReading& reading : farnn_readings())
    for (const int64_t batch : {1, 4})
      for (const int64_t steps : {100, 800}) {
        const FarnnNetwork network{.steps = steps, .batch = batch};
        const auto ratio = [&](const FarnnTimes::Seconds& model, const FarnnTimes::Seconds& run) {
          return run(network, reading.vu9p) / model(network, reading.vu9p);
        };
        EXPECT_NEAR(ratio(formulas.training, simulated.training), 1, 0.004) << reading.name << ", " << steps << " steps, batch " << batch;
        EXPECT_NEAR(ratio(formulas.all_on_board, simulated.all_on_board), 1, 0.005) << reading.name << ", " << steps << " x " << batch;
        EXPECT_NEAR(ratio(formulas.no_overlap, simulated.no_overlap), 1, 0.015) << reading.name << ", " << steps << " x " << batch;
      }
}

TEST(FarnnSimulated, DifferencesHaveReasons) {
  for (const char* what : {"no_overlap", "fig7"}) EXPECT_THAT(std::string(farnn_difference(what)), Not(HasSubstr("not known")));
  EXPECT_THAT(std::string(farnn_difference("fig8")), HasSubstr("not known"));
}

}  // namespace
}  // namespace millrace
