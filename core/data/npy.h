// NumPy's array files: .npy, and .npz, which is a zip of them.
//
//   const NpyArray array = parse_npy(read_bytes("x.npy"), "x.npy");
//   const std::vector<float> values = floats_of(array, "x.npy");
//   const NpzFile file = parse_npz(read_bytes("mnist.npz"), "mnist.npz");      // name -> array
//
// Read are numbers and truth values, little-endian, in C order; pickled objects, records and text are not, and nothing is ever executed.
// The header's shape is compared with the bytes behind it before memory is asked for. Fails with kMalformed naming the file and what was
// found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct NpyArray {
  char kind = 'f';    // 'f' float, 'i' signed, 'u' unsigned, 'b' truth
  int64_t width = 4;  // bytes of an element
  std::vector<int64_t> dimensions;
  std::vector<std::byte> bytes;

  int64_t elements() const;
  bool is_bytes() const { return (kind == 'u' || kind == 'b') && width == 1; }
  bool is_whole() const { return kind != 'f'; }
};
// "float32 [100, 28, 28]"
std::string text_of(const NpyArray& array);

NpyArray parse_npy(std::span<const std::byte> bytes, std::string_view origin);

// Rounded or widened to single precision. Fails with kNumeric at the first value that is not finite.
std::vector<float> floats_of(const NpyArray& array, std::string_view origin);
// Fails with kMalformed when the elements are not whole numbers, or one is 2^63 or more.
std::vector<int64_t> wholes_of(const NpyArray& array, std::string_view origin);

using NpzFile = std::map<std::string, NpyArray>;
// Only arrays whose names are wanted; all when none are named.
NpzFile parse_npz(std::span<const std::byte> bytes, std::string_view origin, const std::vector<std::string>& wanted = {});

}  // namespace millrace
