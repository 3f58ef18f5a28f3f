#include "core/data/generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr int64_t kMostTestSamples = 10000;

int64_t test_samples(int64_t samples) { return std::clamp<int64_t>(samples / 5, 1, kMostTestSamples); }

class Adding : public Sequences {
 public:
  // Samples from `first` on: training and test parts of one seed do not overlap.
  Adding(const AddingTask& task, int64_t first, int64_t count)
      : steps_(task.steps),
        first_(first),
        count_(count),
        number_(task.seed, stream_id("adding", "number")),
        mark_(task.seed, stream_id("adding", "mark")) {}

  int64_t size() const override { return count_; }
  int64_t features() const override { return 2; }
  int64_t steps(int64_t) const override { return steps_; }
  void read(int64_t sample, std::span<float> values) const override {
    const Marks marks = marks_of(sample);
    for (int64_t step = 0; step < steps_; ++step) {
      fast_item(values, 2 * step) = number_at(sample, step);
      fast_item(values, 2 * step + 1) = step == marks.early || step == marks.late ? 1.0F : 0.0F;
    }
  }
  void read_labels(int64_t sample, std::span<int32_t> labels) const override {
    const auto bin = static_cast<int64_t>(sum(sample) * static_cast<double>(kAddingBins) / 2);
    labels[0] = static_cast<int32_t>(std::min(bin, kAddingBins - 1));
  }
  double sum(int64_t sample) const {
    const Marks marks = marks_of(sample);
    return static_cast<double>(number_at(sample, marks.early)) + static_cast<double>(number_at(sample, marks.late));
  }

 private:
  struct Marks {
    int64_t early, late;
  };
  Marks marks_of(int64_t sample) const {
    const auto place = static_cast<uint64_t>(2 * (first_ + sample));
    const int64_t half = steps_ / 2;
    return {static_cast<int64_t>(mark_.below(place, static_cast<uint64_t>(half))),
            half + static_cast<int64_t>(mark_.below(place + 1, static_cast<uint64_t>(steps_ - half)))};
  }
  float number_at(int64_t sample, int64_t step) const { return number_.uniform(static_cast<uint64_t>((first_ + sample) * steps_ + step)); }

  int64_t steps_, first_, count_;
  Philox number_, mark_;
};

class SpokenLabels : public Sequences {
 public:
  static constexpr int64_t kLeastHeard = 3, kMostHeard = 5, kLeastSilent = 1, kMostSilent = 3;
  static int64_t longest(const CtcTask& task) { return task.labels * (kMostSilent + kMostHeard) + kMostSilent; }

  SpokenLabels(const CtcTask& task, int64_t first, int64_t count)
      : task_(task),
        first_(first),
        count_(count),
        draw_(task.seed, stream_id("ctc task", "row")),
        noise_(task.seed, stream_id("ctc task", "noise")),
        pattern_(task.seed, stream_id("ctc task", "pattern")) {}

