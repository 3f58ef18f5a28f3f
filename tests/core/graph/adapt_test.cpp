// What becomes of a model that meets a data set, and what is said about it.
#include "core/graph/adapt.h"

#include "core/graph/graph.h"
#include "core/graph/zoo.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Adapt, LeavesAFittingModelAlone) {
  const Model model = zoo_model("fashion-cnn");
  const AdaptedModel adapted = adapt(model, {1, 28, 28}, 10);
  EXPECT_EQ(adapted.model, model);
  EXPECT_EQ(adapted.transform, (DataTransform{.output = {1, 28, 28}}));
  EXPECT_THAT(adapted.notes, IsEmpty());
}

TEST(Adapt, PadsEvenly) {
  const AdaptedModel adapted = adapt(zoo_model("lenet5"), {1, 28, 28}, 10);
  EXPECT_EQ(adapted.transform, (DataTransform{.pad_top = 2, .pad_left = 2, .pad_bottom = 2, .pad_right = 2, .output = {1, 32, 32}}));
  EXPECT_THAT(adapted.notes, ElementsAre("images are padded with zeros from 28x28 to 32x32"));
}

TEST(Adapt, EnlargesByAWholeNumberAndPadsTheRest) {
  const AdaptedModel adapted = adapt(zoo_model("alexnet"), {3, 32, 32}, 1000);
  EXPECT_EQ(adapted.transform,
            (DataTransform{.pad_top = 1, .pad_left = 1, .pad_bottom = 2, .pad_right = 2, .scale = 7, .output = {3, 227, 227}}));
  EXPECT_THAT(adapted.notes,
              ElementsAre("images are enlarged 7 times, from 32x32 to 224x224", "images are padded with zeros from 224x224 to 227x227"));
}

TEST(Adapt, RepeatsGreyAndReplacesTheHead) {
  const AdaptedModel adapted = adapt(zoo_model("vgg16"), {1, 28, 28}, 10);
  EXPECT_TRUE(adapted.transform.repeat_channels);
  EXPECT_EQ(adapted.transform.scale, 8);
  EXPECT_EQ(adapted.transform.output, (Shape{3, 224, 224}));
  EXPECT_THAT(adapted.notes, ElementsAre("the grey channel is repeated three times", "images are enlarged 8 times, from 28x28 to 224x224",
                                         "the head is replaced: layer \"fc8\" gives 10 scores instead of 1000"));
  const Graph graph(adapted.model);
  EXPECT_EQ(graph.classes(), 10);
  EXPECT_EQ(graph.parameter_count(), 138'357'544 - (4096 + 1) * 990);
}

TEST(Adapt, AReplacedHeadIsTrained) {
  Model model = zoo_model("lenet5");
  for (Layer& frozen : model.layers) frozen.frozen = true;
  const AdaptedModel adapted = adapt(model, {1, 32, 32}, 26);
  const Graph graph(adapted.model);
  EXPECT_TRUE(graph.node(graph.index_of("fc3")).trained);
  EXPECT_FALSE(graph.node(graph.index_of("fc2")).trained);
  EXPECT_THAT(adapted.notes, ElementsAre(HasSubstr("no longer frozen")));
}

TEST(Adapt, TheHeadIsFoundBehindWhatKeepsItsScores) {
  const Model model = model_of({4, 1, 1}, {layer("fc", Dense{.out_features = 7}, {"input"}), layer("tanh", Activation{}, {"fc"}),
                                           layer("loss", SoftmaxCrossEntropy{}, {"tanh"})});
  EXPECT_EQ(Graph(adapt(model, {4, 1, 1}, 3).model).classes(), 3);
}

TEST(Adapt, FullyConvolutionalModelsTakeWhatCannotBeBroughtToThem) {
  const AdaptedModel adapted = adapt(zoo_model("resnet18"), {3, 300, 260}, 1000);
  EXPECT_EQ(adapted.model.input, (Shape{3, 300, 260}));
  EXPECT_EQ(adapted.transform, (DataTransform{.output = {3, 300, 260}}));
  EXPECT_THAT(adapted.notes, ElementsAre(HasSubstr("takes 3x300x260 instead of its own 3x224x224")));
  const AdaptedModel grey = adapt(zoo_model("resnet18"), {1, 300, 260}, 1000);
  EXPECT_EQ(grey.model.input, (Shape{3, 300, 260}));
  EXPECT_TRUE(grey.transform.repeat_channels);
}

