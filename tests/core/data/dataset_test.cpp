#include "core/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "core/data/builtin.h"
#include "tests/core/data/data_files.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

std::vector<uint8_t> image(const Dataset& data, int64_t sample) {
  std::vector<uint8_t> scratch(static_cast<size_t>(data.shape.elements()));
  const auto pixels = image_of(data, sample, scratch);
  return {pixels.begin(), pixels.end()};
}

// How many samples the nearest class mean of the training part names rightly: the plainest classifier there is.
double nearest_mean_accuracy(const DataSplit& data) {
  const auto elements = static_cast<size_t>(data.train.shape.elements());
  const auto classes = static_cast<size_t>(data.train.classes);
  std::vector<std::vector<double>> means(classes, std::vector<double>(elements));
  std::vector<double> counts(classes);
  for (int64_t i = 0; i < data.train.size(); ++i) {
    const auto label = static_cast<size_t>(data.train.labels[static_cast<size_t>(i)]);
    const std::vector<uint8_t> pixels = image(data.train, i);
    ++counts[label];
    for (size_t e = 0; e < elements; ++e) means[label][e] += pixels[e];
  }
  int64_t right = 0;
  for (int64_t i = 0; i < data.test.size(); ++i) {
    const std::vector<uint8_t> pixels = image(data.test, i);
    std::vector<double> distances(classes);
    for (size_t c = 0; c < classes; ++c)
      for (size_t e = 0; e < elements; ++e) distances[c] += std::pow(means[c][e] / counts[c] - pixels[e], 2);
    const auto best = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += best == data.test.labels[static_cast<size_t>(i)] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(data.test.size());
}

TEST(Digits, HaveTheDocumentedSplit) {
  const DataSplit data = load_data("digits");
  EXPECT_EQ(data.train.size(), 1437);
  EXPECT_EQ(data.test.size(), 360);
  EXPECT_EQ(data.train.shape, (Shape{1, 8, 8}));
  EXPECT_EQ(data.train.name, "digits/train");
  std::map<int32_t, int> of_each;
  for (const int32_t label : data.test.labels) ++of_each[label];
  EXPECT_EQ(of_each.size(), 10U);
  for (const auto& [digit, count] : of_each) EXPECT_EQ(count, 36) << digit;
  // Seventeen levels, the brightest of them full scale.
  std::set<uint8_t> levels;
  for (int64_t i = 0; i < data.train.size(); ++i)
    for (const uint8_t pixel : image(data.train, i)) levels.insert(pixel);
  EXPECT_EQ(levels.size(), 17U);
  EXPECT_EQ(*levels.rbegin(), 255);
}

TEST(Digits, CanBeToldApart) { EXPECT_GT(nearest_mean_accuracy(load_data("digits")), 0.85); }

TEST(Digits, ComeFromTheFolderTheEnvironmentNames) {
  const TemporaryFolder folder;
  const Environment environment("MILLRACE_DATA_DIR", folder.text());
  expect_error(ErrorCode::kNotFound, "MILLRACE_DATA_DIR is \"" + folder.text() + "\"", [] { load_data("digits"); });
  std::filesystem::copy(std::filesystem::path(MILLRACE_SOURCE_DIR) / "core/data/digits", folder.path() / "digits");
  EXPECT_EQ(shipped_data("digits"), folder.path() / "digits");
  EXPECT_EQ(load_data("digits").train.size(), 1437);
}

TEST(FashionMnist, LoadsWhenInstalled) {
  if (!std::filesystem::exists(kFashionMnistFolder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const DataSplit data = load_data("fashion-mnist");
  EXPECT_EQ(data.train.size(), 60000);
  EXPECT_EQ(data.test.size(), 10000);
  EXPECT_EQ(data.train.shape, (Shape{1, 28, 28}));
  EXPECT_EQ(data.train.class_names[9], "Ankle boot");
  // The figures everybody normalises this set with.
  EXPECT_NEAR(data.train.normalisation.mean[0], 0.2860, 1e-4);
  EXPECT_NEAR(data.train.normalisation.stddev[0], 0.3530, 1e-4);
}

TEST(FashionMnist, NamesThePackageWhenAbsent) {
  expect_error(ErrorCode::kNotFound, "apt-get install dataset-fashion-mnist", [] { load_fashion_mnist("/nonexistent"); });
}

TEST(Synthetic, IsAPureFunctionOfItsName) {
  const DataSplit a = load_data("synthetic:3x8x6:4:50:9");
  const DataSplit b = load_data("synthetic:3x8x6:4:50:9");
  const DataSplit other = load_data("synthetic:3x8x6:4:50:10");
  EXPECT_EQ(a.train.shape, (Shape{3, 8, 6}));
  EXPECT_EQ(a.train.size(), 50);
  EXPECT_EQ(a.test.size(), 10);
  EXPECT_EQ(a.train.labels, b.train.labels);
  EXPECT_NE(a.train.labels, other.train.labels);
  EXPECT_EQ(image(a.train, 7), image(b.train, 7));
  EXPECT_NE(image(a.train, 7), image(a.train, 8));
  EXPECT_NE(image(a.train, 7), image(other.train, 7));
  EXPECT_NE(image(a.train, 0), image(a.test, 0));
  for (const int32_t label : a.train.labels) EXPECT_TRUE(0 <= label && label < 4);
}

TEST(Synthetic, StaysTheSameFromVersionToVersion) {
  const DataSplit data = load_data("synthetic:1x4x4:10:100");
  EXPECT_THAT(image(data.train, 0), testing::ElementsAre(83, 60, 205, 34, 149, 44, 175, 208, 16, 86, 187, 102, 86, 106, 167, 201));
}

TEST(Synthetic, CanBeLearnt) {
  EXPECT_GT(nearest_mean_accuracy(load_data("synthetic:1x8x8:10:500")), 0.95);
  EXPECT_GT(nearest_mean_accuracy(load_data("synthetic:3x16x16:10:500")), 0.95);
}

TEST(Synthetic, NeedsNoMemoryForPixels) {
  const DataSplit data = load_data("synthetic:3x224x224:1000:100000");
  EXPECT_TRUE(std::holds_alternative<SyntheticImages>(data.train.images));
  EXPECT_EQ(image(data.train, 99999).size(), 3U * 224 * 224);
  EXPECT_EQ(data.test.size(), 10000);
}

TEST(LoadData, SaysWhatIsWrongWithAName) {
  const auto refuse = [](const std::string& what, const std::string& message) {
    expect_error(ErrorCode::kUsage, message, [&] { load_data(what); });
  };
  refuse("digit", "did you mean \"digits\"?");
  refuse("images", "known: digits, fashion-mnist, text");
  refuse("text:", "name a file, as in text:FILE");
  refuse("sounds", "known: digits");
  refuse("", "known: digits");
  refuse("digits:8", "takes nothing behind a colon");
  refuse("idx", "idx:FOLDER");
  refuse("cifar10:", "cifar10:FOLDER");
  refuse("synthetic", "the form is synthetic:");
  refuse("synthetic:3x32:10:100", "the form is");
  refuse("synthetic:3x32x32:10", "the form is");
  refuse("synthetic:3x32x32:10:100:1:1", "the form is");
  refuse("synthetic:0x32x32:10:100", "channels is \"0\", expected a number from 1");
  refuse("synthetic:3x-2x32:10:100", "height is \"-2\"");
  refuse("synthetic:3x32x32w:10:100", "width is \"32w\"");
  refuse("synthetic:3x32x32:ten:100", "classes is \"ten\"");
  refuse("synthetic:3x32x32:10:99999999999999999999", "samples is \"99999999999999999999\"");
  refuse("synthetic:3x32x32:10:100:-1", "seed is \"-1\"");
  refuse("synthetic:65536x65536x65536:10:100", "at most 268435456");
}

TEST(Normalisation, IsExactPerChannel) {
  Dataset data;
  data.shape = {2, 1, 2};
  data.labels = {0, 0};
  data.images = std::vector<uint8_t>{0, 255, 7, 7, 255, 0, 7, 7};
  const Normalisation normalisation = measure_normalisation(data);
  EXPECT_DOUBLE_EQ(normalisation.mean[0], 0.5);
  EXPECT_DOUBLE_EQ(normalisation.stddev[0], 0.5);
  EXPECT_DOUBLE_EQ(normalisation.mean[1], 7.0 / 255);
  EXPECT_DOUBLE_EQ(normalisation.stddev[1], 1) << "a constant channel";
}

TEST(Describe, NamesEverythingAPersonAsks) {
  const std::string text = describe(load_data("digits").test);
  for (const std::string part : {"digits/test", "360", "1x8x8", "10 (0, 1, 2", "Alpaydin", "CC BY 4.0"})
    EXPECT_THAT(text, testing::HasSubstr(part));
}

}  // namespace
}  // namespace millrace
