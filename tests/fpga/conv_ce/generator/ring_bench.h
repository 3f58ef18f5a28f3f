// All devices of a plan in one simulation, joined as a ring joins them: streams go from device to device, and what leaves the last one
// and all gradients are compared with the functional model's.
//
//   const RingBench bench(plan, graph, some_weights);
//   bench.write(folder);
//   EXPECT_EQ(bench.run(folder), "PASS");       // under Icarus; otherwise what it printed
//
// Every device is sent its weights by its own memory outside. Whole maps, two samples: keep networks small.
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

  void write(const std::filesystem::path& folder) const;
  std::string run(const std::filesystem::path& folder) const;

  // By the functional model.
  const std::vector<int16_t>& last_output() const;
  std::vector<int32_t> gradient_of(size_t device, size_t shard) const;  // [output][input][tap]
  const std::vector<int32_t>& bias_gradient_of(size_t device, size_t shard) const;

 private:
  std::vector<DeviceDesign> designs_;
  std::vector<DeviceVectors> vectors_;
};

}  // namespace millrace
