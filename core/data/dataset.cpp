#include "core/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/data/picture_files.h"

namespace millrace {

std::span<const uint8_t> image_of(const Dataset& data, int64_t sample, std::span<uint8_t> scratch, const PictureDraw* draw) {
  MILLRACE_CHECK(0 <= sample && sample < data.size(), "sample {} of the {} in {}", sample, data.size(), data.name);
  const auto elements = to_size(data.shape.elements());
  if (const auto* stored = std::get_if<std::vector<uint8_t>>(&data.images)) {
    const size_t begin = to_size(sample) * elements;
    MILLRACE_CHECK(begin + elements <= stored->size(), "{}: {} bytes do not hold sample {}", data.name, stored->size(), sample);
    return std::span(*stored).subspan(begin, elements);
  }
  if (const auto* files = std::get_if<std::shared_ptr<const PictureFiles>>(&data.images))
    (*files)->read(sample, scratch.first(elements), draw);
  else
    draw_image(std::get<SyntheticImages>(data.images), sample, scratch);
  return scratch.first(elements);
}

Normalisation measure_normalisation(const Dataset& data) {
  constexpr int64_t kReadSamples = 256;
  const bool stored = std::holds_alternative<std::vector<uint8_t>>(data.images);
  const bool files = std::holds_alternative<std::shared_ptr<const PictureFiles>>(data.images);
  const int64_t samples = stored ? data.size() : std::min(data.size(), kReadSamples);
  const int64_t apart = files && samples > 0 ? data.size() / samples : 1;  // files lie in the order of their classes
  const auto plane = to_size(data.shape.plane());
  const auto channels = to_size(data.shape.channels);

  // Whole numbers, so that the result does not depend on the order of the sum.
  std::vector<uint64_t> sums(channels), squares(channels);
  std::vector<uint8_t> scratch(to_size(data.shape.elements()));
  for (int64_t sample = 0; sample < samples; ++sample) {
    const std::span<const uint8_t> pixels = image_of(data, sample * apart, scratch);
    for (size_t channel = 0; channel < channels; ++channel) {
      uint64_t sum = 0, square = 0;
      for (const uint8_t pixel : pixels.subspan(channel * plane, plane)) {
        sum += pixel;
        square += uint32_t{pixel} * pixel;
      }
      sums[channel] += sum;
      squares[channel] += square;
    }
  }

  Normalisation result;
  const double count = static_cast<double>(samples) * static_cast<double>(plane);
  for (size_t channel = 0; channel < channels; ++channel) {
    const double mean = count > 0 ? static_cast<double>(sums[channel]) / count : 0;
    const double variance = count > 0 ? std::max(0.0, static_cast<double>(squares[channel]) / count - mean * mean) : 0;
    // Bytes that differ at all differ by one: anything far below that is rounding.
    result.mean.push_back(mean / 255);
    result.stddev.push_back(variance * count > 0.25 ? std::sqrt(variance) / 255 : 1);
  }
  return result;
}

DataForm form_of(const Dataset& data) {
  return {.kind = data.kind,
          .shape = data.shape,
          .classes = data.classes,
          .vocabulary = data.vocabulary,
          .labels = data.label_form,
          .lengths_differ = data.lengths_differ};
}

void cut_to(DataSplit& data, const Model& model) {
  const int64_t steps = model.input.height;
  if (!data.train.sequences || model.input_kind != data.train.kind || steps == data.train.shape.height) return;
  for (Dataset* part : {&data.train, &data.test}) {
    try {
      std::shared_ptr<const Sequences> cut = part->sequences->cut(steps);
      if (cut == nullptr) return;
      part->sequences = std::move(cut);
    } catch (const Error& error) {
      throw error.within(part->name);
    }
    part->shape.height = steps;
    if (part->label_form == LabelForm::kPerStep) part->labels_each = steps;
  }
}

std::string describe(const Dataset& data) {
  std::string classes = fmt::format("{}", data.classes);
  if (!data.class_names.empty()) {
    constexpr size_t kShown = 12;
    const size_t shown = std::min(kShown, data.class_names.size());
    classes += fmt::format(" ({}{})", fmt::join(data.class_names.begin(), data.class_names.begin() + static_cast<ptrdiff_t>(shown), ", "),
                           shown < data.class_names.size() ? ", ..." : "");
  }
  std::string notes;
  for (const std::string& note : data.notes) notes += "\n  note     " + note;
  return fmt::format("{}\n  samples  {}\n  shape    {}\n  classes  {}\n  source   {}\n  licence  {}{}", data.name, data.size(),
                     text_of(data.shape), classes, data.source, data.licence, notes);
}

}  // namespace millrace
