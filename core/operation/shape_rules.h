// What operations demand of their inputs and of their own fields, in one wording.
//
//   Shape Flatten::output_shape(const ShapeRules& rules) const { return {rules.only_input().elements(), 1, 1}; }
//
// Borrows the inputs. Fails with kMismatch or kMalformed, naming the layer. Light, as all that operations include: CUDA reads them too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/operation/shape.h"
#include "core/operation/window.h"

namespace millrace {

class ShapeRules {
 public:
  // `who` is the layer and its operation, as messages begin.
  ShapeRules(std::string who, std::span<const Shape> inputs) : who_(std::move(who)), inputs_(inputs) {}

  const std::string& who() const { return who_; }
  std::span<const Shape> inputs() const { return inputs_; }

  const Shape& only_input() const;
  // Two or more of them.
  std::span<const Shape> several_inputs() const;
  // The only input, which is {features, steps, 1}.
  const Shape& sequence() const;
  // "64x8x8 and 32x8x8"
  std::string all_inputs() const;

  void positive(std::string_view field, int64_t value) const;
  void not_negative(std::string_view field, int64_t value) const;
  void in_range(std::string_view field, double value, double least, double most) const;
  void window_fits(const Shape& input, const SlidingWindow& rows, const SlidingWindow& columns) const;
  // Of an input, or of the output.
  void size(std::string_view what, const Shape& shape) const;

 private:
  std::string who_;
  std::span<const Shape> inputs_;
};

}  // namespace millrace
