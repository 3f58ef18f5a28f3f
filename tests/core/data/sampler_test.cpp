#include "core/data/sampler.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/random.h"
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

TEST(Streams, EverySampleContinuesTheOneAtItsPlaceBefore) {
  for (const int64_t replicas : {1, 3}) {
    std::set<int64_t> seen;
    for (int64_t replica = 0; replica < replicas; ++replica) {
      BatchSampler batches = BatchSampler::streams(103, {.mini_batch = 4, .micro_batch = 2, .replicas = replicas, .replica = replica});
      const int64_t updates = 103 / (4 * replicas);
      ASSERT_EQ(batches.micro_batches_per_epoch(), 2 * updates);
      for (int64_t s = 0; s < 2 * updates; ++s) {
        const std::vector<int64_t> ids = ids_of(batches, s);
        for (const int64_t id : ids) EXPECT_TRUE(seen.insert(id).second) << id;
        EXPECT_EQ(batches.starts_anew(s), s < 2);
        if (s < 2) continue;
        std::vector<int64_t> before = ids_of(batches, s - 2);
        for (int64_t& id : before) ++id;
        EXPECT_EQ(ids, before);
      }
      EXPECT_EQ(ids_of(batches, 2 * updates), ids_of(batches, 0)) << "every epoch is the same";
      EXPECT_TRUE(batches.starts_anew(2 * updates + 1));
      EXPECT_FALSE(batches.starts_anew(2 * updates + 2));
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), 103 / (4 * replicas) * 4 * replicas);
  }
}

// Lengths from 1 to 100, at random.
std::vector<int32_t> random_lengths(int64_t count) {
  const Philox draw(5, 1);
  std::vector<int32_t> lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(1 + static_cast<int32_t>(draw.below(static_cast<uint64_t>(i), 100)));
  return lengths;
}

// Steps computed for nothing when every mini-batch of an epoch is padded to its longest sample.
int64_t padding(BatchSampler batches, const std::vector<int32_t>& lengths) {
  int64_t padded = 0;
  for (int64_t s = 0; s < batches.micro_batches_per_epoch(); ++s) {
    int32_t longest = 0;
    const std::vector<int64_t> ids = ids_of(batches, s);
    for (const int64_t id : ids) longest = std::max(longest, lengths[static_cast<size_t>(id)]);
    for (const int64_t id : ids) padded += longest - lengths[static_cast<size_t>(id)];
  }
  return padded;
}

TEST(Buckets, LikeLengthsComeTogether) {
  const std::vector<int32_t> lengths = random_lengths(640);
  const BatchCut cut{.mini_batch = 8, .micro_batch = 8};
  EXPECT_LT(padding(BatchSampler::buckets(lengths, 1, cut), lengths) * 5, padding(BatchSampler::training(640, 1, cut), lengths));
}

TEST(Buckets, EachEpochDrawsEverySampleOnceInAnOrderOfItsOwn) {
  const std::vector<int32_t> lengths = random_lengths(203);
  BatchSampler batches = BatchSampler::buckets(lengths, 7, {.mini_batch = 4, .micro_batch = 2}), again = batches;
  std::vector<std::vector<int64_t>> epochs;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> order;
    for (int64_t s = 0; s < 100; ++s)
      for (const int64_t id : ids_of(batches, epoch * 100 + s)) order.push_back(id);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 200U);
    epochs.push_back(order);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(ids_of(again, 150), (std::vector<int64_t>{epochs[1][100], epochs[1][101]})) << "whatever was asked for before";
  EXPECT_TRUE(batches.starts_anew(17));
}

TEST(Buckets, ReplicasShareEachUpdateWithoutOverlap) {
  const std::vector<int32_t> lengths = random_lengths(100);
  BatchSampler whole = BatchSampler::buckets(lengths, 1, {.mini_batch = 12, .micro_batch = 12});
  for (int64_t update = 0; update < 8; ++update) {
    std::vector<int64_t> together;
    for (int64_t replica = 0; replica < 3; ++replica) {
      BatchSampler part = BatchSampler::buckets(lengths, 1, {.mini_batch = 4, .micro_batch = 4, .replicas = 3, .replica = replica});
      for (const int64_t id : ids_of(part, update)) together.push_back(id);
    }
    EXPECT_EQ(together, ids_of(whole, update));
  }
}

}  // namespace
}  // namespace millrace
