// A data set: images as bytes, a label each, and what people ought to know about where they come from.
//
//   const DataSplit data = load_data("fashion-mnist");
//   log::info("{}", describe(data.train));
//   std::vector<uint8_t> scratch(data.train.shape.elements());
//   std::span<const uint8_t> pixels = image_of(data.train, 17, scratch);
//
// Pixels are bytes 0..255 throughout and stand for 0..1. What a network sees (padding, scaling, augmentation,
// normalisation) is core/data/transform.h; the order of samples is core/data/sampler.h; batches are core/data/loader.h.
// A Dataset is a plain value that nobody changes after loading; reading it from several threads is safe. Copying one
// copies its pixels: pass references.
// Limits: images with one label each. Nothing is ever downloaded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/data/synthetic.h"
#include "core/documents/model.h"

namespace millrace {

// Per channel, of pixels in 0..1. A network sees (pixel - mean) / stddev.
struct Normalisation {
  std::vector<double> mean;
  std::vector<double> stddev;
  bool operator==(const Normalisation&) const = default;
};

struct Dataset {
  std::string name;  // "fashion-mnist/train"
  Shape shape;
  int64_t classes = 0;
  std::vector<std::string> class_names;                        // one per class, or none at all
  std::variant<std::vector<uint8_t>, SyntheticImages> images;  // stored: [sample][channel][row][column]
  std::vector<int32_t> labels;                                 // 0..classes-1, one per sample
  Normalisation normalisation;                                 // of the training part, for both parts
  std::string source;
  std::string licence;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

struct DataSplit {
  Dataset train;
  Dataset test;
};

// The data a name stands for:
//   digits                                1,797 handwritten digits of 8x8 that come with Millrace
//   fashion-mnist                         70,000 images of 28x28 from the Debian package dataset-fashion-mnist
//   synthetic:3x32x32:10:50000[:SEED]     generated: channels x height x width, classes, training samples; a fifth as
//                                         many (at most 10,000) to test on; seed 1 unless given
//   idx:FOLDER                            MNIST's format and file names, plain or .gz; classes: the largest label + 1
//   cifar10:FOLDER, cifar100:FOLDER       CIFAR's binary version
// Fails with kUsage for anything else (nearest name suggested), kNotFound naming the missing file, kMalformed naming
// the file, what was expected and what was found.
DataSplit load_data(std::string_view what);

// The pixels of one sample, [channel][row][column]. Points into the data set, or into `scratch` (shape.elements()
// bytes) when they had to be drawn.
std::span<const uint8_t> image_of(const Dataset& data, int64_t sample, std::span<uint8_t> scratch);

// Mean and standard deviation per channel, exact over all stored pixels; over the first 256 samples of generated ones.
// A channel that never varies gets a deviation of 1.
Normalisation measure_normalisation(const Dataset& data);

// Name, samples, shape, classes, source and licence, over several lines without a final line break.
std::string describe(const Dataset& data);

}  // namespace millrace
