// Elements by indices of any integer type, checked, without a cast at each place.
//
//   const Link& link = item(plan.links, flow.link);           // an int64_t; fails the check when there is no such link
//   std::vector<float> values(to_size(shape.elements()));     // a count that cannot be negative
//
// A wrong index is a mistake of the program (check.h): it aborts, and says which index of how many. Inner loops of arithmetic, where a
// check costs what it protects, index their spans themselves.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace millrace {

[[noreturn]] void index_failed(int64_t index, size_t size, const std::source_location& where);
[[noreturn]] void size_failed(int64_t size, const std::source_location& where);

template <typename Values, std::integral Index>
constexpr decltype(auto) item(Values&& values, Index index, const std::source_location& where = std::source_location::current()) {
  if (std::cmp_less(index, 0) || std::cmp_greater_equal(index, values.size())) [[unlikely]]
    index_failed(static_cast<int64_t>(index), values.size(), where);
  return values[static_cast<size_t>(index)];
}

template <std::integral Count>
constexpr size_t to_size(Count count, const std::source_location& where = std::source_location::current()) {
  if (std::cmp_less(count, 0)) [[unlikely]]
    size_failed(static_cast<int64_t>(count), where);
  return static_cast<size_t>(count);
}

}  // namespace millrace
