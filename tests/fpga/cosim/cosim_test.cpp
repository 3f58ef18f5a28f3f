// Generated RTL in the ring: the same weights as the functional model's, bit by bit; and what is said where it cannot run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "core/base/files.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "fpga/cosim/cosim_device.h"
#include "fpga/cosim/engine_builder.h"
#include "fpga/cosim/shared_library.h"
#include "fpga/cosim/simulated_phases.h"
#include "partitioner/choice/planner.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/temporary_folder.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"
#include "tests/node/ring/ring_runs.h"

namespace millrace {
namespace {

using testing_support::RingRun;

const EngineBuildOptions kCache{.cache = MILLRACE_COSIM_TEST_CACHE};

bool verilator_is_missing() { return std::system("verilator --version > /dev/null 2>&1") != 0; }

Model small_model() {
  ModelBuilder net("small", {2, 6, 6});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 5, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

// One tile per engine.
Plan divided_plan(const Graph& graph, Alignment alignment, const std::vector<Cut>& cuts, const std::vector<Split>& splits = {}) {
  PlanRequest request{.cluster = uniform_cluster("cosim", static_cast<int64_t>(cuts.size()) + 1),
                      .alignment = alignment,
                      .mini_batch = 4,
                      .micro_batch = 2};
  std::vector<Shard> shards = shards_from_cuts(graph, cuts, splits);
  for (Shard& shard : shards) {
    shard.unit = shard.layer.starts_with("fc") ? StreamingUnit::kSample : StreamingUnit::kRow;
    for (const Phase phase : {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient})
      shard.phases.push_back({.phase = phase, .engine = "conv_ce", .multipliers = 9});
  }
  return assemble_plan(graph, request, std::move(shards));
}

class Cosim : public testing::Test {
 protected:
  void SetUp() override {
    if (verilator_is_missing()) GTEST_SKIP() << "verilator is not installed";
  }
  // Of the weights after the last mini-batch.
  std::string digest_on(const Plan& plan, const OpenDevice& open, int64_t ranks) const {
    RingRun run(graph_, plan, mini_batches_, classes_);
    run.open_device = open;
    const auto result = run.train(ranks);
    for (const std::string& error : result.errors) EXPECT_EQ(error, "");
    return result.outcome.weights_digest;
  }
  void equals_the_functional_model(const Plan& plan) const {
    const std::string emulated = digest_on(
        plan, [](int64_t) { return make_emulated_fpga(EngineArithmetic::kFixed16); }, 1);
    const OpenDevice cosim = [&](int64_t device) { return make_cosim_device(plan, graph_, device, kCache); };
    EXPECT_EQ(digest_on(plan, cosim, 1), emulated) << name_of(plan.alignment);
    EXPECT_EQ(digest_on(plan, cosim, 2), emulated) << name_of(plan.alignment) << " on two ranks";
    const std::string reference = digest_on(
        plan, [](int64_t) { return make_emulated_fpga(EngineArithmetic::kFloat32); }, 1);
    EXPECT_NE(reference, emulated) << "the digest tells arithmetics apart";
    RecordProperty("weights", emulated);
  }

  Graph graph_{small_model()};
  int64_t mini_batches_ = 3;
  int64_t classes_ = 3;
};

using CosimLong = Cosim;  // what a case of the other covers in part

// Device 0: conv1, two channels of conv2 and a part of the third; device 1: the rest. Both alignments: with fpdeep micro-batches go
// forward before the errors of others are back, and weights change between.
TEST_F(Cosim, TrainsToTheFunctionalModelsWeights) {
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep})
    equals_the_functional_model(divided_plan(graph_, alignment, {{1, 2, 3}}));
}

// Outputs of the first layer on devices 0 and 1, those of the second on 1 and 2: sums are appended, errors of the input added up.
TEST_F(CosimLong, TrainsLayersDividedByOutputs) {
  const Plan plan = divided_plan(graph_, Alignment::kFpdeep, {{0, 2, 0}, {1, 3, 0}},
                                 {Split::kOutputChannels, Split::kOutputChannels, Split::kInputChannels});
  for (const char* layer : {"conv1", "conv2"}) {
    const auto group = std::ranges::find(plan.groups, layer, &Group::layer);
    ASSERT_EQ(group->split, Split::kOutputChannels) << layer;
    ASSERT_EQ(group->shards.size(), 2U) << layer;
  }
  const std::vector<PlannedEngine> middle = engines_of(plan, graph_, 1);
  ASSERT_EQ(middle.size(), 2U);
  EXPECT_EQ(middle[0].shape.outputs, 2);
  EXPECT_EQ(middle[1].shape.outputs, 3);
  equals_the_functional_model(plan);
}

// Twenty updates: a response norm, channel groups, whole and divided, windows that overlap, and dropout.
TEST_F(CosimLong, TrainsASmallAlexNet) {
  ModelBuilder net("small-alexnet", {2, 7, 7});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("norm1", LocalResponseNorm{.size = 5, .alpha = 0.1, .beta = 0.75, .k = 2});
  net.max_pool("pool1", {.kernel = 3, .stride = 2});
  net.grouped_conv("conv2", 4, {.kernel = 3, .pad = 1}, 2);
  net.relu("relu2");
  net.grouped_conv("conv3", 4, {.kernel = 3, .pad = 1}, 2);
  net.relu("relu3");
  net.flatten("flat");
  net.dropout("drop", 0.5);
  net.dense("fc", 3);
  graph_ = Graph(net.finish());
  mini_batches_ = 20;
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{2, 2, 0}}));
}

