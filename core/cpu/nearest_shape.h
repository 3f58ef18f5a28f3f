// Which of the convolutions that were measured stands for one that was not: the nearest of its family in sizes.
//
//   ShapePlace<std::string, 3> wanted{"3x3", logs_of(64, 128, 28 * 28)};
//   const auto found = nearest_shape(measured, wanted, /*farthest=*/3, &Measured::place);   // measured.end() where none is near
//
// Sizes count in factors of two, all of them together; of two as near, the first. Pure.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>

namespace millrace::cpu {

template <typename Family, size_t Sizes>
struct ShapePlace {
  Family family;                   // what must be the same
  std::array<double, Sizes> logs;  // of the sizes, to base two
  bool operator==(const ShapePlace&) const = default;
};

template <std::same_as<int64_t>... Size>
std::array<double, sizeof...(Size)> logs_of(Size... sizes) {
  return {std::log2(static_cast<double>(sizes))...};
}

template <std::ranges::forward_range Range, typename Place, typename PlaceOf>
auto nearest_shape(const Range& measured, const Place& wanted, double farthest, PlaceOf place_of) {
  auto best = std::ranges::end(measured);
  double least = farthest;
  for (auto at = std::ranges::begin(measured); at != std::ranges::end(measured); ++at) {
    const Place& place = std::invoke(place_of, *at);
    if (place.family != wanted.family) continue;
    double away = 0;
    for (size_t k = 0; k < wanted.logs.size(); ++k) away += std::abs(place.logs[k] - wanted.logs[k]);
    if (!(away <= least) || (best != std::ranges::end(measured) && away == least)) continue;
    best = at;
    least = away;
  }
  return best;
}

}  // namespace millrace::cpu
