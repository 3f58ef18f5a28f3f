// Bits of a Verilated port, whatever its width: Verilator makes a byte, a short, a word, two words or an array of it.
//
//   set_elements<int16_t>(model.activation_tdata, beat);       // sixteen bits each, the first lowest
//   get_elements<int16_t>(model.sum_tdata, beat);
#pragma once

#include <verilated.h>

#include <cstdint>
#include <span>
#include <type_traits>

namespace millrace {

// Elements are 16 or 32 bits wide at multiples of their width, so they never cross a word.
template <std::size_t Words>
inline void put_bits(VlWide<Words>& port, size_t lowest, size_t width, uint64_t value) {
  const uint32_t mask = width == 32 ? 0xffffffffU : (uint32_t{1} << width) - 1;
  EData& word = port[lowest / 32];
  word = (word & ~(mask << (lowest % 32))) | ((static_cast<uint32_t>(value) & mask) << (lowest % 32));
}
template <typename Port>
requires std::is_integral_v<Port>
inline void put_bits(Port& port, size_t lowest, size_t width, uint64_t value) {
  const uint64_t mask = (width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1) << lowest;
  port = static_cast<Port>((static_cast<uint64_t>(port) & ~mask) | (value << lowest & mask));
}
template <std::size_t Words>
inline uint64_t take_bits(const VlWide<Words>& port, size_t lowest, size_t width) {
  return port[lowest / 32] >> (lowest % 32) & (width == 32 ? 0xffffffffU : (uint32_t{1} << width) - 1);
}
template <typename Port>
requires std::is_integral_v<Port>
inline uint64_t take_bits(const Port& port, size_t lowest, size_t width) {
  return static_cast<uint64_t>(port) >> lowest & (width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1);
}

template <typename Port>
void set_number(Port& port, int64_t value) {
  port = static_cast<Port>(value);
}
template <typename Element, typename Port>
void set_elements(Port& port, std::span<const Element> elements) {
  constexpr size_t kBits = sizeof(Element) * 8;
  for (size_t i = 0; i < elements.size(); ++i)
    put_bits(port, i * kBits, kBits, static_cast<uint64_t>(static_cast<std::make_unsigned_t<Element>>(elements[i])));
}
template <typename Element, typename Port>
void get_elements(const Port& port, std::span<Element> elements) {
  constexpr size_t kBits = sizeof(Element) * 8;
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<Element>(take_bits(port, i * kBits, kBits));
}

}  // namespace millrace