  int64_t size() const override { return count_; }
  int64_t features() const override { return kCtcFeatures; }
  int64_t steps(int64_t sample) const override {
    int64_t total = 0;
    each_span(sample, [&total](int32_t, int64_t steps) { total += steps; });
    return total;
  }
  void read(int64_t sample, std::span<float> values) const override {
    constexpr double kNoise = 0.4;
    const auto origin = static_cast<uint64_t>((first_ + sample) * longest(task_) * kCtcFeatures);
    size_t at = 0;
    each_span(sample, [&](int32_t label, int64_t steps) {
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t feature = 0; feature < kCtcFeatures; ++feature, ++at) {
          const double heard = label == 0 ? 0.0 : pattern_.normal(static_cast<uint64_t>(label * kCtcFeatures + feature));
          values[at] = static_cast<float>(heard + kNoise * noise_.normal(origin + at));
        }
    });
  }
  void read_labels(int64_t sample, std::span<int32_t> labels) const override {
    std::ranges::fill(labels, kNoLabel);
    size_t at = 0;
    each_span(sample, [&](int32_t label, int64_t) {
      if (label != 0) labels[at++] = label;
    });
  }

 private:
  // Silence, label, silence, label, ..., silence; silence as label 0.
  template <typename Visit>
  void each_span(int64_t sample, Visit visit) const {
    auto place = static_cast<uint64_t>((first_ + sample) * (3 * task_.labels + 2));
    const auto between = [&](int64_t least, int64_t most) {
      return least + static_cast<int64_t>(draw_.below(place++, static_cast<uint64_t>(most - least + 1)));
    };
    const int64_t labels = between(1, task_.labels);
    for (int64_t i = 0; i < labels; ++i) {
      visit(0, between(kLeastSilent, kMostSilent));
      const auto label = static_cast<int32_t>(between(1, task_.classes));
      visit(label, between(kLeastHeard, kMostHeard));
    }
    visit(0, between(kLeastSilent, kMostSilent));
  }

  CtcTask task_;
  int64_t first_, count_;
  Philox draw_, noise_, pattern_;
};

Dataset generated(std::shared_ptr<const Sequences> sequences, uint64_t seed) {
  Dataset data;
  data.kind = InputKind::kFeatures;
  data.sequences = std::move(sequences);
  data.source = fmt::format("generated by Millrace, seed {}", seed);
  data.licence = "none needed";
  return data;
}

// How likely a sum lies in the bin: the area under the triangle from 0 to 2.
double share_of(int64_t bin) {
  const auto up_to = [](double x) { return x <= 1 ? x * x / 2 : 1 - (2 - x) * (2 - x) / 2; };
  return up_to(static_cast<double>(bin + 1) * kAddingBinWidth) - up_to(static_cast<double>(bin) * kAddingBinWidth);
}

}  // namespace

DataSplit make_adding(const AddingTask& task) {
  MILLRACE_CHECK(task.steps >= 2 && task.samples >= 1, "{} samples of {} steps", task.samples, task.steps);
  const auto part = [&](int64_t first, int64_t count) {
    Dataset data = generated(std::make_shared<Adding>(task, first, count), task.seed);
    data.shape = {2, task.steps, 1};
    data.classes = kAddingBins;
    for (int64_t bin = 0; bin < kAddingBins; ++bin)
      data.class_names.push_back(
          fmt::format("{:.1f} to {:.1f}", static_cast<double>(bin) * kAddingBinWidth, static_cast<double>(bin + 1) * kAddingBinWidth));
    return data;
  };
  return {part(0, task.samples), part(task.samples, test_samples(task.samples))};
}

double adding_baseline_loss() {
  double entropy = 0;
  for (int64_t bin = 0; bin < kAddingBins; ++bin) entropy -= share_of(bin) * std::log(share_of(bin));
  return entropy;
}

double adding_baseline_accuracy() { return share_of(kAddingBins / 2); }

double adding_sum(const Dataset& data, int64_t sample) {
  const auto* const adding = dynamic_cast<const Adding*>(data.sequences.get());
  MILLRACE_CHECK(adding != nullptr, "{} asks for no sum", data.name);
  return adding->sum(sample);
}

DataSplit make_ctc_task(const CtcTask& task) {
  MILLRACE_CHECK(task.classes >= 1 && task.labels >= 1 && task.samples >= 1, "{} samples of {} labels in {} classes", task.samples,
                 task.labels, task.classes);
  const auto part = [&](int64_t first, int64_t count) {
    Dataset data = generated(std::make_shared<SpokenLabels>(task, first, count), task.seed);
    data.shape = {kCtcFeatures, SpokenLabels::longest(task), 1};
    data.classes = task.classes + 1;
    data.label_form = LabelForm::kRow;
    data.labels_each = task.labels;
    data.lengths_differ = true;
    return data;
  };
  return {part(0, task.samples), part(task.samples, test_samples(task.samples))};
}

}  // namespace millrace
