#include "core/data/synthetic.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/base/random.h"

namespace millrace {
namespace {

constexpr int64_t kGrid = 4;  // a class's pattern has kGrid x kGrid cells per channel
constexpr size_t kBytesPerBlock = 16;

void fill_with_noise(const Philox& draw, uint64_t first_block, std::span<uint8_t> bytes) {
  for (size_t start = 0; start < bytes.size(); start += kBytesPerBlock) {
    const std::array<uint32_t, 4> words = draw.block(first_block + start / kBytesPerBlock);
    const size_t count = std::min(kBytesPerBlock, bytes.size() - start);
    for (size_t i = 0; i < count; ++i) bytes[start + i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
  }
}

}  // namespace

int32_t label_of(const SyntheticImages& images, int64_t sample) {
  const Philox draw(images.seed, stream_id("synthetic", "label"));
  return static_cast<int32_t>(draw.below(static_cast<uint64_t>(images.first + sample), static_cast<uint64_t>(images.classes)));
}

void draw_image(const SyntheticImages& images, int64_t sample, std::span<uint8_t> pixels) {
  const Shape& shape = images.shape;
  MILLRACE_CHECK(static_cast<int64_t>(pixels.size()) == shape.elements(), "{} bytes for an image of {}", pixels.size(), shape.elements());
  const uint64_t blocks_per_image = (pixels.size() + kBytesPerBlock - 1) / kBytesPerBlock;
  fill_with_noise(Philox(images.seed, stream_id("synthetic", "noise")), static_cast<uint64_t>(images.first + sample) * blocks_per_image,
                  pixels);

  const Philox pattern(images.seed, stream_id("synthetic", "pattern"));
  const int64_t label = label_of(images, sample);
  uint8_t* pixel = pixels.data();
  for (int64_t channel = 0; channel < shape.channels; ++channel) {
    std::array<uint8_t, kGrid * kGrid> cells;
    fill_with_noise(pattern, static_cast<uint64_t>(label * shape.channels + channel), cells);
    for (int64_t row = 0; row < shape.height; ++row) {
      const uint8_t* cell_row = cells.data() + row * kGrid / shape.height * kGrid;
      for (int64_t column = 0; column < shape.width; ++column, ++pixel)
        *pixel = static_cast<uint8_t>((cell_row[column * kGrid / shape.width] + *pixel) / 2);
    }
  }
}

}  // namespace millrace
