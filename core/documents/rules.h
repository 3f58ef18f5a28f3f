// What a field's value must be, and the message when it is not: "lab.textproto: links[2].forward_gbps: -10 must be
// positive". One place for the wording, so that every document complains alike.
//
//   const Path document("lab.textproto", ErrorCode::kMalformed);
//   const Path link(document, "links", 2);
//   check_value(entry.forward_gbps, kBandwidth, Path(link, "forward_gbps"));
//
// A Path borrows its parent and its name: make it on the stack, use it below. Building one costs nothing; text is made
// only for a message. Internal to core/documents.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace millrace::text {

// Where in a document a value stands.
class Path {
 public:
  // The document itself. An empty origin leaves it out of messages.
  Path(std::string_view origin, ErrorCode code) : name_(origin), code_(code) {}
  Path(const Path& parent, std::string_view name) : parent_(&parent), name_(name), code_(parent.code_) {}
  Path(const Path& parent, std::string_view name, size_t index)
      : parent_(&parent), name_(name), index_(static_cast<int64_t>(index)), code_(parent.code_) {}

  // "lab.textproto: links[2].forward_gbps"
  std::string text() const;
  ErrorCode code() const { return code_; }

  template <typename... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    fail_here(fmt::vformat(format, fmt::make_format_args(arguments...)));
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const;

  const Path* parent_ = nullptr;
  std::string_view name_;
  int64_t index_ = -1;
  ErrorCode code_;
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
inline constexpr Integers kCount{0, kMostCount};
inline constexpr Integers kPositiveCount{1, kMostCount};
inline constexpr Integers kDevice{0, kMostDevices - 1};
inline constexpr Reals kFinite{-std::numeric_limits<double>::max()};
inline constexpr Reals kNotNegative{0};
inline constexpr Reals kPositive{0, std::numeric_limits<double>::max(), true};
inline constexpr Reals kFraction{0, 1, false, true};  // [0, 1)

inline void check_value(const auto&, Anything, const Path&) {}
void check_value(int64_t value, const Integers& rule, const Path& where);
void check_value(double value, const Reals& rule, const Path& where);
void check_value(const std::string& value, Words rule, const Path& where);

bool is_name(std::string_view word);

}  // namespace millrace::text
