// Order, names, ends, groups and who needs which error.
#include "core/graph/graph.h"

#include <fmt/format.h>

#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

using testing::ElementsAre;

const Activation kRelu{};

TEST(GraphOrder, KeepsATopologicalDocument) {
  // "b" could come right after "input", and is not moved.
  const Graph graph(model_of(
      {4, 8, 8}, {layer("a", kRelu, {"input"}), layer("c", kRelu, {"a"}), layer("b", kRelu, {"input"}), layer("join", Add{}, {"c", "b"})}));
  EXPECT_THAT(names_of(graph), ElementsAre("a", "c", "b", "join"));
}

TEST(GraphOrder, MovesOnlyWhatMustWait) {
  const Graph graph(model_of(
      {4, 8, 8}, {layer("join", Add{}, {"c", "b"}), layer("c", kRelu, {"a"}), layer("b", kRelu, {"input"}), layer("a", kRelu, {"b"})}));
  EXPECT_THAT(names_of(graph), ElementsAre("b", "a", "c", "join"));
  EXPECT_THAT(graph.node(3).inputs, ElementsAre(2, 0));  // as written: c, b
  EXPECT_THAT(graph.node(0).consumers, ElementsAre(1, 3));
  EXPECT_THAT(graph.node(0).inputs, ElementsAre(kNetworkInput));
  EXPECT_EQ(graph.model().layers[0].name, "join");  // the document stays as it was
}

TEST(GraphOrder, AnOperandUsedTwiceHasOneConsumer) {
  const Graph graph(model_of({4, 8, 8}, {layer("a", kRelu, {"input"}), layer("twice", Add{}, {"a", "a"})}));
  EXPECT_THAT(graph.node(1).inputs, ElementsAre(0, 0));
  EXPECT_THAT(graph.node(0).consumers, ElementsAre(1));
}

TEST(GraphOrder, NamesTheLayersOfACycle) {
  const auto cyclic = [] {
    Graph(model_of({4, 8, 8}, {layer("before", kRelu, {"input"}), layer("a", Add{}, {"before", "c"}), layer("b", kRelu, {"a"}),
                               layer("c", kRelu, {"b"}), layer("after", kRelu, {"c"})}));
  };
  expect_error(ErrorCode::kMalformed, {"model \"test\"", "cycle: \"a\" -> \"b\" -> \"c\" -> \"a\""}, cyclic);
  expect_error(ErrorCode::kMalformed, {"cycle: \"a\" -> \"a\""}, [] { Graph(model_of({4, 8, 8}, {layer("a", kRelu, {"a"})})); });
}

TEST(GraphOrder, ACycleOfThousandsIsNamedInShort) {
  std::vector<Layer> layers;
  for (int i = 0; i < 20000; ++i) layers.push_back(layer(fmt::format("n{}", i), kRelu, {fmt::format("n{}", (i + 1) % 20000)}));
  expect_error(ErrorCode::kMalformed, {"\"n0\" -> \"n19999\"", "19988 more"}, [&] { Graph(model_of({4, 8, 8}, layers)); });
}

TEST(GraphNames, UnknownInputsSuggestTheNearest) {
  expect_error(ErrorCode::kNotFound, {"layer \"relu\" (relu) reads \"conv1\"", "did you mean \"conv_1\"?"}, [] {
    Graph(model_of({4, 8, 8}, {layer("conv_1", conv(8), {"input"}), layer("relu", kRelu, {"conv1"})}));
  });
  expect_error(ErrorCode::kNotFound, {"reads \"inptu\"", "did you mean \"input\"?"}, [] {
    Graph(model_of({4, 8, 8}, {layer("conv_1", conv(8), {"inptu"})}));
  });
}

TEST(GraphNames, AreFoundAndSuggested) {
  const Graph graph(model_of({4, 8, 8}, {layer("conv1", conv(8), {"input"}), layer("relu1", kRelu, {"conv1"})}));
  EXPECT_EQ(graph.index_of("relu1"), 1);
  EXPECT_EQ(graph.find("relu2"), -1);
  EXPECT_EQ(graph.name_of(0), "conv1");
  EXPECT_EQ(graph.name_of(kNetworkInput), "input");
  expect_error(ErrorCode::kNotFound, {"no layer \"relu2\"", "did you mean \"relu1\"?"}, [&] { graph.index_of("relu2"); });
}

TEST(GraphNames, RepeatedReservedAndBrokenOnesAreRefused) {
  expect_error(ErrorCode::kMalformed, {"layers 0 and 1 are both called \"a\""}, [] {
    Graph(model_of({4, 8, 8}, {layer("a", kRelu, {"input"}), layer("a", kRelu, {"input"})}));
  });
  expect_error(ErrorCode::kMalformed, {"\"input\""}, [] { Graph(model_of({4, 8, 8}, {layer("input", kRelu, {"input"})})); });
  for (const std::string name : {"", "a b", "a:sum", "a\n"})
    expect_error(ErrorCode::kMalformed, {"layer 0 is called", name}, [&] { Graph(model_of({4, 8, 8}, {layer(name, kRelu, {"input"})})); });
  expect_error(ErrorCode::kMalformed, {"no layers"}, [] { Graph(model_of({4, 8, 8}, {})); });
}

