#include "core/operation/window.h"

#include <algorithm>

namespace millrace {

int64_t SlidingWindow::positions(int64_t input) const {
  const int64_t beyond = padded(input) - reach();
  if (!rounds_up) return beyond / stride + 1;
  const int64_t count = (beyond + stride - 1) / stride + 1;
  return (count - 1) * stride >= input + pad ? count - 1 : count;
}

int64_t SlidingWindow::first_output(int64_t input) const { return (std::max<int64_t>(0, input + pad - reach() + 1) + stride - 1) / stride; }

}  // namespace millrace
