#include "partitioner/study/study_work.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "partitioner/study/parallel.h"

namespace millrace {

using Json = nlohmann::ordered_json;

StudyWork::StudyWork(StudyTeam team, StudyJournal* journal, int threads) : team_(std::move(team)), journal_(journal), threads_(threads) {
  share(journal_ != nullptr ? journal_->found() : std::map<std::string, std::string>());
  found_ = done_.size();
}

const std::string* StudyWork::find(const std::string& key) const {
  const auto place = done_.find(key);
  return place == done_.end() ? nullptr : &place->second;
}

void StudyWork::run(const std::vector<std::string>& keys, const Turn& turn) {
  std::vector<size_t> mine;
  int64_t left = 0;
  for (size_t i = 0; i < keys.size(); ++i)
    if (find(keys[i]) == nullptr && left++ % team_.ranks == team_.rank) mine.push_back(i);
  std::mutex mutex;
  std::map<std::string, std::string> fresh;
  for_each_in_parallel(mine.size(), threads_, [&](size_t i) {
    const std::optional<std::string> text = turn(mine[i]);
    if (!text) return;
    const std::string& key = keys[mine[i]];
    if (journal_ != nullptr) journal_->add(key, *text);
    const std::lock_guard<std::mutex> lock(mutex);
    fresh[key] = *text;
  });
  share(fresh);
}

void StudyWork::share(const std::map<std::string, std::string>& mine) {
  done_.insert(mine.begin(), mine.end());
  if (team_.ranks == 1) return;
  for (const std::string& text : team_.exchange(Json(mine).dump()))
    for (const auto& [key, value] : Json::parse(text).get<std::map<std::string, std::string>>()) done_.try_emplace(key, value);
}

}  // namespace millrace
