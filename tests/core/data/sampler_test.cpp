#include "core/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

std::vector<int64_t> epoch_order(Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> order;
  for (int64_t position = 0; position < sampler.size(); ++position) order.push_back(sampler.sample_at(epoch, position));
  return order;
}

std::vector<int64_t> ids_of(BatchSampler& batches, int64_t s) {
  std::vector<int64_t> ids;
  batches.sample_ids(s, ids);
  return ids;
}

TEST(Sampler, EveryEpochIsAPermutationOfItsOwn) {
  Sampler sampler(1000, 5, true);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> order = epoch_order(sampler, epoch);
    orders.insert(order);
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_EQ(orders.size(), 5U);
}

TEST(Sampler, DependsOnSeedAndEpochAlone) {
  Sampler a(100, 5, true), b(100, 5, true), other(100, 6, true);
  const std::vector<int64_t> first = epoch_order(a, 0);
  const std::vector<int64_t> third = epoch_order(a, 2);
  EXPECT_EQ(epoch_order(b, 2), third);  // asked for in another order
  EXPECT_EQ(epoch_order(b, 0), first);
  EXPECT_NE(epoch_order(other, 0), first);
  for (int64_t position = 0; position < 100; ++position) {  // two epochs in turn
    EXPECT_EQ(a.sample_at(0, position), first[static_cast<size_t>(position)]);
    EXPECT_EQ(a.sample_at(2, position), third[static_cast<size_t>(position)]);
  }
}

TEST(Sampler, KeepsTheOrderWithoutShuffling) {
  Sampler sampler(10, 5, false);
  EXPECT_EQ(epoch_order(sampler, 3), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(BatchSampler, TrainingDropsTheTailAndGoesOnWithTheNextEpoch) {
  BatchSampler batches = BatchSampler::training(30, 1, {.mini_batch = 8, .micro_batch = 2});
  EXPECT_EQ(batches.micro_batches_per_epoch(), 12);  // three mini-batches of four; six samples left out
  Sampler order(30, 1, true);
  for (int64_t s = 0; s < 30; ++s) {
    const int64_t epoch = s / 12, position = s % 12 * 2;
    EXPECT_EQ(batches.epoch_of(s), epoch);
    EXPECT_EQ(ids_of(batches, s), (std::vector<int64_t>{order.sample_at(epoch, position), order.sample_at(epoch, position + 1)}));
  }
}

TEST(BatchSampler, ReplicasShareEachUpdateWithoutOverlap) {
  constexpr int64_t kReplicas = 3;
  BatchSampler whole = BatchSampler::training(100, 1, {.mini_batch = 12, .micro_batch = 12});
  for (int64_t update = 0; update < 8; ++update) {
    std::vector<int64_t> together;
    for (int64_t replica = 0; replica < kReplicas; ++replica) {
      BatchSampler part = BatchSampler::training(100, 1, {.mini_batch = 4, .micro_batch = 2, .replicas = kReplicas, .replica = replica});
      ASSERT_EQ(part.micro_batches_per_epoch(), 16);
      for (int64_t s = 2 * update; s < 2 * update + 2; ++s)
        for (const int64_t id : ids_of(part, s)) together.push_back(id);
    }
    EXPECT_EQ(together, ids_of(whole, update)) << "the samples of an update do not depend on the number of replicas";
  }
}

TEST(BatchSampler, EvaluationSeesEverySampleOnce) {
  for (const int64_t replicas : {1, 2, 5}) {
    std::vector<int64_t> seen;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      BatchSampler batches = BatchSampler::evaluation(23, {.micro_batch = 4, .replicas = replicas, .replica = replica});
      for (int64_t s = 0; s < batches.micro_batches_per_epoch(); ++s)
        for (const int64_t id : ids_of(batches, s)) seen.push_back(id);
    }
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(23);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all) << replicas << " replicas";
  }
  BatchSampler batches = BatchSampler::evaluation(23, {.micro_batch = 4});
  EXPECT_EQ(ids_of(batches, 5), (std::vector<int64_t>{20, 21, 22})) << "the short tail is kept";
}

TEST(BatchSampler, EvaluationMayLeaveAReplicaWithoutWork) {
  EXPECT_EQ(BatchSampler::evaluation(3, {.micro_batch = 4, .replicas = 2, .replica = 1}).micro_batches_per_epoch(), 0);
  EXPECT_EQ(BatchSampler::evaluation(0, {.micro_batch = 4}).micro_batches_per_epoch(), 0);
}

TEST(BatchSampler, RefusesWhatCannotBeCut) {
  expect_error(ErrorCode::kUsage, "mini-batch 8 is not a multiple of micro-batch 3",
               [] { BatchSampler::training(30, 1, {.mini_batch = 8, .micro_batch = 3}); });
  expect_error(ErrorCode::kUsage, "micro-batch 0", [] { BatchSampler::training(30, 1, {.mini_batch = 8, .micro_batch = 0}); });
  expect_error(ErrorCode::kUsage, "mini-batch 0", [] { BatchSampler::training(30, 1, {.mini_batch = 0, .micro_batch = 1}); });
  expect_error(ErrorCode::kUsage, "mini-batch 16 with 2 replicas: the training set has only 30 samples",
               [] { BatchSampler::training(30, 1, {.mini_batch = 16, .micro_batch = 2, .replicas = 2}); });
}

}  // namespace
}  // namespace millrace
