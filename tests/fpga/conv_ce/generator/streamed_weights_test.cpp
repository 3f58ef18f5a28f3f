// Devices whose weights and gradients lie in the memory outside: what is written, that it is clean, and that it computes what the
// functional model does behind memories of a hundred cycles' latency that pause.
#include <gmock/gmock.h>

#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"

namespace millrace {
namespace {

Model dense_model() {
  ModelBuilder net("dense", {2, 5, 5});
  net.conv("conv1", 5, {.kernel = 3, .stride = 2, .pad = 1});
  net.relu("relu1");
  net.flatten("flat");
  net.dense("fc1", 7);
  net.relu("relu2");
  net.dense("fc2", 4);
  return net.finish();
}

// The plan, with the weights of these layers in the boards' own memory.
Plan off_chip(Plan plan, const std::vector<std::string>& layers) {
  for (Shard& shard : plan.shards)
    if (std::ranges::find(layers, shard.layer) != layers.end()) shard.resources.push_back({"dram_bytes", 1000});
  return plan;
}

class StreamedWeights : public DeviceChecks {
 protected:
  void every_device(const Plan& plan, const Graph& graph, const std::string& target) {
    for (int64_t device = 0; device < plan.devices(); ++device) {
      const auto place = folder_.path() / std::to_string(device);
      write_device(device_design(plan, graph, device, some_weights), place, {.test_samples = 2});
      const bool passes = std::system(fmt::format("make -C {0} {1} > {0}/{1}.log 2>&1", place.string(), target).c_str()) == 0;
      EXPECT_TRUE(passes) << "device " << device << "\n" << read_text(place / (target + ".log"));
    }
  }

  Graph graph_{dense_model()};
  Plan plan_ = off_chip(cut_plan(graph_, {{1, 3, 2}}, /*tiles=*/6), {"fc1", "fc2"});
};

TEST_F(StreamedWeights, LieNoLongerOnTheChip) {
  const DeviceDesign design = device_design(plan_, graph_, 1, some_weights);
  ASSERT_EQ(design.shards.size(), 2U);
  for (const ShardDesign& shard : design.shards) {
    ASSERT_TRUE(shard.streams);
    EXPECT_EQ(shard.streams->samples, 1);
    EXPECT_EQ(shard.streams->gradient_samples, 4) << "of four micro-batches";
  }
  EXPECT_EQ(design.sample_multiple(), 4);
  for (const ModuleUse& use : device_resources(design)) {
    EXPECT_THAT(use.module, testing::Not(testing::HasSubstr("LPRAM")));
    EXPECT_THAT(use.module, testing::Not(testing::HasSubstr("LGB")));
  }
  const WeightsOnChip kept = weights_planned_off_chip(design);
  EXPECT_EQ(kept.layers, "");
  EXPECT_EQ(kept.streamed, "fc1, fc2");
  for (const MemoryRegion& region : loaded_regions(design)) EXPECT_NE(region.kind, 0);
  for (const MemoryRegion& region : stored_regions(design)) EXPECT_NE(region.kind, 1);
}

// A pass of FP and one of EB read every kernel, one of PG reads and writes every gradient of two samples: as many words of 16 bits as the
// plan counts for weights and gradients of 16 bits, which move twice a sample.
TEST_F(StreamedWeights, MoveAsManyWordsAsThePlanCounts) {
  const ConvolutionShape shape{.inputs = 64, .outputs = 128, .height = 1, .width = 1, .kernel_h = 1, .kernel_w = 1};
  const EngineParallelism engine{.kernel = 1, .stride = 1, .input_lanes = 4, .output_lanes = 8, .kernels_per_word = 32};
  const int64_t planned = 2 * (64 * 128 * 2 * 2);
  EXPECT_EQ(bytes_per_sample({.samples = 1, .gradient_samples = 2, .beat_bits = 512}, engine, shape, true), planned);
  EXPECT_EQ(bytes_per_sample({.samples = 1, .gradient_samples = 1, .beat_bits = 512}, engine, shape, true), planned * 3 / 2);
}

TEST_F(StreamedWeights, AreCleanWithoutWaivers) {
  if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
  every_device(plan_, graph_, "lint");
}

TEST_F(StreamedWeights, OfDenseLayersPassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  every_device(plan_, graph_, "icarus");
}

// A dense layer over four devices: those in the middle stream their weights and have no bias, so that nothing is loaded.
class StreamedMiddle : public StreamedWeights {
 protected:
  void SetUp() override {
    for (const int64_t device : {1, 2}) {
      const DeviceDesign design = device_design(plan_, graph_, device, some_weights);
      ASSERT_TRUE(loaded_regions(design).empty()) << "device " << device;
      write_device(design, place(device), {});
    }
  }
  std::filesystem::path place(int64_t device) const { return folder_.path() / std::to_string(device); }
  void expect_success(const std::string& program, const std::string& command) {
    if (!succeeds(program)) GTEST_SKIP() << program << " does not work";
    for (const int64_t device : {1, 2}) {
      const std::string log = (place(device) / "log.txt").string();
      EXPECT_EQ(std::system(fmt::format("cd {} && {{ {}; }} > {} 2>&1", place(device).string(), command, log).c_str()), 0)
          << "device " << device << "\n"
          << read_text(log);
      EXPECT_EQ(read_text(log).find("ERROR"), std::string::npos) << read_text(log);
    }
  }

  Plan plan_ = off_chip(cut_plan(graph_, {{1, 0, 0}, {1, 2, 0}, {1, 3, 2}}, /*tiles=*/6), {"fc1"});
};

TEST_F(StreamedMiddle, AreCleanWithoutWaivers) { expect_success("verilator --version", "make lint"); }
TEST_F(StreamedMiddle, PassUnderIcarus) { expect_success("iverilog -V", "make icarus"); }
TEST_F(StreamedMiddle, AreReadByYosys) {
  expect_success("yosys -V",
                 "yosys -q -p 'read_verilog -sv rtl/millrace_device_*.sv rtl/memory_mover.sv rtl/region_walker.sv; "
                 "chparam -set LOADS 0 -set STORES 0 memory_mover; hierarchy -check -top memory_mover'");
}

using StreamedWeightsLong = StreamedWeights;

TEST_F(StreamedWeightsLong, OfConvolutionsPassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  const Graph graph(strided_model());
  every_device(off_chip(cut_plan(graph, {{1, 3, 2}}, /*tiles=*/6), {"conv1", "conv2", "conv3", "fc"}), graph, "icarus");
}

}  // namespace
}  // namespace millrace
