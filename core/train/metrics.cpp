#include "core/train/metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/base/terminal.h"

namespace millrace {
namespace {

enum class FieldType { kNumber, kInteger, kText };

struct MetricsField {
  std::string_view name;
  FieldType type;
};
// The header's second table, as data.
constexpr std::array kMetricsFields = {
    MetricsField{"step", FieldType::kInteger},
    MetricsField{"epoch", FieldType::kNumber},
    MetricsField{"loss", FieldType::kNumber},
    MetricsField{"accuracy", FieldType::kNumber},
    MetricsField{"bits_per_character", FieldType::kNumber},
    MetricsField{"samples", FieldType::kInteger},
    MetricsField{"learning_rate", FieldType::kNumber},
    MetricsField{"gradient_norm", FieldType::kNumber},
    MetricsField{"images_per_second", FieldType::kNumber},
    MetricsField{"seconds", FieldType::kNumber},
    MetricsField{"peak_memory_bytes", FieldType::kInteger},
    MetricsField{"data_wait_seconds", FieldType::kNumber},
    MetricsField{"path", FieldType::kText},
    MetricsField{"weights_digest", FieldType::kText},
    MetricsField{"reason", FieldType::kText},
    MetricsField{"parameters", FieldType::kInteger},
};

struct Event {
  std::string_view name;
  std::vector<std::string_view> always;
};
// The first one.
const std::vector<Event>& events() {
  static const std::vector<Event> all = {
      {"step", {"step", "epoch", "loss"}}, {"epoch", {"step", "epoch", "loss"}}, {"evaluation", {"step", "epoch", "loss"}},
      {"checkpoint", {"step", "path"}},    {"done", {"step", "reason"}},
  };
  return all;
}

bool fits(FieldType type, const MetricsValue& value) {
  const bool integer = std::holds_alternative<int64_t>(value.content);
  switch (type) {
    case FieldType::kNumber: return integer || std::holds_alternative<double>(value.content);
    case FieldType::kInteger: return integer;
    case FieldType::kText: return std::holds_alternative<std::string>(value.content);
  }
  return false;
}

void check_schema(const MetricsRecord& record) {
  const auto event = std::ranges::find(events(), record.event, &Event::name);
  MILLRACE_CHECK(event != events().end(), "metrics event \"{}\" is not in the schema of core/train/metrics.h", record.event);
  std::set<std::string_view> seen;
  for (const auto& [name, value] : record.values) {
    const auto field = std::ranges::find(kMetricsFields, name, &MetricsField::name);
    MILLRACE_CHECK(field != kMetricsFields.end() && fits(field->type, value),
                   "metrics \"{}\" in \"{}\" is not in the schema of core/train/metrics.h", name, record.event);
    MILLRACE_CHECK(seen.insert(name).second, "metrics \"{}\" is given twice in \"{}\"", name, record.event);
  }
  for (const std::string_view name : event->always) MILLRACE_CHECK(seen.contains(name), "metrics \"{}\" lacks \"{}\"", record.event, name);
}

[[noreturn]] void fail_from_errno(const std::filesystem::path& path, const char* doing) {
  fail(ErrorCode::kIo, "{}: cannot {}: {}", path.string(), doing, std::strerror(errno));
}

// The lines of an earlier run that a training resumed at `step` builds on.
std::string kept_lines(std::string_view content, int64_t step, bool evaluates_again, const std::filesystem::path& path) {
  std::string kept;
  int64_t number = 0;
  while (!content.empty()) {
    ++number;
    const size_t end = content.find('\n');
    if (end == std::string_view::npos) break;  // cut short by a crash
    const std::string_view line = content.substr(0, end + 1);
    content.remove_prefix(end + 1);
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto comes_again = [&] {
      const bool evaluation = record["event"] == "evaluation" && record["step"].get<int64_t>() == step;
      return record["event"] == "done" || record["step"].get<int64_t>() > step || (evaluation && evaluates_again);
    };
    const bool readable = record.is_object() && record.contains("event") && record.contains("step") && record["step"].is_number_integer();
    if (!readable)
      log::warning("{}: line {} is not a metrics record, dropped", path.string(), number);
    else if (!comes_again())
      kept += line;
  }
  return kept;
}

}  // namespace

std::string json_line(const MetricsRecord& record) {
  check_schema(record);
  nlohmann::ordered_json line;
  line["event"] = record.event;
  for (const auto& [name, value] : record.values) {
    nlohmann::ordered_json& written = line[name];
    std::visit([&written](const auto& content) { written = content; }, value.content);
  }
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

MetricsFile::MetricsFile(std::filesystem::path path, const std::string& content) : path_(std::move(path)) {
  write_atomically(path_, content);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) fail_from_errno(path_, "open");
}

MetricsFile::MetricsFile(const std::filesystem::path& path) : MetricsFile(path, std::string()) {}

MetricsFile MetricsFile::resumed(const std::filesystem::path& path, int64_t step, bool evaluates_again) {
  return MetricsFile(path, std::filesystem::exists(path) ? kept_lines(read_text(path), step, evaluates_again, path) : std::string());
}

MetricsFile::~MetricsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

MetricsFile::MetricsFile(MetricsFile&& other) noexcept : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void MetricsFile::write(const MetricsRecord& record) {
  const std::string line = json_line(record) + '\n';
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t wrote = ::write(descriptor_, rest.data(), rest.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int reason = errno;
      remove_end(line.size() - rest.size());
      errno = reason;
      fail_from_errno(path_, "append");
    }
    rest.remove_prefix(to_size(wrote));
  }
}

// A disk that is full may have taken half a line, which the next one must not complete.
void MetricsFile::remove_end(size_t bytes) {
  struct stat facts {};
  if (bytes == 0 || ::fstat(descriptor_, &facts) != 0) return;
  if (::ftruncate(descriptor_, facts.st_size - static_cast<off_t>(bytes)) != 0)
    log::warning("{}: its last line is cut short", path_.string());
}

void MetricsFile::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_from_errno(path_, "flush");
}

void MetricsStream::write(const MetricsRecord& record) {
  const std::string line = json_line(record) + '\n';
  const AboveStatus above;  // the stream may be the same terminal
  if (std::fwrite(line.data(), 1, line.size(), stream_) != line.size() || std::fflush(stream_) != 0)
    fail(ErrorCode::kIo, "cannot write metrics: {}", std::strerror(errno));
}

}  // namespace millrace
