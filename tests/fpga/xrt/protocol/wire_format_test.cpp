// The wire format against bytes that Protocol Buffers' documentation gives, and against every way to cut a message short.
#include "fpga/xrt/protocol/wire_format.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "fpga/xrt/protocol/session_protocol.h"
#include "tests/core/documents/expect_error.h"

namespace millrace::xrt {

TEST(WireFormat, WritesTheDocumentedBytes) {
  WireWriter writer;
  writer.number(1, 150);
  writer.text(2, "testing");
  writer.fixed32(3, 0x01020304);
  writer.fixed64(4, 1);
  const std::vector<uint8_t> expected = {0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g', 0x1d,
                                         4,    3,    2,    1,    0x21, 1,   0,   0,   0,   0,   0,   0,   0};
  EXPECT_EQ(writer.message(), expected);
}

TEST(WireFormat, ReadsWhatItWrote) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    const uint64_t number = random() >> (random() % 64);
    std::vector<uint8_t> data(random() % 200);
    for (auto& byte : data) byte = static_cast<uint8_t>(random());
    WireWriter writer;
    writer.number(1, number);
    writer.bytes(300, data);
    writer.fixed64(7, ~number);
    WireReader reader(writer.message(), "it");
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.number(), number);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.field(), 300u);
    EXPECT_TRUE(std::ranges::equal(reader.bytes(), data));
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.number(), ~number);
    EXPECT_FALSE(reader.next());
  }
}

TEST(WireFormat, NamesMessagesThatAreCutShortOrBroken) {
  WireWriter writer;
  writer.number(1, 1 << 20);
  writer.text(2, "some words");
  const std::vector<uint8_t> whole = writer.take();
  for (size_t size : {1u, 2u, 5u, 6u, 9u})
    expect_error(ErrorCode::kMalformed, "call 6: it ends", [&] {
      WireReader reader({whole.data(), size}, "call 6");
      while (reader.next()) continue;
    });
  const auto refused = [](std::vector<uint8_t> bytes, const std::string& words) {
    expect_error(ErrorCode::kMalformed, words, [&] {
      WireReader reader(bytes, "it");
      while (reader.next()) continue;
    });
  };
  refused({0x0b}, "of kind 3");
  refused({0x00, 0x00}, "a field numbered 0");
  refused(std::vector<uint8_t>(12, 0xff), "more than 64 bits");
  expect_error(ErrorCode::kMalformed, "field 2 holds bytes, not a number", [&] {
    WireReader reader(whole, "it");
    reader.next();
    reader.next();
    reader.number();
  });
}

TEST(SessionProtocol, CarriesMessagesAndSeesTheEnd) {
  auto [mine, theirs] = LocalSocket::pair();
  std::vector<uint8_t> data(3 << 20, 7);
  std::thread sender([&, other = std::move(theirs)]() mutable {
    EXPECT_TRUE(send_message(other, SessionCall::kWrite, data));
    EXPECT_TRUE(send_message(other, SessionCall::kFinish, {}));
    other.close();
  });
  const auto first = receive_message(mine);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->call, SessionCall::kWrite);
  EXPECT_EQ(first->fields, data);
  EXPECT_TRUE(receive_message(mine));
  EXPECT_FALSE(receive_message(mine));
  sender.join();
  EXPECT_TRUE(mine.closed_by_peer());
  EXPECT_FALSE(send_message(mine, SessionCall::kFinish, data));
}

}  // namespace millrace::xrt