// Twenty updates: of maxima over windows that are too large to be held, and overlap.
TEST_F(CosimLong, TrainsThroughLargeWindowsThatOverlap) {
  ModelBuilder net("small-windows", {2, 7, 9});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 9, .stride = 2, .pad = 4});
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.layer("pool2", Pool2d{.kernel_h = 3, .kernel_w = 17, .stride_h = 1, .stride_w = 5, .pad_w = 12});
  net.flatten("flat");
  net.dense("fc", 3);
  graph_ = Graph(net.finish());
  mini_batches_ = 20;
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{1, 2, 0}}));
}

// Dense layers alone, of a flattened input.
TEST_F(CosimLong, TrainsDenseLayersOfAFlattenedInput) {
  ModelBuilder net("small-dense", {1, 5, 5});
  net.flatten("flat");
  net.dense("fc1", 6);
  net.relu("relu1");
  net.dense("fc2", 3);
  graph_ = Graph(net.finish());
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{1, 10, 2}}));
}

// Kernels with zeros between, whole and divided, one of them through a stride.
TEST_F(CosimLong, TrainsDilatedKernels) {
  graph_ = Graph(dilated_model());
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{1, 2, 0}}));
}

// Kernels that are not square, whole and divided, one of them through a stride.
TEST_F(CosimLong, TrainsOblongKernels) {
  graph_ = Graph(oblong_kernels_model());
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{1, 2, 0}}));
}

// Sigmoids and tangents behind whole layers and a divided one, before windows and without.
TEST_F(CosimLong, TrainsSmoothActivations) {
  ModelBuilder net("small-smooth", {2, 7, 7});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.layer("tanh1", Activation{.kind = ActivationKind::kTanh});
  net.max_pool("pool1", {.kernel = 3, .stride = 2});
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.layer("sigmoid2", Activation{.kind = ActivationKind::kSigmoid});
  net.layer("pool2", Pool2d{.kind = PoolKind::kAverage, .kernel_h = 2, .kernel_w = 2, .stride_h = 1, .stride_w = 1});
  net.conv("conv3", 5, {.kernel = 1});
  net.layer("sigmoid3", Activation{.kind = ActivationKind::kSigmoid});
  net.flatten("flat");
  net.dense("fc", 3);
  graph_ = Graph(net.finish());
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{2, 2, 0}}));
}

// Twenty updates: a projected shortcut and one that is the map itself, past a cut, behind batch norms with running statistics.
TEST_F(CosimLong, TrainsASmallResNet) {
  const BatchNorm norm{.statistics = Statistics::kRunning};
  ModelBuilder net("small-resnet", {2, 6, 6});
  net.conv_without_bias("conv1", 3, {.kernel = 3, .pad = 1});
  net.layer("norm1", norm);
  const std::string input = net.relu("relu1");
  net.conv_without_bias("down", 4, {.kernel = 1, .stride = 2});
  const std::string shortcut = net.layer("downnorm", norm);
  net.continue_from(input);
  net.conv_without_bias("conv2", 4, {.kernel = 3, .stride = 2, .pad = 1});
  net.layer("norm2", norm);
  net.relu("relu2");
  net.conv_without_bias("conv3", 4, {.kernel = 3, .pad = 1});
  net.layer("norm3", norm);
  net.add("sum3", {net.last(), shortcut});
  const std::string second = net.relu("relu3");
  net.conv_without_bias("conv4", 4, {.kernel = 3, .pad = 1});
  net.layer("norm4", norm);
  net.add("sum4", {net.last(), second});
  net.relu("relu4");
  net.layer("pool", GlobalPool{.kind = PoolKind::kAverage});
  net.flatten("flat");
  net.dense("fc", 3);
  graph_ = Graph(net.finish());
  mini_batches_ = 20;
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{2, 1, 0}}));
}

