#include "core/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <string>

#include "core/base/error.h"
#include "core/base/terminal.h"

namespace millrace::log {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    const auto colours = terminal_abilities().colours ? spdlog::color_mode::always : spdlog::color_mode::never;
    auto made = std::make_shared<spdlog::logger>("millrace", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colours));
    made->set_pattern("%^%l%$ %v");
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kOff: return spdlog::level::off;
  }
  return spdlog::level::info;
}

}  // namespace

void set_level(Level level) { logger().set_level(to_spdlog(level)); }

void set_level(std::string_view name) {
  static const std::vector<std::string> names = {"debug", "info", "warning", "error", "off"};
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return set_level(static_cast<Level>(i));
  fail(ErrorCode::kUsage, "log level \"{}\" is unknown{}", name, suggestion(name, names));
}

bool enabled(Level level) { return logger().should_log(to_spdlog(level)); }

void set_prefix(std::string_view prefix) {
  logger().set_pattern(prefix.empty() ? std::string("%^%l%$ %v") : fmt::format("%^%l%$ [{}] %v", prefix));
}

void write(Level level, std::string_view line) {
  const AboveStatus above;
  logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace millrace::log
