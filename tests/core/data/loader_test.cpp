#include "core/data/loader.h"

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>

#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

using namespace std::chrono_literals;

constexpr BatchCut kCut{.mini_batch = 12, .micro_batch = 4};

// What a batch holds, kept beyond the next load.
struct Copy {
  int64_t index = 0;
  int64_t epoch = 0;
  std::vector<int64_t> ids;
  std::vector<int32_t> labels;
  std::vector<float> pixels;
  bool operator==(const Copy&) const = default;
};

Copy copy_of(const Batch& batch) {
  return {batch.index,
          batch.epoch,
          {batch.sample_ids.begin(), batch.sample_ids.end()},
          {batch.labels.begin(), batch.labels.end()},
          {batch.pixels.begin(), batch.pixels.end()}};
}

struct Source {
  DataSplit data = load_data("synthetic:2x6x5:3:50:4");
  ImageTransform transform{data.train, {.pad_top = 1, .pad_bottom = 1, .output = {2, 8, 5}}, {.crop_padding = 2, .flip = true}, 8};
  BatchSampler batches = BatchSampler::training(50, 8, kCut);
};

TEST(Loader, YieldsWhatSamplerDataAndTransformSay) {
  Source source;
  Loader loader(source.data.train, source.transform, source.batches);
  std::vector<int64_t> ids;
  std::vector<uint8_t> scratch(60);
  std::vector<float> pixels(80);
  for (int64_t s = 0; s < 30; ++s) {
    const Batch& batch = loader.load(s);
    source.batches.sample_ids(s, ids);
    ASSERT_EQ(copy_of(batch).ids, ids);
    ASSERT_EQ(batch.epoch, s / 12);
    for (size_t i = 0; i < ids.size(); ++i) {
      ASSERT_EQ(batch.labels[i], source.data.train.labels[static_cast<size_t>(ids[i])]);
      source.transform.apply(image_of(source.data.train, ids[i], scratch), batch.epoch, ids[i], pixels);
      ASSERT_THAT(batch.pixels.subspan(i * 80, 80), testing::ElementsAreArray(pixels));
    }
  }
}

TEST(Loader, DoesNotDependOnThePrefetchDepth) {
  const Source source;
  // In order, repeated, skipping, backwards, and over the end of an epoch.
  const std::vector<int64_t> requests = {0, 1, 2, 3, 3, 5, 6, 20, 21, 7, 8, 11, 12, 13, 0, 40, 41, 42, 43, 44};
  std::vector<Copy> expected;
  for (const int64_t depth : {0, 1, 2, 7})
    for (const int64_t threads : {1, 3}) {
      Loader loader(source.data.train, source.transform, source.batches, {.prefetch = depth, .threads = threads});
      std::vector<Copy> seen;
      for (const int64_t s : requests) seen.push_back(copy_of(loader.load(s)));
      if (expected.empty()) expected = seen;
      EXPECT_EQ(seen, expected) << "depth " << depth << ", " << threads << " threads";
    }
}

TEST(Loader, PixelsOnOneRankAndLabelsOnAnotherAgree) {
  const Source source;
  Loader first(source.data.train, source.transform, source.batches, {.labels = false});
  Loader last(source.data.train, source.transform, source.batches, {.pixels = false, .prefetch = 5});
  Loader both(source.data.train, source.transform, source.batches, {.prefetch = 0});
  for (int64_t s = 0; s < 20; ++s) {
    const Copy pixels = copy_of(first.load(s)), labels = copy_of(last.load(s)), all = copy_of(both.load(s));
    EXPECT_EQ(pixels.ids, labels.ids);
    EXPECT_EQ(pixels.pixels, all.pixels);
    EXPECT_EQ(labels.labels, all.labels);
    EXPECT_TRUE(pixels.labels.empty());
    EXPECT_TRUE(labels.pixels.empty());
  }
}

