// The reference device apart from its kernels: tensors in and out, slices, norms, and what it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"
#include "core/reference/reference_device.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::tensor_with;
using testing::values_of;

// Two samples of three channels of two columns: the value says sample, channel, column.
const std::vector<double> kNumbered = {0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121};
const Shape kShape{3, 1, 2};

TEST(ReferenceDevice, DescribesItself) {
  EXPECT_THAT(make_reference_device(ElementType::kFloat64)->description(), HasSubstr("plain loops"));
  EXPECT_EQ(make_reference_device(ElementType::kFloat64)->compute_type(), ElementType::kFloat64);
  EXPECT_EQ(make_reference_device(ElementType::kFloat32)->compute_type(), ElementType::kFloat32);
}

TEST(ReferenceDevice, ReadsAndWritesChannelSlices) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64}) {
    const auto device = make_reference_device(type);
    const auto tensor = tensor_with(*device, kShape, 2, kNumbered);
    EXPECT_EQ(tensor->bytes(), 12 * bits_of(type) / 8);
    EXPECT_THAT(values_of(*device, *tensor, {1, 2}), ElementsAre(10, 11, 110, 111));
    const std::vector<float> replacement = {-1, -2, -3, -4, -5, -6, -7, -8};
    device->write(*tensor, {1, 3}, std::span<const float>(replacement));
    EXPECT_THAT(values_of(*device, *tensor), ElementsAre(0, 1, -1, -2, -3, -4, 100, 101, -5, -6, -7, -8));
    std::vector<float> read(4);
    device->read(*tensor, {2, 3}, std::span<float>(read));
    EXPECT_THAT(read, ElementsAre(-3, -4, -7, -8));
  }
}

TEST(ReferenceDevice, CopiesAndAddsChannels) {
  const auto device = make_reference_device(ElementType::kFloat64);
  const auto from = tensor_with(*device, kShape, 2, kNumbered);
  const auto to = device->make_tensor({.shape = {4, 1, 2}, .batch = 2});
  device->zero(*to);
  device->copy_channels(*from, {1, 3}, *to, 2, false);
  EXPECT_THAT(values_of(*device, *to), ElementsAre(0, 0, 0, 0, 10, 11, 20, 21, 0, 0, 0, 0, 110, 111, 120, 121));
  device->copy_channels(*from, {0, 1}, *to, 2, true);
  EXPECT_THAT(values_of(*device, *to), ElementsAre(0, 0, 0, 0, 10, 12, 20, 21, 0, 0, 0, 0, 210, 212, 120, 121));
}

TEST(ReferenceDevice, NormsAndFiniteness) {
  const auto device = make_reference_device(ElementType::kFloat32);
  const auto tensor = tensor_with(*device, {3, 1, 1}, 1, std::vector<double>{3, -4, 12});
  EXPECT_DOUBLE_EQ(device->squared_norm(*tensor), 169);
  EXPECT_TRUE(device->all_finite(*tensor));
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    device->write(*tensor, {1, 2}, std::span<const double>(&bad, 1));
    EXPECT_FALSE(device->all_finite(*tensor));
  }
}

void expect_refused(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "not refused: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr(part));
  }
}

TEST(ReferenceDevice, RefusesWhatItCannotCompute) {
  for (const ElementType type : {ElementType::kFloat16, ElementType::kBfloat16, ElementType::kFixed16})
    expect_refused([&] { make_reference_device(type); }, std::string(name_of(type)));
}

}  // namespace
}  // namespace millrace
