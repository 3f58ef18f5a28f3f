// Checks catch mistakes of the program itself, never bad input (that is error.h). A failed check prints where it is,
// what was expected and why, and aborts: the state cannot be trusted any more.
//
//   MILLRACE_CHECK(slot < slots_.size(), "slot {} of {}", slot, slots_.size());
#pragma once

#include <fmt/core.h>

#include <string>

namespace millrace {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace millrace

#define MILLRACE_CHECK(condition, ...)                                                      \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::millrace::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
