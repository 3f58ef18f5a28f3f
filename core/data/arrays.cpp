#include "core/data/arrays.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <sstream>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/random.h"
#include "core/data/name_settings.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArraysForm =
    "arrays:FILE.npz or arrays:FOLDER[,layout=hwc|chw|steps|ids][,ids=NUMBER][,hold-out=SHARE][,seed=N]";

// Samples that are so many floats each, one behind the other, labels elsewhere.
class FloatSamples final : public Sequences {
 public:
  FloatSamples(std::vector<float> values, int64_t steps, int64_t features, std::vector<int32_t> labels)
      : values_(std::move(values)), steps_(steps), features_(features), labels_(std::move(labels)) {}

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t features() const override { return features_; }
  int64_t steps(int64_t) const override { return steps_; }
  void read(int64_t sample, std::span<float> values) const override {
    const auto each = to_size(steps_ * features_);
    std::ranges::copy(std::span(values_).subspan(to_size(sample) * each, each), values.begin());
  }
  void read_labels(int64_t sample, std::span<int32_t> labels) const override { labels[0] = item(labels_, sample); }

 private:
  std::vector<float> values_;
  int64_t steps_, features_;
  std::vector<int32_t> labels_;
};

bool may_be_channels(int64_t extent) { return extent == 1 || extent == 3; }

struct SampleForm {
  InputKind kind = InputKind::kImage;
  Shape shape;
  bool channels_last = false;
};

SampleForm form_of_samples(const NpyArray& x, ArrayLayout layout, std::string_view origin) {
  const std::vector<int64_t>& d = x.dimensions;
  if (d.size() < 2 || d.size() > 4 || std::ranges::any_of(d, [](int64_t extent) { return extent < 1; }))
    fail(ErrorCode::kMismatch,
         "{}: {}, expected [samples, features], [samples, height, width], [samples, height, width, channels] or "
         "[samples, channels, height, width], none of them 0",
         origin, text_of(x));
  if (layout == ArrayLayout::kSteps) {
    if (d.size() != 3) fail(ErrorCode::kUsage, "{}: {} with layout=steps, expected [samples, steps, features]", origin, text_of(x));
    return {InputKind::kFeatures, {.channels = d[2], .height = d[1], .width = 1}, false};
  }
  if (layout == ArrayLayout::kIds) {
    if (d.size() != 2) fail(ErrorCode::kUsage, "{}: {} with layout=ids, expected [samples, steps]", origin, text_of(x));
    return {InputKind::kTokens, {.channels = 1, .height = d[1], .width = 1}, false};
  }
  if (d.size() == 2) return {InputKind::kImage, {.channels = d[1], .height = 1, .width = 1}, false};
  if (d.size() == 3) return {InputKind::kImage, {.channels = 1, .height = d[1], .width = d[2]}, false};
  const bool first = may_be_channels(d[1]), last = may_be_channels(d[3]);
  if (layout == ArrayLayout::kGuess && first == last)
    fail(ErrorCode::kUsage, "{}: {}; say which are the channels, with layout=hwc or layout=chw", origin, text_of(x));
  const bool channels_last = layout == ArrayLayout::kHwc || (layout == ArrayLayout::kGuess && last);
  if (channels_last) return {InputKind::kImage, {.channels = d[3], .height = d[1], .width = d[2]}, true};
  return {InputKind::kImage, {.channels = d[1], .height = d[2], .width = d[3]}, false};
}

// [..][pixel][channel] to [..][channel][pixel]
template <typename Value>
std::vector<Value> channels_first(const std::vector<Value>& values, const Shape& shape) {
  std::vector<Value> moved(values.size());
  const auto channels = to_size(shape.channels), plane = to_size(shape.plane()), each = channels * plane;
  for (size_t sample = 0; sample < values.size() / each; ++sample)
    for (size_t p = 0; p < plane; ++p)
      for (size_t c = 0; c < channels; ++c) moved[sample * each + c * plane + p] = values[sample * each + p * channels + c];
  return moved;
}

// Token ids as a network takes them, and one more than the largest.
std::pair<std::vector<float>, int64_t> ids_of(const NpyArray& x, std::string_view origin) {
  constexpr int64_t kMostIds = 1 << 24;  // each is a float of its own
  std::vector<float> ids;
  ids.reserve(to_size(x.elements()));
  int64_t largest = 0;
  for (const int64_t id : wholes_of(x, origin)) {
    if (id < 0 || id >= kMostIds) fail(ErrorCode::kMalformed, "{}: id {}, expected 0 to {}", origin, id, kMostIds - 1);
    largest = std::max(largest, id);
    ids.push_back(static_cast<float>(id));
  }
  return {std::move(ids), largest + 1};
}

