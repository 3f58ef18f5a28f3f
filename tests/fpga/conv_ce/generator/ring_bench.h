// All devices of a plan in one simulation, joined as a ring joins them: streams go from device to device, and what leaves the last one
// and all gradients are compared with the functional model's.
//
//   const RingBench bench(plan, graph, some_weights);
//   bench.write(folder);
//   EXPECT_EQ(bench.run(folder), "PASS");       // under Icarus; otherwise what it printed
//
// Every device is sent its weights by its own memory outside. Whole maps, two samples unless told: keep networks small.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "fpga/conv_ce/generator/device_files.h"

namespace millrace {

class RingBench {
 public:
  RingBench(const Plan& plan, const Graph& graph, const WeightSource& weights);
  RingBench(std::vector<DeviceDesign> designs, int64_t samples);

  // Without pauses the streams at the ring's ends are always ready.
  void write(const std::filesystem::path& folder, bool pauses = true) const;
  std::string run(const std::filesystem::path& folder, bool verilated = false) const;
  // Of a run that passed: when each sample's last score left.
  static std::vector<int64_t> score_cycles(const std::filesystem::path& folder);

  // By the functional model.
  const std::vector<int16_t>& last_output() const;
  std::vector<int32_t> gradient_of(size_t device, size_t shard) const;  // [output][input][tap]
  const std::vector<int32_t>& bias_gradient_of(size_t device, size_t shard) const;

 private:
  std::vector<DeviceDesign> designs_;
  int64_t samples_ = 2;
  std::vector<DeviceVectors> vectors_;
};

}  // namespace millrace
