// Numbers of a host, with a tag that says their precision: core/device/host_numbers.h.
#include "core/device/host_numbers.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

std::vector<double> as_double(ConstHostNumbers numbers) {
  return numbers.visit([](auto values) { return std::vector<double>(values.begin(), values.end()); });
}
bool is_single(ConstHostNumbers numbers) {
  return numbers.visit([]<typename Number>(std::span<const Number>) { return std::is_same_v<Number, float>; });
}

TEST(HostNumbers, AreViewsOfVectorsAndSpansOfEitherPrecision) {
  std::vector<float> narrow{1, 2, 3};
  const std::vector<double> wide{4, 5};
  EXPECT_TRUE(is_single(narrow));
  EXPECT_FALSE(is_single(wide));
  EXPECT_FALSE(is_single(std::span(wide)));
  HostNumbers numbers = narrow;
  numbers.assign(std::vector<double>{0.1, 0.2, 0.3});
  EXPECT_EQ(narrow, (std::vector<float>{0.1f, 0.2f, 0.3f}));
  EXPECT_EQ(as_double(numbers.subspan(1, 1)), (std::vector<double>{0.2f}));
  EXPECT_EQ(as_double(numbers.behind(2)), (std::vector<double>{0.3f}));
  EXPECT_EQ(numbers.first(2).size(), 2u);
}

TEST(HostNumbers, BuffersHoldDoublesForDoublesAlone) {
  HostBuffer buffer;
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFixed16})
    EXPECT_TRUE(is_single(buffer.of(type, 4)));
  EXPECT_FALSE(is_single(buffer.of(ElementType::kFloat64, 4)));
  const HostNumbers kept = buffer.of(ElementType::kFloat64, 2);
  kept.assign(std::vector<double>{0.1, 0.2});
  EXPECT_EQ(as_double(buffer.of(ElementType::kFloat64, 2)), (std::vector<double>{0.1, 0.2}));
}

}  // namespace
}  // namespace millrace
