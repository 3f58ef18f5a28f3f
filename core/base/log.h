// The one logging header. Nothing below deploy writes to the terminal except through this and progress.h.
// Lines go to standard error, so that standard output stays free for results. spdlog sits behind it, in log.cpp only.
//
//   log::info("device {}: {} layers", index, layers.size());
//
// Thread safe. Levels: debug, info, warning, error; `set_level` at start-up (the command's --log-level).
#pragma once

#include <fmt/core.h>

#include <string_view>

namespace millrace::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

void set_level(Level level);
// "debug", "info", "warning", "error", "off"; fails with kUsage on anything else.
void set_level(std::string_view name);
bool enabled(Level level);
// What precedes every line, for example "rank 3"; empty for none.
void set_prefix(std::string_view prefix);
void write(Level level, std::string_view line);

template <typename... Arguments>
void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kDebug)) write(Level::kDebug, fmt::vformat(format, fmt::make_format_args(arguments...)));
}
template <typename... Arguments>
void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::vformat(format, fmt::make_format_args(arguments...)));
}
template <typename... Arguments>
void warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kWarning)) write(Level::kWarning, fmt::vformat(format, fmt::make_format_args(arguments...)));
}
template <typename... Arguments>
void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  if (enabled(Level::kError)) write(Level::kError, fmt::vformat(format, fmt::make_format_args(arguments...)));
}

}  // namespace millrace::log
