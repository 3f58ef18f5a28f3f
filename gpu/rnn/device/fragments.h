// Which lane of a warp holds which element of the matrix units' operands, for their product of 16 x 16 by 16 x 8.
//
//   const Place at = place_in_left(lane, 3);          // the fourth of a lane's eight elements of the left operand
//   const Holder holder = holder_in_left(at.row, at.column);   // {lane, 3}
//
// Elements lie in pairs, two to a 32-bit word. The layout is PTX's of mma.m16n8k16 for 16-bit formats. Pure functions, for
// host and device.
#pragma once

#include "gpu/rnn/device/scalar.h"

namespace millrace::rnn::device {

struct Place {
  int row;
  int column;
};
struct Holder {
  int lane;
  int index;  // among the elements that the lane holds
};

inline constexpr int kFragmentRows = 16;    // of the left operand and of the sums
inline constexpr int kFragmentSamples = 8;  // columns of the right operand and of the sums
inline constexpr int kFragmentDepth = 16;   // products per sum

// Left operand: 16 rows by 16 columns, eight elements per lane.
constexpr MILLRACE_HOST_DEVICE Place place_in_left(int lane, int index) {
  return {lane / 4 + 8 * (index / 2 % 2), lane % 4 * 2 + index % 2 + 8 * (index / 4)};
}
constexpr MILLRACE_HOST_DEVICE Holder holder_in_left(int row, int column) {
  return {row % 8 * 4 + column % 8 / 2, column % 2 + 2 * (row / 8) + 4 * (column / 8)};
}
// Right operand: 16 rows by 8 columns, four elements per lane.
constexpr MILLRACE_HOST_DEVICE Place place_in_right(int lane, int index) { return {lane % 4 * 2 + index % 2 + 8 * (index / 2), lane / 4}; }
constexpr MILLRACE_HOST_DEVICE Holder holder_in_right(int row, int column) { return {column * 4 + row % 8 / 2, row % 2 + 2 * (row / 8)}; }
// Sums: 16 rows by 8 columns, four per lane.
constexpr MILLRACE_HOST_DEVICE Place place_in_sums(int lane, int index) { return {lane / 4 + 8 * (index / 2), lane % 4 * 2 + index % 2}; }

}  // namespace millrace::rnn::device