Dataset labelled(const NpyArray& x, ArrayLayout layout, std::string_view origin, std::vector<int32_t> labels) {
  const SampleForm form = form_of_samples(x, layout, origin);
  Dataset data;
  data.kind = form.kind;
  data.shape = form.shape;
  if (x.is_bytes() && form.kind == InputKind::kImage) {
    std::vector<uint8_t> pixels(x.bytes.size());
    std::ranges::transform(x.bytes, pixels.begin(), [](std::byte value) { return std::to_integer<uint8_t>(value); });
    data.images = form.channels_last ? channels_first(pixels, form.shape) : std::move(pixels);
    data.labels = std::move(labels);
    return data;
  }
  const bool ids = form.kind == InputKind::kTokens;
  std::vector<float> values;
  if (ids)
    std::tie(values, data.vocabulary) = ids_of(x, origin);
  else
    values = floats_of(x, origin);
  if (form.channels_last) values = channels_first(values, form.shape);
  const bool steps = ids || form.kind == InputKind::kFeatures;
  data.sequences = std::make_shared<const FloatSamples>(std::move(values), steps ? form.shape.height : 1,
                                                        steps ? form.shape.channels : form.shape.elements(), std::move(labels));
  return data;
}

std::vector<int32_t> labels_of(const NpyArray& y, int64_t samples, std::string_view origin) {
  constexpr int64_t kMostClasses = 1 << 20;
  const bool column = y.dimensions.size() == 2 && y.dimensions[1] == 1;
  if (y.dimensions.size() != 1 && !column)
    fail(ErrorCode::kMismatch, "{}: {}, expected a class number for each sample, [samples]{}", origin, text_of(y),
         y.dimensions.size() == 2 ? "; numpy.argmax(y, 1) makes them of one-hot rows" : "");
  if (y.elements() != samples) fail(ErrorCode::kMismatch, "{}: {} labels for {} samples", origin, y.elements(), samples);
  std::vector<int32_t> labels;
  for (const int64_t label : wholes_of(y, origin)) {
    if (label < 0 || label >= kMostClasses)
      fail(ErrorCode::kMalformed, "{}: label {} of sample {}, expected 0 to {}", origin, label, labels.size(), kMostClasses - 1);
    labels.push_back(static_cast<int32_t>(label));
  }
  return labels;
}

// The samples of `x` at `places`.
NpyArray taken_from(const NpyArray& x, const std::vector<int64_t>& places) {
  NpyArray part{.kind = x.kind, .width = x.width, .dimensions = x.dimensions, .bytes = {}};
  const auto samples = to_size(x.dimensions.front());
  const size_t each = samples == 0 ? 0 : x.bytes.size() / samples;
  part.dimensions.front() = static_cast<int64_t>(places.size());
  part.bytes.reserve(places.size() * each);
  for (const int64_t place : places) {
    const auto begin = x.bytes.begin() + static_cast<ptrdiff_t>(to_size(place) * each);
    part.bytes.insert(part.bytes.end(), begin, begin + static_cast<ptrdiff_t>(each));
  }
  return part;
}

struct Names {
  const char *x_train, *y_train, *x_test, *y_test;
};
constexpr std::array kDivided = {Names{"x_train", "y_train", "x_test", "y_test"},
                                 Names{"train_images", "train_labels", "test_images", "test_labels"}};

NpzFile read_arrays(const fs::path& path) {
  std::vector<std::string> wanted = {"x", "y"};
  for (const Names& names : kDivided)
    for (const char* const name : {names.x_train, names.y_train, names.x_test, names.y_test}) wanted.emplace_back(name);
  if (!fs::is_directory(path)) {
    if (!fs::exists(path)) fail(ErrorCode::kNotFound, "{}: no such file or folder", path.string());
    return parse_npz(read_bytes(path), path.string(), wanted);
  }
  NpzFile found;
  for (const std::string& name : wanted) {
    const fs::path file = path / (name + ".npy");
    if (fs::exists(file)) found.emplace(name, parse_npy(read_bytes(file), file.string()));
  }
  return found;
}

std::vector<std::string> class_names_beside(const fs::path& path, int64_t classes) {
  const fs::path file = (fs::is_directory(path) ? path : path.parent_path()) / "classes.txt";
  if (!fs::exists(file)) return {};
  std::vector<std::string> names;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<int64_t>(names.size()) != classes)
    fail(ErrorCode::kMismatch, "{}: {} names for {} classes", file.string(), names.size(), classes);
  return names;
}

}  // namespace

Dataset dataset_from(const NpyArray& x, ArrayLayout layout, std::string_view origin) {
  if (x.dimensions.empty()) fail(ErrorCode::kMismatch, "{}: a single number, samples are expected", origin);
  // An extent of 0 lets a few bytes promise any number of samples.
  if (x.bytes.empty()) fail(ErrorCode::kMismatch, "{}: no elements in it, samples are expected", origin);
  Dataset data = labelled(x, layout, origin, std::vector<int32_t>(to_size(x.dimensions.front())));
  data.classes = 1;
  data.name = data.source = origin;
  return data;
}

