// From a data set's bytes to what the network sees: adapted to its input, augmented, normalised.
//
//   const ImageTransform training(data.train, adapted.transform, job.augmentation, job.seed);
//   const ImageTransform evaluation(data.test, adapted.transform);
//   training.apply(image_of(data.train, sample, scratch), epoch, sample, pixels);     // [channel][row][column]
//
// In this order: repeat the channel, enlarge, pad (core/graph/adapt.h), crop at random, flip at random, normalise. Which part of a picture
// file is read at all is drawn before (draw_of).
// What is added around an image is black (byte 0) and then normalised like any pixel.
// The random choices are a pure function of (seed, epoch, sample): the same on any number of ranks, in any batch.
// Immutable, copied freely, thread safe; nothing is borrowed from the data set.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/data/dataset.h"
#include "core/data/resize.h"
#include "core/documents/job.h"
#include "core/graph/adapt.h"

namespace millrace {

class ImageTransform {
 public:
  // Fails with kUsage when the crop's padding is negative or as large as the image.
  ImageTransform(const Dataset& data, const DataTransform& adaptation, const Augmentation& augmentation = {}, uint64_t seed = 0);

  const Shape& output() const { return output_; }
  // `image` as image_of gives it; `pixels` holds output().elements().
  void apply(std::span<const uint8_t> image, int64_t epoch, int64_t sample, std::span<float> pixels) const;

  // Which part of the image, padded by crop_padding on each side, a sample shows in an epoch.
  struct View {
    int64_t top = 0, left = 0;  // 0 .. 2 * crop_padding
    bool flipped = false;
    bool operator==(const View&) const = default;
  };
  View view_of(int64_t epoch, int64_t sample) const;
  // What Augmentation::crop_area shows of a picture file; empty where it is off.
  std::optional<PictureDraw> draw_of(int64_t epoch, int64_t sample) const;

 private:
  Shape source_;
  Shape output_;
  Augmentation augmentation_;
  uint64_t seed_;
  // Per row (column) of the adapted image with the crop's padding around it: the source's row (column), or -1 outside.
  std::vector<int64_t> rows_;
  std::vector<int64_t> columns_;
  std::vector<std::array<float, 256>> normalised_;  // per source channel, by byte
};

}  // namespace millrace
