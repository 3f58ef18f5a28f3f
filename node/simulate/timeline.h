// When each of many things wants attention next: the simulator's clock. Things belong to crews, so many devices each; whoever runs a
// crew for a while finds its times together.
//
//   Timeline timeline({0, 0, 1, 1, 1});       // the crew of each thing
//   timeline.set(3, 1200);
//   while (timeline.next_time() < bound) {
//     timeline.each_crew_before(bound, [&](int32_t crew) { .. });
//     timeline.begin_crew(1);
//     while (timeline.next_time(1) < bound) handle(timeline.next_id(1));    // which sets times of any things
//     timeline.end_crew();
//   }
//
// One time per id, kNeverTime for none; of equal times the lowest id of a crew comes first, so the order never depends on who set
// what when. Between begin_crew and end_crew, next_time() of all may be late for that crew. Owns about 30 bytes per id.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "node/simulate/tournament.h"

namespace millrace::simulation {

class Timeline {
 public:
  explicit Timeline(std::span<const int32_t> crews);
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void set(int32_t id, int64_t time) {
    const Place place = places_[static_cast<size_t>(id)];
    Tournament& own = crews_[static_cast<size_t>(place.crew)].times;
    own.set(static_cast<size_t>(place.player), time);
    if (place.crew != running_) all_.set(static_cast<size_t>(place.crew), own.first_time());
  }
  int64_t time_of(int32_t id) const {
    const Place place = places_[static_cast<size_t>(id)];
    return crews_[static_cast<size_t>(place.crew)].times.time_of(static_cast<size_t>(place.player));
  }

  int64_t next_time() const { return all_.first_time(); }
  template <typename Take>
  void each_crew_before(int64_t time, const Take& take) const {
    all_.each_before(time, [&](size_t crew) { take(static_cast<int32_t>(crew)); });
  }

  // Asks memory for what next_id(crew) will read.
  [[gnu::always_inline]] void fetch(int32_t crew) const { crews_[static_cast<size_t>(crew)].times.fetch(); }
  void begin_crew(int32_t crew) { running_ = crew; }
  int64_t next_time(int32_t crew) const { return crews_[static_cast<size_t>(crew)].times.first_time(); }
  int32_t next_id(int32_t crew) const {
    const Crew& of = crews_[static_cast<size_t>(crew)];
    return ids_[of.first_id + of.times.first()];
  }
  void end_crew() {
    const int32_t crew = running_;
    running_ = -1;
    all_.set(static_cast<size_t>(crew), next_time(crew));
  }

  size_t bytes() const;

 private:
  struct Place {
    int32_t crew = 0, player = 0;
  };
  struct Crew {
    Tournament times;
    size_t first_id;
  };

  std::vector<Place> places_;  // by id
  std::vector<int32_t> ids_;   // crew by crew
  std::vector<Tournament::Group> groups_;
  std::vector<Crew> crews_;
  Tournament all_;
  int32_t running_ = -1;
};

}  // namespace millrace::simulation