TEST(Adapt, RefusesWithBothShapesTheCauseAndWhatFits) {
  expect_error(ErrorCode::kMismatch,
               {"\"vgg16\" takes 3x224x224", "data is 3x300x300", "\"fc6\"", "4096x41472 instead of 4096x25088", "3x224x224 or 1x224x224",
                "resnet18"},
               [] {
                 adapt(zoo_model("vgg16"), {3, 300, 300}, 1000);
               });
  expect_error(ErrorCode::kMismatch, {"\"lenet5\" takes 1x32x32", "data is 3x32x32", "3 channels do not become 1", "vgg11-cifar"}, [] {
    adapt(zoo_model("lenet5"), {3, 32, 32}, 10);
  });
  expect_error(ErrorCode::kMismatch, {"data is 4x1x1"}, [] { adapt(zoo_model("resnet18"), {4, 1, 1}, 10); });
  expect_error(ErrorCode::kMismatch, {"0x8x8"}, [] { adapt(zoo_model("lenet5"), {0, 8, 8}, 10); });
  expect_error(ErrorCode::kMismatch, {"0 classes"}, [] { adapt(zoo_model("lenet5"), {1, 32, 32}, 0); });
  expect_error(ErrorCode::kMismatch,
               {"\"text-classifier\" takes tokens, 1x20x1", "data is images, 1x20x1", "text:FILE, or arrays:FILE,layout=ids"}, [] {
                 adapt(zoo_model("text-classifier"), {1, 20, 1}, 4);
               });
}

TEST(Adapt, ScoresWithoutADenseLayerCannotChange) {
  const Model model = model_of({3, 8, 8}, {layer("conv", conv(7), {"input"}), layer("loss", SoftmaxCrossEntropy{}, {"conv"})});
  expect_error(ErrorCode::kMismatch, {"scores 7 classes", "7x8x8", "has 3", "dense layer of 3"}, [&] { adapt(model, {3, 8, 8}, 3); });
  EXPECT_EQ(adapt(model, {3, 8, 8}, 7).model, model);
}

TEST(Adapt, SequencesMayBeLongerButNotWider) {
  Model model = model_of({24, 100, 1}, {layer("lstm", Recurrent{.hidden = 8}, {"input"}), layer("fc", Dense{.out_features = 5}, {"lstm"}),
                                        layer("loss", SoftmaxCrossEntropy{}, {"fc"})});
  model.input_kind = InputKind::kFeatures;
  const AdaptedModel adapted = adapt(model, {24, 70, 1}, 5);
  EXPECT_EQ(adapted.model.input, (Shape{24, 70, 1}));
  EXPECT_THAT(adapted.notes, ElementsAre("the network takes 70 steps instead of 100"));
  expect_error(ErrorCode::kMismatch, {"takes 24x100x1", "data is 12x100x1", "24 features"}, [&] { adapt(model, {12, 100, 1}, 5); });
}

// Whatever the data, either nothing is done, or the transform leads exactly to the adapted network's input.
TEST(Adapt, TransformsLeadToTheNetworksInput) {
  int adapted_pairs = 0;
  for (const char* name : {"mlp", "lenet5", "alexnet", "vgg11-cifar", "resnet18-cifar"})
    for (const int64_t channels : {1, 3})
      for (const int64_t height : {5, 8, 16, 28, 30, 32, 60, 111, 224})
        for (const int64_t width : {8, 28, 32, 227}) {
          const Shape data{channels, height, width};
          try {
            const AdaptedModel adapted = adapt(zoo_model(name), data, 10);
            const DataTransform& transform = adapted.transform;
            EXPECT_EQ(adapted.model.input, transform.output);
            EXPECT_EQ(transform.output.channels, transform.repeat_channels ? 3 : channels);
            EXPECT_EQ(transform.output.height, transform.scale * height + transform.pad_top + transform.pad_bottom);
            EXPECT_EQ(transform.output.width, transform.scale * width + transform.pad_left + transform.pad_right);
            for (const int64_t pad : {transform.pad_top, transform.pad_left, transform.pad_bottom, transform.pad_right}) {
              EXPECT_GE(pad, 0);
              EXPECT_LE(pad, kMostPadding);
            }
            EXPECT_EQ(Graph(adapted.model).classes(), 10);
            ++adapted_pairs;
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.what();
            EXPECT_THAT(error.what(), HasSubstr(text_of(data)));
          }
        }
  EXPECT_GT(adapted_pairs, 50);
}

