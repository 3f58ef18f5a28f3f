// The optimizers against the recurrences as one would write them for a single number.
#include <gtest/gtest.h>

#include <cmath>

#include "core/device/optimizer_math.h"
#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

using testing::CaseDraw;
using testing::values_of;

constexpr int64_t kElements = 6;
constexpr int kSteps = 20;

class Optimizer : public ::testing::Test {
 protected:
  // Runs the device over random gradients and `step(w, g, slot0, slot1, t)` beside it, element by element.
  template <typename Step>
  void expect_agreement(UpdateArguments arguments, Step step) {
    const auto device = make_reference_device(ElementType::kFloat64);
    CaseDraw draw(5, "optimizer");
    const Shape shape{kElements, 1, 1};
    std::vector<double> w = draw.values(kElements), a(kElements), b(kElements);
    const auto weight = testing::tensor_with(*device, shape, 1, w);
    std::vector<std::unique_ptr<Tensor>> slots;
    for (int i = 0; i < arguments.optimizer.slots(); ++i) {
      slots.push_back(device->make_tensor({.shape = shape}));
      device->zero(*slots.back());
    }
    for (int t = 1; t <= kSteps; ++t) {
      arguments.step = t;
      const std::vector<double> g = draw.values(kElements);
      const auto gradient = testing::tensor_with(*device, shape, 1, g);
      device->update(arguments, *weight, *gradient, testing::pointers(slots));
      for (size_t i = 0; i < w.size(); ++i) step(w[i], g[i], a[i], b[i], t);
      const std::vector<double> updated = values_of(*device, *weight);
      for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(updated[i], w[i], 1e-14 * std::abs(w[i])) << "step " << t << ", element " << i;
    }
  }
};

TEST_F(Optimizer, Sgd) {
  expect_agreement({.optimizer = {.kind = OptimizerKind::kSgd}, .learning_rate = 0.1},
                   [](double& w, double g, double&, double&, int) { w = w - 0.1 * g; });
}

TEST_F(Optimizer, Momentum) {
  expect_agreement({.optimizer = {.kind = OptimizerKind::kMomentum, .momentum = 0.9}, .learning_rate = 0.05},
                   [](double& w, double g, double& v, double&, int) {
                     v = 0.9 * v + g;
                     w = w - 0.05 * v;
                   });
}

TEST_F(Optimizer, Nesterov) {
  expect_agreement({.optimizer = {.kind = OptimizerKind::kNesterov, .momentum = 0.8}, .learning_rate = 0.05},
                   [](double& w, double g, double& v, double&, int) {
                     v = 0.8 * v + g;
                     w = w - 0.05 * (g + 0.8 * v);
                   });
}

TEST_F(Optimizer, Adam) {
  expect_agreement({.optimizer = {.kind = OptimizerKind::kAdam, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3}, .learning_rate = 0.01},
                   [](double& w, double g, double& m, double& v, int t) {
                     m = 0.8 * m + 0.2 * g;
                     v = 0.95 * v + 0.05 * g * g;
                     const double m_hat = m / (1 - std::pow(0.8, t));
                     const double v_hat = v / (1 - std::pow(0.95, t));
                     w = w - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-3);
                   });
}

// As torch.optim.AdamW writes it: the weight loses lr * decay of itself, then Adam's step on the gradient alone.
TEST_F(Optimizer, AdamWTakesDecayOffTheWeight) {
  const OptimizerSettings settings{.kind = OptimizerKind::kAdamW, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.3};
  const auto step = [](double decay) {
    return [decay](double& w, double g, double& m, double& v, int t) {
      w = w * (1 - 0.01 * decay);
      m = 0.8 * m + 0.2 * g;
      v = 0.95 * v + 0.05 * g * g;
      const double m_hat = m / (1 - std::pow(0.8, t));
      const double denominator = std::sqrt(v) / std::sqrt(1 - std::pow(0.95, t)) + 1e-3;
      w = w - 0.01 * m_hat / denominator;
    };
  };
  expect_agreement({.optimizer = settings, .learning_rate = 0.01}, step(0.3));
  expect_agreement({.optimizer = settings, .learning_rate = 0.01, .decay = false}, step(0));
}

