// The zoo's exact counts. Parameters of torchvision's networks are torchvision's; AlexNet's convolutions are what
// FPDeep's figures rest on.
#include "core/graph/zoo.h"

#include <algorithm>
#include <set>

#include "core/graph/graph.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

struct Count {
  std::string name;
  Shape input;
  int64_t parameters, conv, dense, classes;
  int64_t rnn = 0, steps = 1;  // recurrent networks: a score per step
};

// How gtest names a case: letters and digits only.
std::string case_name(const testing::TestParamInfo<Count>& info) {
  std::string name = info.param.name;
  std::erase(name, '-');
  return name;
}

class ZooCounts : public testing::TestWithParam<Count> {};

TEST_P(ZooCounts, AreExact) {
  const Count& expected = GetParam();
  const Graph graph(zoo_model(expected.name));
  EXPECT_EQ(graph.model().name, expected.name);
  EXPECT_EQ(graph.model().input, expected.input);
  EXPECT_EQ(graph.parameter_count(), expected.parameters);
  EXPECT_EQ(graph.macs().conv, expected.conv);
  EXPECT_EQ(graph.macs().dense, expected.dense);
  EXPECT_EQ(graph.macs().rnn, expected.rnn);
  EXPECT_EQ(graph.shape_of(graph.scores()), (Shape{expected.classes, expected.steps, 1}));
  EXPECT_EQ(graph.name_of(graph.loss()), "loss");
}

const Shape kImageNet{3, 224, 224};
const Shape kCifar{3, 32, 32};

