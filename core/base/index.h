// Elements by indices of any integer type, checked, without a cast at each place.
//
//   const Link& link = item(plan.links, flow.link);           // an int64_t; fails the check when there is no such link
//   const char* name = item(kNames, phase);                   // or by an enumeration, in a list of a value each
//   std::vector<float> values(to_size(shape.elements()));     // a count that cannot be negative
//
// A wrong index is a mistake of the program (check.h): it aborts, and says which index of how many. In inner loops of arithmetic, where a
// check costs what it protects, fast_item(values, index) is checked in debug and sanitizer builds, and free in a release.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <source_location>
#include <type_traits>
#include <utility>

namespace millrace {

[[noreturn]] void index_failed(int64_t index, size_t size, const std::source_location& where);
[[noreturn]] void size_failed(int64_t size, const std::source_location& where);

template <typename T>
concept IsIndex = std::integral<T> || std::is_enum_v<T>;  // of a list with an element for each enumerator

template <typename Values, IsIndex Index>
constexpr decltype(auto) item(Values&& values, Index index, const std::source_location& where = std::source_location::current()) {
  if constexpr (std::is_enum_v<Index>) {
    return item(values, static_cast<std::underlying_type_t<Index>>(index), where);
  } else {
    if (std::cmp_less(index, 0) || std::cmp_greater_equal(index, std::size(values))) [[unlikely]]
      index_failed(static_cast<int64_t>(index), std::size(values), where);
    return values[static_cast<size_t>(index)];
  }
}

#ifdef MILLRACE_CHECKED_LOOPS
inline constexpr bool kLoopsAreChecked = true;
#else
inline constexpr bool kLoopsAreChecked = false;
#endif
template <typename Values, IsIndex Index>
constexpr decltype(auto) fast_item(Values&& values, Index index, const std::source_location& where = std::source_location::current()) {
  if constexpr (kLoopsAreChecked) return item(values, index, where);
  return values[static_cast<size_t>(index)];
}

template <std::integral Count>
constexpr size_t to_size(Count count, const std::source_location& where = std::source_location::current()) {
  if (std::cmp_less(count, 0)) [[unlikely]]
    size_failed(static_cast<int64_t>(count), where);
  return static_cast<size_t>(count);
}

}  // namespace millrace
