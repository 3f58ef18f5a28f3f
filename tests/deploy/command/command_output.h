// What a command's function prints, and the keys of its JSON.
//
//   const json device = json::parse(output_of([] { return show_device(shipped_catalogue(), "XC7VX690T", true); }));
//   EXPECT_EQ(keys_of(device), ...);
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace millrace::testing_support {

// Of a function that returns the exit status of a command that succeeds.
template <typename Act>
std::string output_of(const Act& act) {
  testing::internal::CaptureStdout();
  const int status = act();
  const std::string output = testing::internal::GetCapturedStdout();
  EXPECT_EQ(status, 0);
  return output;
}

inline std::set<std::string> keys_of(const nlohmann::json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

}  // namespace millrace::testing_support
