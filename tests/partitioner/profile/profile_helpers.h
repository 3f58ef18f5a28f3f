// What the tests of partitioner/profile share: fixtures, errors caught whole, small profiles written in a line.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "partitioner/profile/profile.h"
#include "tests/source_folder.h"

namespace millrace {

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(MILLRACE_SOURCE_DIR) / "tests/partitioner/profile/fixtures" / name;
}

// Runs `act`, which must fail with `code` and a message that holds every one of `parts`.
template <typename Act>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "nothing failed";
}

// A chain of nodes n0, n1, ... of so many seconds, that hand on, keep and hold the bytes given (missing ones: 0).
inline Profile chain_of(const std::vector<double>& seconds, const std::vector<double>& out_bytes = {},
                        const std::vector<double>& parameter_bytes = {}, const std::vector<double>& activation_bytes = {}) {
  Profile profile;
  profile.origin = "chain";
  const auto at = [](const std::vector<double>& values, size_t i) { return i < values.size() ? values[i] : 0; };
  for (size_t i = 0; i < seconds.size(); ++i) {
    profile.nodes.push_back({fmt::format("n{}", i), "", seconds[i], 0, at(out_bytes, i), at(parameter_bytes, i), at(activation_bytes, i)});
    if (i > 0) profile.edges.push_back({static_cast<int64_t>(i) - 1, static_cast<int64_t>(i)});
  }
  return profile;
}

// A line of a PipeDream graph: one second each way, `bytes` handed on.
inline std::string node_line(const std::string& name, const std::string& description = "Op", const std::string& bytes = "8.0") {
  return name + " -- " + description + " -- forward_compute_time=1000.000, backward_compute_time=1000.000, activation_size=" + bytes +
         ", parameter_size=4.000\n";
}
inline std::string edge_line(const std::string& from, const std::string& to) { return "\t" + from + " -- " + to + "\n"; }

}  // namespace millrace
