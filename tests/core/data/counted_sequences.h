// A small data set of sequences whose every number says where it is: value = 1000 * sample + 10 * step + feature.
//
//   Dataset data = counted_sequences({3, 5, 2}, 2, LabelForm::kRow);
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/data/dataset.h"

namespace millrace {

class CountedSequences : public Sequences {
 public:
  CountedSequences(std::vector<int64_t> lengths, int64_t features, LabelForm labels)
      : lengths_(std::move(lengths)), features_(features), labels_(labels) {}

  int64_t size() const override { return static_cast<int64_t>(lengths_.size()); }
  int64_t features() const override { return features_; }
  int64_t steps(int64_t sample) const override { return lengths_[static_cast<size_t>(sample)]; }
  void read(int64_t sample, std::span<float> values) const override {
    for (int64_t step = 0; step < steps(sample); ++step)
      for (int64_t feature = 0; feature < features_; ++feature)
        values[static_cast<size_t>(step * features_ + feature)] = static_cast<float>(1000 * sample + 10 * step + feature);
  }
  // One: the sample modulo 3; per step: the step modulo 3; a row: as many labels 1, 2, 1, 2 ... as the sample has pairs of steps.
  void read_labels(int64_t sample, std::span<int32_t> labels) const override {
    std::ranges::fill(labels, kNoLabel);
    if (labels_ == LabelForm::kOne) labels[0] = static_cast<int32_t>(sample % 3);
    const int64_t count = labels_ == LabelForm::kOne ? 0 : labels_ == LabelForm::kPerStep ? steps(sample) : steps(sample) / 2;
    for (int64_t i = 0; i < count; ++i)
      labels[static_cast<size_t>(i)] = static_cast<int32_t>(labels_ == LabelForm::kPerStep ? i % 3 : 1 + i % 2);
  }

 private:
  std::vector<int64_t> lengths_;
  int64_t features_;
  LabelForm labels_;
};

inline Dataset counted_sequences(const std::vector<int64_t>& lengths, int64_t features, LabelForm labels) {
  const int64_t longest = *std::ranges::max_element(lengths);
  Dataset data;
  data.name = "counted";
  data.kind = InputKind::kFeatures;
  data.shape = {features, longest, 1};
  data.classes = 3;
  data.label_form = labels;
  data.labels_each = labels == LabelForm::kOne ? 1 : labels == LabelForm::kPerStep ? longest : longest / 2;
  data.lengths_differ = std::ranges::any_of(lengths, [longest](int64_t length) { return length != longest; });
  data.sequences = std::make_shared<CountedSequences>(lengths, features, labels);
  return data;
}

}  // namespace millrace
