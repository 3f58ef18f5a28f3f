// Label smoothing as PyTorch's cross_entropy has it, against the definition: the cross-entropy with q = (1 - e) one-hot + e / K.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/device/softmax_loss.h"

namespace millrace {
namespace {

constexpr double kSmoothing = 0.1;
const std::vector<double> kLogits = {1.5, -0.25, 0.75, 2.0, 0.5, -1.0, 0.0, 0.125, -2.0, 3.0, 0.25, 1.0};  // 3 samples, 4 classes
const std::vector<int32_t> kLabels = {2, kNoLabel, 1};
const Shape kFourClasses{4, 1, 1};

double defined_loss(const std::vector<double>& logits) {
  double loss = 0;
  for (size_t sample = 0; sample < 3; ++sample) {
    if (kLabels[sample] == kNoLabel) continue;
    double sum = 0;
    for (size_t c = 0; c < 4; ++c) sum += std::exp(logits[4 * sample + c]);
    for (size_t c = 0; c < 4; ++c) {
      const double q = (static_cast<int32_t>(c) == kLabels[sample] ? 1 - kSmoothing : 0) + kSmoothing / 4;
      loss -= q * std::log(std::exp(logits[4 * sample + c]) / sum);
    }
  }
  return loss;
}

TEST(LabelSmoothing, IsTheDefinition) {
  const SoftmaxLoss<double> loss("loss", kFourClasses, 3);
  Score score;
  loss.add_score(kLogits, kLabels, kSmoothing, score);
  EXPECT_NEAR(score.loss, defined_loss(kLogits), 1e-14);
  EXPECT_EQ(score.samples, 2);

  std::vector<double> probabilities(kLogits.size()), errors(kLogits.size());
  loss.probabilities(kLogits, probabilities);
  loss.error(probabilities, kLabels, kSmoothing, /*error_scale=*/0.5, /*add=*/false, errors);
  for (size_t i = 0; i < kLogits.size(); ++i) {
    std::vector<double> more = kLogits, less = kLogits;
    more[i] += 1e-6;
    less[i] -= 1e-6;
    EXPECT_NEAR(errors[i], 0.5 * (defined_loss(more) - defined_loss(less)) / 2e-6, 1e-9) << i;
  }
}

TEST(LabelSmoothing, OfNothingIsTheSameBits) {
  const SmoothedLabel<float> plain(0, 4);
  EXPECT_EQ(plain.of(true), 1.0F);
  EXPECT_EQ(plain.of(false), 0.0F);
  const std::vector<float> logits = {1.5F, -0.25F, 0.75F, 2.1F};
  EXPECT_EQ(plain.mean(logits.data(), 2, 3, 1), logits[2] - logits[3]);
}

}  // namespace
}  // namespace millrace
