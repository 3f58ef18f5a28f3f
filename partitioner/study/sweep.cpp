// Points that are asked for first; then those between them, as far as they can change where links begin to bind.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "core/base/error.h"
#include "core/base/index.h"
#include "partitioner/study/parallel.h"
#include "partitioner/study/study.h"
#include "partitioner/study/study_record.h"

namespace millrace {
namespace {

bool slowed(const StudyPoint& point) {
  return point.feasible && point.images_per_second < point.full_speed_images_per_second * (1 - kLinearTolerance);
}

void check(const StudyTask& task) {
  if (task.counts.empty()) fail(ErrorCode::kUsage, "a study needs a number of devices at least");
  if (!(task.epoch_images >= 0)) fail(ErrorCode::kUsage, "an epoch of {} images has no length", task.epoch_images);
}

int threads_of(const StudyTask& task) { return task.threads > 0 ? task.threads : default_threads(); }

constexpr size_t kTurnsOfRound = 4;  // of each thread, before all ranks tell each other

class Sweep {
 public:
  Sweep(const std::vector<StudyTask>& tasks, StudyWork& work, const StudyProgress& progress, const std::string& name)
      : tasks_(tasks), work_(work), progress_(progress), name_(name) {
    for (const StudyTask& task : tasks) {
      check(task);
      smallest_.push_back(*std::min_element(task.counts.begin(), task.counts.end()));
      largest_.push_back(*std::max_element(task.counts.begin(), task.counts.end()));
      all_ += largest_.back() - smallest_.back() + 1;
      first_slowed_.emplace_back(kNever);
    }
  }

  std::vector<Study> run() {
    run_points();
    while (run_probes()) {
    }
    std::vector<Study> studies;
    for (size_t t = 0; t < tasks_.size(); ++t) studies.push_back(study_of(t));
    done_ = all_ - 1;
    advance();
    return studies;
  }

 private:
  struct Item {
    size_t task = 0;
    int64_t devices = 0;
  };
  std::string key(size_t task, int64_t devices) const { return fmt::format("{}{}/{}", name_, task, devices); }
  const std::string* record(size_t task, int64_t devices) const { return work_.find(key(task, devices)); }

  // As far as this rank sees.
  void advance() {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = std::min(done_ + work_.ranks(), all_);
    if (progress_) progress_(done_, all_);
  }

  void note(size_t task, const StudyPoint& point) {
    if (!slowed(point)) return;
    int64_t known = first_slowed_[task];
    while (point.devices < known && !first_slowed_[task].compare_exchange_weak(known, point.devices)) {
    }
  }

  template <typename Make>
  void run_items(const std::vector<Item>& items, const Make& make) {
    std::vector<std::string> keys;
    for (const Item& item : items) keys.push_back(key(item.task, item.devices));
    work_.run(keys, [&](size_t i) -> std::optional<std::string> {
      const auto [task, devices] = items[i];
      const bool matters = devices < first_slowed_[task] || asked_for(task, devices);
      std::optional<std::string> text;
      if (matters) {
        const StudyPoint point = make(tasks_[task], devices);
        note(task, point);
        text = record_of(point);
      }
      advance();
      return text;
    });
    for (const auto& [task, devices] : items)
      if (const std::string* text = record(task, devices)) note(task, point_of_record(*text));
  }

  bool asked_for(size_t task, int64_t devices) const {
    const std::vector<int64_t>& counts = tasks_[task].counts;
    return std::find(counts.begin(), counts.end(), devices) != counts.end();
  }

  void run_points() {
    std::vector<Item> items;
    for (size_t t = 0; t < tasks_.size(); ++t)
      for (const int64_t devices : tasks_[t].counts) {
        if (record(t, devices) != nullptr) done_ += 1;
        items.push_back({t, devices});
      }
    run_items(items, study_point);
  }

  // The numbers between them, which only linear_up_to needs, as long as no smaller one is known to be over: a round of them.
  bool run_probes() {
    const size_t most = kTurnsOfRound * to_size(work_.threads()) * to_size(work_.ranks());
    std::vector<Item> items;
    for (size_t t = 0; t < tasks_.size(); ++t)
      for (int64_t devices = smallest_[t]; devices < largest_[t] && devices < first_slowed_[t] && items.size() < most; ++devices) {
        const std::string* text = record(t, devices);
        if (text == nullptr)
          items.push_back({t, devices});
        else if (!asked_for(t, devices))
          note(t, point_of_record(*text));  // of an earlier run
      }
    if (items.empty()) return false;
    run_items(items, study_probe);
    return true;
  }

  // The largest feasible number below the first that is slowed down.
  Study study_of(size_t task) const {
    Study study;
    for (const int64_t devices : tasks_[task].counts) study.points.push_back(point_of_record(*record(task, devices)));
    study.first_slowed = first_slowed_[task] == kNever ? 0 : first_slowed_[task].load();
    for (int64_t devices = smallest_[task]; devices <= largest_[task] && devices < first_slowed_[task]; ++devices)
      if (const std::string* text = record(task, devices); text != nullptr && point_of_record(*text).feasible) study.linear_up_to = devices;
    return study;
  }

  static constexpr int64_t kNever = kMostStudyDevices + 1;

  const std::vector<StudyTask>& tasks_;
  StudyWork& work_;
  const StudyProgress& progress_;
  const std::string& name_;
  std::vector<int64_t> smallest_, largest_;
  std::deque<std::atomic<int64_t>> first_slowed_;
  std::mutex mutex_;
  int64_t all_ = 0;
  int64_t done_ = 0;
};

}  // namespace

std::vector<Study> run_sweep(const std::vector<StudyTask>& tasks, StudyWork& work, const StudyProgress& progress, const std::string& name) {
  return Sweep(tasks, work, progress, name).run();
}

Study run_study(const StudyTask& task, const StudyProgress& progress) {
  StudyWork work({}, nullptr, threads_of(task));
  return run_sweep({task}, work, progress).front();
}

}  // namespace millrace
