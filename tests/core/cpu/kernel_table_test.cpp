#include "core/cpu/kernel_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/cpu/tune.h"
#include "core/graph/model_builder.h"

namespace millrace {

namespace {

ConvKey key(int64_t micro_batch, Phase phase = Phase::kForward) {
  return {.conv = {.out_channels = 8, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
          .input = {4, 10, 12},
          .phase = phase,
          .micro_batch = micro_batch,
          .isa = "avx2"};
}

}  // namespace

TEST(KernelTable, TakesTheLargestMeasuredMicroBatchBelow) {
  KernelTable table;
  table.set(key(4), ConvAlgorithm::kWinograd);
  table.set(key(16), ConvAlgorithm::kTaps);
  EXPECT_EQ(table.choice(key(3)), ConvAlgorithm::kDirect);
  EXPECT_EQ(table.choice(key(4)), ConvAlgorithm::kWinograd);
  EXPECT_EQ(table.choice(key(15)), ConvAlgorithm::kWinograd);
  EXPECT_EQ(table.choice(key(400)), ConvAlgorithm::kTaps);
  EXPECT_EQ(table.choice(key(16, Phase::kErrorBack)), ConvAlgorithm::kDirect);
}

TEST(KernelTable, ShapesThatWereNotMeasuredTakeTheNearestChoice) {
  const auto shaped = [](int64_t in, int64_t out, int64_t height, int64_t width, int64_t micro_batch = 8) {
    ConvKey made = key(micro_batch);
    made.conv.out_channels = out;
    made.input = {in, height, width};
    return made;
  };
  KernelTable table;
  table.set(shaped(64, 64, 16, 16), ConvAlgorithm::kWinograd);
  table.set(shaped(512, 512, 4, 4), ConvAlgorithm::kTaps);
  EXPECT_EQ(table.choice(shaped(48, 64, 16, 16)), ConvAlgorithm::kWinograd);  // a part of the first
  EXPECT_EQ(table.choice(shaped(64, 128, 32, 16)), ConvAlgorithm::kWinograd);
  EXPECT_EQ(table.choice(shaped(144, 512, 4, 4)), ConvAlgorithm::kTaps);
  EXPECT_EQ(table.choice(shaped(8, 64, 16, 16)), ConvAlgorithm::kWinograd);  // eight times fewer channels are as far as it goes
  EXPECT_EQ(table.choice(shaped(7, 64, 16, 16)), ConvAlgorithm::kDirect);
  EXPECT_EQ(table.choice(shaped(16, 128, 32, 16)), ConvAlgorithm::kDirect);
  EXPECT_EQ(table.choice(shaped(48, 64, 16, 16, 7)), ConvAlgorithm::kDirect);  // none was measured below that micro-batch

  ConvKey other = shaped(48, 64, 16, 16);
  other.conv.stride_h = 2;
  EXPECT_EQ(table.choice(other), ConvAlgorithm::kDirect);
  other = shaped(48, 64, 16, 16);
  other.phase = Phase::kErrorBack;
  EXPECT_EQ(table.choice(other), ConvAlgorithm::kDirect);
  other = shaped(48, 64, 16, 16);
  other.isa = "avx512_core";
  EXPECT_EQ(table.choice(other), ConvAlgorithm::kDirect);
  // What was measured by itself counts more than what is near.
  table.set(shaped(48, 64, 16, 16), ConvAlgorithm::kDirect);
  EXPECT_EQ(table.choice(shaped(48, 64, 16, 16)), ConvAlgorithm::kDirect);
}

TEST(KernelTable, TextHoldsEverything) {
  KernelTable table;
  table.set(key(4), ConvAlgorithm::kWinograd);
  table.set(key(2, Phase::kParameterGradient), ConvAlgorithm::kDirect);
  const KernelTable again = KernelTable::parse(table.text(), "again");
  EXPECT_EQ(again, table);
  EXPECT_EQ(again.digest(), table.digest());
}

TEST(KernelTable, EntriesOfTheMergedTableWin) {
  KernelTable table, other;
  table.set(key(4), ConvAlgorithm::kWinograd);
  other.set(key(4), ConvAlgorithm::kDirect);
  const std::string before = table.digest();
  table.merge(other);
  EXPECT_EQ(table.choice(key(4)), ConvAlgorithm::kDirect);
  EXPECT_NE(table.digest(), before);
}

TEST(KernelTable, TheShippedOneKnowsVgg) {
  const ConvKey vgg{.conv = {.out_channels = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1},
                    .input = {64, 224, 224},
                    .phase = Phase::kForward,
                    .micro_batch = 8,
                    .isa = "avx512_core"};
  EXPECT_EQ(KernelTable::shipped().choice(vgg), ConvAlgorithm::kWinograd);
}

TEST(KernelTable, NamesWhatIsWrongWithAFile) {
  const auto message = [](std::string_view text) {
    try {
      KernelTable::parse(text, "t.csv");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMalformed);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string header = KernelTable().text();
  EXPECT_THAT(message(""), ::testing::HasSubstr("t.csv"));
  EXPECT_THAT(message("hello\n"), ::testing::HasSubstr("t.csv:1"));
  EXPECT_THAT(message(header + "avx2,forward\n"), ::testing::HasSubstr("t.csv:2: 2 fields"));
  KernelTable table;
  table.set(key(4), ConvAlgorithm::kWinograd);
  std::string text = table.text();
  EXPECT_THAT(message(std::string(text).replace(text.find("winograd"), 8, "winogard")), ::testing::HasSubstr("\"winograd\""));
  EXPECT_THAT(message(std::string(text).replace(text.find(",10,12,"), 7, ",10,-2,")), ::testing::HasSubstr("\"-2\""));
}

TEST(Tune, MeasuresEachDistinctConvolutionOnce) {
  ModelBuilder net("tiny", {16, 12, 12});
  net.conv("conv1", 16, {.kernel = 3, .pad = 1});
  net.conv("conv2", 16, {.kernel = 3, .pad = 1});
  net.flatten("flatten");
  net.dense("fc", 3);
  const Graph graph(net.finish());
  int64_t total = 0;
  const KernelTable table = tune(graph, 2, 1, [&](const TuneProgress& progress) { total = progress.total; });
  EXPECT_LE(table.size(), 6U);
  // conv1 and conv2 differ only in that nobody needs the error of the image.
  if (table.size() > 0) {
    EXPECT_EQ(total, 6);
  }
  EXPECT_THROW(tune(graph, 0, 1), Error);
}

}  // namespace millrace
