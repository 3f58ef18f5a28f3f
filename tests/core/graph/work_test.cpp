// Parameters and multiply-accumulates of single operations, against figures worked out by hand or by PyTorch.
#include <limits>

#include "core/graph/graph.h"
#include "tests/core/graph/helpers.h"

namespace millrace {
namespace {

using testing::ElementsAre;

Work work_after(const Operation& operation, const std::vector<Shape>& inputs) {
  return work_of(operation, inputs, shape_after(operation, inputs));
}

std::vector<std::string> parameter_names(const Operation& operation, const Shape& input) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : parameters_of(operation, std::vector{input})) names.push_back(parameter.tensor);
  return names;
}

TEST(Work, OfAConvolution) {
  const Work work = work_after(conv(96, 11, 4), {Shape{3, 227, 227}});  // AlexNet's first
  EXPECT_EQ(work.forward_macs, 96 * 55 * 55 * 3 * 11 * 11);
  EXPECT_EQ(work.error_back_macs, work.forward_macs);
  EXPECT_EQ(work.parameter_gradient_macs, work.forward_macs);
  EXPECT_EQ(work.parameters, 96 * 3 * 11 * 11 + 96);
  EXPECT_EQ(work.input_elements, 3 * 227 * 227);
  EXPECT_EQ(work.output_elements, 96 * 55 * 55);
}

TEST(Work, OfAGroupedConvolutionWithoutBias) {
  const Conv2d operation{.out_channels = 8, .kernel_h = 3, .kernel_w = 2, .pad_h = 1, .groups = 2, .bias = false};
  const std::vector<ParameterSpec> parameters = parameters_of(operation, std::vector{Shape{6, 5, 5}});
  ASSERT_EQ(parameters.size(), 1U);
  EXPECT_THAT(parameters[0].dimensions, ElementsAre(8, 3, 3, 2));
  EXPECT_EQ(work_after(operation, {Shape{6, 5, 5}}).forward_macs, 8 * 3 * 3 * 2 * 5 * 4);
}

TEST(Work, OfDenseOnFeaturesAndOnSteps) {
  EXPECT_EQ(work_after(Dense{.out_features = 10}, {Shape{84, 1, 1}}).forward_macs, 840);
  EXPECT_EQ(work_after(Dense{.out_features = 10}, {Shape{84, 7, 1}}).forward_macs, 840 * 7);
  EXPECT_EQ(work_after(Dense{.out_features = 10}, {Shape{84, 7, 1}}).parameters, 850);
  EXPECT_EQ(work_after(Dense{.out_features = 10, .bias = false}, {Shape{84, 1, 1}}).parameters, 840);
}

TEST(Work, OfBatchNormCountsWhatIsTrained) {
  const std::vector<ParameterSpec> parameters = parameters_of(BatchNorm{}, std::vector{Shape{12, 4, 4}});
  EXPECT_THAT(parameter_names(BatchNorm{}, {12, 4, 4}), ElementsAre("weight", "bias", "running_mean", "running_var"));
  EXPECT_TRUE(parameters[0].trained && parameters[1].trained);
  EXPECT_FALSE(parameters[2].trained || parameters[3].trained);
  const Work work = work_after(BatchNorm{}, {Shape{12, 4, 4}});
  EXPECT_EQ(work.parameters, 24);
  EXPECT_EQ(work.forward_macs, 0);
}

TEST(Work, OfWhatDoesNotMultiply) {
  const Shape map{4, 8, 8};
  for (const Operation& operation :
       {Operation{Pool2d{}}, Operation{GlobalPool{}}, Operation{Activation{}}, Operation{LocalResponseNorm{}}, Operation{Dropout{}},
        Operation{Flatten{}}, Operation{SoftmaxCrossEntropy{}}, Operation{ToSequence{}}}) {
    const Work work = work_after(operation, {map});
    EXPECT_EQ(work.forward_macs + work.error_back_macs + work.parameter_gradient_macs + work.parameters, 0) << name_of(operation);
    EXPECT_EQ(work.input_elements, map.elements());
  }
  EXPECT_EQ(work_after(Concat{}, {map, map}).input_elements, 2 * map.elements());
  EXPECT_EQ(work_after(Concat{}, {map, map}).output_elements, 2 * map.elements());
  const Work look_up = work_after(Embedding{.vocabulary = 50, .dimension = 8}, {Shape{1, 5, 1}});
  EXPECT_EQ(look_up.forward_macs, 0);
  EXPECT_EQ(look_up.parameters, 400);
}