TEST(Loader, EndsAnEvaluationWithAShortBatchPaddedByZeros) {
  const Source source;
  const ImageTransform transform(source.data.test, {.output = source.data.test.shape});
  Loader loader(source.data.test, transform, BatchSampler::evaluation(10, {.micro_batch = 4}), {.prefetch = 4});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(loader.load(0).sample_ids.size(), 4U);
    EXPECT_EQ(loader.load(1).sample_ids.size(), 4U);
    const Batch& tail = loader.load(2);
    EXPECT_EQ(copy_of(tail).ids, (std::vector<int64_t>{8, 9}));
    EXPECT_EQ(tail.labels.size(), 2U);
    ASSERT_EQ(tail.pixels.size(), 4U * 60);
    EXPECT_THAT(tail.pixels.subspan(120), testing::Each(0.0F));
  }
}

TEST(Loader, AllocatesNothingNewInSteadyState) {
  const Source source;
  Loader loader(source.data.train, source.transform, source.batches, {.prefetch = 2});
  std::set<const void*> pixels, labels, ids;
  for (int64_t s = 0; s < 40; ++s) {
    const Batch& batch = loader.load(s);
    pixels.insert(batch.pixels.data());
    labels.insert(batch.labels.data());
    ids.insert(batch.sample_ids.data());
  }
  EXPECT_EQ(pixels.size(), 3U);
  EXPECT_EQ(labels.size(), 3U);
  EXPECT_EQ(ids.size(), 3U);
}

TEST(Loader, PreparesAheadButNoFurtherThanItsDepth) {
  const std::vector<int32_t> labels(1000);
  std::atomic<int> read = 0;
  Loader loader([&](int64_t, int64_t, std::span<float>) { ++read; }, 1, labels,
                BatchSampler::training(1000, 1, {.mini_batch = 1, .micro_batch = 1}), {.prefetch = 3});
  loader.load(0);
  for (int i = 0; i < 60'000 && read < 4; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(read, 4) << "the one asked for and three ahead";
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(read, 4);
  loader.load(3);  // ready already: nothing is read twice
  for (int i = 0; i < 60'000 && read < 7; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(read, 7);
}

TEST(Loader, HandsAnExceptionToWhoAsksForThatBatch) {
  for (const auto& [depth, threads] : {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {4, 1}, {4, 3}, {6, 6}}) {
    const std::vector<int32_t> labels(20);
    std::atomic<bool> damaged = true;
    const auto reader = [&](int64_t, int64_t sample, std::span<float> pixels) {
      if (sample == 7 && damaged) throw std::runtime_error("sample 7 is damaged");
      pixels[0] = static_cast<float>(sample);
    };
    Loader loader(reader, 1, labels, BatchSampler::evaluation(20, {.micro_batch = 2}), {.prefetch = depth, .threads = threads});
    for (int64_t s = 0; s < 3; ++s) EXPECT_EQ(loader.load(s).pixels[0], static_cast<float>(2 * s));
    EXPECT_THROW(loader.load(3), std::runtime_error) << "depth " << depth;
    EXPECT_THROW(loader.load(3), std::runtime_error) << "asking again tries again";
    EXPECT_EQ(loader.load(2).pixels[0], 4.0F);
    EXPECT_EQ(loader.load(4).pixels[0], 8.0F) << "the ones behind it can still be had";
    damaged = false;
    EXPECT_EQ(loader.load(2).pixels[0], 4.0F);
    EXPECT_EQ(loader.load(3).pixels[1], 7.0F);
  }
}

TEST(Loader, ShutsDownAtAnyMoment) {
  const Source source;
  for (int i = 0; i < 50; ++i) {
    Loader loader(source.data.train, source.transform, source.batches, {.prefetch = 1 + i % 4});
    for (int64_t s = 0; s < i % 7; ++s) loader.load(s * (i % 3));
  }
  // With a failure nobody asked for.
  const std::vector<int32_t> labels(4);
  const auto fails = [](int64_t, int64_t sample, std::span<float>) {
    if (sample > 0) throw std::runtime_error("no");
  };
  Loader loader(fails, 1, labels, BatchSampler::evaluation(4, {.micro_batch = 1}));
  loader.load(0);
}

}  // namespace
}  // namespace millrace
