#include "gpu/catalogue/gpu_cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"
#include "gpu/catalogue/gpu_catalogue.h"
#include "tests/core/device/nested_shards.h"
#include "tests/gpu/catalogue/gpus.h"

namespace millrace {
namespace {

double seconds_of(const Graph& graph, std::string_view layer, std::string_view gpu, ElementType compute, int64_t micro_batch) {
  ShardQuestion question;
  question.node = &graph.node(graph.index_of(layer));
  question.micro_batch = micro_batch;
  return make_gpu_cost_model(gpus().find(gpu), compute)->demand_of(question).seconds;
}

TEST(GpuCostModel, AnswersMonotonically) {
  for (const CatalogueDevice& gpu : gpus().devices)
    for (const ElementType compute : {ElementType::kFloat32, ElementType::kFloat16})
      expect_monotone(*make_gpu_cost_model(gpu, compute), 40);
}

TEST(GpuCostModel, ShortAnswersAreTheLongOnes) {
  const auto model = make_gpu_cost_model(gpus().find("h200"), ElementType::kFloat32);
  EXPECT_EQ(model->device(), "h200");
  EXPECT_FALSE(model->dedicated_engines());
  ASSERT_EQ(model->capacities().size(), 1U);
  EXPECT_EQ(model->capacities()[model->parameter_memory()], (NamedAmount{"memory_bytes", 141e9}));
  EXPECT_EQ(model->watts(1e12), 700);
  for (const char* name : {"resnet18-cifar", "char-rnn"}) {
    const Graph graph(zoo_model(name));
    for (const LayerGroup& group : graph.groups()) {
      std::vector<const Node*> after;
      for (const int64_t node : group.after) after.push_back(&graph.node(node));
      ShardQuestion question;
      question.node = &graph.node(group.head);
      question.after = after;
      question.micro_batch = 4;
      question.window = 3;
      question.optimizer_slots = 1;
      const ShardDemand demand = model->demand_of(question);
      const ShardCost cost = model->cost_of(question);
      EXPECT_DOUBLE_EQ(demand.seconds, cost.seconds_per_sample);
      EXPECT_EQ(cost.resources,
                (std::vector<NamedAmount>{{"memory_bytes", demand.amounts[0]}, {"parameter_memory_bytes", demand.parameters}}));
    }
  }
}

TEST(GpuCostModel, ConvolutionsRunAtTheirShareOfThePeak) {
  const Graph graph(zoo_model("vgg16"));
  const double macs = 3.0 * static_cast<double>(graph.node(graph.index_of("conv4_2")).work.forward_macs);
  // FPDeep's Table 6 has 2,018 GOPS for a K80 on VGG-16.
  EXPECT_NEAR(2e-9 * macs / seconds_of(graph, "conv4_2", "k80", ElementType::kFloat32, 64), 2018, 0.1 * 2018);
  const double h200 = seconds_of(graph, "conv4_2", "h200", ElementType::kFloat32, 64);
  EXPECT_GT(seconds_of(graph, "conv4_2", "a100", ElementType::kFloat32, 64), 3 * h200);
  EXPECT_GT(h200, 5 * seconds_of(graph, "conv4_2", "h200", ElementType::kFloat16, 64));
}

TEST(GpuCostModel, SixteenBitsNeedNoTensorCores) {
  const Graph graph(zoo_model("vgg16"));
  // Maxwell computes them no faster; what is bound by memory is.
  EXPECT_EQ(seconds_of(graph, "conv4_2", "titanx", ElementType::kFloat16, 64),
            seconds_of(graph, "conv4_2", "titanx", ElementType::kFloat32, 64));
  EXPECT_LT(seconds_of(graph, "fc6", "titanx", ElementType::kFloat16, 1),
            0.6 * seconds_of(graph, "fc6", "titanx", ElementType::kFloat32, 1));
  for (const ElementType sixteen : {ElementType::kBfloat16, ElementType::kFixed16})
    EXPECT_EQ(seconds_of(graph, "fc6", "h200", sixteen, 8), seconds_of(graph, "fc6", "h200", ElementType::kFloat16, 8));
}

TEST(GpuCostModel, SmallLayersTakeTheirLaunches) {
  const Graph graph(zoo_model("mlp"));
  const double launch = gpus().find("h200").value("launch_seconds");
  EXPECT_GE(seconds_of(graph, "fc2", "h200", ElementType::kFloat32, 1), 3 * launch);
  EXPECT_LT(seconds_of(graph, "fc2", "h200", ElementType::kFloat32, 1), 3.5 * launch);
  EXPECT_LT(seconds_of(graph, "fc2", "h200", ElementType::kFloat32, 64), 3.5 * launch / 32);
}

// fc2's 512 x 512 weights and 512 biases, an optimizer with one slot: two kernels that move five numbers of each.
TEST(GpuCostModel, UpdatesTakeTheirBytesAndTheirLaunches) {
  const Graph graph(zoo_model("mlp"));
  ShardQuestion question;
  question.node = &graph.node(graph.index_of("fc2"));
  question.micro_batch = 8;
  question.optimizer_slots = 1;
  const CatalogueDevice& h200 = gpus().find("h200");
  const double bytes = 4 * 5 * static_cast<double>(question.node->work.parameters);
  const double expected =
      2 * h200.value("launch_seconds") + bytes / (h200.value("memory_bytes_per_second") * h200.value("efficiency_memory"));
  for (const ElementType compute : {ElementType::kFloat32, ElementType::kFloat16})
    EXPECT_DOUBLE_EQ(make_gpu_cost_model(h200, compute)->cost_of(question).update_seconds, expected);
}

TEST(GpuCostModel, RecurrentWeightsStayOnTheChipWhereTheyFit) {
  const Graph graph(zoo_model("deepspeech2-lstm"));
  const Node& lstm = graph.node(graph.index_of("rnn2"));
  ASSERT_EQ(std::get<Recurrent>(lstm.layer.operation).hidden, 1024);
  // Both directions of 1,024 units: 33.6 MB of U. Over the memory at every step that is the K80's whole time, and then some;
  // an H200 keeps them.
  const double steps = static_cast<double>(lstm.output.height) * 2;
  const double k80 = seconds_of(graph, "rnn2", "k80", ElementType::kFloat32, 1);
  EXPECT_GE(k80, 2 * steps / 2 * 33.5e6 / (480e9 * 0.85));
  const double h200 = seconds_of(graph, "rnn2", "h200", ElementType::kFloat32, 1);
  EXPECT_LT(h200, 3 * steps * 2e-6);
  EXPECT_GE(h200, 2 * steps * 2e-6);
}

TEST(GpuCostModel, ConstantsCarryTheirOrigin) {
  const auto constants = make_gpu_cost_model(gpus().find("v100"), ElementType::kFloat16)->constants();
  const auto origin = [&](std::string_view name) {
    for (const Constant& constant : constants)
      if (constant.name == name) return constant.origin;
    return std::string("absent");
  };
  EXPECT_EQ(origin("macs_per_second_fp16"), "catalogue");
  EXPECT_EQ(origin("efficiency_conv_forward"), "projected");
  EXPECT_EQ(origin("on_chip_weight_share"), "fitted");
}

void expect_refused(const CatalogueDevice& gpu, ElementType compute, ErrorCode code, const std::string& words) {
  try {
    make_gpu_cost_model(gpu, compute);
    ADD_FAILURE() << "nothing failed; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
  }
}

TEST(GpuCostModel, RefusesWhatItCannotAnswerFor) {
  CatalogueDevice gpu = gpus().find("p100");
  expect_refused(gpu, ElementType::kFloat64, ErrorCode::kUsage, "device \"p100\": there is no cost model for float64 on a GPU");
  CatalogueDevice incomplete = gpu;
  std::erase_if(incomplete.values, [](const CatalogueValue& value) { return value.name == "memory_bytes"; });
  expect_refused(incomplete, ElementType::kFloat32, ErrorCode::kMalformed, "\"p100\" (Tesla P100) lacks the value \"memory_bytes\"");
  for (const double absurd : {0.0, -1.0, 1e300, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    CatalogueDevice wrong = gpu;
    for (CatalogueValue& value : wrong.values)
      if (value.name == "efficiency_dense") value.value = absurd;
    expect_refused(wrong, ElementType::kFloat32, ErrorCode::kMalformed, "efficiency_dense is");
  }
}

}  // namespace
}  // namespace millrace