// The counts are those of torch.nn.LSTM(10, 20), GRU and RNN.
TEST(Recurrent, ParametersArePyTorchs) {
  const Shape sequence{10, 6, 1};
  const auto count = [&](const Recurrent& cell) { return work_after(cell, {sequence}).parameters; };
  EXPECT_EQ(count({.hidden = 20}), 2560);
  EXPECT_EQ(count({.hidden = 20, .projection = 5, .bidirectional = true}), 2920);
  EXPECT_EQ(count({.cell = CellKind::kGru, .hidden = 20, .bidirectional = true}), 3840);
  EXPECT_EQ(count({.cell = CellKind::kVanillaTanh, .hidden = 20}), 640);

  const Recurrent both{.hidden = 20, .projection = 5, .bidirectional = true};
  EXPECT_THAT(parameter_names(both, sequence), ElementsAre("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "weight_ih_reverse",
                                                           "weight_hh_reverse", "bias_ih_reverse", "bias_hh_reverse", "weight_hr_reverse"));
  const std::vector<ParameterSpec> parameters = parameters_of(both, std::vector{sequence});
  EXPECT_THAT(parameters[0].dimensions, ElementsAre(80, 10));
  EXPECT_THAT(parameters[1].dimensions, ElementsAre(80, 5));
  EXPECT_THAT(parameters[2].dimensions, ElementsAre(80));
  EXPECT_THAT(parameters[4].dimensions, ElementsAre(5, 20));
}

TEST(Recurrent, WorkIsAProductPerStepAndDirection) {
  const Shape sequence{10, 6, 1};
  const auto macs = [&](const Recurrent& cell) { return work_after(cell, {sequence}).forward_macs; };
  EXPECT_EQ(macs({.hidden = 20}), 6 * 4 * 20 * (10 + 20));
  EXPECT_EQ(macs({.cell = CellKind::kGru, .hidden = 20}), 6 * 3 * 20 * (10 + 20));
  EXPECT_EQ(macs({.cell = CellKind::kVanillaRelu, .hidden = 20}), 6 * 20 * (10 + 20));
  EXPECT_EQ(macs({.hidden = 20, .projection = 5}), 6 * (4 * 20 * (10 + 5) + 5 * 20));
  EXPECT_EQ(macs({.hidden = 20, .projection = 5, .bidirectional = true}), 2 * 6 * (4 * 20 * (10 + 5) + 5 * 20));
}

// Shapes and counts of a document with every recurrent operation, as Deep Speech stacks them.
TEST(Recurrent, StacksIntoAModel) {
  const Graph graph(model_of({1, 40, 12}, {layer("conv", conv(4, 3, 1, 1), {"input"}), layer("steps", ToSequence{}, {"conv"}),
                                           layer("lstm", Recurrent{.hidden = 8, .bidirectional = true}, {"steps"}),
                                           layer("gru", Recurrent{.cell = CellKind::kGru, .hidden = 6, .reset_after = true}, {"lstm"}),
                                           layer("fc", Dense{.out_features = 5}, {"gru"}), layer("loss", CtcLoss{}, {"fc"})}));
  EXPECT_EQ(graph.shape_of(graph.index_of("steps")), (Shape{48, 40, 1}));
  EXPECT_EQ(graph.shape_of(graph.index_of("lstm")), (Shape{16, 40, 1}));
  EXPECT_EQ(graph.shape_of(graph.scores()), (Shape{5, 40, 1}));
  EXPECT_EQ(graph.macs().conv, 40 * 12 * 4 * 9);
  EXPECT_EQ(graph.macs().rnn, 40 * (2 * 4 * 8 * (48 + 8) + 3 * 6 * (16 + 6)));
  EXPECT_EQ(graph.macs().dense, 40 * 30);
  EXPECT_EQ(graph.groups().size(), 4U);
}

TEST(Work, SaturatesInsteadOfOverflowing) {
  const ParameterSpec huge{"weight", {int64_t{1} << 40, int64_t{1} << 40}};
  EXPECT_EQ(huge.elements(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace millrace
