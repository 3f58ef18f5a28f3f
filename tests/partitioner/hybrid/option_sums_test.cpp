#include "partitioner/hybrid/option_sums.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>

namespace millrace {
namespace {

using Verdict = OptionAnswer::Verdict;
using Layers = std::vector<std::vector<std::vector<double>>>;

// All there are, one after the other.
bool some_choice_fits(const Layers& layers, const std::vector<double>& limits) {
  std::vector<double> sum(limits.size(), 0);
  const std::function<bool(size_t)> visit = [&](size_t layer) {
    if (layer == layers.size()) {
      for (size_t k = 0; k < limits.size(); ++k)
        if (sum[k] > limits[k]) return false;
      return true;
    }
    for (const std::vector<double>& option : layers[layer]) {
      for (size_t k = 0; k < limits.size(); ++k) sum[k] += option[k];
      const bool fits = visit(layer + 1);
      for (size_t k = 0; k < limits.size(); ++k) sum[k] -= option[k];
      if (fits) return true;
    }
    return false;
  };
  return visit(0);
}

struct Drawn {
  Layers layers;
  std::vector<double> limits;
};

// Whole amounts, of which what is less of one resource is mostly more of another; limits about where choices begin to fit.
Drawn drawn(std::mt19937_64& random) {
  const auto below = [&random](uint64_t most) { return static_cast<double>(random() % most); };
  Drawn drawn;
  const auto layers = 1 + random() % 6, resources = 1 + random() % 4;
  std::vector<double> mean(resources, 0);
  for (size_t l = 0; l < layers; ++l) {
    auto& options = drawn.layers.emplace_back();
    const auto count = 1 + random() % 5;
    for (size_t o = 0; o < count; ++o) {
      std::vector<double> amounts;
      const double share = below(101) / 100;
      for (size_t k = 0; k < resources; ++k) {
        const double part = k % 2 == 0 ? share : 1 - share;
        amounts.push_back(std::floor(30 * part) + below(8));
        mean[k] += amounts.back() / static_cast<double>(count);
      }
      options.push_back(std::move(amounts));
    }
  }
  for (const double amount : mean) drawn.limits.push_back(std::floor(amount * (0.6 + below(60) / 100)));
  return drawn;
}

void expect_within(const Drawn& problem, const OptionAnswer& answer, int draw) {
  ASSERT_EQ(answer.chosen.size(), problem.layers.size());
  for (size_t k = 0; k < problem.limits.size(); ++k) {
    double sum = 0;
    for (size_t l = 0; l < problem.layers.size(); ++l) sum += problem.layers[l].at(answer.chosen[l])[k];
    EXPECT_LE(sum, problem.limits[k]) << "draw " << draw << " resource " << k;
  }
}

OptionAnswer answer_to(const Drawn& problem, size_t most_sums) {
  OptionSums sums(problem.limits);
  for (const auto& options : problem.layers) sums.add_layer(options);
  return sums.choose(most_sums);
}

TEST(OptionSums, AreThoseOfBruteForce) {
  std::mt19937_64 random(5);
  int found = 0, none = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    const Drawn problem = drawn(random);
    const bool fits = some_choice_fits(problem.layers, problem.limits);
    const OptionAnswer answer = answer_to(problem, 100'000);
    EXPECT_EQ(answer.verdict, fits ? Verdict::kFound : Verdict::kNone) << "draw " << draw;
    if (answer.verdict == Verdict::kFound) expect_within(problem, answer, draw);
    ++(fits ? found : none);
  }
  EXPECT_GT(found, 1000);
  EXPECT_GT(none, 1000);
}

// With one sum kept, what is said is right all the same.
TEST(OptionSums, SayWhatTheyDoNotKnow) {
  std::mt19937_64 random(6);
  int undecided = 0, decided = 0;
  for (int draw = 0; draw < 3000; ++draw) {
    const Drawn problem = drawn(random);
    const bool fits = some_choice_fits(problem.layers, problem.limits);
    const OptionAnswer answer = answer_to(problem, 1);
    if (answer.verdict == Verdict::kUndecided) {
      ++undecided;
      continue;
    }
    ++decided;
    EXPECT_EQ(answer.verdict, fits ? Verdict::kFound : Verdict::kNone) << "draw " << draw;
    if (answer.verdict == Verdict::kFound) expect_within(problem, answer, draw);
  }
  EXPECT_GT(undecided, 10);
  EXPECT_GT(decided, 2000);
}

TEST(OptionSums, OfNothingFit) {
  EXPECT_EQ(OptionSums({1, 0}).choose(10).verdict, Verdict::kFound);
  OptionSums sums({1, 0});
  sums.add_layer({{2, 0}, {1, 1}, {1, 0}});
  const OptionAnswer answer = sums.choose(10);
  ASSERT_EQ(answer.verdict, Verdict::kFound);
  EXPECT_EQ(answer.chosen, std::vector<size_t>{2});
  sums.add_layer({{0, 1}});
  EXPECT_EQ(sums.choose(10).verdict, Verdict::kNone);
  sums.add_layer({});
  EXPECT_EQ(sums.choose(10).verdict, Verdict::kNone);
}

}  // namespace
}  // namespace millrace
