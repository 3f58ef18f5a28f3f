// Memories and register writes as the files that $readmemh takes.
//
//   write("images/weights.hex", hex_words<int16_t>(words, 64));          // 64 elements a line, the first in the lowest bits
//   write("vectors/memory.hex", hex_memory(elements, 4096));             // the memory outside, from that byte on
//   write("vectors/start.hex", register_writes(xrt::writes_of(run)));
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/registers/kernel_registers.h"

namespace millrace {

// Words of `per_word` elements, one per line, the first element in the lowest bits.
template <typename Element>
std::string hex_words(std::span<const Element> elements, int64_t per_word) {
  std::string text;
  const auto count = to_size(per_word);
  for (size_t word = 0; word + count <= elements.size(); word += count) {
    for (size_t i = count; i-- > 0;)
      text += fmt::format("{:0{}x}", static_cast<std::make_unsigned_t<Element>>(elements[word + i]), sizeof(Element) * 2);
    text += '\n';
  }
  return text;
}

// Words of 64 bits of the memory outside, from a byte on.
template <typename Element>
std::string hex_memory(std::vector<Element> elements, int64_t first_byte) {
  constexpr int64_t kPerWord = 8 / sizeof(Element);
  elements.resize(to_size(rounded_up(static_cast<int64_t>(elements.size()), kPerWord)));
  return fmt::format("@{:x}\n{}", first_byte / 8, hex_words<Element>(elements, kPerWord));
}

// Place and value of each, 32 bits.
inline std::string register_writes(std::span<const xrt::RegisterWrite> writes) {
  std::string text;
  for (const xrt::RegisterWrite& write : writes) text += fmt::format("{:08x}{:08x}\n", write.offset, write.value);
  return text;
}

}  // namespace millrace
