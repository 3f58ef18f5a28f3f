// Reading a CTC network's scores, held against every way there is on cases small enough to try them all.
#include "core/decode/ctc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/base/error.h"
#include "core/base/random.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  int64_t classes, rows, steps, blank;
  std::vector<float> logits;
  CtcScores scores() const { return {logits, classes, rows, steps, blank}; }
};

Case random_case(uint64_t seed) {
  const Philox draw(seed, 1);
  Case c;
  c.classes = 2 + static_cast<int64_t>(draw.below(0, 3));
  c.rows = 1 + static_cast<int64_t>(draw.below(1, 6));
  c.steps = 1 + static_cast<int64_t>(draw.below(2, static_cast<uint64_t>(c.rows)));
  c.blank = static_cast<int64_t>(draw.below(3, static_cast<uint64_t>(c.classes)));
  for (int64_t i = 0; i < c.classes * c.rows; ++i) c.logits.push_back(static_cast<float>(2 * draw.normal(static_cast<uint64_t>(10 + i))));
  return c;
}

double probability(const Case& c, int64_t label, int64_t step) {
  double sum = 0;
  for (int64_t other = 0; other < c.classes; ++other) sum += std::exp(c.scores().at(other, step));
  return std::exp(c.scores().at(label, step)) / sum;
}

// Every row of labels with its probability, over all classes^steps ways.
std::map<std::vector<int32_t>, double> everything(const Case& c) {
  std::map<std::vector<int32_t>, double> found;
  const auto ways = static_cast<int64_t>(std::pow(static_cast<double>(c.classes), static_cast<double>(c.steps)) + 0.5);
  for (int64_t way = 0; way < ways; ++way) {
    std::vector<int32_t> labels;
    double p = 1;
    int64_t before = c.blank, rest = way;
    for (int64_t step = 0; step < c.steps; ++step, rest /= c.classes) {
      const int64_t label = rest % c.classes;
      p *= probability(c, label, step);
      if (label != before && label != c.blank) labels.push_back(static_cast<int32_t>(label));
      before = label;
    }
    found[labels] += p;
  }
  return found;
}

TEST(BeamSearch, AWideBeamFindsTheMostProbableRowOfAll) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Case c = random_case(seed);
    const auto all = everything(c);
    const auto best = std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const CtcReading found = beam_search(c.scores(), 100000);
    EXPECT_NEAR(std::exp(found.log_probability), best->second, 1e-9) << "seed " << seed;
    EXPECT_NEAR(all.at(found.labels), best->second, 1e-9) << "seed " << seed;
  }
}

// What a narrow beam says of its row is no more than the truth: it saw some of the ways.
TEST(BeamSearch, ANarrowBeamClaimsNoMoreThanThereIs) {
  int64_t worse = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    const Case c = random_case(seed);
    const auto all = everything(c);
    const CtcReading wide = beam_search(c.scores(), 100000), narrow = beam_search(c.scores(), 2);
    EXPECT_LE(std::exp(narrow.log_probability), all.at(narrow.labels) + 1e-12);
    EXPECT_LE(all.at(narrow.labels), all.at(wide.labels) + 1e-12);
    worse += all.at(narrow.labels) < all.at(wide.labels) - 1e-9 ? 1 : 0;
  }
  EXPECT_LT(worse, 30);
}

TEST(BestPath, IsTheBestClassOfEachStepJoined) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Case c = random_case(seed);
    std::vector<int32_t> expected;
    int64_t before = c.blank;
    for (int64_t step = 0; step < c.steps; ++step) {
      int64_t best = 0;
      for (int64_t label = 0; label < c.classes; ++label)
        if (probability(c, label, step) > probability(c, best, step)) best = label;
      if (best != before && best != c.blank) expected.push_back(static_cast<int32_t>(best));
      before = best;
    }
    EXPECT_EQ(best_path(c.scores()), expected);
  }
}

// The textbook case: blank is the best class at both steps, yet "1" is the more probable row.
TEST(BeamSearch, AddsUpTheWaysThatTheBestPathPassesOver) {
  const auto log = [](double p) { return static_cast<float>(std::log(p)); };
  const Case c{2, 2, 2, 0, {log(0.6), log(0.6), log(0.4), log(0.4)}};
  EXPECT_THAT(best_path(c.scores()), IsEmpty());
  const CtcReading found = beam_search(c.scores(), 4);
  EXPECT_THAT(found.labels, ElementsAre(1));
  EXPECT_NEAR(std::exp(found.log_probability), 0.64, 1e-6);
}

TEST(BeamSearch, ARepeatedLabelNeedsABlankBetween) {
  const float no = -30, yes = 30;
  const Case joined{2, 3, 3, 0, {no, no, no, yes, yes, yes}};
  EXPECT_THAT(beam_search(joined.scores(), 8).labels, ElementsAre(1));
  const Case apart{2, 3, 3, 0, {no, yes, no, yes, no, yes}};
  EXPECT_THAT(beam_search(apart.scores(), 8).labels, ElementsAre(1, 1));
  EXPECT_THAT(best_path(apart.scores()), ElementsAre(1, 1));
}

TEST(BeamSearch, StepsBehindTheSamplesEndSayNothing) {
  const Case c{2, 4, 1, 0, {-9, 9, 9, 9, 9, -9, -9, -9}};
  EXPECT_THAT(best_path(c.scores()), ElementsAre(1));
  EXPECT_THAT(beam_search(c.scores(), 8).labels, ElementsAre(1));
  const Case none{2, 4, 0, 0, c.logits};
  EXPECT_THAT(best_path(none.scores()), IsEmpty());
  EXPECT_THAT(beam_search(none.scores(), 8).labels, IsEmpty());
}

TEST(BeamSearch, ManyStepsDoNotUnderflow) {
  const int64_t steps = 3000;
  Case c{3, steps, steps, 0, std::vector<float>(static_cast<size_t>(3 * steps), 0.0F)};
  EXPECT_TRUE(std::isfinite(beam_search(c.scores(), 4).log_probability));
}

TEST(BeamSearch, RefusesWhatCannotBeRead) {
  Case c = random_case(1);
  const auto message = [&](int64_t beam) -> std::string {
    try {
      beam_search(c.scores(), beam);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(0), HasSubstr("at least 1"));
  c.logits[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message(4), HasSubstr("class 0 at step 0 is not finite"));
  c.logits[0] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message(4), HasSubstr("not finite"));
  best_path(c.scores());
}

}  // namespace
}  // namespace millrace
