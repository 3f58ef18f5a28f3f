// Images that are drawn when they are asked for: every class has a coarse random pattern, every sample that pattern
// under noise. They can be learnt and cost no memory, so a 224x224 set of a million images is as cheap as a small one.
// They show throughput and that training works; they say nothing about accuracy on real images.
//
//   const SyntheticImages images{.seed = 7, .shape = {3, 32, 32}, .classes = 10};
//   draw_image(images, 42, pixels);               // the same bytes on every machine, in any order
//
// Plain values, thread safe.
#pragma once

#include <cstdint>
#include <span>

#include "core/documents/model.h"

namespace millrace {

struct SyntheticImages {
  uint64_t seed = 1;
  Shape shape;
  int64_t classes = 1;
  int64_t first = 0;  // added to a sample's index: training and test parts of one seed do not overlap
};

int32_t label_of(const SyntheticImages& images, int64_t sample);
// [channel][row][column]; `pixels` holds shape.elements().
void draw_image(const SyntheticImages& images, int64_t sample, std::span<uint8_t> pixels);

}  // namespace millrace
