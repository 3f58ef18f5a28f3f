// Small rings whose devices are run for whole images: their networks, cuts and periods.
//
//   const Graph graph(residual_blocks());
//   const Plan plan = ring_in_time(graph, /*cycles=*/1500, /*slices=*/3600, {{2, 2, 1}, {3, 0, 0}});
//
// Plans say the times that their engines take, so that what is generated is built for them.
#pragma once

#include <string>
#include <vector>

#include "core/graph/model_builder.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"

namespace millrace {

inline constexpr double kTwoHundredMegahertz = 200e6;

inline Model four_layers(int64_t height, int64_t width) {
  ModelBuilder net("small", {3, height, width});
  net.conv("conv1", 7, {.kernel = 5, .stride = 2, .pad = 2});
  net.relu("relu1");
  net.conv("conv2", 9, {.kernel = 3, .pad = 1});
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.conv("conv3", 5, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// A first layer of so many channels, on so small a map, that several boards share the second one.
inline Model shared_layer() {
  ModelBuilder net("shared", {2, 8, 8});
  net.conv("conv1", 16, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 8, {.kernel = 3, .pad = 1});
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Residual blocks, one with a projected shortcut, behind batch norms that are trained with running statistics.
inline Model residual_blocks() {
  const BatchNorm norm{.statistics = Statistics::kRunning};
  ModelBuilder net("residual-blocks", {3, 12, 12});
  const auto convolution = [&](const std::string& name, int64_t channels, const Window& window) {
    net.conv_without_bias(name, channels, window);
    return net.layer(name + ".norm", norm);
  };
  convolution("conv1", 5, {.kernel = 3, .pad = 1});
  const std::string input = net.relu("relu1");
  convolution("conv2a", 5, {.kernel = 3, .pad = 1});
  net.relu("relu2a");
  convolution("conv2b", 5, {.kernel = 3, .pad = 1});
  net.add("sum2", {net.last(), input});
  const std::string second = net.relu("relu2");
  const std::string shortcut = convolution("down3", 8, {.kernel = 1, .stride = 2});
  net.continue_from(second);
  convolution("conv3a", 8, {.kernel = 3, .stride = 2, .pad = 1});
  net.relu("relu3a");
  convolution("conv3b", 8, {.kernel = 3, .pad = 1});
  net.add("sum3", {net.last(), shortcut});
  net.relu("relu3");
  net.layer("pool", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", 4);
  return net.finish();
}

// An Inception block of four branches, one behind a pooling, and a pooling behind all.
inline Model inception_block() {
  ModelBuilder net("inception-block", {3, 12, 12});
  net.conv("conv1", 6, {.kernel = 3, .pad = 1});
  const std::string input = net.relu("relu1");
  const auto branch = [&](const std::string& name, int64_t channels, const Window& window) {
    net.conv(name, channels, window);
    return net.relu(name + ".relu");
  };
  const std::string first = branch("branch1", 4, {.kernel = 1});
  net.continue_from(input);
  branch("branch2.0", 3, {.kernel = 1});
  const std::string second = branch("branch2.1", 5, {.kernel = 3, .pad = 1});
  net.continue_from(input);
  branch("branch3.0", 2, {.kernel = 1});
  const std::string third = branch("branch3.1", 3, {.kernel = 5, .pad = 2});
  net.continue_from(input);
  net.max_pool("branch4.0", {.kernel = 3, .stride = 1, .pad = 1});
  const std::string fourth = branch("branch4.1", 2, {.kernel = 1});
  net.concat("joined", {first, second, third, fourth});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// A global average over a map that is too large to be held, behind three convolutions.
inline Model whole_map() {
  ModelBuilder net("whole-map", {3, 12, 11});
  net.conv("conv1", 7, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 9, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.conv("conv3", 6, {.kernel = 3, .pad = 1});
  net.relu("relu3");
  net.layer("pool", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", 4);
  return net.finish();
}

// A dense layer over a map that is taken flat.
inline Model dense_over_map() {
  ModelBuilder net("dense-over-map", {3, 12, 11});
  net.conv("conv1", 7, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.flatten("flat");
  net.dense("fc1", 9);
  net.relu("relu3");
  net.dense("fc2", 4);
  return net.finish();
}

// Blocks of un-pooled rows are sorted, and every beat of a row counts: a channel and a pixel in a cycle.
inline Model sorted_rows() {
  ModelBuilder net("sorted-rows", {1, 12, 12});
  net.conv("conv1", 2, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", Pool2d{.kind = PoolKind::kAverage, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2});
  net.conv("conv2", 2, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

// Partial sums of a row take as long to pass as the row takes to compute.
inline Model many_sums() {
  ModelBuilder net("many-sums", {2, 6, 8});
  net.conv("conv1", 8, {.kernel = 1});
  net.relu("relu1");
  net.conv("conv2", 12, {.kernel = 1});
  net.relu("relu2");
  net.conv("conv3", 2, {.kernel = 1});
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

// Every engine takes so many cycles for a sample.
inline Plan ring_in_time(const Graph& graph, int64_t cycles, double slices = 3600, const std::vector<Cut>& cuts = {{1, 5, 3}, {2, 4, 0}}) {
  Plan plan = cut_plan(graph, cuts);
  for (Shard& shard : plan.shards) {
    shard.unit = StreamingUnit::kSample;
    for (PhaseEngine& engine : shard.phases) engine.picoseconds_per_unit = cycles * 5000;
  }
  plan.budgets = {{"vc709", {{"clock_hz", kTwoHundredMegahertz}, {"dsp_device", slices}}}};
  return plan;
}

}  // namespace millrace