TEST(GraphEnd, LossIsFoundAndItsInputHoldsTheScores) {
  const Graph trained(model_of({4, 1, 1}, {layer("fc", Dense{.out_features = 7}, {"input"}), layer("end", SoftmaxCrossEntropy{}, {"fc"})}));
  EXPECT_EQ(trained.loss(), 1);
  EXPECT_EQ(trained.scores(), 0);
  EXPECT_EQ(trained.classes(), 7);
  const Graph predicts(model_of({4, 1, 1}, {layer("fc", Dense{.out_features = 7}, {"input"})}));
  EXPECT_EQ(predicts.loss(), -1);
  EXPECT_EQ(predicts.scores(), 0);
}

TEST(GraphEnd, NothingFollowsALoss) {
  expect_error(ErrorCode::kMalformed, {"\"end\"", "\"more\"", "nothing follows a loss"}, [] {
    Graph(model_of({4, 1, 1}, {layer("end", SoftmaxCrossEntropy{}, {"input"}), layer("more", kRelu, {"end"})}));
  });
  expect_error(ErrorCode::kMalformed, {"\"one\" and \"two\" are both losses"}, [] {
    Graph(model_of({4, 1, 1}, {layer("one", SoftmaxCrossEntropy{}, {"input"}), layer("two", SoftmaxCrossEntropy{}, {"input"})}));
  });
}

TEST(GraphEnd, EveryOutputIsRead) {
  expect_error(ErrorCode::kMalformed, {"layer \"dead\" (relu): nobody reads", "ends in \"end\""}, [] {
    Graph(model_of({4, 1, 1}, {layer("end", SoftmaxCrossEntropy{}, {"input"}), layer("dead", kRelu, {"input"})}));
  });
}

TEST(GraphGroups, HeadsComputeAndTheRestFollowsTheLatestGroup) {
  // The shortcut's relu stands after conv2 in the document but belongs to conv1; the add waits for conv2's group.
  const Graph graph(
      model_of({4, 8, 8}, {layer("scale", BatchNorm{}, {"input"}), layer("conv1", conv(4), {"scale"}), layer("conv2", conv(4), {"conv1"}),
                           layer("relu", kRelu, {"conv1"}), layer("join", Add{}, {"conv2", "relu"}), layer("flat", Flatten{}, {"join"}),
                           layer("fc", Dense{.out_features = 3}, {"flat"}), layer("loss", SoftmaxCrossEntropy{}, {"fc"})}));
  ASSERT_EQ(graph.groups().size(), 4U);
  EXPECT_EQ(graph.groups()[0].head, graph.index_of("scale"));  // works on the bare input
  EXPECT_EQ(graph.groups()[1].head, graph.index_of("conv1"));
  EXPECT_THAT(graph.groups()[1].after, ElementsAre(graph.index_of("relu")));
  EXPECT_THAT(graph.groups()[2].after, ElementsAre(graph.index_of("join"), graph.index_of("flat")));
  EXPECT_THAT(graph.groups()[3].after, ElementsAre(graph.index_of("loss")));
  EXPECT_EQ(graph.node(graph.index_of("join")).group, 2);
  EXPECT_FALSE(graph.node(0).computes);
  EXPECT_TRUE(graph.node(1).computes);
}

TEST(GraphErrors, NeededDownstreamOfTheFirstTrainedLayer) {
  Layer frozen = layer("conv1", conv(4), {"input"});
  frozen.frozen = true;
  const Graph graph(model_of({4, 8, 8}, {frozen, layer("relu1", kRelu, {"conv1"}), layer("conv2", conv(4), {"relu1"}),
                                         layer("relu2", kRelu, {"conv2"}), layer("join", Add{}, {"relu2", "relu1"})}));
  const auto needs = [&](std::string_view name) { return graph.node(graph.index_of(name)); };
  EXPECT_FALSE(needs("conv1").trained);
  EXPECT_FALSE(needs("conv1").error_needed);
  EXPECT_FALSE(needs("relu1").error_needed);
  EXPECT_TRUE(needs("conv2").trained);
  EXPECT_TRUE(needs("conv2").error_needed);
  EXPECT_FALSE(needs("conv2").input_error_needed);
  EXPECT_TRUE(needs("relu2").input_error_needed);
  EXPECT_TRUE(needs("join").input_error_needed);
  EXPECT_FALSE(needs("relu2").trained);
}

TEST(GraphErrors, TheNetworkInputsErrorHasNoReader) {
  const Graph graph(model_of({4, 8, 8}, {layer("conv1", conv(4), {"input"})}));
  EXPECT_TRUE(graph.node(0).error_needed);
  EXPECT_FALSE(graph.node(0).input_error_needed);
}

TEST(GraphShapes, FailuresNameModelAndLayer) {
  expect_error(ErrorCode::kMismatch, {"model \"test\": layer \"conv2\" (conv2d)", "5x5", "8x3x3"}, [] {
    Graph(model_of({4, 8, 8}, {layer("conv1", conv(8, 6), {"input"}), layer("conv2", conv(8, 5), {"conv1"})}));
  });
}

TEST(GraphShapes, TokenIdsComeFromTheNetworkInputOnly) {
  const Embedding embedding{.vocabulary = 10, .dimension = 4};
  EXPECT_EQ(Graph(model_of({1, 5, 1}, {layer("embed", embedding, {"input"})})).node(0).output, (Shape{4, 5, 1}));
  expect_error(ErrorCode::kMismatch, {"layer \"embed\" (embedding)", "\"relu\""}, [&] {
    Graph(model_of({1, 5, 1}, {layer("relu", kRelu, {"input"}), layer("embed", embedding, {"relu"})}));
  });
}

}  // namespace
}  // namespace millrace
