#include "core/data/transform.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr int64_t kOutside = -1;

// Where each position along one axis comes from: `around` + `before` positions outside, the source's `extent` enlarged,
// `after` + `around` outside.
std::vector<int64_t> sources_along(int64_t extent, int64_t scale, int64_t before, int64_t after, int64_t around) {
  std::vector<int64_t> sources(to_size(before + extent * scale + after + 2 * around), kOutside);
  for (int64_t i = 0; i < extent * scale; ++i) fast_item(sources, around + before + i) = i / scale;
  return sources;
}

uint64_t counter_of(int64_t epoch, int64_t sample) {
  constexpr int kSampleBits = 40;
  MILLRACE_CHECK(0 <= sample && sample >> kSampleBits == 0 && 0 <= epoch && epoch >> (63 - kSampleBits) == 0,
                 "sample {} of epoch {} has no counter of its own", sample, epoch);
  return (static_cast<uint64_t>(epoch) << kSampleBits) | static_cast<uint64_t>(sample);
}

// An integer in [0, bound) from one random word.
int64_t scaled(uint32_t word, int64_t bound) { return static_cast<int64_t>((uint64_t{word} * static_cast<uint64_t>(bound)) >> 32); }

}  // namespace

ImageTransform::ImageTransform(const Dataset& data, const DataTransform& adaptation, const Augmentation& augmentation, uint64_t seed)
    : source_(data.shape), output_(adaptation.output), augmentation_(augmentation), seed_(seed) {
  const int64_t around = augmentation.crop_padding;
  const int64_t limit = std::min(output_.height, output_.width);
  if (around < 0 || (around > 0 && around >= limit))
    fail(ErrorCode::kUsage, "augmentation: crop padding {} for images of {}, expected 0 to {}", around, text_of(output_), limit - 1);
  if (augmentation.crop_area > 0 && !std::holds_alternative<std::shared_ptr<const PictureFiles>>(data.images))
    fail(ErrorCode::kUsage,
         "augmentation: a random part of {} of the area is cut out of picture files, and the images of {} have the network's size already; "
         "give a crop padding instead (--crop 4)",
         augmentation.crop_area, data.name);
  MILLRACE_CHECK(output_.channels == source_.channels || (adaptation.repeat_channels && source_.channels == 1),
                 "{} does not become {} by repeating a channel", text_of(source_), text_of(output_));

  rows_ = sources_along(source_.height, adaptation.scale, adaptation.pad_top, adaptation.pad_bottom, around);
  columns_ = sources_along(source_.width, adaptation.scale, adaptation.pad_left, adaptation.pad_right, around);
  MILLRACE_CHECK(static_cast<int64_t>(rows_.size()) == output_.height + 2 * around &&
                     static_cast<int64_t>(columns_.size()) == output_.width + 2 * around,
                 "{} does not become {} by scale {} and padding", text_of(source_), text_of(output_), adaptation.scale);

  const Normalisation& normalisation = data.normalisation;
  const auto channels = to_size(source_.channels);
  MILLRACE_CHECK(normalisation.mean.size() == channels && normalisation.stddev.size() == channels,
                 "{}: normalisation of {} channels for images of {}", data.name, normalisation.mean.size(), channels);
  normalised_.resize(channels);
  for (size_t channel = 0; channel < channels; ++channel)
    for (size_t byte = 0; byte < 256; ++byte)
      normalised_[channel][byte] =
          static_cast<float>((static_cast<double>(byte) / 255 - normalisation.mean[channel]) / normalisation.stddev[channel]);
}

ImageTransform::View ImageTransform::view_of(int64_t epoch, int64_t sample) const {
  if (augmentation_.crop_padding == 0 && !augmentation_.flip) return {};
  const Philox draw(seed_, stream_id("augment"));
  const std::array<uint32_t, 4> words = draw.block(counter_of(epoch, sample));
  const int64_t positions = 2 * augmentation_.crop_padding + 1;
  return {scaled(words[0], positions), scaled(words[1], positions), augmentation_.flip && (words[2] >> 31) != 0};
}

std::optional<PictureDraw> ImageTransform::draw_of(int64_t epoch, int64_t sample) const {
  if (augmentation_.crop_area <= 0) return {};
  return PictureDraw{augmentation_.crop_area, Philox(seed_, stream_id("crop area")).block(counter_of(epoch, sample))};
}

void ImageTransform::apply(std::span<const uint8_t> image, int64_t epoch, int64_t sample, std::span<float> pixels) const {
  MILLRACE_CHECK(static_cast<int64_t>(image.size()) == source_.elements() && static_cast<int64_t>(pixels.size()) == output_.elements(),
                 "{} bytes to {} pixels, expected {} to {}", image.size(), pixels.size(), source_.elements(), output_.elements());
  const View view = view_of(epoch, sample);
  const int64_t* rows = rows_.data() + view.top;
  const int64_t* columns = columns_.data() + view.left;
  const int64_t first_column = view.flipped ? output_.width - 1 : 0;
  const int64_t column_step = view.flipped ? -1 : 1;

  float* out = pixels.data();
  for (int64_t channel = 0; channel < source_.channels; ++channel) {
    const std::array<float, 256>& value_of = fast_item(normalised_, channel);
    const uint8_t* plane = image.data() + channel * source_.plane();
    for (int64_t row = 0; row < output_.height; ++row) {
      if (rows[row] == kOutside) {
        out = std::fill_n(out, output_.width, value_of[0]);
        continue;
      }
      const uint8_t* line = plane + rows[row] * source_.width;
      const int64_t* from = columns + first_column;
      for (int64_t column = 0; column < output_.width; ++column, from += column_step)
        *out++ = *from == kOutside ? value_of[0] : value_of[line[*from]];
    }
  }
  const auto plane = to_size(output_.plane());
  for (int64_t channel = source_.channels; channel < output_.channels; ++channel) out = std::copy_n(pixels.data(), plane, out);
}

}  // namespace millrace
