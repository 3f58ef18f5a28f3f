// What fixed point did, gathered from ranks: the same totals however layers are spread over them.
#include "fpga/emulated/arithmetic_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace millrace {
namespace {

using Counters = std::map<std::string, LayerArithmetic>;

Counters drawn_counters(std::mt19937_64& random) {
  Counters counters;
  for (const char* layer : {"conv", "fc"}) {
    if (random() % 3 == 0) continue;
    for (ArithmeticCounters LayerArithmetic::*tensor : {&LayerArithmetic::sums, &LayerArithmetic::errors, &LayerArithmetic::updates}) {
      ArithmeticCounters& one = counters[layer].*tensor;
      one.rounded = 100 + static_cast<int64_t>(random() % 100);
      one.saturated = static_cast<int64_t>(random() % 100);
      one.accumulator_overflows = static_cast<int64_t>(random() % 3);
      one.error_squares = static_cast<double>(random() % 64) / 64;
      one.largest_error = static_cast<double>(random() % 64) / 128;
    }
  }
  return counters;
}

}  // namespace

TEST(ArithmeticReport, TotalsDoNotDependOnTheRanks) {
  std::mt19937_64 random(3);
  std::vector<Counters> devices;
  for (int device = 0; device < 7; ++device) devices.push_back(drawn_counters(random));
  std::string alone;
  for (const Counters& device : devices) alone += text_of(device);
  const std::vector<std::string> one = {alone};
  const std::string expected = arithmetic_json(merged_arithmetic(one));
  for (const size_t ranks : {2U, 3U, 5U}) {
    std::vector<std::string> texts(ranks);
    for (const Counters& device : devices) texts[random() % ranks] += text_of(device);
    EXPECT_EQ(arithmetic_json(merged_arithmetic(texts)), expected) << ranks;
  }
}

TEST(ArithmeticReport, NamesWhereMostDidNotFit) {
  Counters counters;
  counters["fc"].formats.error.fraction_bits = 18;
  counters["fc"].errors = {.rounded = 10, .saturated = 2, .error_squares = 2.0, .largest_error = 0.5};
  counters["conv"].sums = {.rounded = 30, .saturated = 1, .accumulator_overflows = 1};
  const std::vector<std::string> texts = {text_of(counters)};
  const std::vector<TensorArithmetic> all = merged_arithmetic(texts);
  const auto json = nlohmann::json::parse(arithmetic_json(all));
  EXPECT_EQ(json["elements"], 40);
  EXPECT_EQ(json["saturated"], 3);
  EXPECT_EQ(json["accumulator_overflows"], 1);
  ASSERT_EQ(json["tensors"].size(), 2U);
  EXPECT_EQ(json["tensors"][1]["layer"], "fc");
  EXPECT_EQ(json["tensors"][1]["fraction_bits"], 18);
  EXPECT_EQ(json["tensors"][1]["rms_error_steps"], 0.5);
  EXPECT_EQ(
      arithmetic_summary(all),
      "16-bit fixed point: 3 of 40 numbers saturated (most: 20.0000% of the errors of fc), 1 accumulators wrapped (counted, evaluations "
      "included)");
}

TEST(ArithmeticReport, HasNothingToSayOfFloatingPoint) {
  const std::vector<std::string> texts = {text_of(Counters{{"conv", {}}}), ""};
  EXPECT_TRUE(merged_arithmetic(texts).empty());
}

}  // namespace millrace
