// The hardware of devices of a ring: what is written, that it is clean, and that its testbench passes under Icarus.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/files.h"
#include "core/graph/model_builder.h"
#include "fpga/conv_ce/arithmetic/formats_file.h"
#include "fpga/conv_ce/generator/device_files.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"

namespace millrace {
namespace {

// Three convolutions, pooled with windows that overlap, and a dense head.
Model small_model(int64_t height, int64_t width) {
  ModelBuilder net("small", {3, height, width});
  net.conv("conv1", 8, {.kernel = 5, .stride = 2, .pad = 2});
  net.relu("relu1");
  net.conv("conv2", 8, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv3", 5, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

class Generator : public testing::Test {
 protected:
  Graph graph_{small_model(12, 10)};
  Plan plan_ = cut_plan(graph_, {{1, 4, 0}, {2, 4, 0}});
  // The same layers over smaller maps, for Icarus, which takes a second for some hundred cycles.
  Graph smaller_{small_model(8, 6)};
  Plan smaller_plan_ = cut_plan(smaller_, {{1, 4, 0}, {2, 4, 0}});
  testing_support::TemporaryFolder folder_;
};

using GeneratorLong = Generator;  // what a case of the other covers in part

TEST_F(Generator, DividesTheLayersAsThePlanDoes) {
  const DeviceDesign first = device_design(plan_, graph_, 0, some_weights);
  ASSERT_EQ(first.shards.size(), 2U);
  EXPECT_EQ(first.lanes, 4);
  EXPECT_FALSE(first.shards[0].error_back);
  EXPECT_TRUE(first.shards[1].passes_on());
  EXPECT_FALSE(first.shards[1].owner);
  const DeviceDesign second = device_design(plan_, graph_, 1, some_weights);
  ASSERT_EQ(second.shards.size(), 2U);
  EXPECT_FALSE(second.shards[0].first);
  EXPECT_TRUE(second.shards[0].owner);
  EXPECT_TRUE(second.shards[0].pooled);
  EXPECT_EQ(second.shards[1].inputs, (ChannelRange{0, 4}));
}

// Both neighbours hold the group that a cut falls into; each weight is held once.
TEST_F(Generator, DividesGroupsAndChannels) {
  const Plan plan = cut_plan(graph_, {{1, 5, 3}, {2, 6, 0}});
  const DeviceDesign first = device_design(plan, graph_, 0, ones);
  const DeviceDesign second = device_design(plan, graph_, 1, ones);
  const ShardDesign& before = first.shards[1];
  const ShardDesign& after = second.shards[0];
  EXPECT_EQ(before.inputs, (ChannelRange{0, 8}));
  EXPECT_EQ(before.passed_begin, 4);
  EXPECT_EQ(after.inputs, (ChannelRange{4, 8}));
  EXPECT_FALSE(after.first);
  const int64_t taps = 9;
  for (int64_t output = 0; output < 8; ++output)
    for (int64_t input = 0; input < 8; ++input) {
      const bool in_first = before.weight[static_cast<size_t>((output * 8 + input) * taps)] != 0;
      const bool in_second = input >= 4 && after.weight[static_cast<size_t>((output * 4 + input - 4) * taps)] != 0;
      EXPECT_NE(in_first, in_second) << output << " " << input;
      EXPECT_EQ(in_first, input < 5 || (input == 5 && output < 3)) << output << " " << input;
    }
}

TEST_F(Generator, DenseLayersAreConvolutionsOverTheirMap) {
  const DeviceDesign last = device_design(plan_, graph_, 2, ones);
  ASSERT_EQ(last.shards.size(), 2U);
  const ShardDesign& dense = last.shards[1];
  EXPECT_EQ(
      dense.shape,
      (ConvolutionShape{.inputs = 5, .outputs = 4, .height = 3, .width = 3, .kernel_h = 3, .kernel_w = 3, .stride_h = 3, .stride_w = 3}));
  EXPECT_EQ(dense.shape.out_height(), 1);
  EXPECT_EQ(dense.shape.out_width(), 1);
}

TEST_F(Generator, WritesTheSameFilesTwice) {
  const DeviceDesign design = device_design(plan_, graph_, 1, some_weights);
  const DeviceFiles once = write_device(design, folder_.path() / "a", {});
  write_device(design, folder_.path() / "b", {});
  for (const std::string& name : once.names)
    EXPECT_EQ(read_text(folder_.path() / "a" / name), read_text(folder_.path() / "b" / name)) << name;
  for (const char* name : {"rtl/millrace_device_1.sv", "images/shard_0_parameters.hex", "testbench.sv", "kernel.xml", "connectivity.cfg",
                           "package.tcl", "README.md", "Makefile", "registers.txt"})
    EXPECT_TRUE(std::filesystem::exists(folder_.path() / "a" / name)) << name;
  EXPECT_TRUE(read_text(folder_.path() / "a" / "testbench.sv").starts_with("// Testbench of millrace_device_1: 2 samples of "));
}

TEST_F(Generator, IsCleanWithoutWaivers) {
  if (!succeeds("verilator --version")) GTEST_SKIP() << "verilator is not installed";
  for (int64_t device = 0; device < 2; ++device) {
    const auto place = folder_.path() / std::to_string(device);
    write_device(device_design(plan_, graph_, device, some_weights), place, {});
    const bool clean = std::system(fmt::format("make -C {0} lint > {0}/lint.log 2>&1", place.string()).c_str()) == 0;
    EXPECT_TRUE(clean) << "device " << device << "\n" << read_text(place / "lint.log");
  }
}

TEST_F(Generator, ItsTestbenchPassesUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  for (int64_t device = 0; device < 2; ++device) {
    const auto place = folder_.path() / std::to_string(device);
    write_device(device_design(smaller_plan_, smaller_, device, some_weights), place, {.test_samples = 1});
    EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
  }
}

// Cuts inside a group and inside a channel, and a dense layer that is cut itself.
TEST_F(GeneratorLong, DividedGroupsPassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  const Plan plan = cut_plan(smaller_, {{1, 5, 3}, {3, 11, 2}}, /*tiles=*/5);
  for (int64_t device = 0; device < 3; ++device) {
    const auto place = folder_.path() / std::to_string(device);
    write_device(device_design(plan, smaller_, device, some_weights), place, {.test_samples = 1});
    EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus")) << "device " << device;
  }
}

// What lies in the memory outside is what the device computes with: a wrong kernel there must not pass.
TEST_F(Generator, ItsTestbenchFindsAWrongWeight) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  write_device(device_design(plan_, graph_, 0, some_weights), folder_.path() / "bad", {.test_samples = 1});
  const auto image = folder_.path() / "bad" / "vectors" / "memory.hex";
  std::string text = read_text(image);
  char& digit = text[text.find('\n', text.find('\n') + 1) - 1];  // of the first kernel
  digit = digit == '0' ? '1' : '0';
  write_atomically(image, std::string_view(text));
  EXPECT_FALSE(succeeds("make -C " + (folder_.path() / "bad").string() + " icarus"));
}

// By module as synthesis sees them, summed by layer and device; what the plan reckons with beside it.
TEST_F(Generator, ReportsWhatTheDeviceTakes) {
  const DeviceDesign design = device_design(plan_, graph_, 1, some_weights);
  const auto report = nlohmann::json::parse(resources_json(hardware_use(design), plan_));
  ASSERT_GE(report["layers"].size(), design.shards.size()) << "behind the shards, layers of maps and joins";
  double dsp = 0, bram36 = 0;
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const auto& layer = report["layers"][i];
    const ShardDesign& shard = design.shards[i];
    EXPECT_EQ(layer["layer"], shard.layer);
    double layer_dsp = 0, layer_bram36 = 0;
    for (const auto& module : layer["modules"]) {
      layer_dsp += module["dsp"].get<double>();
      layer_bram36 += module["bram36"].get<double>();
    }
    EXPECT_EQ(layer["generated"]["dsp"], layer_dsp);
    EXPECT_EQ(layer["generated"]["bram36"], layer_bram36);
    // FP, PG and, where errors go back, EB; a scale per lane of the owner.
    const auto multipliers = static_cast<double>(shard.engine.tiles() * shard.engine.taps());
    EXPECT_EQ(layer_dsp, multipliers * (shard.error_back ? 3 : 2) + (shard.owner ? static_cast<double>(design.lanes) : 0));
  }
  for (const auto& layer : report["layers"]) {
    dsp += layer["generated"]["dsp"].get<double>();
    bram36 += layer["generated"]["bram36"].get<double>();
  }
  EXPECT_EQ(report["generated"]["dsp"], dsp);
  EXPECT_EQ(report["generated"]["bram36"], bram36);
  EXPECT_EQ(built_amounts(hardware_use(design)).dsp, dsp) << "of every module";
  const std::string table = resources_table(hardware_use(design), plan_);
  for (const char* module : {"forward_engine (FP)", "gradient_engine (PG)", "deep_fifo (Act-RAM)", "the plan reckons with", "the device"})
    EXPECT_NE(table.find(module), std::string::npos) << module;
}

// A plan may keep weights in the board's own memory; the hardware streams them, or has them on the chip, and says so wherever it is
// described.
TEST_F(Generator, SaysWhichWeightsThePlanHasOffChip) {
  EXPECT_EQ(weights_planned_off_chip(device_design(plan_, graph_, 2, nullptr)).layers, "");
  Plan plan = plan_;
  for (Shard& shard : plan.shards)
    if (shard.layer == "fc") shard.resources.push_back({"dram_bytes", 2.5e6});
  const DeviceDesign design = device_design(plan, graph_, 2, some_weights);
  const WeightsOnChip found = weights_planned_off_chip(design);
  EXPECT_EQ(found.layers, "");
  EXPECT_EQ(found.streamed, "fc");
  EXPECT_EQ(found.off_chip_bytes, 2'500'000);
  EXPECT_EQ(found.bram36, 0);
  EXPECT_EQ(nlohmann::json::parse(resources_json(hardware_use(design), plan))["weights_planned_off_chip"]["planned_bytes"], 2'500'000);
  EXPECT_NE(resources_table(hardware_use(design), plan).find("weights and gradients of fc lie in the board's own memory"),
            std::string::npos);
  write_device(design, folder_.path() / "large", {.lacks = "2000 BRAM36 of 1470"});
  const std::string readme = read_text(folder_.path() / "large" / "README.md");
  EXPECT_NE(readme.find("For simulation alone: it takes more than vc709 has, 2000 BRAM36 of 1470"), std::string::npos) << readme;
  EXPECT_NE(readme.find("Weights and gradients of fc lie in the board's own memory"), std::string::npos) << readme;
  write_device(device_design(plan_, graph_, 2, some_weights), folder_.path() / "fits", {});
  EXPECT_EQ(read_text(folder_.path() / "fits" / "README.md").find("For simulation alone"), std::string::npos);

  ModelBuilder net("wide", {64, 8, 8});
  net.grouped_conv("conv1", 64, {.kernel = 3, .pad = 1}, 2);
  net.flatten("flat");
  net.dense("fc", 4);
  const Graph wide(net.finish());
  Plan on_one = cut_plan(wide, {});
  on_one.shards[0].resources.push_back({"dram_bytes", 1e5});
  const DeviceDesign alone = device_design(on_one, wide, 0, nullptr);
  double bram36 = 0;
  for (const ModuleUse& use : device_resources(alone))
    if (use.layer == "conv1" && (use.module.starts_with("parameter_memory") || use.module.starts_with("gradient_memory")))
      bram36 += use.bram18 / 2;
  EXPECT_GT(bram36, 0);
  EXPECT_EQ(weights_planned_off_chip(alone).layers, "conv1") << "channel groups are on the chip";
  EXPECT_EQ(weights_planned_off_chip(alone).bram36, bram36);
}

// Host, metadata and hardware agree on what moves.
TEST_F(Generator, MovesParametersAndGradients) {
  const DeviceDesign design = device_design(plan_, graph_, 1, some_weights);  // the end of conv2, and a part of conv3
  const std::vector<MemoryRegion> loads = loaded_regions(design), stores = stored_regions(design);
  ASSERT_EQ(loads.size(), 3U) << "conv3's bias is the next device's";
  EXPECT_EQ(loads[1].number(), 3);
  EXPECT_EQ(loads[2].number(), 4);
  EXPECT_EQ(stores.size(), 4U);
  EXPECT_EQ(loads[0].all_elements(), stores[0].all_elements());
  write_device(design, folder_.path() / "d", {});
  const std::string xml = read_text(folder_.path() / "d" / "kernel.xml");
  for (const char* part : {"name=\"m_axi_gmem\" mode=\"master\"", "name=\"parameters\"", "name=\"result\""})
    EXPECT_NE(xml.find(part), std::string::npos) << part;
  EXPECT_NE(read_text(folder_.path() / "d" / "connectivity.cfg").find("sp=millrace_conv_ce_1.m_axi_gmem:DDR[0]"), std::string::npos);
}

// Formats of a run: by layer, as a calibration gives them. What conv1 gives out conv2 takes in, and so on.
const LayerFormats kCalibrated = {
    {"conv1", {.activation = {13}, .weight = {14}, .sum = {10}, .error = {15}, .input_error = {15}}},
    {"conv2", {.activation = {10}, .weight = {15}, .sum = {9}, .error = {17}, .input_error = {15}}},
    {"pool2", {.activation = {9}, .weight = {13}, .sum = {9}, .error = {17}, .input_error = {17}}},
    {"conv3", {.activation = {9}, .weight = {12}, .sum = {12}, .error = {16}, .input_error = {17}}},
    {"fc", {.activation = {12}, .weight = {13}, .sum = {8}, .error = {18}, .input_error = {16}}},
};

TEST_F(Generator, TakesTheFormatsOfARun) {
  const DeviceDesign own = device_design(plan_, graph_, 1, some_weights);
  const DeviceDesign design = device_design(plan_, graph_, 1, some_weights, kCalibrated);
  ASSERT_EQ(design.shards.size(), 2U);
  for (const ShardDesign& shard : design.shards) EXPECT_EQ(shard.formats, kCalibrated.at(shard.layer)) << shard.layer;
  // Weights and biases are the nearest elements of their formats: 0.213 x 2^15, and not x 2^13.
  ArithmeticCounters counters;
  const ShardDesign& conv2 = design.shards[0];
  const std::vector<double> bias = some_weights(graph_.node(graph_.index_of("conv2")), graph_.node(graph_.index_of("conv2")).parameters[1]);
  for (size_t i = 0; i < bias.size(); ++i) EXPECT_EQ(conv2.bias[i], quantized(bias[i], {9}, counters)) << i;
  EXPECT_NE(conv2.weight, own.shards[0].weight);

  write_device(design, folder_.path() / "d", {});
  const std::string top = read_text(folder_.path() / "d" / "rtl" / "millrace_device_1.sv");
  for (const char* shift : {".sum_shift(5'd16)", ".sum_shift(5'd17)", ".sum_shift(5'd9)", ".sum_shift(5'd11)"})  // FP, EB of both
    EXPECT_NE(top.find(shift), std::string::npos) << shift;
  const LayerFormats written = parse_formats(read_text(folder_.path() / "d" / "formats.txt"), "formats.txt");
  ASSERT_EQ(written.size(), 2U);
  for (const auto& [layer, formats] : written) EXPECT_EQ(formats, kCalibrated.at(layer)) << layer;
}

TEST_F(GeneratorLong, CalibratedTestbenchesPassUnderIcarus) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  // The device in the middle has every stream, partial sums and errors from both neighbours.
  const auto place = folder_.path() / "calibrated";
  write_device(device_design(smaller_plan_, smaller_, 1, some_weights, kCalibrated), place, {.test_samples = 1});
  EXPECT_TRUE(succeeds("make -C " + place.string() + " icarus"));
  // The same hardware against the numbers of other formats does not.
  const auto mixed = folder_.path() / "mixed";
  write_device(device_design(smaller_plan_, smaller_, 1, some_weights, kCalibrated), mixed, {.test_samples = 1});
  write_device(device_design(smaller_plan_, smaller_, 1, some_weights), folder_.path() / "own", {.test_samples = 1});
  std::filesystem::copy_file(folder_.path() / "own" / "rtl" / "millrace_device_1.sv", mixed / "rtl" / "millrace_device_1.sv",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_FALSE(succeeds("make -C " + mixed.string() + " icarus"));
}

TEST_F(Generator, RefusesFormatsThatDoNotMeet) {
  LayerFormats formats = kCalibrated;
  formats.at("conv2").activation = {11};
  expect_error(ErrorCode::kMismatch,
               "layer conv1 gives out activations of 10 fraction bits and takes errors of 15, and layer conv2 behind it wants 11 and 15",
               [&] { device_design(plan_, graph_, 0, some_weights, formats); });
  formats = kCalibrated;
  formats.at("pool2").sum = {8};  // between two engines
  expect_error(ErrorCode::kMismatch, "layer pool2 gives out activations of 8",
               [&] { device_design(plan_, graph_, 1, some_weights, formats); });
}

TEST_F(Generator, RefusesWhatTheModulesCannotDo) {
  expect_error(ErrorCode::kUsage, "--device 3: the plan has devices 0 to 2", [&] { device_design(plan_, graph_, 3, some_weights); });
  Plan idle = plan_;
  std::erase_if(idle.shards, [](const Shard& shard) { return shard.device == 2; });
  expect_error(ErrorCode::kUsage, "--device 2: it computes nothing in this plan; what does: --device 0, 1",
               [&] { device_design(idle, graph_, 2, some_weights); });
  ModelBuilder net("padded", {3, 12, 12});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.conv("conv2", 4, {.kernel = 3, .pad = 2});
  net.flatten("flat");
  net.dense("fc", 4);
  const Graph padded(net.finish());
  expect_error(ErrorCode::kUnavailable, "layer conv2: its padding is more than half its kernel", [&] {
    device_design(cut_plan(padded, {{2, 72, 0}}), padded, 0, some_weights);
  });
  const DeviceDesign design = device_design(plan_, graph_, 0, some_weights);
  expect_error(ErrorCode::kUsage, "--test-rows 1000", [&] { write_device(design, folder_.path(), {.test_rows = 1000}); });
}

}  // namespace
}  // namespace millrace
