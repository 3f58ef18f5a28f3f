#include "core/operation/pooling.h"

#include "core/base/error.h"
#include "core/base/field_rules.h"

namespace millrace {

Traits Pool2d::traits() const {
  return {.name = kind == PoolKind::kMax ? "max_pool" : "average_pool",
          .rows = Rows::kWindow,
          .row_window = rows(),
          .chunks = TimeChunks::kNone,
          .keeps_channels = true,
          .hides_input = kind == PoolKind::kAverage,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape Pool2d::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.only_input();
  rules.positive("kernel_h", kernel_h), rules.positive("kernel_w", kernel_w);
  rules.positive("stride_h", stride_h), rules.positive("stride_w", stride_w);
  rules.not_negative("pad_h", pad_h), rules.not_negative("pad_w", pad_w);
  if (pad_h >= kernel_h || pad_w >= kernel_w)
    fail(ErrorCode::kMismatch, "{}: padding {}x{} reaches the kernel's {}x{}, so some windows would hold nothing but padding; reduce it",
         rules.who(), pad_h, pad_w, kernel_h, kernel_w);
  rules.window_fits(input, rows(), columns());
  return {input.channels, rows().positions(input.height), columns().positions(input.width)};
}

void Pool2d::check(const text::Path& where) const {
  if (count_include_pad && kind == PoolKind::kMax)
    text::Path(where, "count_include_pad").fail("true has no effect here; only average_pool divides by the window");
}

Traits GlobalPool::traits() const {
  return {.name = kind == PoolKind::kMax ? "global_max_pool" : "global_average_pool",
          .rows = Rows::kAll,
          .chunks = TimeChunks::kNone,
          .keeps_channels = true,
          .hides_input = kind == PoolKind::kAverage,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

}  // namespace millrace
