// Expects a millrace::Error with a code and words in its message.
//
//   expect_error(ErrorCode::kMalformed, "lab: links[0].forward_gbps: -10 must be positive", [] { parse_cluster(...); });
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/error.h"

namespace millrace {

template <typename Action>
void expect_error(ErrorCode code, const std::string& words, Action action) {
  try {
    action();
    ADD_FAILURE() << "nothing failed; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(words));
  }
}

}  // namespace millrace
