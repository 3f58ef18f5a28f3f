// The earliest of many times, and whose it is, as a tournament in which eight play in a group: a group is a line of the cache, and
// setting a time costs a group per round. Internal to node/simulate.
//
//   std::vector<Tournament::Group> groups(Tournament::groups_for(players));
//   Tournament tournament(groups.data(), players);   // all kNeverTime
//   tournament.set(7, 1200);
//   tournament.first_time(); tournament.first();     // of equal times the lowest player
//
// Borrows its groups: those of the first round, then of the second, and so on to the final.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace millrace::simulation {

inline constexpr int64_t kNeverTime = std::numeric_limits<int64_t>::max();

class Tournament {
 public:
  static constexpr size_t kPlayers = 8;
  struct alignas(64) Group {
    Group() { times.fill(kNeverTime); }
    std::array<int64_t, kPlayers> times;
  };
  static size_t groups_for(size_t players) {
    size_t all = 0;
    do all += players = groups_of(players);
    while (players > 1);
    return all;
  }

  Tournament(Group* groups, size_t players)
      : groups_(groups), players_(static_cast<uint32_t>(players)), final_(static_cast<uint32_t>(groups_for(players) - 1)) {}

  int64_t time_of(size_t player) const { return groups_[player / kPlayers].times[player % kPlayers]; }
  int64_t first_time() const { return first_of(groups_[final_]); }

  [[gnu::always_inline]] void fetch() const {
    for (size_t group = 0; group <= final_; ++group) __builtin_prefetch(groups_ + group);
  }

  void set(size_t player, int64_t time) {
    Group* round = groups_;
    for (size_t groups = groups_of(players_);; groups = groups_of(groups)) {
      Group& group = round[player / kPlayers];
      int64_t& own = group.times[player % kPlayers];
      const int64_t before = own;
      own = time;
      if (groups == 1) return;
      player /= kPlayers;
      round += groups;
      const int64_t best = round[player / kPlayers].times[player % kPlayers];
      if (time > best) {
        // Another was first in the group, and is.
        if (before > best) return;
        time = first_of(group);
      }
      if (time == best) return;
    }
  }

  size_t first() const { return first_at(first_time()); }
  // For whoever knows the first time.
  size_t first_at(int64_t time) const {
    const Rounds rounds = rounds_of();
    size_t player = 0;
    for (size_t r = rounds.count; r-- > 0;) {
      const Group& group = rounds.begin[r][player];
      size_t place = 0;
      while (group.times[place] != time) ++place;
      player = player * kPlayers + place;
    }
    return player;
  }

  // Calls `take` with every player whose time is before this one, in order.
  template <typename Take>
  void each_before(int64_t time, const Take& take) const {
    each_before(time, take, rounds_of(), 0);
  }

 private:
  // Where each round begins; as many as 2^32 players may need.
  struct Rounds {
    std::array<const Group*, 11> begin;
    size_t count = 0;
  };

  static size_t groups_of(size_t players) { return std::max<size_t>(1, (players + kPlayers - 1) / kPlayers); }
  [[gnu::always_inline]] static int64_t first_of(const Group& group) {
    const auto& t = group.times;
    return std::min(std::min(std::min(t[0], t[1]), std::min(t[2], t[3])), std::min(std::min(t[4], t[5]), std::min(t[6], t[7])));
  }
  Rounds rounds_of() const {
    Rounds rounds;
    const Group* begin = groups_;
    for (size_t groups = groups_of(players_);; groups = groups_of(groups)) {
      rounds.begin[rounds.count++] = begin;
      if (groups == 1) return rounds;
      begin += groups;
    }
  }
  template <typename Take>
  static void each_before(int64_t time, const Take& take, Rounds rounds, size_t group) {
    const Group& players = rounds.begin[--rounds.count][group];
    for (size_t place = 0; place < kPlayers; ++place) {
      if (players.times[place] >= time) continue;
      if (rounds.count == 0)
        take(group * kPlayers + place);
      else
        each_before(time, take, rounds, group * kPlayers + place);
    }
  }

  Group* groups_;
  uint32_t players_;
  uint32_t final_;
};

}  // namespace millrace::simulation
