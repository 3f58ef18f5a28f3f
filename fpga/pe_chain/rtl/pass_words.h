// The words of a pass through the engine of chained elements, as its streams carry them.
//
//   const std::vector<int16_t> words = pass_words(hardware, settings, {.samples = 2, .steps = 5}, units, back, /*parts=*/4, /*width=*/7,
//       [&](int64_t sample, int64_t step, int64_t unit, int64_t part) { return sums[...]; });
//
// In the order of its steps, back the last one first: a word has `width` parts of every chain, of which `parts` are given, zero else and
// where there is no unit. A step that projects has words of two products: step_words() asks for those of each.
#pragma once

#include <vector>

#include "core/base/index.h"
#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

// Adds the words of one product and step; `value` is of a sample, a unit and a part.
template <typename Element, typename Value>
void add_words(const PeChainHardware& hardware, int64_t words_each, int64_t samples, int64_t units, int64_t parts, int64_t width,
               const Value& value, std::vector<Element>& words) {
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t word = 0; word < words_each; ++word)
      for (int64_t part = 0; part < width; ++part)
        for (int64_t lane = 0; lane < hardware.chains; ++lane) {
          const int64_t unit = word * hardware.chains + lane;
          words.push_back(unit < units && part < parts ? value(sample, unit, part) : Element{0});
        }
}

template <typename Value>
auto pass_words(const PeChainHardware& hardware, const PassSettings& settings, const PassShape& shape, int64_t units, bool back,
                int64_t parts, int64_t width, const Value& value) {
  using Element = decltype(value(int64_t{}, int64_t{}, int64_t{}, int64_t{}));
  std::vector<Element> words;
  words.reserve(to_size(shape.steps * shape.samples * settings.words * width * hardware.chains));
  for (int64_t i = 0; i < shape.steps; ++i)
    add_words(
        hardware, settings.words, shape.samples, units, parts, width,
        [&](int64_t sample, int64_t unit, int64_t part) { return value(sample, back ? shape.steps - 1 - i : i, unit, part); }, words);
  return words;
}

// What a word of a product has: parts, and of how many units. None: the product has no words in that stream.
struct ProductParts {
  int64_t units = 0, parts = 0;
};
// As pass_words(), where a step has words of the recurrent product and of the projection; where it has one product, of that alone. `gated`
// is of the one that the gates follow; `value` and `plain` are of a sample, a step, a unit and a part of it and of the other one.
template <typename Value, typename Plain>
auto step_words(const PeChainHardware& hardware, const StepSettings& settings, const PassShape& shape, bool back, int64_t width,
                const ProductParts& gated, const Value& value, const ProductParts& other, const Plain& plain) {
  std::vector<decltype(value(int64_t{}, int64_t{}, int64_t{}, int64_t{}))> words;
  for (int64_t i = 0; i < shape.steps; ++i) {
    const int64_t step = back ? shape.steps - 1 - i : i;
    const auto add = [&](const PassSettings& product, const ProductParts& of, const auto& from) {
      if (of.parts > 0)
        add_words(
            hardware, product.words, shape.samples, of.units, of.parts, width,
            [&](int64_t sample, int64_t unit, int64_t part) { return from(sample, step, unit, part); }, words);
    };
    const bool gated_too = back && settings.projects ? settings.has_projection() : settings.has_recurrent();
    if (settings.projects && back && settings.has_recurrent()) add(settings.recurrent, other, plain);
    if (gated_too) add(settings.gated(back), gated, value);
    if (!back && settings.has_projection()) add(settings.projection, other, plain);
  }
  return words;
}

}  // namespace millrace
