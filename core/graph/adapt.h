// Fits a model to a data set: the images are brought to the network's input, or the network takes them as they are, and
// the head gets as many scores as there are classes. Whatever is done is also said.
//
//   const AdaptedModel adapted = adapt(zoo_model("lenet5"), {1, 28, 28}, 10);
//   for (const std::string& note : adapted.notes) log::info("{}", note);    // "images are padded with zeros from 28x28 to 32x32"
//   // the data pipeline applies adapted.transform to every sample
//
// The rule, in this order:
//   1. The network's input stays what the model says when the images can be brought there: one grey channel repeated to
//      three, enlarged by the largest whole number that fits (each pixel repeated), zeros added around, at most
//      kMostPadding on each side. Images are never shrunk or cropped.
//   2. Otherwise a network whose weights do not depend on the size of its input (convolutions up to a global pooling,
//      recurrent layers over steps) takes the data's size.
//   3. Otherwise Error(kMismatch), with both shapes and what would fit.
// Sequences (token ids, features) are never enlarged or cut: the network takes as many steps as the longest sample has, as
// many features a step, and an embedding of the data's vocabulary. adapt(model, shape, classes) sees no more than a shape and
// refuses other features.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/model.h"
#include "core/graph/data_form.h"

namespace millrace {

inline constexpr int64_t kMostPadding = 8;

// What to do with each sample, in this order: repeat the channel, enlarge, pad with zeros.
struct DataTransform {
  int64_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int64_t scale = 1;
  bool repeat_channels = false;  // one channel becomes Shape::channels of the output, which is 3
  Shape output;
  bool operator==(const DataTransform&) const = default;
};

struct AdaptedModel {
  Model model;
  DataTransform transform;
  std::vector<std::string> notes;  // one sentence per change; empty when everything fits already
};

// `classes` is at least 1. Fails as Graph does when the model itself makes no sense.
AdaptedModel adapt(const Model& model, const Shape& data_shape, int64_t classes);
// Of sequences too. Besides, refuses with kMismatch a loss that does not fit the labels, labels at other places than the
// scores, and layers that cannot take samples of unequal length.
AdaptedModel adapt(const Model& model, const DataForm& data);

}  // namespace millrace