constexpr DataForm kText{.kind = InputKind::kTokens, .shape = {1, 100, 1}, .classes = 97, .vocabulary = 97, .labels = LabelForm::kPerStep};
constexpr DataForm kSpeech{
    .kind = InputKind::kFeatures, .shape = {40, 320, 1}, .classes = 29, .labels = LabelForm::kRow, .lengths_differ = true};
constexpr DataForm kAdding{.kind = InputKind::kFeatures, .shape = {2, 200, 1}, .classes = 20};

Model adder(bool last_step = true) {
  Model model = model_of(
      {2, 50, 1}, {layer("lstm", Recurrent{.hidden = 8}, {"input"}), layer("last", LastStep{}, {"lstm"}),
                   layer("fc", Dense{.out_features = 5}, {last_step ? "last" : "lstm"}), layer("loss", SoftmaxCrossEntropy{}, {"fc"})});
  if (!last_step) std::erase_if(model.layers, [](const Layer& l) { return l.name == "last"; });
  model.input_kind = InputKind::kFeatures;
  return model;
}

TEST(AdaptSequences, TextBringsItsVocabulary) {
  const AdaptedModel adapted = adapt(zoo_model("char-rnn"), kText);
  EXPECT_THAT(adapted.notes, ElementsAre("layer \"embedding\" knows 97 tokens instead of 128",
                                         "the head is replaced: layer \"fc\" gives 97 scores instead of 128"));
  EXPECT_EQ(adapted.transform.output, (Shape{1, 100, 1}));
  EXPECT_EQ(adapt(adapted.model, kText).model, adapted.model) << "a fitted model stays as it is";
  EXPECT_THAT(adapt(adapted.model, kText).notes, IsEmpty());
}

TEST(AdaptSequences, FeaturesLieWhereTheModelWantsThem) {
  const AdaptedModel columns = adapt(zoo_model("deepspeech2-gru"), kSpeech);
  EXPECT_EQ(columns.transform.output, (Shape{1, 320, 40}));
  EXPECT_THAT(columns.notes,
              ElementsAre("the network takes 320 steps instead of 1152", "the network takes 40 features a step instead of 161"));
  EXPECT_EQ(adapt(zoo_model("rnnt-encoder"), kSpeech).transform.output, (Shape{40, 320, 1}));
  const AdaptedModel sum = adapt(adder(), kAdding);
  EXPECT_EQ(sum.model.input, (Shape{2, 200, 1}));
  EXPECT_EQ(Graph(sum.model).classes(), 20);
}

TEST(AdaptSequences, RefusesWhatDoesNotFitSayingWhyAndWhatDoes) {
  const auto refuse = [](const Model& model, const DataForm& data, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::kMismatch, parts, [&] { adapt(model, data); });
  };
  refuse(zoo_model("lenet5"), kText,
         {"\"lenet5\"", "tokens below 97, 100 steps, with a label at every step", "takes images", "that take this data: char-rnn"});
  refuse(zoo_model("char-rnn"), kSpeech,
         {"40 features a step, up to 320 steps, with rows of labels", "takes sequences of tokens", "deepspeech2-lstm"});
  refuse(zoo_model("text-classifier"), kText, {"scores 1 of 100 steps", "last_step"});
  refuse(adder(false), kAdding, {"scores 200 places of a sample", "put last_step in front"});
  DataForm rows = kAdding;
  rows.labels = LabelForm::kRow;
  refuse(adder(), rows, {"take ctc_loss at the end, not softmax_cross_entropy"});
  refuse(zoo_model("deepspeech2-gru"), kAdding, {"ctc_loss takes rows of labels"});
  DataForm unequal = kAdding;
  unequal.lengths_differ = true;
  refuse(zoo_model("lrcn-lstm-256"), unequal, {"layer \"average\" takes all rows", "last_step"});
  EXPECT_EQ(adapt(adder(), unequal).model.input.height, 200);
  Model other_blank = zoo_model("rnnt-encoder");
  std::get<CtcLoss>(other_blank.layers.back().operation).blank = 28;
  refuse(other_blank, kSpeech, {"blank 28, the data 0"});
  refuse(zoo_model("char-rnn"), {.kind = InputKind::kTokens, .shape = {1, 100, 1}, .classes = 0}, {"0 classes"});
  refuse(zoo_model("char-rnn"), {.kind = InputKind::kTokens, .shape = {1, 0, 1}, .classes = 5, .vocabulary = 5}, {"1x0x1"});
}

}  // namespace
}  // namespace millrace
