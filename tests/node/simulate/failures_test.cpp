// Rings that fail: what is drawn against what is expected, and the best interval against all intervals.
#include "node/simulate/failures.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "core/base/error.h"

namespace millrace {
namespace {

using testing::HasSubstr;

constexpr FailureModel kRing{.devices = 100, .device_mtbf_seconds = 360'000, .checkpoint_seconds = 20, .restart_seconds = 90, .seed = 3};

TEST(Failures, LoseWhatTheFormulaExpects) {
  for (const double interval : {30.0, 120.0, 380.0, 1500.0, 6000.0}) {
    const FailureRun run = simulate_failures(kRing, interval, 20'000);
    const double expected = expected_lost(kRing, interval);
    fmt::print("  every {:>4} s: 1 - T / (M e^(R/M) (e^((T + C)/M) - 1)) = {:.4f}, simulated {:.4f} ({} failures)\n", interval, expected,
               run.lost, run.failures);
    EXPECT_NEAR(run.lost, expected, 0.025 * expected);
    EXPECT_GE(run.failures, 20'000);
    // Failures come as often as they should.
    EXPECT_NEAR(run.seconds / static_cast<double>(run.failures), kRing.ring_mtbf_seconds(), 0.03 * kRing.ring_mtbf_seconds());
  }
}

TEST(Failures, DoNotDependOnHowTheRingIsCounted) {
  FailureModel one = kRing;
  one.devices = 1;
  one.device_mtbf_seconds = kRing.ring_mtbf_seconds();
  EXPECT_DOUBLE_EQ(expected_lost(one, 500), expected_lost(kRing, 500));
  EXPECT_NEAR(simulate_failures(one, 500, 20'000).lost, simulate_failures(kRing, 500, 20'000).lost, 0.01);
  EXPECT_EQ(simulate_failures(kRing, 500, 500).lost, simulate_failures(kRing, 500, 500).lost);
  FailureModel other = kRing;
  other.seed = 4;
  EXPECT_NE(simulate_failures(other, 500, 500).lost, simulate_failures(kRing, 500, 500).lost);
}

TEST(Failures, YoungAndDalyAreNearTheBestOfAllIntervals) {
  for (const double checkpoint : {1.0, 20.0, 300.0}) {
    FailureModel model = kRing;
    model.checkpoint_seconds = checkpoint;
    double best = 1;
    double at = 0;
    for (double interval = 1; interval < 20'000; interval *= 1.002)
      if (const double lost = expected_lost(model, interval); lost < best) {
        best = lost;
        at = interval;
      }
    const double young = young_interval(model);
    const double daly = daly_interval(model);
    fmt::print("  C = {:>3} s, M = 3600 s: best {:.0f} s loses {:.4f}; sqrt(2 C M) = {:.0f} s loses {:.4f}; Daly {:.0f} s loses {:.4f}\n",
               checkpoint, at, best, young, expected_lost(model, young), daly, expected_lost(model, daly));
    EXPECT_NEAR(young, std::sqrt(2 * checkpoint * 3600), 1e-9);
    EXPECT_NEAR(daly, at, 0.02 * at);
    EXPECT_LE(expected_lost(model, daly), best * 1.001);
    EXPECT_LE(expected_lost(model, young), best * 1.05);
  }
  FailureModel hopeless = kRing;
  hopeless.checkpoint_seconds = 8000;
  EXPECT_EQ(daly_interval(hopeless), hopeless.ring_mtbf_seconds());
}

std::string refusal(const FailureModel& model, double interval) {
  try {
    static_cast<void>(simulate_failures(model, interval, 10));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Failures, AreRefusedWhereNothingWouldEverEnd) {
  EXPECT_EQ(refusal(kRing, 100), "");
  EXPECT_THAT(refusal(kRing, 100'000), HasSubstr("never come"));
  EXPECT_THAT(refusal(kRing, 0), HasSubstr("an interval between checkpoints of 0 s"));
  FailureModel model = kRing;
  model.restart_seconds = 80'000;
  EXPECT_THAT(refusal(model, 100), HasSubstr("never come"));
  model = kRing;
  model.devices = 0;
  EXPECT_THAT(refusal(model, 100), HasSubstr("one at least"));
  model = kRing;
  model.device_mtbf_seconds = -1;
  EXPECT_THAT(refusal(model, 100), HasSubstr("a device's time between failures of -1 s"));
  model = kRing;
  model.device_mtbf_seconds = std::nan("");
  EXPECT_THAT(refusal(model, 100), HasSubstr("lies between"));
}

}  // namespace
}  // namespace millrace
