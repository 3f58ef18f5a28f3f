// The shape of one sample's tensor.
//
//   const Shape map{.channels = 64, .height = 32, .width = 32};
//   fmt::print("{}", text_of(map));                     // 64x32x32
//
// A sequence of T steps with F features is {F, T, 1}: a row is a time step. Plain values.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

struct Shape {
  int64_t channels = 0;
  int64_t height = 1;
  int64_t width = 1;

  int64_t elements() const { return channels * height * width; }
  int64_t plane() const { return height * width; }
  bool operator==(const Shape&) const = default;
};
std::string text_of(const Shape& shape);

}  // namespace millrace
