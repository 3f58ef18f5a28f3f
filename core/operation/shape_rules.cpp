#include "core/operation/shape_rules.h"

#include <fmt/format.h>

#include <vector>

#include "core/base/error.h"
#include "core/operation/counting.h"

namespace millrace {

const Shape& ShapeRules::only_input() const {
  if (inputs_.size() != 1) fail(ErrorCode::kMalformed, "{}: {} inputs, but it takes exactly one", who_, inputs_.size());
  return inputs_[0];
}

std::span<const Shape> ShapeRules::several_inputs() const {
  if (inputs_.size() < 2)
    fail(ErrorCode::kMalformed, "{}: {} inputs, but it takes two or more; remove the layer or name the others", who_, inputs_.size());
  return inputs_;
}

const Shape& ShapeRules::sequence() const {
  const Shape& input = only_input();
  if (input.width != 1)
    fail(ErrorCode::kMismatch,
         "{}: its input {} is a feature map, but it works on a sequence {{features, steps, 1}}: "
         "put a to_sequence layer before it, which gives {}x{}x1",
         who_, text_of(input), saturating_product({input.channels, input.width}), input.height);
  return input;
}

std::string ShapeRules::all_inputs() const {
  std::vector<std::string> texts;
  for (const Shape& input : inputs_) texts.push_back(text_of(input));
  return fmt::format("{}", fmt::join(texts, " and "));
}

void ShapeRules::positive(std::string_view field, int64_t value) const {
  if (value < 1 || value > kMostDimension)
    fail(ErrorCode::kMalformed, "{}: {} is {}; it must be from 1 to {}", who_, field, value, kMostDimension);
}

void ShapeRules::not_negative(std::string_view field, int64_t value) const {
  if (value < 0 || value > kMostDimension)
    fail(ErrorCode::kMalformed, "{}: {} is {}; it must be from 0 to {}", who_, field, value, kMostDimension);
}

void ShapeRules::in_range(std::string_view field, double value, double least, double most) const {
  if (!(value >= least && value <= most))
    fail(ErrorCode::kMalformed, "{}: {} is {}; it must be from {} to {}", who_, field, value, least, most);
}

void ShapeRules::window_fits(const Shape& input, const SlidingWindow& rows, const SlidingWindow& columns) const {
  if (rows.fits(input.height) && columns.fits(input.width)) return;
  fail(ErrorCode::kMismatch,
       "{}: its {}x{} kernel reaches over {}x{} and is larger than the input {}, padded to {}x{}; the maps have shrunk too far: "
       "use more padding, fewer strides or poolings before it, or a larger network input",
       who_, rows.kernel, columns.kernel, rows.reach(), columns.reach(), text_of(input), rows.padded(input.height),
       columns.padded(input.width));
}

void ShapeRules::size(std::string_view what, const Shape& shape) const {
  const auto sensible = [](int64_t dimension) { return dimension >= 1 && dimension <= kMostDimension; };
  if (!sensible(shape.channels) || !sensible(shape.height) || !sensible(shape.width))
    fail(ErrorCode::kMismatch, "{}: its {} is {}; channels, height and width must be from 1 to {}", who_, what, text_of(shape),
         kMostDimension);
  if (saturating_product({shape.channels, shape.height, shape.width}) > kMostElements)
    fail(ErrorCode::kMismatch, "{}: its {} {} has more than {} elements per sample; no device holds it", who_, what, text_of(shape),
         kMostElements);
}

}  // namespace millrace
