#include "core/data/resize.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

uint8_t byte_of(float value) { return static_cast<uint8_t>(std::clamp(static_cast<int>(value + 0.5F), 0, 255)); }

// Lines of bytes, one behind the other, for one row of sums, which they begin or are added to: most of the time that is not the decoder's.
// Sums of wide pictures leave the first cache, so they are fetched once for several lines.
template <int kLines>
[[gnu::always_inline]] inline void add_lines(const uint8_t* __restrict from, size_t wide, const float* weights, bool begins,
                                             float* __restrict sums) {
  const auto added = [&](size_t i, float sum, int line) {
    for (; line < kLines; ++line) sum += weights[line] * static_cast<float>(from[to_size(line) * wide + i]);
    return sum;
  };
  if (begins) {
    for (size_t i = 0; i < wide; ++i) sums[i] = added(i, weights[0] * static_cast<float>(from[i]), 1);
  } else {
    for (size_t i = 0; i < wide; ++i) sums[i] = added(i, sums[i], 0);
  }
}
[[gnu::always_inline]] inline void add_up_to_four(const uint8_t* from, size_t wide, int64_t lines, const float* weights, bool begins,
                                                  float* sums) {
  switch (lines) {
    case 1: return add_lines<1>(from, wide, weights, begins, sums);
    case 2: return add_lines<2>(from, wide, weights, begins, sums);
    case 3: return add_lines<3>(from, wide, weights, begins, sums);
    default: return add_lines<4>(from, wide, weights, begins, sums);
  }
}
constexpr int64_t kMostLines = 4;

using AddLines = void (*)(const uint8_t*, size_t, int64_t, const float*, bool, float*);
void add_anywhere(const uint8_t* from, size_t wide, int64_t lines, const float* weights, bool begins, float* sums) {
  add_up_to_four(from, wide, lines, weights, begins, sums);
}
#ifdef __x86_64__
// The same bits, for there is no fused product in it.
[[gnu::target("avx2")]] void add_avx2(const uint8_t* from, size_t wide, int64_t lines, const float* weights, bool begins, float* sums) {
  add_up_to_four(from, wide, lines, weights, begins, sums);
}
const AddLines kAddLines = __builtin_cpu_supports("avx2") != 0 ? add_avx2 : add_anywhere;
#else
constexpr AddLines kAddLines = add_anywhere;
#endif

}  // namespace

PictureBox crop_of(const Shape& picture, const Shape& shape, PictureFit fit, int64_t shorter) {
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  if (fit == PictureFit::kStretch) return {0, 0, height, width};
  const auto rows = static_cast<double>(shape.height), columns = static_cast<double>(shape.width);
  // Pixels of the picture for one of the output.
  const double scale = shorter > 0 ? std::min(height, width) / static_cast<double>(shorter) : std::min(height / rows, width / columns);
  const double box_height = std::min(height, rows * scale), box_width = std::min(width, columns * scale);
  const double top = (height - box_height) / 2, left = (width - box_width) / 2;
  return {top, left, top + box_height, left + box_width};
}

PictureBox drawn_box(const Shape& picture, const Shape& shape, const PictureDraw& draw) {
  constexpr double kWidest = 4.0 / 3;
  const auto part_of_one = [&](size_t word) { return static_cast<double>(draw.words[word]) * 0x1p-32; };
  const auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  // Columns for one row; as often too wide as too high.
  const double ratio = static_cast<double>(shape.width) / static_cast<double>(shape.height) * std::pow(kWidest, 2 * part_of_one(0) - 1);
  const double area = height * width * (draw.smallest + (1 - draw.smallest) * part_of_one(1));
  const double rows = std::min({std::sqrt(area / ratio), height, width / ratio});
  const double columns = std::min(rows * ratio, width);
  const double top = (height - rows) * part_of_one(2), left = (width - columns) * part_of_one(3);
  return {top, left, top + rows, left + columns};
}

