#include "core/train/weights_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace millrace {
namespace {

HostTensor floats(std::vector<int64_t> dimensions, const std::vector<float>& values) {
  return host_tensor(std::move(dimensions), std::span<const float>(values));
}

TEST(WeightsDigest, SeesEveryBitNameTypeAndDimension) {
  const TensorMap base = {{"a", floats({4}, {1, 2, 3, 4})}, {"b", floats({1}, {0})}};
  std::set<std::string> digests = {weights_digest(base)};
  const auto differs = [&digests](const TensorMap& other) { EXPECT_TRUE(digests.insert(weights_digest(other)).second); };
  for (size_t byte = 0; byte < 16; ++byte) {
    TensorMap other = base;
    other["a"].bytes[byte] ^= std::byte{1};
    differs(other);
  }
  differs({{"a", floats({2, 2}, {1, 2, 3, 4})}, {"b", floats({1}, {0})}});
  differs({{"a", HostTensor{StoredType::kI32, {4}, base.at("a").bytes}}, {"b", base.at("b")}});
  differs({{"a", base.at("a")}, {"c", base.at("b")}});
  differs({{"a", base.at("b")}, {"b", base.at("a")}});
  differs({{"a", base.at("a")}});
  differs({});
  EXPECT_EQ(weights_digest(TensorMap(base)), weights_digest(base));
}

TEST(WeightsDigest, IsTheDigestOfTheOwnersDigests) {
  const TensorMap first = {{"b", floats({1}, {2})}};
  const TensorMap second = {{"a", floats({1}, {1})}, {"c", floats({1}, {3})}};
  TensorMap all = first;
  all.insert(second.begin(), second.end());
  auto digests = tensor_digests(first);
  digests.merge(tensor_digests(second));
  EXPECT_EQ(weights_digest(digests), weights_digest(all));
}

TEST(FirstDifference, NamesTensorElementAndValues) {
  const TensorMap a = {{"w", floats({3}, {1, 0.25F, 3})}};
  EXPECT_EQ(first_difference(a, a), "");
  EXPECT_EQ(first_difference(a, {{"w", floats({3}, {1, 0.5F, 4})}}), "w: element 1 is 0.25 (0x3e800000) and 0.5 (0x3f000000)");
  EXPECT_EQ(first_difference({{"z", floats({1}, {0.0F})}}, {{"z", floats({1}, {-0.0F})}}),
            "z: element 0 is 0 (0x00000000) and -0 (0x80000000)");
  EXPECT_EQ(first_difference(a, {{"w", floats({1, 3}, {1, 0.25F, 3})}}), "w: is F32 [3] and F32 [1, 3]");
  EXPECT_EQ(first_difference(a, {}), "w: only in the first");
  EXPECT_EQ(first_difference({}, a), "w: only in the second");
  EXPECT_EQ(first_difference({{"i", HostTensor{StoredType::kI16, {1}, {std::byte{1}, std::byte{2}}}}},
                             {{"i", HostTensor{StoredType::kI16, {1}, {std::byte{1}, std::byte{3}}}}}),
            "i: element 0 is 0x0201 and 0x0301");
}

}  // namespace
}  // namespace millrace
