#include "core/base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include "core/base/random.h"

namespace millrace {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<std::byte> noise(size_t size) {
  const Philox draw(7, 7);
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(draw.bits(i) & 255);
  return bytes;
}

// RFC 3720, appendix B.4, and the check value of the CRC catalogues.
TEST(Crc32c, KnownValues) {
  std::vector<std::byte> bytes(32, std::byte{0});
  for (const auto sum : {crc32c, crc32c_by_table}) {
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    EXPECT_EQ(sum(bytes, 0), 0x8A9136AAu);
    std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
    EXPECT_EQ(sum(bytes, 0), 0x62A8AB43u);
    for (size_t i = 0; i < 32; ++i) bytes[i] = static_cast<std::byte>(i);
    EXPECT_EQ(sum(bytes, 0), 0x46DD794Eu);
    std::reverse(bytes.begin(), bytes.end());
    EXPECT_EQ(sum(bytes, 0), 0x113FDB5Cu);
    EXPECT_EQ(sum(bytes_of("123456789"), 0), 0xE3069283u);
    EXPECT_EQ(sum({}, 0), 0u);
  }
}

TEST(Crc32c, EveryWayAndTheTablesAgreeAtEveryLengthAndOffset) {
  const std::vector<std::byte> all = noise(3 * 3 * 1024 + 100);
  for (const Crc32cWay way : crc32c_ways()) {
    for (size_t offset = 0; offset < 9; ++offset)
      for (size_t size = 0; size + offset <= all.size(); size = size < 200 ? size + 1 : size + 577) {
        const auto part = std::span(all).subspan(offset, size);
        ASSERT_EQ(crc32c_by(way, part, 0x1234567), crc32c_by_table(part, 0x1234567))
            << static_cast<int>(way) << " " << offset << " " << size;
      }
    for (size_t size = 3 * 1024 - 9; size < 3 * 1024 + 9; ++size)
      ASSERT_EQ(crc32c_by(way, std::span(all).first(size)), crc32c_by_table(std::span(all).first(size)));
    // Where folding begins, and every rest that it may leave.
    for (size_t size = 1000; size < 1700; ++size)
      ASSERT_EQ(crc32c_by(way, std::span(all).first(size)), crc32c_by_table(std::span(all).first(size)))
          << static_cast<int>(way) << " " << size;
  }
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::vector<std::byte> all = noise(7000);
  const uint32_t whole = crc32c(all);
  for (size_t cut = 0; cut <= all.size(); cut += 331) {
    EXPECT_EQ(crc32c(std::span(all).subspan(cut), crc32c(std::span(all).first(cut))), whole);
    EXPECT_EQ(crc32c_by_table(std::span(all).subspan(cut), crc32c(std::span(all).first(cut))), whole);
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::vector<std::byte> all = noise(4096);
  const uint32_t whole = crc32c(all);
  for (size_t bit = 0; bit < 8 * all.size(); bit += 13) {
    all[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_NE(crc32c(all), whole) << bit;
    all[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
  }
}

}  // namespace
}  // namespace millrace
