// What of a study is done, in its folder: a study that was stopped goes on where it was.
//
//   StudyJournal journal(folder, {{"model", "vgg16"}, {"--count", "5:100:5"}}, /*rank=*/0);
//   journal.found();                                     // pieces that runs before this one finished
//   if (const std::string* text = journal.find("0/15")) ...
//   journal.add("0/20", text);                           // in the file when it returns, on the disk soon after
//
// question.json says what is asked. A folder that was made for another question is refused, naming the first part that
// differs. points.jsonl holds a line for each finished piece: {"key": ..., "value": ...}; ranks beyond the first append to
// points-RANK.jsonl. Rank 0 reads them all, the others what they wrote themselves. A last line that was cut off is forgotten.
// A stopped process loses nothing, a machine without power the last moments. Owns the file it appends to. add() may be called by
// several threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/folder_lock.h"

namespace millrace {

using StudyQuestion = std::vector<std::pair<std::string, std::string>>;

class StudyJournal {
 public:
  // Rank 0 comes first, makes the folder and keeps other studies out of it.
  StudyJournal(const std::filesystem::path& folder, const StudyQuestion& question, int64_t rank);
  ~StudyJournal();
  StudyJournal(const StudyJournal&) = delete;
  StudyJournal& operator=(const StudyJournal&) = delete;

  // Both are of JSON values.
  const std::map<std::string, std::string>& found() const { return found_; }
  void add(const std::string& key, std::string_view value);

 private:
  void hold_to(const StudyQuestion& question, bool write) const;
  // How many of its bytes are whole lines.
  uintmax_t read(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;  // the first rank's
  std::filesystem::path path_;
  std::map<std::string, std::string> found_;
  std::mutex mutex_;
  int file_ = -1;
  std::chrono::steady_clock::time_point synced_;
};

}  // namespace millrace