void PictureResizer::Axis::lay(int64_t input, int64_t output, double begin, double end) {
  const double scale = (end - begin) / static_cast<double>(output);
  const double widened = std::max(scale, 1.0);
  windows.resize(to_size(output));
  weights.clear();
  for (int64_t i = 0; i < output; ++i) {
    const double centre = begin + (static_cast<double>(i) + 0.5) * scale;
    Window& window = fast_item(windows, i);
    window.first = std::max<int64_t>(0, static_cast<int64_t>(std::floor(centre - widened + 0.5)));
    const int64_t behind = std::min(input, static_cast<int64_t>(std::floor(centre + widened + 0.5)));
    window.first = std::min(window.first, input - 1);
    window.count = std::max<int64_t>(1, behind - window.first);
    window.first_weight = static_cast<int64_t>(weights.size());
    double sum = 0;
    for (int64_t k = 0; k < window.count; ++k) {
      const double distance = std::abs((static_cast<double>(window.first + k) - centre + 0.5) / widened);
      const double weight = std::max(0.0, 1 - distance);
      weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    const auto of_window = std::span(weights).subspan(to_size(window.first_weight));
    if (sum > 0)
      for (float& weight : of_window) weight = static_cast<float>(weight / sum);
    else
      of_window[0] = 1;
  }
}

void PictureResizer::begin(const Shape& picture, const Shape& output, const PictureBox& box) {
  MILLRACE_CHECK((picture.channels == 1 || picture.channels == 3) && (output.channels == 1 || output.channels == 3),
                 "{} does not become {}", text_of(picture), text_of(output));
  picture_ = picture;
  output_ = output;
  rows_.lay(picture.height, output.height, box.top, box.bottom);
  columns_.lay(picture.width, output.width, box.left, box.right);
  first_column_ = columns_.windows.front().first;
  end_column_ = first_column_;
  for (Window& window : columns_.windows) end_column_ = std::max(end_column_, window.first + window.count);
  for (Window& window : columns_.windows) window.first -= first_column_;
  next_ = pending_ = 0;
  // How many output rows one input row may belong to.
  size_t together = 1;
  for (size_t i = 0, j = 0; j < rows_.windows.size(); ++j) {
    while (rows_.windows[i].first + rows_.windows[i].count <= rows_.windows[j].first) ++i;
    together = std::max(together, j - i + 1);
  }
  const auto wide = to_size((end_column_ - first_column_) * picture.channels);
  if (sums_.size() < together) sums_.resize(together);
  for (std::vector<float>& sums : sums_) sums.resize(wide);
  lines_.resize(kMostLines * wide);
  result_.assign(to_size(picture.channels * output.plane()), 0);
}

void PictureResizer::row(int64_t index, std::span<const uint8_t> pixels) {
  const std::vector<Window>& windows = rows_.windows;
  if (next_ >= static_cast<int64_t>(windows.size())) return;
  const Window& next = fast_item(windows, next_);
  if (index < next.first) return;
  const size_t wide = lines_.size() / kMostLines;
  if (pending_ == 0) first_pending_ = index;
  std::copy_n(pixels.data() + first_column_ * picture_.channels, wide, lines_.data() + to_size(pending_++) * wide);
  if (pending_ == kMostLines || next.first + next.count == index + 1) add_pending();
}

// Before any row is emitted, so that none of the sums is needed twice.
void PictureResizer::add_pending() {
  const std::vector<Window>& windows = rows_.windows;
  const auto ends = static_cast<int64_t>(windows.size());
  const int64_t behind = first_pending_ + pending_;
  for (int64_t r = next_; r < ends && fast_item(windows, r).first < behind; ++r) {
    const Window& window = fast_item(windows, r);
    std::vector<float>& sums = sums_[to_size(r) % sums_.size()];
    const int64_t begin = std::max(first_pending_, window.first);
    kAddLines(lines_.data() + to_size(begin - first_pending_) * sums.size(), sums.size(), behind - begin,
              rows_.weights.data() + window.first_weight + (begin - window.first), begin == window.first, sums.data());
  }
  pending_ = 0;
  for (; next_ < ends && fast_item(windows, next_).first + fast_item(windows, next_).count == behind; ++next_)
    emit(next_, sums_[to_size(next_) % sums_.size()]);
}

void PictureResizer::emit(int64_t output_row, const std::vector<float>& sums) {
  const int64_t channels = picture_.channels;
  for (int64_t x = 0; x < output_.width; ++x) {
    const Window& window = fast_item(columns_.windows, x);
    const float* const weights = columns_.weights.data() + window.first_weight;
    const float* const from = sums.data() + window.first * channels;
    float value[3] = {0, 0, 0};
    if (channels == 3) {
      for (int64_t k = 0; k < window.count; ++k)
        for (int64_t c = 0; c < 3; ++c) value[c] += weights[k] * from[3 * k + c];
    } else {
      for (int64_t k = 0; k < window.count; ++k) value[0] += weights[k] * from[k];
    }
    for (int64_t c = 0; c < channels; ++c) fast_item(result_, c * output_.plane() + output_row * output_.width + x) = byte_of(value[c]);
  }
}

void PictureResizer::finish(std::span<uint8_t> pixels) const {
  const auto plane = to_size(output_.plane());
  MILLRACE_CHECK(next_ == output_.height && pixels.size() == plane * to_size(output_.channels), "{} of {} rows for {} bytes", next_,
                 output_.height, pixels.size());
  if (picture_.channels == output_.channels) {
    std::ranges::copy(result_, pixels.begin());
  } else if (picture_.channels == 1) {
    for (size_t c = 0; c < 3; ++c) std::ranges::copy(result_, pixels.subspan(c * plane).begin());
  } else {  // the luma of Rec. 601, in 16 bits of fraction
    for (size_t i = 0; i < plane; ++i)
      pixels[i] = static_cast<uint8_t>((19595U * result_[i] + 38470U * result_[plane + i] + 7471U * result_[2 * plane + i] + 32768U) >> 16);
  }
}

}  // namespace millrace
