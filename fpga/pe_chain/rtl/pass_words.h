// The words of a pass through the engine of chained elements, as its streams carry them.
//
//   const std::vector<int16_t> words = pass_words(hardware, settings, {.samples = 2, .steps = 5}, units, back, /*parts=*/4, /*width=*/7,
//       [&](int64_t sample, int64_t step, int64_t unit, int64_t part) { return sums[...]; });
//
// In the order of its steps, back the last one first: a word has `width` parts of every chain, of which `parts` are given, zero else and
// where there is no unit.
#pragma once

#include <vector>

#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

template <typename Value>
auto pass_words(const PeChainHardware& hardware, const PassSettings& settings, const PassShape& shape, int64_t units, bool back,
                int64_t parts, int64_t width, const Value& value) {
  using Element = decltype(value(int64_t{}, int64_t{}, int64_t{}, int64_t{}));
  std::vector<Element> words;
  words.reserve(static_cast<size_t>(shape.steps * shape.samples * settings.words * width * hardware.chains));
  for (int64_t i = 0; i < shape.steps; ++i)
    for (int64_t sample = 0; sample < shape.samples; ++sample)
      for (int64_t word = 0; word < settings.words; ++word)
        for (int64_t part = 0; part < width; ++part)
          for (int64_t lane = 0; lane < hardware.chains; ++lane) {
            const int64_t unit = word * hardware.chains + lane;
            const bool there = unit < units && part < parts;
            words.push_back(there ? value(sample, back ? shape.steps - 1 - i : i, unit, part) : Element{0});
          }
  return words;
}

}  // namespace millrace
