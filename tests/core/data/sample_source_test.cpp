// Sequences on their way to the network: layout, padding, labels, lengths, and which samples continue which.
#include "core/data/sample_source.h"

#include "tests/core/data/counted_sequences.h"
#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(SampleSource, LaysStepsOutAsRowsOfChannelsOrOfColumns) {
  const Dataset data = counted_sequences({2, 3}, 2, LabelForm::kOne);
  std::vector<float> pixels(6);
  sample_source(data, {.output = {2, 3, 1}}).read(0, 1, pixels);
  EXPECT_THAT(pixels, ElementsAre(1000, 1010, 1020, 1001, 1011, 1021));
  sample_source(data, {.output = {1, 3, 2}}).read(0, 1, pixels);
  EXPECT_THAT(pixels, ElementsAre(1000, 1001, 1010, 1011, 1020, 1021));
  sample_source(data, {.output = {2, 3, 1}}).read(0, 0, pixels);
  EXPECT_THAT(pixels, ElementsAre(0, 10, 0, 1, 11, 0)) << "zeros behind the last step";
}

TEST(SampleSource, RefusesAugmentationOfSequences) {
  const Dataset data = counted_sequences({2, 3}, 2, LabelForm::kOne);
  expect_error(ErrorCode::kUsage, "for images", [&] { sample_source(data, {.output = {2, 3, 1}}, {.flip = true}); });
}

TEST(SampleSource, BatchesBringLabelsLengthsAndFreshness) {
  const Dataset data = counted_sequences({2, 6, 4, 5}, 1, LabelForm::kRow);
  Loader loader(sample_source(data, {.output = {1, 6, 1}}), BatchSampler::evaluation(4, {.micro_batch = 3}));
  const Batch& first = loader.load(0);
  EXPECT_EQ(first.labels_each, 3);
  EXPECT_THAT(first.labels, ElementsAre(1, kNoLabel, kNoLabel, 1, 2, 1, 1, 2, kNoLabel));
  EXPECT_THAT(first.lengths, ElementsAre(2, 6, 4));
  EXPECT_THAT(first.fresh, ElementsAre(1, 1, 1));
  const Batch& tail = loader.load(1);
  EXPECT_THAT(tail.lengths, ElementsAre(5));
  EXPECT_THAT(tail.labels, ElementsAre(1, 2, kNoLabel));
  EXPECT_THAT(tail.pixels.subspan(6), Each(0.0F));
}

TEST(SampleSource, RanksThatAskForLessStillKnowTheLengths) {
  const Dataset data = counted_sequences({2, 6, 4, 5}, 1, LabelForm::kRow);
  Loader loader(sample_source(data, {.output = {1, 6, 1}}), BatchSampler::evaluation(4, {.micro_batch = 4}),
                {.pixels = false, .labels = false});
  const Batch& batch = loader.load(0);
  EXPECT_THAT(batch.lengths, ElementsAre(2, 6, 4, 5));
  EXPECT_EQ(batch.fresh.size(), 4U);
  EXPECT_TRUE(batch.labels.empty());
  EXPECT_TRUE(batch.pixels.empty());
}

TEST(SampleSource, SamplesThatFillTheInputHaveNoLengths) {
  const Dataset data = counted_sequences({4, 4}, 1, LabelForm::kPerStep);
  Loader loader(sample_source(data, {.output = {1, 4, 1}}), BatchSampler::evaluation(2, {.micro_batch = 2}));
  EXPECT_TRUE(loader.load(0).lengths.empty());
  EXPECT_THAT(loader.load(0).labels, ElementsAre(0, 1, 2, 0, 0, 1, 2, 0));
}

TEST(TrainingOrder, SuitsTheData) {
  const BatchCut cut{.mini_batch = 2, .micro_batch = 1};
  Dataset data = counted_sequences({4, 4, 4, 4, 4}, 1, LabelForm::kOne);
  EXPECT_TRUE(training_order(data, 1, cut).starts_anew(2)) << "a shuffle continues nothing";
  data.flows = true;
  BatchSampler streams = training_order(data, 1, cut);
  EXPECT_TRUE(streams.starts_anew(1));
  EXPECT_FALSE(streams.starts_anew(2));
  const Dataset unequal = counted_sequences({1, 9, 1, 9, 1, 9}, 1, LabelForm::kOne);
  BatchSampler buckets = training_order(unequal, 1, cut);
  EXPECT_TRUE(buckets.starts_anew(2));
}

TEST(CutTo, LeavesSequencesWithLengthsOfTheirOwnAlone) {
  DataSplit data{counted_sequences({2, 3}, 1, LabelForm::kOne), counted_sequences({3}, 1, LabelForm::kOne)};
  Model model;
  model.input_kind = InputKind::kFeatures;
  model.input = {1, 8, 1};
  cut_to(data, model);
  EXPECT_EQ(data.train.shape.height, 3);
}

}  // namespace
}  // namespace millrace
