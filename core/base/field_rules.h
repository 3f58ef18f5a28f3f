// What a field's value must be, and the message when it is not: "lab.textproto: links[2].forward_gbps: -10 must be
// positive". One place for the wording, so that every document complains alike.
//
//   const Path document("lab.textproto", ErrorCode::kMalformed);
//   const Path link(document, "links", 2);
//   check_value(entry.forward_gbps, kBandwidth, Path(link, "forward_gbps"));
//
// A Path borrows its parent and its name: make it on the stack, use it below. Building one costs nothing; text is made
// only for a message.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/field_kinds.h"

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

inline void check_value(const auto&, Anything, const Path&) {}
void check_value(int64_t value, const Integers& rule, const Path& where);
void check_value(double value, const Reals& rule, const Path& where);
void check_value(const std::string& value, Words rule, const Path& where);

bool is_name(std::string_view word);

}  // namespace millrace::text
