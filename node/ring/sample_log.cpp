#include "node/ring/sample_log.h"

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {
namespace {

constexpr std::string_view kBegin = "{\"step\":";

// -1: it does not begin as a line of ours.
int64_t step_of(std::string_view line) {
  int64_t step = -1;
  if (line.starts_with(kBegin)) std::from_chars(line.data() + kBegin.size(), line.data() + line.size(), step);
  return step;
}

std::string lines_up_to(int64_t step, std::string_view content) {
  std::string kept;
  for (size_t end = content.find('\n'); end != std::string_view::npos; end = content.find('\n')) {
    const std::string_view line = content.substr(0, end + 1);
    if (const int64_t of = step_of(line); of > 0 && of <= step) kept += line;
    content.remove_prefix(end + 1);
  }
  return kept;
}

}  // namespace

SampleLog::SampleLog(const std::filesystem::path& path, int64_t step) : path_(path) {
  write_atomically(path, step > 0 && std::filesystem::exists(path) ? lines_up_to(step, read_text(path)) : std::string());
  file_.open(path, std::ios::app);
}

void SampleLog::write(int64_t step, std::span<const int64_t> samples) {
  file_ << fmt::format("{}{},\"samples\":[{}]}}\n", kBegin, step, fmt::join(samples, ",")) << std::flush;
  if (!file_) fail(ErrorCode::kIo, "{}: cannot append; is the disk full?", path_.string());
}

}  // namespace millrace
