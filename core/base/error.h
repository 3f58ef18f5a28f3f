// One error type for everything that can go wrong with what people give us: files, flags, plans, machines.
//
//   if (size != expected)
//     fail(ErrorCode::kMalformed, "{}: {} bytes, expected {}; the file is truncated, copy it again", path, size, expected);
//
//   try { load(path); } catch (Error& error) { throw error.within("reading the training set"); }
//
// A message names the thing, the value seen, and what to do. Context is added as the error rises and is printed
// outermost first: "reading the training set: train.idx: 12 bytes, expected 16; ...".
// Mistakes of the program itself are not errors: they are checks (check.h) and abort.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

enum class ErrorCode {
  kUsage,        // the command line or a request makes no sense: exit status 2
  kInfeasible,   // understood, and there is no answer: exit status 3
  kMalformed,    // a file or document does not follow its format
  kMismatch,     // two things that are each valid do not fit each other
  kNotFound,     // a file, name, device or layer that does not exist
  kUnavailable,  // a part this build or machine lacks
  kTimeout,      // a wait passed its deadline, or who was waited for is gone: exit status 75
  kNumeric,      // NaN or infinity where a number was due
  kStandstill,   // a plan whose parts wait for one another: nothing would ever move
  kIo,           // the operating system refused to read or write
};

std::string_view name_of(ErrorCode code);

// 2 for kUsage, 3 for kInfeasible, 75 for kTimeout, 1 for the rest.
int exit_status_of(ErrorCode code);

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);

  // The same error seen from one level further out.
  Error within(std::string context) const;

  ErrorCode code() const { return code_; }
  // The innermost message, without context.
  const std::string& message() const { return message_; }
  // Context and message, outermost first.
  const char* what() const noexcept override { return full_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
  std::string full_;
};

[[noreturn]] void fail_with(ErrorCode code, fmt::string_view format, fmt::format_args arguments);

template <typename... Arguments>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fail_with(code, format, fmt::make_format_args(arguments...));
}

// `; did you mean "relu"?` when one of the known names is close to the given one, else the known names, else "".
std::string suggestion(std::string_view given, const std::vector<std::string>& known);

}  // namespace millrace
