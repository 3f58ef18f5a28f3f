#include "core/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/check.h"
#include "core/base/log.h"

namespace millrace {
namespace {

TEST(Error, CarriesContextOutermostFirst) {
  try {
    try {
      fail(ErrorCode::kMalformed, "{}: {} bytes, expected {}", "train.idx", 12, 16);
    } catch (const Error& error) {
      throw error.within("reading the training set").within("rank 3");
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMalformed);
    EXPECT_EQ(error.message(), "train.idx: 12 bytes, expected 16");
    EXPECT_STREQ(error.what(), "rank 3: reading the training set: train.idx: 12 bytes, expected 16");
  }
}

TEST(Error, CodesHaveNamesAndExitStatuses) {
  EXPECT_EQ(exit_status_of(ErrorCode::kUsage), 2);
  EXPECT_EQ(exit_status_of(ErrorCode::kInfeasible), 3);
  EXPECT_EQ(exit_status_of(ErrorCode::kTimeout), 75);  // of one process too: launch tries again
  for (const ErrorCode code : {ErrorCode::kMalformed, ErrorCode::kMismatch, ErrorCode::kNotFound, ErrorCode::kUnavailable,
                               ErrorCode::kNumeric, ErrorCode::kStandstill, ErrorCode::kIo}) {
    EXPECT_EQ(exit_status_of(code), 1);
    EXPECT_NE(name_of(code), "unknown");
  }
}

TEST(Suggestion, OffersTheNearestNameOrAllOfThem) {
  const std::vector<std::string> known = {"relu", "sigmoid", "tanh"};
  EXPECT_EQ(suggestion("rleu", known), "; did you mean \"relu\"?");
  EXPECT_EQ(suggestion("SIGMOID", known), "; did you mean \"sigmoid\"?");
  EXPECT_EQ(suggestion("convolution", known), "; known: relu, sigmoid, tanh");
  EXPECT_EQ(suggestion("relu", {}), "");
}

TEST(CheckDeathTest, SaysWhereWhatAndWhy) {
  const int slot = 7;
  EXPECT_DEATH(MILLRACE_CHECK(slot < 4, "slot {} of {}", slot, 4), "error_test.cpp:[0-9]+: check failed: slot < 4: slot 7 of 4");
}

TEST(Log, RefusesUnknownLevels) {
  EXPECT_THROW(log::set_level("loud"), Error);
  log::set_level("error");
  EXPECT_FALSE(log::enabled(log::Level::kInfo));
  EXPECT_TRUE(log::enabled(log::Level::kError));
  log::set_level("info");
  EXPECT_TRUE(log::enabled(log::Level::kInfo));
}

}  // namespace
}  // namespace millrace