DataSplit load_arrays(std::string_view arguments, std::string_view what) {
  const NameSettings settings(arguments, what, {"layout", "ids", "hold-out", "seed"}, kArraysForm);
  const std::string word = settings.word("layout", {"guess", "hwc", "chw", "steps", "ids"});
  const ArrayLayout layout = word == "hwc"     ? ArrayLayout::kHwc
                             : word == "chw"   ? ArrayLayout::kChw
                             : word == "steps" ? ArrayLayout::kSteps
                             : word == "ids"   ? ArrayLayout::kIds
                                               : ArrayLayout::kGuess;
  if (settings.find("ids") != nullptr && layout != ArrayLayout::kIds)
    fail(ErrorCode::kUsage, "data \"{}\": ids has no effect without layout=ids", what);
  const fs::path path = settings.path();
  NpzFile arrays = read_arrays(path);
  const auto array = [&](const char* name) -> const NpyArray& {
    const auto found = arrays.find(name);
    if (found == arrays.end())
      fail(ErrorCode::kNotFound, "{}: no array \"{}\" in it; expected x_train, y_train, x_test, y_test, or x and y", path.string(), name);
    if (found->second.dimensions.empty()) fail(ErrorCode::kMismatch, "{}: {} is a single number", path.string(), name);
    return found->second;
  };
  const auto origin = [&](const char* name) { return fmt::format("{}: {}", path.string(), name); };
  const auto part = [&](const char* x_name, const char* y_name) {
    const NpyArray& x = array(x_name);
    return labelled(x, layout, origin(x_name), labels_of(array(y_name), x.dimensions.front(), origin(y_name)));
  };

  DataSplit data;
  const auto names = std::ranges::find_if(kDivided, [&](const Names& known) { return arrays.contains(known.x_train); });
  if (names != kDivided.end()) {
    if (settings.find("hold-out") != nullptr || settings.find("seed") != nullptr)
      fail(ErrorCode::kUsage, "data \"{}\": {} has its own test samples, so hold-out and seed have no effect; leave them out", what,
           path.string());
    data = {part(names->x_train, names->y_train), part(names->x_test, names->y_test)};
  } else {
    const NpyArray &x = array("x"), &y = array("y");
    const int64_t samples = x.dimensions.front();
    labels_of(y, samples, origin("y"));
    if (samples < 2) fail(ErrorCode::kMismatch, "{}: {} samples, at least two are needed to hold one out", path.string(), samples);
    const double share = settings.number("hold-out", 0.2, 0, 0.9);
    const auto seed = static_cast<uint64_t>(settings.whole("seed", 1, 0, INT64_MAX));
    const auto held = std::clamp<int64_t>(std::lround(share * static_cast<double>(samples)), 1, samples - 1);
    std::vector<int64_t> order = shuffled_indices(samples, seed, stream_id("hold-out"));
    std::vector<int64_t> out(order.begin(), order.begin() + held), kept(order.begin() + held, order.end());
    std::ranges::sort(out);
    std::ranges::sort(kept);
    const auto taken = [&](const std::vector<int64_t>& places) {
      return labelled(taken_from(x, places), layout, origin("x"),
                      labels_of(taken_from(y, places), static_cast<int64_t>(places.size()), origin("y")));
    };
    data = {taken(kept), taken(out)};
  }
  if (data.train.shape != data.test.shape || data.train.kind != data.test.kind || !data.train.sequences != !data.test.sequences)
    fail(ErrorCode::kMismatch, "{}: samples to train on are {}, to test on {}, or of other elements", path.string(),
         text_of(data.train.shape), text_of(data.test.shape));
  if (layout == ArrayLayout::kIds) {
    const int64_t seen = std::max(data.train.vocabulary, data.test.vocabulary), said = settings.whole("ids", seen, 1, 1 << 24);
    if (seen > said) fail(ErrorCode::kMismatch, "{}: id {}, but there are {}, says ids", path.string(), seen - 1, said);
    data.train.vocabulary = data.test.vocabulary = said;
  }
  int32_t most = 0;
  std::vector<int32_t> label(1);
  for (const Dataset* const each : {&data.train, &data.test})
    for (int64_t sample = 0; sample < each->size(); ++sample) {
      if (each->sequences)
        each->sequences->read_labels(sample, label);
      else
        label[0] = item(each->labels, sample);
      most = std::max(most, label[0]);
    }
  const std::vector<std::string> class_names = class_names_beside(path, int64_t{most} + 1);
  for (Dataset* const each : {&data.train, &data.test}) {
    each->classes = int64_t{most} + 1;
    each->class_names = class_names;
    each->source = path.string();
    each->licence = "the file's own";
  }
  if (!data.train.sequences) data.train.normalisation = data.test.normalisation = measure_normalisation(data.train);
  return data;
}

}  // namespace millrace