// Twenty updates: three branches of one map, one behind a pooling, past a cut.
TEST_F(CosimLong, TrainsASmallInceptionBlock) {
  const BatchNorm norm{.epsilon = 1e-3, .statistics = Statistics::kRunning};
  ModelBuilder net("small-inception", {2, 6, 6});
  const auto convolution = [&](const std::string& name, int64_t channels, const Window& window) {
    net.conv_without_bias(name, channels, window);
    net.layer(name + ".norm", norm);
    return net.relu(name + ".relu");
  };
  const std::string input = convolution("conv1", 3, {.kernel = 3, .pad = 1});
  const std::string first = convolution("branch1", 2, {.kernel = 1});
  net.continue_from(input);
  convolution("branch2.0", 2, {.kernel = 1});
  const std::string second = convolution("branch2.1", 3, {.kernel = 3, .pad = 1});
  net.continue_from(input);
  net.max_pool("branch3.0", {.kernel = 3, .stride = 1, .pad = 1});
  const std::string third = convolution("branch3.1", 2, {.kernel = 1});
  net.concat("joined", {first, second, third});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 3);
  graph_ = Graph(net.finish());
  mini_batches_ = 20;
  equals_the_functional_model(divided_plan(graph_, Alignment::kFpdeep, {{3, 1, 0}}));
}

// Twenty updates of layers whose weights and gradients lie behind memories of a hundred cycles' latency: dense ones, one of them divided,
// and a convolution, which reads its kernels with every row.
TEST_F(CosimLong, TrainsWithWeightsInTheMemoryOutside) {
  ModelBuilder net("small-streamed", {2, 6, 6});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.flatten("flat");
  net.dense("fc1", 8);
  net.relu("relu3");
  net.dense("fc2", 3);
  graph_ = Graph(net.finish());
  mini_batches_ = 20;
  Plan plan = divided_plan(graph_, Alignment::kFpdeep, {{2, 14, 0}});
  for (Shard& shard : plan.shards)
    if (shard.layer != "conv1") shard.resources.push_back({"dram_bytes", 1000});
  int64_t streamed = 0;
  for (int64_t device = 0; device < 2; ++device)
    for (const PlannedEngine& engine : engines_of(plan, graph_, device)) {
      EXPECT_EQ(engine.hardware.beat_bits > 0, engine.layer != "conv1") << engine.layer;
      streamed += engine.hardware.beat_bits > 0 ? 1 : 0;
    }
  EXPECT_EQ(streamed, 4) << "conv2, both parts of fc1, and fc2";
  equals_the_functional_model(plan);
}

// Twenty updates on the engines of the plan that the planner makes: two boards, a convolution divided between them.
TEST_F(CosimLong, TrainsLenet5OnTheTwoBoardsOfItsPlan) {
  graph_ = Graph(find_model("lenet5"));
  PlanTask task;
  task.graph = &graph_;
  task.cluster = cluster_from("zc706x2", shipped_catalogue());
  task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
  task.options.mini_batch = 4;
  const CostModels models = models_for(task.cluster, shipped_catalogue(), task.options.arithmetic, Accounting::kFull, graph_);
  task.models = models.of_devices;
  account(task, Accounting::kFull);
  const Outcome outcome = make_plan(task);
  ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
  const Plan& plan = *outcome.plan;
  for (int64_t device = 0; device < 2; ++device) {
    int64_t planned = 0, built = 0;
    for (const Shard& shard : plan.shards)
      for (const PhaseEngine& engine : shard.phases)
        if (shard.device == device && engine.phase == Phase::kForward) planned += engine.multipliers;
    for (const PlannedEngine& engine : engines_of(plan, graph_, device))
      built += engine.hardware.engine.tiles() * engine.hardware.engine.taps();
    EXPECT_EQ(built, planned) << device;
    EXPECT_GT(built, 100) << device;
  }
  EXPECT_TRUE(std::ranges::any_of(plan.groups, [](const Group& group) { return group.shards.size() == 2; })) << "no layer is divided";
  mini_batches_ = 20;
  classes_ = 10;
  equals_the_functional_model(plan);
}

