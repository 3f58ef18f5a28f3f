// Writes every device of a plan and checks it, as the folder's Makefile does; skips, naming the program, where that is missing.
//
//   using Pooled = DeviceChecks;
//   TEST_F(Pooled, PassesUnderIcarus) { pass_under_icarus(graph, {{1, 3, 2}}); }
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"

namespace millrace {

// Those of a plan that are checked: cuts before and behind them keep what other tests check off them.
struct CheckedDevices {
  int64_t first = 0;
  int64_t end = INT64_MAX;
};

class DeviceChecks : public testing::Test {
 protected:
  void pass_under_icarus(const Graph& graph, const std::vector<Cut>& cuts, const std::vector<Split>& splits = {},
                         const WeightSource& weights = some_weights, const CheckedDevices& checked = {}) {
    if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
    const Plan plan = cut_plan(graph, cuts, /*tiles=*/5, splits);
    for (int64_t device = checked.first; device < std::min(checked.end, plan.devices()); ++device) {
      const auto place = folder_.path() / std::to_string(device);
      write_device(device_design(plan, graph, device, weights), place, {.test_samples = 2});
      EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
    }
  }
  void are_clean(const Graph& graph, const std::vector<Cut>& cuts, const std::vector<Split>& splits = {},
                 const WeightSource& weights = some_weights, const CheckedDevices& checked = {}) {
    if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
    const Plan plan = cut_plan(graph, cuts, /*tiles=*/5, splits);
    for (int64_t device = checked.first; device < std::min(checked.end, plan.devices()); ++device) {
      const auto place = folder_.path() / std::to_string(device);
      write_device(device_design(plan, graph, device, weights), place, {});
      const bool clean = std::system(fmt::format("make -C {0} lint > {0}/lint.log 2>&1", place.string()).c_str()) == 0;
      EXPECT_TRUE(clean) << "device " << device << "\n" << read_text(place / "lint.log");
    }
  }

  testing_support::TemporaryFolder folder_;
};

}  // namespace millrace
