// The pieces of a study: each done once, by one of the ranks, and never again by a later run.
//
//   StudyWork work(team, journal.get(), threads);
//   work.run(keys, [&](size_t i) { return text_of(point(keys[i])); });       // those not done yet
//   const std::string* text = work.find("0/15");                             // on every rank
//
// A piece is a text of JSON under a key. Keys are shared out over the ranks in turns, and over threads within a rank; a turn
// that returns nothing leaves its piece undone. What is found never depends on how many ranks or threads there are. All
// ranks make the same calls. Borrows the journal, which may be absent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/study/study_journal.h"

namespace millrace {

struct StudyTeam {
  int64_t rank = 0;
  int64_t ranks = 1;
  // Everybody's text, by rank, to everybody. Not called when there is one rank.
  std::function<std::vector<std::string>(const std::string& mine)> exchange;
};

class StudyWork {
 public:
  using Turn = std::function<std::optional<std::string>(size_t)>;

  explicit StudyWork(StudyTeam team = {}, StudyJournal* journal = nullptr, int threads = 1);

  const std::string* find(const std::string& key) const;
  // Done by runs before this one.
  size_t found() const { return found_; }
  int threads() const { return threads_; }
  int64_t ranks() const { return team_.ranks; }
  void run(const std::vector<std::string>& keys, const Turn& turn);

 private:
  void share(const std::map<std::string, std::string>& mine);

  StudyTeam team_;
  StudyJournal* journal_;
  int threads_;
  size_t found_ = 0;
  std::map<std::string, std::string> done_;
};

}  // namespace millrace
