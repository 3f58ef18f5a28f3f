// The generated tasks: that samples are what they are said to be, and the same whenever they are drawn.
#include "core/data/generated.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

std::vector<float> values_of(const Dataset& data, int64_t sample) {
  std::vector<float> values(static_cast<size_t>(data.sequences->steps(sample) * data.sequences->features()));
  data.sequences->read(sample, values);
  return values;
}
std::vector<int32_t> labels_of(const Dataset& data, int64_t sample) {
  std::vector<int32_t> labels(static_cast<size_t>(data.labels_each));
  data.sequences->read_labels(sample, labels);
  return labels;
}

TEST(Adding, TwoMarksOneInEachHalfAndTheirSumsBin) {
  const DataSplit data = make_adding({.steps = 31, .samples = 400, .seed = 3});
  EXPECT_EQ(data.train.shape, (Shape{2, 31, 1}));
  EXPECT_EQ(data.test.size(), 80);
  for (const Dataset* part : {&data.train, &data.test})
    for (int64_t sample = 0; sample < part->size(); ++sample) {
      const std::vector<float> values = values_of(*part, sample);
      double sum = 0;
      int early = 0, late = 0;
      for (size_t step = 0; step < 31; ++step) {
        EXPECT_TRUE(0 <= values[2 * step] && values[2 * step] < 1);
        if (values[2 * step + 1] == 0) continue;
        EXPECT_EQ(values[2 * step + 1], 1);
        sum += static_cast<double>(values[2 * step]);
        ++(step < 15 ? early : late);
      }
      EXPECT_EQ(early, 1);
      EXPECT_EQ(late, 1);
      EXPECT_EQ(adding_sum(*part, sample), sum);
      EXPECT_EQ(labels_of(*part, sample)[0], static_cast<int32_t>(std::floor(sum * 10)));
    }
}

TEST(Adding, TheBaselineIsWhatIgnoringTheMarksCanDo) {
  const DataSplit data = make_adding({.steps = 10, .samples = 50000});
  std::vector<double> counts(kAddingBins);
  double mean = 0, squares = 0;
  for (int64_t sample = 0; sample < data.train.size(); ++sample) {
    ++counts[static_cast<size_t>(labels_of(data.train, sample)[0])];
    const double sum = adding_sum(data.train, sample);
    mean += sum / 50000;
    squares += sum * sum / 50000;
  }
  double entropy = 0;
  for (const double count : counts) entropy -= count / 50000 * std::log(count / 50000);
  EXPECT_NEAR(adding_baseline_loss(), entropy, 0.01);
  EXPECT_NEAR(adding_baseline_accuracy(), *std::ranges::max_element(counts) / 50000, 0.005);
  EXPECT_NEAR(squares - mean * mean, 1.0 / 6, 0.005) << "the squared error of the literature's baseline";
}

TEST(Adding, IsAPureFunctionOfItsName) {
  const DataSplit a = load_data("adding:50:100:9"), b = load_data("adding:50:100:9"), other = load_data("adding:50:100:8");
  EXPECT_EQ(values_of(a.train, 41), values_of(b.train, 41));
  EXPECT_NE(values_of(a.train, 41), values_of(other.train, 41));
  EXPECT_NE(values_of(a.train, 0), values_of(a.test, 0));
  EXPECT_EQ(a.train.name, "adding/train");
  EXPECT_EQ(load_data("adding:50").train.size(), 10000);
}

TEST(CtcTask, RowsFitTheirSteps) {
  const DataSplit data = make_ctc_task({.classes = 3, .labels = 6, .samples = 500, .seed = 2});
  EXPECT_EQ(data.train.classes, 4);
  EXPECT_TRUE(data.train.lengths_differ);
  std::set<int64_t> rows, lengths;
  for (int64_t sample = 0; sample < data.train.size(); ++sample) {
    const std::vector<int32_t> row = labels_of(data.train, sample);
    const int64_t labels = std::ranges::find(row, kNoLabel) - row.begin();
    EXPECT_TRUE(std::all_of(row.begin() + labels, row.end(), [](int32_t label) { return label == kNoLabel; }));
    EXPECT_TRUE(std::all_of(row.begin(), row.begin() + labels, [](int32_t label) { return 1 <= label && label <= 3; }));
    const int64_t steps = data.train.sequences->steps(sample);
    EXPECT_GE(steps, 4 * labels + 1) << "a stride of 2 leaves room for all labels and the blanks between";
    EXPECT_LE(steps, data.train.shape.height);
    rows.insert(labels), lengths.insert(steps);
  }
  EXPECT_EQ(rows, (std::set<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_GT(lengths.size(), 20U);
}

// Step by step the nearest pattern tells which label is heard: the task can be learnt.
TEST(CtcTask, LabelsAreHeard) {
  const DataSplit data = make_ctc_task({.classes = 4, .labels = 1, .samples = 400});
  std::map<int32_t, std::vector<double>> loudest;
  for (int64_t sample = 0; sample < 400; ++sample) {
    const std::vector<float> values = values_of(data.train, sample);
    std::vector<double>& mean = loudest[labels_of(data.train, sample)[0]];
    mean.resize(kCtcFeatures);
    for (size_t i = 0; i < values.size(); ++i) mean[i % kCtcFeatures] += static_cast<double>(values[i]) / 400;
  }
  ASSERT_EQ(loudest.size(), 4U);
  for (const auto& [a, first] : loudest)
    for (const auto& [b, second] : loudest) {
      double distance = 0;
      for (size_t f = 0; f < first.size(); ++f) distance += std::pow(first[f] - second[f], 2);
      if (a == b) continue;
      EXPECT_GT(distance, 1) << a << " and " << b;
    }
}

TEST(CtcTask, IsAPureFunctionOfItsName) {
  const DataSplit a = load_data("ctc:5:8:50:4"), b = load_data("ctc:5:8:50:4");
  EXPECT_EQ(values_of(a.train, 7), values_of(b.train, 7));
  EXPECT_EQ(labels_of(a.test, 3), labels_of(b.test, 3));
  EXPECT_NE(values_of(a.train, 7), values_of(load_data("ctc:5:8:50:5").train, 7));
}

TEST(GeneratedNames, SayWhatIsWrong) {
  const auto refuse = [](const std::string& what, const std::string& message) {
    expect_error(ErrorCode::kUsage, message, [&] { load_data(what); });
  };
  refuse("adding", "steps is \"\"");
  refuse("adding:1", "steps is \"1\", expected a number from 2");
  refuse("adding:99999999999999999999", "steps is");
  refuse("adding:10:0", "samples is \"0\"");
  refuse("adding:10:5:x", "seed is \"x\"");
  refuse("adding:10:5:1:1", "the form is adding:STEPS");
  refuse("ctc:5", "the form is ctc:CLASSES:LABELS");
  refuse("ctc:0:5", "classes is \"0\"");
  refuse("ctc:5:0", "labels is \"0\"");
}

}  // namespace
}  // namespace millrace
