// A window that slides over one direction of a map: the one place that counts its positions and says what each of them reads.
//
//   const SlidingWindow rows{.kernel = 3, .stride = 2, .pad = 1};
//   rows.positions(32);                                  // 16
//   rows.first_input(5), rows.end_input(5);              // 9, 12: row 5 of the output reads rows 9, 10 and 11
//
// Indices are those of the input without its padding, so that they may lie before 0 or behind its end. Plain values.
#pragma once

#include <cstdint>

namespace millrace {

struct SlidingWindow {
  int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
  bool rounds_up = false;  // a last, partial window counts, as long as it starts on the input or on the padding before it

  // From its first tap to its last.
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  int64_t padded(int64_t input) const { return input + 2 * pad; }
  bool fits(int64_t input) const { return reach() <= padded(input); }
  // Of an input that the window fits on.
  int64_t positions(int64_t input) const;

  // What position `output` reads.
  int64_t first_input(int64_t output) const { return output * stride - pad; }
  int64_t end_input(int64_t output) const { return first_input(output) + reach(); }
  // The first position that reads `input`, and how many have begun when it is reached; not limited to the positions there are.
  int64_t first_output(int64_t input) const;
  int64_t begun_outputs(int64_t input) const { return (input + pad) / stride + 1; }

  bool operator==(const SlidingWindow&) const = default;
};

}  // namespace millrace