TEST_F(Optimizer, WeightDecayJoinsTheGradient) {
  const OptimizerSettings settings{.kind = OptimizerKind::kMomentum, .momentum = 0.9, .weight_decay = 0.3};
  expect_agreement({.optimizer = settings, .learning_rate = 0.05}, [](double& w, double g, double& v, double&, int) {
    v = 0.9 * v + g + 0.3 * w;
    w = w - 0.05 * v;
  });
  expect_agreement({.optimizer = settings, .learning_rate = 0.05, .decay = false}, [](double& w, double g, double& v, double&, int) {
    v = 0.9 * v + g;
    w = w - 0.05 * v;
  });
}

TEST_F(Optimizer, ClipsThenScalesThenDecays) {
  expect_agreement(
      {.optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.1}, .learning_rate = 0.2, .gradient_scale = 0.5, .value_limit = 0.7},
      [](double& w, double g, double&, double&, int) {
        const double clipped = std::max(-0.7, std::min(0.7, g));
        w = w - 0.2 * (0.5 * clipped + 0.1 * w);
      });
}

// The slot holds how far the average is from the weight, so the average itself starts as the weight.
TEST_F(Optimizer, KeepsTheAverageOfWeights) {
  constexpr double kDecay = 0.7;
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    OptimizerSettings settings{.kind = kind, .weight_decay = 0.02};
    const auto trained = [&](double decay) {
      settings.average_decay = decay;
      const auto device = make_reference_device(ElementType::kFloat64);
      CaseDraw draw(7, "average");
      const Shape shape{kElements, 1, 1};
      const auto weight = testing::tensor_with(*device, shape, 1, draw.values(kElements));
      std::vector<std::unique_ptr<Tensor>> slots;
      for (int i = 0; i < settings.slots(); ++i) {
        slots.push_back(device->make_tensor({.shape = shape}));
        device->zero(*slots.back());
      }
      std::vector<std::vector<double>> weights{values_of(*device, *weight)};
      for (int t = 1; t <= kSteps; ++t) {
        const auto gradient = testing::tensor_with(*device, shape, 1, draw.values(kElements));
        device->update({.optimizer = settings, .learning_rate = 0.03, .step = t}, *weight, *gradient, testing::pointers(slots));
        weights.push_back(values_of(*device, *weight));
      }
      std::vector<double> average = weights.back();
      const std::vector<double> offset = decay > 0 ? values_of(*device, *slots.back()) : std::vector<double>(kElements);
      for (size_t i = 0; i < average.size(); ++i) average[i] += offset[i];
      return std::pair(weights, average);
    };
    const auto [weights, average] = trained(kDecay);
    EXPECT_EQ(trained(0).first, weights) << name_of(kind) << ": an average changes no weight";
    for (size_t i = 0; i < average.size(); ++i) {
      double expected = weights.front()[i];
      for (size_t t = 1; t < weights.size(); ++t) expected = kDecay * expected + (1 - kDecay) * weights[t][i];
      EXPECT_NEAR(average[i], expected, 1e-13) << name_of(kind) << ", element " << i;
    }
  }
}

// Homes hold slices of a parameter: a slice must see the very same arithmetic.
TEST(OptimizerMath, SlicesHaveTheSameBits) {
  CaseDraw draw(6, "slices");
  const auto floats = [&draw] {
    const std::vector<double> values = draw.values(37);
    return std::vector<float>(values.begin(), values.end());
  };
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const UpdateArguments arguments{.optimizer = {.kind = kind, .weight_decay = 0.01}, .learning_rate = 0.1, .step = 3};
    std::vector<float> whole_weights = floats(), a = floats(), b(37, 0.25F);
    std::vector<float> sliced_weights = whole_weights, sliced_a = a, sliced_b = b;
    const std::vector<float> g = floats();
    update_elements<float>(arguments, whole_weights, g, a, b);
    for (const auto& [begin, count] : std::vector<std::pair<size_t, size_t>>{{0, 5}, {5, 17}, {22, 15}})
      update_elements<float>(arguments, std::span(sliced_weights).subspan(begin, count), std::span(g).subspan(begin, count),
                             std::span(sliced_a).subspan(begin, count), std::span(sliced_b).subspan(begin, count));
    EXPECT_EQ(sliced_weights, whole_weights) << name_of(kind);
  }
}

}  // namespace
}  // namespace millrace
