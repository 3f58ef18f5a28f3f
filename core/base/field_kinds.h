// What a field of a document may be, in words that structs use to describe themselves: how its presence counts, and its range.
//
//   static void fields(auto& v) {
//     v.field("out_features", &Dense::out_features, text::Presence::kRequired, text::kSize);
//     v.field("bias", &Dense::bias, text::Presence::kDefaulted);
//   }
//
// The wording of complaints is field_rules.h; who reads and writes the fields is core/documents/fields.h. Light: for headers that
// everything includes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace millrace::text {

class Path;

enum class Presence {
  kRequired,   // must be given; always written
  kRecorded,   // may be left out; always written
  kDefaulted,  // may be left out; written when it is not the struct's default
};

// For values that their type alone keeps right: booleans, enumerations, nested messages.
struct Anything {};

struct Integers {
  int64_t least;
  int64_t most;
};

// Never NaN or infinite.
struct Reals {
  double least;
  double most = std::numeric_limits<double>::max();
  bool least_excluded = false;
  bool most_excluded = false;
};

enum class Words {
  kFree,   // anything readable, or nothing
  kGiven,  // anything readable, but something
  kName,   // letters, digits and _ . - /
};

// Engines and file formats index channels, rows and taps with 32 bits.
inline constexpr int64_t kMostDimension = std::numeric_limits<int32_t>::max();
// Of elements, bits, picoseconds: room to add up thousands of them.
inline constexpr int64_t kMostCount = int64_t{1} << 50;
inline constexpr int64_t kMostBatch = int64_t{1} << 24;
inline constexpr int64_t kMostDevices = int64_t{1} << 16;
// Of any list: layers, shards, flows, ...
inline constexpr size_t kMostEntries = 1'000'000;

inline constexpr Integers kSize{1, kMostDimension};
inline constexpr Integers kPadding{0, kMostDimension};
inline constexpr Integers kOptionalSize{0, kMostDimension};  // 0: none
inline constexpr Integers kCount{0, kMostCount};
inline constexpr Integers kPositiveCount{1, kMostCount};
inline constexpr Integers kDevice{0, kMostDevices - 1};
inline constexpr Reals kFinite{-std::numeric_limits<double>::max()};
inline constexpr Reals kNotNegative{0};
inline constexpr Reals kPositive{0, std::numeric_limits<double>::max(), true};
inline constexpr Reals kFraction{0, 1, false, true};  // [0, 1)
inline constexpr Reals kShare{0, 1};                  // [0, 1]

}  // namespace millrace::text
