// Messages packed by a GPU are those that the host packs, bit by bit, and come back into any range of a tensor.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "core/device/device_messages.h"
#include "gpu/device/gpu_device.h"
#include "node/ring/wire_format.h"
#include "tests/gpu/device/queued_engine.h"

namespace millrace::testing {
namespace {

constexpr ElementType kWires[] = {ElementType::kFloat32, ElementType::kFloat16, ElementType::kBfloat16};

// What rounds, saturates or is no number, and anything else.
std::vector<float> difficult(size_t count) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               65504.0f,
                               65519.0f,
                               -65520.0f,
                               1e30f,
                               3.4e38f,
                               -std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN(),
                               std::bit_cast<float>(0xffd2a5a5u),
                               5.9604645e-8f,
                               2.9802322e-8f,
                               6.1e-5f,
                               1.00048828125f};
  std::mt19937 random(7);
  while (values.size() < count) values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (float& value : values)  // a signalling NaN would not survive the host's own conversions
    if (value != value) value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) | 0x400000u);
  values.resize(count);
  return values;
}

class GpuMessagesTest : public ::testing::Test {
 protected:
  std::vector<float> read(ChannelRange channels, StepRange rows) {
    std::vector<float> values(static_cast<size_t>(tensor->batch() * channels.size() * rows.size() * tensor->shape().width));
    device->read_rows(*tensor, channels, rows, std::span<float>(values));
    return values;
  }
  static bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  }

  std::unique_ptr<Device> device = make_gpu_device(std::make_unique<QueuedEngine>(QueuedOptions{.seed = 4, .number = 3}));
  std::unique_ptr<Tensor> tensor = device->make_tensor({.shape = {5, 4, 3}, .batch = 2});
};

TEST_F(GpuMessagesTest, AreWhatTheHostWouldSend) {
  const std::vector<float> values = difficult(static_cast<size_t>(tensor->elements()));
  device->write(*tensor, whole(*tensor), std::span<const float>(values));
  for (const ElementType wire : kWires)
    for (const auto& [channels, rows] : {std::pair<ChannelRange, StepRange>{{0, 5}, {0, 4}}, {{1, 4}, {0, 4}}, {{2, 3}, {1, 3}}}) {
      const std::vector<float> host = read(channels, rows);
      std::vector<std::byte> expected(wire_bytes(wire, static_cast<int64_t>(host.size()))), payload(expected.size());
      pack(wire, std::span<const float>(host), expected);
      messages_of(*device)->pack(*tensor, channels, rows, wire, payload.data());
      device->synchronize();
      EXPECT_EQ(payload, expected) << name_of(wire) << ", " << host.size() << " elements";
    }
}

TEST_F(GpuMessagesTest, ComeBackIntoTheirPlaceAlone) {
  const ChannelRange channels{1, 3};
  const StepRange rows{1, 4};
  for (const ElementType wire : kWires) {
    const std::vector<float> before(static_cast<size_t>(tensor->elements()), 42.0f);
    device->write(*tensor, whole(*tensor), std::span<const float>(before));
    const std::vector<float> sent = difficult(read(channels, rows).size());
    std::vector<std::byte> payload(wire_bytes(wire, static_cast<int64_t>(sent.size())));
    pack(wire, std::span<const float>(sent), payload);
    std::vector<float> expected(sent.size());
    unpack(wire, payload, std::span<float>(expected));
    messages_of(*device)->unpack(*tensor, channels, rows, wire, payload.data());
    EXPECT_TRUE(same_bits(read(channels, rows), expected)) << name_of(wire);
    EXPECT_EQ(read({0, 1}, {0, 4}), std::vector<float>(24, 42.0f));
    EXPECT_EQ(read({3, 5}, {0, 4}), std::vector<float>(48, 42.0f));
    EXPECT_EQ(read({1, 3}, {0, 1}), std::vector<float>(12, 42.0f));
  }
}

TEST_F(GpuMessagesTest, SayWhichGpuTheyAreOn) {
  const DeviceLocation location = messages_of(*device)->location();
  EXPECT_EQ(location.id, "GPU-3");
  EXPECT_EQ(location.number, 3);
  EXPECT_NE(location.queue, nullptr);
}

}  // namespace
}  // namespace millrace::testing