// Phases of any size find an engine, dense ones included; what comes out is compared inside, so that ending is passing.
TEST_F(Cosim, MakesEnginesForThePhasesThatCome) {
  SimulatedPhases phases({.planned = {}, .lanes = 1, .build = kCache});
  std::mt19937_64 random(7);
  const auto elements = [&random](size_t count) {
    std::vector<int16_t> some(count);
    for (int16_t& element : some) element = static_cast<int16_t>(random() % 4001) - 2000;
    return some;
  };
  for (const ConvolutionShape& shape :
       {ConvolutionShape{.inputs = 2, .outputs = 4, .height = 6, .width = 6, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
        ConvolutionShape{.inputs = 2, .outputs = 3, .height = 6, .width = 6, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}}) {
    const PhaseShape phase{shape, /*samples=*/2, /*shift=*/9};
    const std::vector<int16_t> input = elements(phase.input_elements()), error = elements(phase.output_elements());
    const std::vector<int16_t> weight = elements(shape.weight_elements()), bias = elements(static_cast<size_t>(shape.outputs));
    const std::vector<int16_t> before = elements(phase.output_elements());
    PhaseCounters counters;
    phases.forward(phase, {.input = input, .weight = weight, .before = before, .bias = bias}, counters);
    phases.error_back(phase, error, weight, counters.first);
    std::vector<int32_t> weight_sums(shape.weight_elements(), 5), bias_sums(static_cast<size_t>(shape.outputs), -7);
    phases.add_gradient(phase, input, error, weight_sums, bias_sums, counters.first);
  }
  EXPECT_GT(phases.cycles().forward, 2 * 36);
  EXPECT_GT(phases.cycles().gradient, 2 * 36);
}

TEST_F(Cosim, RefusesWhatTheEngineIsNot) {
  SimulatedPhases phases({.planned = {}, .lanes = 1, .build = kCache});
  const ConvolutionShape shape{.inputs = 2, .outputs = 2, .height = 4, .width = 4, .kernel_h = 1, .kernel_w = 3};
  const std::vector<int16_t> input(shape.input_elements()), weight(shape.weight_elements());
  PhaseCounters counters;
  expect_error(ErrorCode::kUnavailable, "the engine's RTL cannot do this convolution: 2 -> 2 channels, 4 x 4, kernel 1 x 3", [&] {
    phases.forward({shape, 1, 4}, {.input = input, .weight = weight}, counters);
  });
}

// A library in the cache that is none: said, with what to do.
TEST_F(Cosim, SaysWhichLibraryIsBroken) {
  const ConvolutionShape shape{.inputs = 2, .outputs = 4, .height = 6, .width = 6, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  const EngineParallelism engine{.input_lanes = 1, .output_lanes = 1, .kernels_per_word = 1};
  const EngineHardware hardware{engine, engine_memories(engine, shape)};
  const BuiltEngine built = build_library(library_of(hardware), kCache);
  testing_support::TemporaryFolder folder;
  const auto copy = folder.path() / built.engine_file.parent_path().filename();
  std::filesystem::create_directories(copy);
  write_atomically(copy / "engine.so", std::string_view("no library"));
  expect_error(ErrorCode::kUnavailable, "the simulated engine cannot be loaded",
               [&] { SimulatedEngine(hardware, {}, {.cache = folder.path()}); });
}

// A wire, straight or inverted, as a library.
EngineLibrary wire(std::string_view text) {
  return {
      .name = "a wire",
      .top = "wire_top",
      .parameters = {},
      .defines = {},
      .modules = {{"wire_top.sv", text}},
      .harness = {{"wire.cpp",
                   "#include <Vwire_top.h>\nextern \"C\" int through(int in) {\n  VerilatedContext context;\n  Vwire_top top{&context};\n"
                   "  top.in = in & 1;\n  top.eval();\n  return top.out;\n}\n"}}};
}

TEST_F(Cosim, VerilatorsOwnSourcesAreCompiledOnce) {
  testing_support::TemporaryFolder folder;
  const auto build = [&](std::string_view text, int expected) {
    const BuiltEngine built = build_library(wire(text), {.cache = folder.path()});
    const SharedLibrary library(built.engine_file);
    int (*through)(int) = nullptr;
    library.find(through, "through");
    EXPECT_EQ(through(1), expected);
    return read_text(built.engine_file.parent_path() / "verilator.log").find("verilated.cpp") != std::string::npos;
  };
  EXPECT_TRUE(build("module wire_top(input logic in, output logic out);\n  assign out = in;\nendmodule\n", 1));
  EXPECT_FALSE(build("module wire_top(input logic in, output logic out);\n  assign out = !in;\nendmodule\n", 0));
}

TEST(CosimWithoutVerilator, NamesThePackage) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nowhere", 1);
  expect_error(ErrorCode::kUnavailable, "apt-get install verilator", [] { build_library({}, {.cache = MILLRACE_COSIM_TEST_CACHE}); });
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace millrace
