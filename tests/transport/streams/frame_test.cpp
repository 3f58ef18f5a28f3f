#include "transport/streams/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "tests/transport/rings.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing_support::error_of;

using Bytes = std::array<std::byte, kFrameHeaderBytes>;

FrameHeader some_header() {
  FrameHeader header;
  header.kind = FrameKind::kData;
  header.stream = Stream::kPartial;
  header.checksummed = true;
  header.flow = 123456789;
  header.chunk = -7;
  header.sequence = uint64_t{1} << 60;
  header.index = -5;
  header.bytes = 4000;
  header.session = 0xfeedbeef;
  header.credit_flow = 17;
  header.credit_count = 0xffffffff;
  header.checksum = 0x12345678;
  return header;
}

TEST(Frame, SurvivesTheJourney) {
  Bytes bytes;
  write_header(some_header(), bytes.data());
  EXPECT_EQ(parse_header(bytes, 4000, "rank 1"), some_header());
  EXPECT_EQ(parse_header(bytes, 4096, "rank 1"), some_header());  // padded by the wire
  write_stamp(bytes.data(), 987654321);
  EXPECT_EQ(read_stamp(bytes.data()), 987654321);
  EXPECT_EQ(parse_header(bytes, 4000, "rank 1"), some_header());  // the stamp is none of its fields
}

TEST(Frame, TheLayoutIsFixed) {
  Bytes bytes;
  write_header(some_header(), bytes.data());
  const auto at = [&](size_t offset) { return std::to_integer<int>(bytes[offset]); };
  EXPECT_EQ(std::memcmp(bytes.data(), "MLR1", 4), 0);
  EXPECT_EQ(at(4), 1);     // data
  EXPECT_EQ(at(5), 1);     // partial
  EXPECT_EQ(at(6), 1);     // checksummed
  EXPECT_EQ(at(8), 0x15);  // 123456789 = 0x075bcd15, low byte first
  EXPECT_EQ(at(11), 0x07);
  EXPECT_EQ(at(32), 4000 & 255);
}

TEST(Frame, RefusesWhatItCannotHaveWritten) {
  Bytes sound;
  write_header(some_header(), sound.data());
  const auto refusal = [&](size_t offset, int value, size_t arrived = 4000) {
    Bytes bytes = sound;
    bytes[offset] = static_cast<std::byte>(value);
    return error_of([&] { parse_header(bytes, arrived, "rank 1"); }, ErrorCode::kMalformed);
  };
  EXPECT_THAT(refusal(0, 'X'), HasSubstr("a frame from rank 1 begins with 31524c58, expected 31524c4d"));
  EXPECT_THAT(refusal(4, 0), HasSubstr("unknown kind 0"));
  EXPECT_THAT(refusal(4, 7), HasSubstr("unknown kind 7"));
  EXPECT_THAT(refusal(5, 9), HasSubstr("unknown stream 9"));
  EXPECT_THAT(refusal(6, 2), HasSubstr("unknown flags 02"));
  EXPECT_THAT(refusal(7, 1), HasSubstr("has 01 where zero is due"));
  EXPECT_THAT(refusal(6, 1, 3999), HasSubstr("for flow 123456789 announces 4000 bytes and brings 3999"));
  EXPECT_THAT(error_of([&] { parse_header(std::span(sound).first(63), 0, "rank 1"); }, ErrorCode::kMalformed),
              HasSubstr("has 63 bytes, less than a header of 64"));
}

TEST(Frame, TheChecksumCoversEveryFieldAndThePayloadButNoStamp) {
  std::vector<std::byte> payload(100);
  testing_support::fill(payload, 3);
  const FrameHeader header = some_header();
  const uint32_t sum = frame_checksum(header, payload);
  EXPECT_EQ(frame_checksum(header, std::span(payload).first(30), std::span(payload).subspan(30)), sum);
  payload[99] ^= std::byte{64};
  EXPECT_NE(frame_checksum(header, payload), sum);
  payload[99] ^= std::byte{64};

  Bytes bytes;
  write_header(header, bytes.data());
  for (size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    Bytes damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    FrameHeader read;
    try {
      read = parse_header(damaged, payload.size() * 1000, "rank 1");
    } catch (const Error&) {
      continue;
    }
    const bool own = bit / 8 >= 52;  // the checksum itself and the stamp
    EXPECT_EQ(frame_checksum(read, payload) == sum, own) << "bit " << bit;
    EXPECT_EQ(read.checksum == header.checksum, bit / 8 < 52 || bit / 8 >= 56) << "bit " << bit;
  }
}

}  // namespace
}  // namespace millrace
