#include "core/train/checkpoint_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

CheckpointManifest sample() {
  CheckpointManifest manifest;
  manifest.facts = {.step = 1234,
                    .epoch = 3,
                    .samples_into_epoch = 640,
                    .seed = 18446744073709551615U,
                    .alignment = Alignment::kStash,
                    .optimizer = {.kind = OptimizerKind::kNesterov, .momentum = 0.1 + 0.2, .epsilon = 5e-324, .weight_decay = 1e-4},
                    .model_digest = "m",
                    .plan_digest = "p",
                    .attributes = {{"data", "fashion-mnist \"x\" é"}}};
  manifest.weights_digest = digest_of("weights");
  manifest.files = {{kModelName, 10, digest_of("model"), {}},
                    {kWeightsName, 200, digest_of("w"), {{"a", digest_of("a")}, {"b", digest_of("b")}}},
                    {kOptimizerName, 300, digest_of("o"), {}}};
  return manifest;
}

// The same text after an edit, with its digest made right again: what reaches the parser behind the digest.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = text_of(sample());
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  const size_t digits = std::string("{\n  \"digest\": \"").size();
  text.replace(digits, 32, std::string(32, '0'));
  text.replace(digits, 32, digest_of(text));
  return text;
}

std::string complaint(const std::string& text, ErrorCode code = ErrorCode::kMalformed) {
  try {
    parse_manifest(text, "manifest.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), StartsWith("manifest.json: "));
    return error.what();
  }
  return "";
}

TEST(CheckpointManifest, SurvivesARoundTripToTheBit) {
  const std::string text = text_of(sample());
  EXPECT_EQ(parse_manifest(text, "m"), sample());
  EXPECT_EQ(text_of(parse_manifest(text, "m")), text);
}

TEST(CheckpointManifest, EveryFlippedBitIsSeen) {
  const std::string text = text_of(sample());
  for (size_t byte = 0; byte < text.size(); ++byte)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      ASSERT_THROW(parse_manifest(damaged, "m"), Error) << byte << " bit " << bit;
    }
  for (size_t size = 0; size < text.size(); ++size) ASSERT_THROW(parse_manifest(text.substr(0, size), "m"), Error) << size;
}

TEST(CheckpointManifest, DamageIsToldFromAWrongFile) {
  std::string damaged = text_of(sample());
  damaged.replace(damaged.find("1234"), 4, "1235");
  EXPECT_THAT(complaint(damaged, ErrorCode::kMismatch), HasSubstr("damaged or edited"));
  EXPECT_THAT(complaint("{}"), HasSubstr("no checkpoint's manifest"));
  EXPECT_THAT(complaint(edited("millrace-checkpoint", "other")), HasSubstr("\"format\" is \"other\""));
  EXPECT_THAT(complaint(edited("\"version\": 1", "\"version\": 2"), ErrorCode::kMismatch),
              HasSubstr("of version 2, this build reads 1; use a newer"));
}

TEST(CheckpointManifest, WrongFieldsAreNamedWithTheirValue) {
  EXPECT_THAT(complaint(edited("\"step\": 1234", "\"step\": -1")), HasSubstr("\"step\" is -1"));
  EXPECT_THAT(complaint(edited("\"step\": 1234", "\"step\": 1.5")), HasSubstr("\"step\" is 1.5"));
  EXPECT_THAT(complaint(edited("\"step\": 1234", "\"stap\": 1234")), HasSubstr("\"step\" is missing"));
  EXPECT_THAT(complaint(edited("\"step\": 1234", "\"step\": 1234, \"steps\": 1")),
              HasSubstr("\"steps\" is not a known name; did you mean \"step\"?"));
  EXPECT_THAT(complaint(edited("18446744073709551615", "18446744073709551616")), HasSubstr("\"seed\""));
  EXPECT_THAT(complaint(edited("\"stash\"", "\"stache\"")), HasSubstr("\"alignment\""));
  EXPECT_THAT(complaint(edited("\"nesterov\"", "\"rprop\"")), HasSubstr("\"optimizer\": \"kind\""));
  EXPECT_THAT(complaint(edited("\"momentum\": 0.30000000000000004", "\"momentum\": \"x\"")), HasSubstr("\"momentum\" is \"x\", a number"));
  EXPECT_THAT(complaint(edited("\"bytes\": 200", "\"bytes\": 9223372036854775808")), HasSubstr("\"files\"[1]: \"bytes\""));
  EXPECT_THAT(complaint(edited(digest_of("w"), "12")), HasSubstr("\"12\" is not a digest"));
  EXPECT_THAT(complaint(edited(digest_of("a"), "")), HasSubstr("\"\" is not a digest"));
}

// A manifest names files; it must not be able to point outside its folder.
TEST(CheckpointManifest, OnlyFilesOfACheckpointMayBeListedAndAllNeededMust) {
  EXPECT_THAT(complaint(edited(kWeightsName, "../secret")), HasSubstr("\"../secret\" is no file of a checkpoint"));
  EXPECT_THAT(complaint(edited(kWeightsName, kModelName)), HasSubstr("model.textproto is listed twice"));
  EXPECT_THAT(complaint(edited(kOptimizerName, kPreviousWeightsName)), HasSubstr("optimizer.safetensors is not listed"));
}

TEST(CheckpointManifest, FindsItsFiles) {
  const CheckpointManifest manifest = sample();
  ASSERT_NE(manifest.find(kWeightsName), nullptr);
  EXPECT_EQ(manifest.find(kWeightsName)->bytes, 200);
  EXPECT_EQ(manifest.find(kPreviousWeightsName), nullptr);
}

}  // namespace
}  // namespace millrace
