// The simulator's clock: the next time of each station and flow. They belong to logical processes, one or more devices each; the times
// of a process lie together. Internal to node/simulate.
//
//   Timeline timeline({0, 0, 1, 1, 1});       // the process of each thing
//   timeline.set(3, 1200);
//   while (timeline.next_time() < bound) {
//     timeline.each_process_before(bound, [&](int32_t process) { .. });
//     timeline.begin_process(1);
//     while (timeline.next_time(1) < bound) handle(timeline.next_id(1));    // which sets times of any things
//     timeline.end_process();
//   }
//
// One time per id, kNeverTime for none; of equal times the lowest id of a process comes first, so the order never depends on who set
// what when. Between begin_process and end_process, next_time() of all may be late for that process. Owns about 30 bytes per id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "node/simulate/tournament.h"

namespace millrace::simulation {

class Timeline {
 public:
  explicit Timeline(std::span<const int32_t> processes);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void set(int32_t id, int64_t time) {
    const Place place = fast_item(places_, id);
    Tournament& own = fast_item(processes_, place.process).times;
    own.set(static_cast<size_t>(place.player), time);
    if (place.process != running_) all_.set(static_cast<size_t>(place.process), own.first_time());
  }
  int64_t time_of(int32_t id) const {
    const Place place = fast_item(places_, id);
    return fast_item(processes_, place.process).times.time_of(static_cast<size_t>(place.player));
  }

  int64_t next_time() const { return all_.first_time(); }
  template <typename Take>
  void each_process_before(int64_t time, const Take& take) const {
    all_.each_before(time, [&](size_t process) { take(static_cast<int32_t>(process)); });
  }

  // Asks memory for what next_id(process) will read.
  [[gnu::always_inline]] void fetch(int32_t process) const { fast_item(processes_, process).times.fetch(); }
  void begin_process(int32_t process) { running_ = process; }
  int64_t next_time(int32_t process) const { return fast_item(processes_, process).times.first_time(); }
  int32_t next_id(int32_t process) const { return next_id(process, next_time(process)); }
  // For whoever knows its next time.
  int32_t next_id(int32_t process, int64_t time) const {
    const LogicalProcess& of = fast_item(processes_, process);
    return ids_[of.first_id + of.times.first_at(time)];
  }
  void end_process() {
    const int32_t process = running_;
    running_ = -1;
    all_.set(static_cast<size_t>(process), next_time(process));
  }

  size_t bytes() const;

 private:
  struct Place {
    int32_t process = 0, player = 0;
  };
  struct LogicalProcess {
    Tournament times;
    size_t first_id;
  };

  std::vector<Place> places_;  // by id
  std::vector<int32_t> ids_;   // process by process
  std::vector<Tournament::Group> groups_;
  std::vector<LogicalProcess> processes_;
  Tournament all_;
  int32_t running_ = -1;
};

}  // namespace millrace::simulation
