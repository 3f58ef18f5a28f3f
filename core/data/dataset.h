// A data set: images as bytes with a label each, or sequences, and what people ought to know about where they come from.
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
// Sequences are read through core/data/sequences.h; data sets share them, so copies cost nothing. What a network is fitted to is
// form_of(data), and running text is cut into the steps the network takes by cut_to(data, model).
// Limits: images have one label each. Nothing is ever downloaded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/data/sequences.h"
#include "core/data/synthetic.h"
#include "core/documents/model.h"
#include "core/graph/data_form.h"

namespace millrace {

class PictureFiles;  // core/data/picture_files.h
struct PictureDraw;  // core/data/resize.h

// Per channel, of pixels in 0..1. A network sees (pixel - mean) / stddev.
struct Normalisation {
  std::vector<double> mean;
  std::vector<double> stddev;
  bool operator==(const Normalisation&) const = default;
};

struct Dataset {
  std::string name;  // "fashion-mnist/train"
  InputKind kind = InputKind::kImage;
  Shape shape;  // sequences: {features, steps of the longest sample of either part, 1}
  int64_t classes = 0;
  std::vector<std::string> class_names;  // one per class, or none at all
  // Stored, [sample][channel][row][column]; drawn; or read from files when they are asked for.
  std::variant<std::vector<uint8_t>, SyntheticImages, std::shared_ptr<const PictureFiles>> images;
  std::vector<int32_t> labels;                 // 0..classes-1, one per image; none for sequences
  Normalisation normalisation;                 // of the training part, for both parts; images only
  std::shared_ptr<const Sequences> sequences;  // null for images
  LabelForm label_form = LabelForm::kOne;
  int64_t labels_each = 1;      // of a sample: 1, as many as steps, or those of the longest row
  int64_t vocabulary = 0;       // tokens: ids are below it
  bool lengths_differ = false;  // samples end at different steps
  bool flows = false;           // a sample begins where the one before it ends
  int64_t readers = 1;          // threads that a loader reads samples with
  std::string source;
  std::string licence;
  std::vector<std::string> notes = {};  // what was left out, and why

  int64_t size() const { return sequences ? sequences->size() : static_cast<int64_t>(labels.size()); }
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
//   pictures:FOLDER,size=CxHxW[,...]      JPEG and PNG files, a folder per class: core/data/picture_files.h
//   arrays:FILE.npz or FOLDER[,...]       NumPy's arrays of images or of steps of features: core/data/arrays.h
//   text                                  the characters of Genesis and Exodus 1 to 20, which come with Millrace
//   text:FILE, text:kjv                   of a UTF-8 file, plain or .gz; of the whole King James Bible, from the Debian packages
//                                         bible-kjv and bible-kjv-text
//   speech, speech:PROMPTS[:SECONDS]      spoken prompts and what they say, from the Debian packages asterisk-core-sounds-en-wav and
//                                         asterisk-core-sounds-en; so many of them, none longer
//   adding:STEPS[:SAMPLES[:SEED]]         generated: the adding problem, see core/data/generated.h; 10,000 samples unless given
//   ctc:CLASSES:LABELS[:SAMPLES[:SEED]]   generated: rows of up to LABELS labels heard under noise; 2,000 samples unless given
// Fails with kUsage for anything else (nearest name suggested), kNotFound naming the missing file, kMalformed naming
// the file, what was expected and what was found.
DataSplit load_data(std::string_view what);

// The pixels of one sample, [channel][row][column]. Points into the data set, or into `scratch` (shape.elements()
// bytes) when they had to be drawn. Of a picture file a draw says which part is read (core/data/resize.h).
std::span<const uint8_t> image_of(const Dataset& data, int64_t sample, std::span<uint8_t> scratch, const PictureDraw* draw = nullptr);

// Mean and standard deviation per channel, exact over all stored pixels; over the first 256 samples of generated ones, and over 256
// of those read from files, evenly apart.
// A channel that never varies gets a deviation of 1.
Normalisation measure_normalisation(const Dataset& data);

// What adapt() has to know.
DataForm form_of(const Dataset& data);

// Running text has no length of its own: cut into samples of as many steps as the model takes. Other data stays as it is.
void cut_to(DataSplit& data, const Model& model);

// Name, samples, shape, classes, source and licence, over several lines without a final line break.
std::string describe(const Dataset& data);

}  // namespace millrace