INSTANTIATE_TEST_SUITE_P(Zoo, ZooCounts,
                         testing::Values(Count{"mlp", {1, 28, 28}, 235'146, 0, 234'752, 10},
                                         Count{"digits-cnn", {1, 8, 8}, 38'282, 304'128, 33'408, 10},
                                         Count{"fashion-cnn", {1, 28, 28}, 98'442, 1'919'232, 75'008, 10},
                                         Count{"lenet5", {1, 32, 32}, 61'706, 357'600, 58'920, 10},
                                         Count{"alexnet", {3, 227, 227}, 62'378'344, 1'076'634'144, 58'621'952, 1000},
                                         Count{"alexnet-grouped", {3, 227, 227}, 60'965'224, 665'784'864, 58'621'952, 1000},
                                         Count{"alexnet-torch", kImageNet, 61'100'840, 655'566'528, 58'621'952, 1000},
                                         Count{"vgg11", kImageNet, 132'863'336, 7'485'456'384, 123'633'664, 1000},
                                         Count{"vgg16", kImageNet, 138'357'544, 15'346'630'656, 123'633'664, 1000},
                                         Count{"vgg19", kImageNet, 143'667'240, 19'508'428'800, 123'633'664, 1000},
                                         Count{"vgg11-cifar", kCifar, 9'225'610, 152'764'416, 5'120, 10},
                                         Count{"vgg16-cifar", kCifar, 14'719'818, 313'196'544, 5'120, 10},
                                         Count{"vgg19-cifar", kCifar, 20'029'514, 398'131'200, 5'120, 10},
                                         Count{"resnet18", kImageNet, 11'689'512, 1'813'561'344, 512'000, 1000},
                                         Count{"resnet34", kImageNet, 21'797'672, 3'663'249'408, 512'000, 1000},
                                         Count{"resnet50", kImageNet, 25'557'032, 4'087'136'256, 2'048'000, 1000},
                                         Count{"resnet101", kImageNet, 44'549'160, 7'799'357'440, 2'048'000, 1000},
                                         Count{"resnet152", kImageNet, 60'192'808, 11'511'578'624, 2'048'000, 1000},
                                         Count{"resnet18-cifar", kCifar, 11'173'962, 555'417'600, 5'120, 10},
                                         Count{"googlenet", kImageNet, 6'624'904, 1'497'352'192, 1'024'000, 1000}),
                         case_name);

INSTANTIATE_TEST_SUITE_P(
    RecurrentZoo, ZooCounts,
    testing::Values(Count{"char-rnn", {1, 100, 1}, 429'184, 0, 1'638'400, 128, 39'321'600, 100},
                    Count{"char-rnn-stateful", {1, 100, 1}, 429'184, 0, 1'638'400, 128, 39'321'600, 100},
                    Count{"text-classifier", {1, 20, 1}, 3'613'700, 0, 1'024, 4, 20'971'520},
                    Count{"deepspeech2-lstm", {1, 1152, 161}, 170'585'341, 6'259'562'496, 34'209'792, 29, 97'995'718'656, 576},
                    Count{"deepspeech2-gru", {1, 1152, 161}, 197'322'493, 6'259'562'496, 42'762'240, 29, 113'387'765'760, 576},
                    Count{"rnnt-encoder", {240, 400, 1}, 91'244'701, 0, 7'424'000, 29, 36'438'016'000, 400},
                    Count{"residual-rnn-24", {1, 3000, 161}, 65'611'005, 32'601'888'000, 4'634'496'000, 29, 191'102'976'000, 3000},
                    Count{"residual-rnn-48", {1, 3000, 161}, 129'422'589, 32'601'888'000, 4'634'496'000, 29, 382'205'952'000, 3000},
                    Count{"residual-rnn-108", {1, 3000, 161}, 288'951'549, 32'601'888'000, 4'634'496'000, 29, 859'963'392'000, 3000},
                    Count{"lrcn-lstm-256", {2048, 32, 1}, 5'796'965, 0, 117'466'368, 101, 67'108'864},
                    Count{"lrcn-lstm-512", {2048, 32, 1}, 8'446'309, 0, 117'492'224, 101, 150'994'944}),
    case_name);

int64_t elements_of(const Graph& graph, std::string_view layer, std::string_view tensor) {
  for (const ParameterSpec& parameter : graph.node(graph.index_of(layer)).parameters)
    if (parameter.tensor == tensor) return parameter.elements();
  ADD_FAILURE() << "no " << tensor << " in " << layer;
  return 0;
}

// What the papers say about the sizes of their networks.
TEST(Zoo, RecurrentNetworksHaveThePapersSizes) {
  const Graph deepspeech(zoo_model("deepspeech2-lstm"));
  EXPECT_EQ(deepspeech.shape_of(deepspeech.index_of("rnn7")), (Shape{2 * 1024, 576, 1}));  // FARNN: 576 steps on average
  const Graph rnnt(zoo_model("rnnt-encoder"));  // FARNN: weights that must stay on the chip, 6.55 million
  EXPECT_EQ(elements_of(rnnt, "lstm1", "weight_hh") + elements_of(rnnt, "lstm1", "weight_hr"), 6'553'600);
  const Graph lrcn(zoo_model("lrcn-lstm-256"));  // BB-LSTM: a gate is 2048 x 256
  EXPECT_EQ(elements_of(lrcn, "lstm", "weight_ih") + elements_of(lrcn, "lstm", "weight_hh"), 4 * 2048 * 256);
  const Graph deep(zoo_model("residual-rnn-108"));  // 5.97 GB of activations at batch 4
  int64_t activations = 0;
  for (const Node& node : deep.nodes())
    if (std::holds_alternative<Recurrent>(node.layer.operation)) activations += node.work.output_elements;
  EXPECT_NEAR(static_cast<double>(activations * 4 * 4), 5.97e9, 0.005e9);
}

int64_t skips_of(const std::string& name) {
  const Model model = zoo_model(name);
  return std::count_if(model.layers.begin(), model.layers.end(),
                       [](const Layer& layer) { return std::holds_alternative<Add>(layer.operation); });
}

TEST(Zoo, ResidualNetworksSkipEveryFewLayers) {
  EXPECT_EQ(skips_of("residual-rnn-48"), 12);
  EXPECT_EQ(zoo_model("residual-rnn-48-skip4").layers, zoo_model("residual-rnn-48").layers);
  for (const int64_t layers : {24, 48, 108})
    for (int64_t skip = 0; skip <= 8; ++skip) {
      const std::string name = "residual-rnn-" + std::to_string(layers) + "-skip" + std::to_string(skip);
      EXPECT_EQ(skips_of(name), skip == 0 ? 0 : (layers + skip - 1) / skip) << name;
      const Graph graph(zoo_model(name));
      EXPECT_EQ(graph.macs().rnn, layers * 2 * 1152 * 1152 * 3000) << name;
    }
  expect_error(ErrorCode::kUsage, {"residual-rnn-48-skip9"}, [] { zoo_model("residual-rnn-48-skip9"); });
}

TEST(Zoo, EveryModelIsCountedAboveAndSaysWhatItIs) {
  const std::vector<std::string> names = zoo_names();
  EXPECT_EQ(names.size(), 31U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    EXPECT_FALSE(zoo_summary(name).empty());
    EXPECT_EQ(zoo_summary(name).find('\n'), std::string::npos);
  }
}

TEST(Zoo, DocumentsAreInLinearOrder) {
  for (const std::string& name : zoo_names()) {
    const Model model = zoo_model(name);
    const Graph graph(model);
    for (size_t i = 0; i < model.layers.size(); ++i) ASSERT_EQ(graph.nodes()[i].layer, model.layers[i]) << name;
  }
}

TEST(Zoo, ModelsSurviveTheirDocument) {
  for (const std::string& name : zoo_names()) EXPECT_EQ(parse_model(text_of(zoo_model(name)), name), zoo_model(name)) << name;
}

TEST(Zoo, UnknownNamesSuggestTheNearest) {
  expect_error(ErrorCode::kUsage, {"\"vg16\"", "did you mean \"vgg16\"?", ".textproto"}, [] { zoo_model("vg16"); });
  expect_error(ErrorCode::kUsage, {"\"resnet-18\"", "did you mean \"resnet18\"?"}, [] { zoo_summary("resnet-18"); });
}

Shape output_of(const Graph& graph, std::string_view layer) { return graph.shape_of(graph.index_of(layer)); }

TEST(Zoo, ShapesAlongTheWay) {
  const Graph alexnet(zoo_model("alexnet"));
  EXPECT_EQ(output_of(alexnet, "conv1"), (Shape{96, 55, 55}));
  EXPECT_EQ(output_of(alexnet, "pool2"), (Shape{256, 13, 13}));
  EXPECT_EQ(output_of(alexnet, "flatten"), (Shape{9216, 1, 1}));
  const Graph vgg(zoo_model("vgg16"));
  EXPECT_EQ(output_of(vgg, "pool5"), (Shape{512, 7, 7}));
  const Graph resnet(zoo_model("resnet50"));
  EXPECT_EQ(output_of(resnet, "maxpool"), (Shape{64, 56, 56}));
  EXPECT_EQ(output_of(resnet, "layer2.0.conv1"), (Shape{128, 56, 56}));  // the stride is the 3x3's
  EXPECT_EQ(output_of(resnet, "layer2.0.conv2"), (Shape{128, 28, 28}));
  EXPECT_EQ(output_of(resnet, "layer4.2.relu"), (Shape{2048, 7, 7}));
  const Graph googlenet(zoo_model("googlenet"));
  EXPECT_EQ(output_of(googlenet, "maxpool1"), (Shape{64, 56, 56}));  // rounded up
  EXPECT_EQ(output_of(googlenet, "inception3a"), (Shape{256, 28, 28}));
  EXPECT_EQ(output_of(googlenet, "inception4e"), (Shape{832, 14, 14}));
  EXPECT_EQ(output_of(googlenet, "inception5b"), (Shape{1024, 7, 7}));
}

std::vector<std::string> after_of(const Graph& graph, std::string_view head) {
  const LayerGroup& group = graph.groups()[static_cast<size_t>(graph.node(graph.index_of(head)).group)];
  EXPECT_EQ(graph.name_of(group.head), head);
  std::vector<std::string> names;
  for (const int64_t index : group.after) names.push_back(graph.name_of(index));
  return names;
}

TEST(ZooGroups, OfResNet) {
  const Graph graph(zoo_model("resnet18"));
  EXPECT_EQ(graph.groups().size(), 21U);  // 20 convolutions, three of them projections, and the dense layer
  EXPECT_THAT(after_of(graph, "conv1"), testing::ElementsAre("bn1", "relu", "maxpool"));
  EXPECT_THAT(after_of(graph, "layer1.0.conv2"), testing::ElementsAre("layer1.0.bn2", "layer1.0.add", "layer1.0.relu"));
  EXPECT_THAT(after_of(graph, "layer2.0.downsample.0"), testing::ElementsAre("layer2.0.downsample.1"));
  EXPECT_THAT(after_of(graph, "layer4.1.conv2"), testing::ElementsAre("layer4.1.bn2", "layer4.1.add", "layer4.1.relu", "avgpool"));
  EXPECT_THAT(after_of(graph, "fc"), testing::ElementsAre("loss"));
  // The stem's output feeds the block and its shortcut.
  EXPECT_THAT(graph.node(graph.index_of("maxpool")).consumers,
              testing::ElementsAre(graph.index_of("layer1.0.conv1"), graph.index_of("layer1.0.add")));
}

TEST(ZooGroups, OfGoogLeNet) {
  const Graph graph(zoo_model("googlenet"));
  EXPECT_EQ(graph.groups().size(), 58U);  // 3 + 9 * 6 convolutions and the dense layer
  // The pooling branch starts on the group that made the block's input: its operand is complete there.
  EXPECT_THAT(after_of(graph, "conv3.conv"), testing::ElementsAre("conv3.bn", "conv3.relu", "maxpool2", "inception3a.branch4.0"));
  EXPECT_THAT(after_of(graph, "inception3a.branch4.1.conv"),
              testing::ElementsAre("inception3a.branch4.1.bn", "inception3a.branch4.1.relu", "inception3a", "inception3b.branch4.0"));
  EXPECT_EQ(graph.node(graph.index_of("inception3a")).consumers.size(), 4U);
}

TEST(ZooGroups, EveryNetworkNeedsNoErrorOfItsImage) {
  for (const std::string& name : zoo_names()) {
    const Graph graph(zoo_model(name));
    int64_t without_reader = 0;
    for (const Node& node : graph.nodes())
      if (node.computes && !node.input_error_needed) ++without_reader;
    EXPECT_EQ(without_reader, 1) << name;
  }
}

}  // namespace
}  // namespace millrace
