#include "partitioner/study/study_journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"

namespace millrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kQuestionFile = "question.json";
// A disk takes tens of milliseconds, a point in closed form fewer.
constexpr std::chrono::milliseconds kBetweenSyncs{250};

[[noreturn]] void refuse(const std::filesystem::path& folder, const std::string& name, const std::string& there, const std::string& here) {
  fail(ErrorCode::kMismatch, "{} holds a study of another question: {} is \"{}\" there and \"{}\" here; choose another folder for --out",
       folder.string(), name, there, here);
}

}  // namespace

StudyJournal::StudyJournal(const std::filesystem::path& folder, const StudyQuestion& question, int64_t rank) : folder_(folder) {
  if (rank == 0) lock_.emplace(folder_, "a study");
  hold_to(question, rank == 0);
  path_ = folder_ / (rank == 0 ? "points.jsonl" : fmt::format("points-{}.jsonl", rank));
  const uintmax_t whole = std::filesystem::exists(path_) ? read(path_) : 0;
  if (rank == 0) {
    std::vector<std::filesystem::path> others;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      if (entry.path().extension() == ".jsonl" && entry.path().filename().string().starts_with("points-")) others.push_back(entry.path());
    std::sort(others.begin(), others.end());
    for (const std::filesystem::path& other : others) static_cast<void>(read(other));
  }
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(whole)) != 0)
    fail(ErrorCode::kIo, "{}: cannot append to it: {}", path_.string(), std::strerror(errno));
}

StudyJournal::~StudyJournal() {
  if (file_ < 0) return;
  ::fdatasync(file_);
  ::close(file_);
}

void StudyJournal::hold_to(const StudyQuestion& question, bool write) const {
  const std::filesystem::path path = folder_ / kQuestionFile;
  Json here = Json::object();
  for (const auto& [name, value] : question) here[name] = value;
  if (!std::filesystem::exists(path)) {
    if (write) write_atomically(path, here.dump(2) + "\n");
    return;
  }
  const Json there = Json::parse(read_text(path), nullptr, false);
  if (!there.is_object()) fail(ErrorCode::kMalformed, "{}: not a JSON object; choose another folder for --out", path.string());
  const auto text_of = [](const Json& object, const std::string& name) {
    if (!object.contains(name)) return std::string("not given");
    const Json& value = object[name];
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const Json* object : std::array<const Json*, 2>{&here, &there})
    for (const auto& [name, value] : object->items())
      if (text_of(there, name) != text_of(here, name)) refuse(folder_, name, text_of(there, name), text_of(here, name));
}

uintmax_t StudyJournal::read(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  size_t begin = 0;
  int64_t line = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    ++line;
    const Json entry = Json::parse(text.substr(begin, end - begin), nullptr, false);
    if (!entry.is_object() || !entry.contains("key") || !entry["key"].is_string() || !entry.contains("value"))
      fail(ErrorCode::kMalformed, "{}:{}: not a finished piece of a study; delete the line, or choose another folder for --out",
           path.string(), line);
    found_[entry["key"].get<std::string>()] = entry["value"].dump();
    begin = end + 1;
  }
  return begin;
}

void StudyJournal::add(const std::string& key, std::string_view value) {
  const std::string line = fmt::format("{{\"key\": {}, \"value\": {}}}\n", Json(key).dump(), value);
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = ::write(file_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(ErrorCode::kIo, "{}: cannot append to it: {}", path_.string(), std::strerror(errno));
    written += to_size(count);
  }
  const auto now = std::chrono::steady_clock::now();
  if (now - synced_ < kBetweenSyncs) return;
  synced_ = now;
  if (::fdatasync(file_) != 0) fail(ErrorCode::kIo, "{}: cannot reach the disk: {}", path_.string(), std::strerror(errno));
}

}  // namespace millrace
