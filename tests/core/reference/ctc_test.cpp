// The CTC loss against the sum over every path, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/device/ctc_loss.h"
#include "tests/core/operation_cases.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// One sample of `classes` x `steps` scores.
struct Sequence {
  int64_t classes = 2, steps = 1, blank = 0;
  std::vector<double> logits;
  std::vector<int32_t> labels;

  CtcMath<double> math() const { return {"loss", Shape{classes, steps, 1}, 1, blank}; }
  std::vector<double> probabilities() const {
    std::vector<double> values(logits.size());
    math().probabilities(logits, values);
    return values;
  }
  Score score() const {
    Score score;
    math().add_score(logits, std::vector<int64_t>{steps}, labels, score);
    return score;
  }
  std::vector<double> error() const {
    std::vector<double> values(logits.size());
    math().error(logits, std::vector<int64_t>{steps}, labels, 1, false, values);
    return values;
  }
};

std::vector<int32_t> spelled_by(const std::vector<int32_t>& path, int64_t blank) {
  std::vector<int32_t> labels;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

// Calls visit(path, probability) for every way to say a class at every step.
template <typename Visit>
void for_each_path(const Sequence& sequence, Visit visit) {
  const std::vector<double> p = sequence.probabilities();
  const auto count =
      static_cast<int64_t>(std::llround(std::pow(static_cast<double>(sequence.classes), static_cast<double>(sequence.steps))));
  for (int64_t code = 0; code < count; ++code) {
    std::vector<int32_t> path;
    double probability = 1;
    int64_t rest = code;
    for (int64_t t = 0; t < sequence.steps; ++t, rest /= sequence.classes) {
      path.push_back(static_cast<int32_t>(rest % sequence.classes));
      probability *= p[static_cast<size_t>(path.back() * sequence.steps + t)];
    }
    visit(path, probability);
  }
}

TEST(Ctc, IsTheSumOverAllPaths) {
  testing::CaseDraw draw(4, "ctc");
  int checked = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Sequence sequence{.classes = draw.between(2, 4), .steps = draw.between(1, 5), .blank = 0, .logits = {}, .labels = {}};
    sequence.blank = draw.between(0, sequence.classes - 1);
    sequence.logits = draw.values(sequence.classes * sequence.steps, 0, 2);
    // Any labels that the steps can say: those that some path spells.
    std::vector<int32_t> path;
    for (int64_t t = 0; t < sequence.steps; ++t) path.push_back(static_cast<int32_t>(draw.between(0, sequence.classes - 1)));
    sequence.labels = spelled_by(path, sequence.blank);
    if (sequence.labels.empty()) continue;
    double total = 0;
    std::vector<double> says(sequence.logits.size());
    for_each_path(sequence, [&](const std::vector<int32_t>& way, double probability) {
      if (spelled_by(way, sequence.blank) != sequence.labels) return;
      total += probability;
      for (size_t t = 0; t < way.size(); ++t) says[static_cast<size_t>(way[t] * sequence.steps) + t] += probability;
    });
    EXPECT_NEAR(sequence.score().loss, -std::log(total), 1e-10);
    const std::vector<double> p = sequence.probabilities(), error = sequence.error();
    for (size_t i = 0; i < error.size(); ++i) EXPECT_NEAR(error[i], p[i] - says[i] / total, 1e-10);
    ++checked;
  }
  EXPECT_GT(checked, 120);
}

TEST(Ctc, LongSequencesDoNotUnderflow) {
  testing::CaseDraw draw(5, "ctc");
  Sequence sequence{.classes = 29, .steps = 3000, .blank = 0, .logits = {}, .labels = {}};
  sequence.logits = draw.values(sequence.classes * sequence.steps, 0, 5);
  for (int i = 0; i < 300; ++i) sequence.labels.push_back(static_cast<int32_t>(draw.between(1, 28)));
  const Score score = sequence.score();
  EXPECT_TRUE(std::isfinite(score.loss));
  EXPECT_GT(score.loss, 1000);  // far below the smallest double as a probability
  const std::vector<double> error = sequence.error();
  for (int64_t t = 0; t < sequence.steps; ++t) {
    double sum = 0;  // probabilities and posteriors both add up to one
    for (int64_t c = 0; c < sequence.classes; ++c) sum += error[static_cast<size_t>(c * sequence.steps + t)];
    ASSERT_NEAR(sum, 0, 1e-8) << t;
  }
}

TEST(Ctc, CountsASampleCorrectWhenItsBestPathSpellsTheLabels) {
  //                                       steps   0  1  2  3
  Sequence sequence{.classes = 3,
                    .steps = 4,
                    .blank = 0,
                    .logits = {0, 0, 9, 0,  // blank
                               9, 9, 0, 9,  // 1
                               0, 0, 0, 0},
                    .labels = {1, 1}};
  EXPECT_EQ(sequence.score().correct, 1);
  EXPECT_EQ(sequence.score().samples, 1);
  sequence.labels = {1, kNoLabel};
  EXPECT_EQ(sequence.score().correct, 0);
  sequence.labels = {kNoLabel, kNoLabel};  // nothing to learn from
  EXPECT_EQ(sequence.score().samples, 0);
  EXPECT_EQ(sequence.score().loss, 0);
  EXPECT_EQ(sequence.error(), std::vector<double>(12, 0.0));
}

TEST(Ctc, RefusesLabelsThatCannotBe) {
  const auto message = [](std::vector<int32_t> labels) {
    Sequence sequence{.classes = 3, .steps = 3, .blank = 1, .logits = std::vector<double>(9), .labels = std::move(labels)};
    try {
      sequence.score();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMismatch);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message({0, 2, 0}), "accepted");
  EXPECT_THAT(message({0, 1}), HasSubstr("label 1; labels are classes 0 to 2 except the blank, 1"));
  EXPECT_THAT(message({3}), HasSubstr("label 3"));
  EXPECT_THAT(message({-2}), HasSubstr("label -2"));
  EXPECT_THAT(message({0, kNoLabel, 2}), HasSubstr("labels after one that is missing"));
  EXPECT_THAT(message({0, 2, 0, 2}), HasSubstr("4 labels, which take at least 4 steps to say, but 3 steps"));
  EXPECT_THAT(message({0, 0, 2}), HasSubstr("3 labels, which take at least 4 steps"));
}

TEST(Ctc, LabelsAreAsManyForEachSample) {
  CtcMath<float> math("loss", Shape{3, 4, 1}, 2, 0);
  Score score;
  EXPECT_THROW(math.add_score(std::vector<float>(24), std::vector<int64_t>{4, 4}, std::vector<int32_t>{1, 2, 1}, score), Error);
}

}  // namespace
}  // namespace millrace
