// Traces as the viewers read them, and TensorBoard's files byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/crc32c.h"
#include "core/base/files.h"
#include "node/report/tensorboard.h"
#include "node/report/trace.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing_support::TemporaryFolder;
using namespace std::chrono_literals;

TEST(Trace, PutsEveryDevicesActionsOnATrackOfItsOwnAndRanksOnOneClock) {
  Trace first, second;
  first.span(0, "F0", 5'000us, 5'250us);
  first.mark(0, "activation \"conv1\"", "sent", 5'260us);
  second.span(1, "wait", 5'100us, 5'300us, "before F0");
  second.span(1, "F0", 5'300us, 5'400us);
  const json document = json::parse(trace_json({first.encoded(), second.encoded()}, "two"));
  std::map<std::string, json> by_name;
  for (const json& event : document.at("traceEvents"))
    if (event.at("ph") != "M") by_name[event.at("name").get<std::string>() + " " + std::to_string(event.at("pid").get<int>())] = event;
  ASSERT_EQ(by_name.size(), 4u);
  EXPECT_NEAR(by_name["F0 0"]["ts"].get<double>(), 0, 50) << "the offsets of two ranks of a machine are read at different moments";
  EXPECT_EQ(by_name["F0 0"]["dur"], 250);
  EXPECT_NEAR(by_name["F0 1"]["ts"].get<double>() - by_name["F0 0"]["ts"].get<double>(), 300, 50);
  EXPECT_EQ(by_name["wait 1"]["args"]["for"], "before F0");
  EXPECT_EQ(by_name["sent 0"]["ph"], "i");
  EXPECT_NE(by_name["sent 0"]["tid"], by_name["F0 0"]["tid"]);
  EXPECT_EQ(document["otherData"]["times"], "measured");
}

TEST(Trace, StaysWithinItsLimitAndSaysWhatIsMissing) {
  Trace trace(/*limit=*/2);
  for (int i = 0; i < 5; ++i) trace.span(0, "F0", 1us, 2us);
  EXPECT_EQ(trace.left_out(), 3);
  EXPECT_EQ(json::parse(trace_json({trace.encoded()}, "short"))["otherData"]["events left out"], 3);
}

// The events of a file, each behind two checksums.
std::vector<std::string> events_of(const std::string& bytes) {
  const auto masked = [](const std::string& part) {
    const uint32_t crc = crc32c(std::as_bytes(std::span(part)));
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
  };
  const auto number_at = [&](size_t at) {
    uint32_t number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    return number;
  };
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    EXPECT_EQ(number_at(at + 8), masked(bytes.substr(at, 8)));
    events.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(number_at(at + 12 + length), masked(events.back()));
    at += 16 + length;
  }
  return events;
}

TEST(TensorBoard, WritesScalarsWithTheirSteps) {
  const TemporaryFolder folder;
  TensorBoardFile board(folder.path() / "board");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "board")) << "made with the first record";
  board.write({"step", {{"step", 300}, {"loss", 0.5}}});
  board.write({"checkpoint", {{"step", 300}, {"path", "checkpoints/step-00000300"}}});
  board.write({"evaluation", {{"step", 301}, {"accuracy", 0.25}, {"reason", "epochs"}}});
  const std::vector<std::string> events = events_of(read_text(board.path()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[0].ends_with("brain.Event:2"));
  // double wall_time = 1; int64 step = 2: 300 as a varint; Summary summary = 5: value = 1: tag = 1, simple_value = 2.
  EXPECT_EQ(events[1].substr(9), std::string("\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0a"
                                             "train/loss"
                                             "\x15\x00\x00\x00\x3f",
                                             24));
  EXPECT_EQ(events[2].substr(9), std::string("\x10\xad\x02\x2a\x16\x0a\x14\x0a\x0d"
                                             "test/accuracy"
                                             "\x15\x00\x00\x80\x3e",
                                             27));
}

}  // namespace
}  // namespace millrace
