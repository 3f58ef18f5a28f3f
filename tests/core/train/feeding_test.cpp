// What a loaded batch becomes on its way to the devices.
#include "core/train/feeding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/data/sample_source.h"
#include "core/train/task.h"
#include "tests/core/data/counted_sequences.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(HeldBatch, FillsAShortBatchUpWithSamplesOfNoStepsAndNoLabels) {
  const Dataset data = counted_sequences({2, 6, 4, 5}, 1, LabelForm::kRow);
  Loader loader(sample_source(data, {.output = {1, 6, 1}}), BatchSampler::evaluation(4, {.micro_batch = 3}));
  HeldBatch held;
  held.take(loader.load(1), {.training = false, .micro_batch = 3});
  const MicroBatch& batch = held.view();
  EXPECT_THAT(batch.sample_ids, ElementsAre(3, 0, 0));
  EXPECT_THAT(batch.lengths, ElementsAre(5, 0, 0));
  EXPECT_THAT(batch.fresh, ElementsAre(1, 1, 1));
  EXPECT_THAT(batch.labels, ElementsAre(1, 2, kNoLabel, kNoLabel, kNoLabel, kNoLabel, kNoLabel, kNoLabel, kNoLabel));
}

TEST(PreparedTask, GivesEachReplicaItsShareOfTheMiniBatch) {
  Job job;
  job.model = "digits-cnn";
  job.data = "synthetic:1x8x8:10:64";
  job.mini_batch = 48;
  job.replicas = 3;
  const TrainingTask task = prepare_task(job);
  EXPECT_EQ(task.plan.mini_batch, 16);
  EXPECT_EQ(task.plan.micro_batch, 16);
  EXPECT_EQ(task.job.mini_batch, 48);
  job.mini_batch = 32;
  EXPECT_THROW(prepare_task(job), Error);
  job.mini_batch = 24;
  job.micro_batch = 3;
  EXPECT_THROW(prepare_task(job), Error);
}

TEST(HeldBatch, KeepsWhatItTookWhenTheLoaderMovesOn) {
  Dataset data = counted_sequences({4, 4, 4, 4, 4, 4}, 1, LabelForm::kPerStep);
  data.flows = true;
  Loader loader(sample_source(data, {.output = {1, 4, 1}}), training_order(data, 1, {.mini_batch = 2, .micro_batch = 1}));
  HeldBatch first, third;
  first.take(loader.load(0), {.micro_batch = 1});
  third.take(loader.load(2), {.micro_batch = 1});
  EXPECT_THAT(first.view().sample_ids, ElementsAre(0));
  EXPECT_THAT(first.view().fresh, ElementsAre(1));
  EXPECT_THAT(third.view().sample_ids, ElementsAre(1)) << "the next sample of the same stream";
  EXPECT_THAT(third.view().fresh, ElementsAre(0));
  EXPECT_THAT(third.view().lengths, IsEmpty());
  EXPECT_EQ(third.view().labels.size(), 4U);
  const MicroBatch part = third.part(1, 2);
  EXPECT_EQ(part.chunk, 1);
  EXPECT_THAT(part.fresh, ElementsAre(0));
}

TEST(HeldBatch, ARankWithoutLabelsHoldsNone) {
  const Dataset data = counted_sequences({2, 6}, 1, LabelForm::kRow);
  Loader loader(sample_source(data, {.output = {1, 6, 1}}), BatchSampler::evaluation(2, {.micro_batch = 2}),
                {.pixels = false, .labels = false});
  HeldBatch held;
  held.take(loader.load(0), {.micro_batch = 2});
  EXPECT_THAT(held.view().labels, IsEmpty());
  EXPECT_THAT(held.view().lengths, ElementsAre(2, 6));
}

}  // namespace
}  // namespace millrace
