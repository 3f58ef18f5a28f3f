// Internal to node/simulate: what a rank knows of the rank at one end of its block, and what it tells it.
//
//   Neighbour right(transport, /*out=*/0, /*in=*/1, latency);
//   right.keep(crossing);                       // will leave with the next message
//   const int64_t until = right.bound(Crosses::kMessage);      // nothing of the kind comes from there before that
//   right.send({.promise = .., .quiet = ..});   // "of my own accord I do nothing before; nothing leaves me before, whatever comes"
//
// A promise leaves out what the receiver itself may cause. A sender whose message the promise does not know of yet counts
// with an answer one latency after its arrival. The second time is firm: a row in work ends first. It is what lets both go on for
// as long as a row takes, many times the latency. A message goes when something crosses, or when the other side waits.
// Borrows the transport.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "node/simulate/engine.h"
#include "transport/streams/transport.h"

namespace millrace::simulation {

inline constexpr size_t kCrossingsOfMessage = 120;

class Neighbour {
 public:
  struct News {
    CrossingTimes promise{};
    CrossingTimes quiet{};
    bool waits = false;  // has nothing to do before the other side's bound
    bool done = false;   // and never will, unless the other side causes it
    bool operator==(const News&) const = default;
  };
  struct Header {
    News news;
    int64_t acknowledged = 0;  // messages read so far
    int64_t crossings = 0;
  };
  static constexpr size_t message_bytes() { return sizeof(Header) + kCrossingsOfMessage * sizeof(Crossing); }

  Neighbour(Transport& transport, int64_t out_flow, int64_t in_flow, int64_t latency)
      : transport_(transport), out_flow_(out_flow), in_flow_(in_flow), latency_(latency) {
    // At first nothing may be done before the first credits, of time 0, have come.
    heard_ = {.promise = {-latency, -latency}, .quiet = {-latency, -latency}, .waits = true};
  }

  // Nothing of a kind comes before this time. Two latencies after the block's own next event, which is not in it, it may.
  int64_t bound(Crosses what) const { return after_latency(std::max(answered(what), time_of(heard_.quiet, what))); }
  // Likewise, whatever it is sent before.
  int64_t firm_bound(Crosses what) const { return after_latency(time_of(heard_.quiet, what)); }
  // Nothing comes any more, nor is anything on its way there.
  bool over() const { return heard_.done && kept_.empty() && unknown_.empty(); }
  bool other_waits() const { return heard_.waits; }
  int64_t messages() const { return sent_; }
  int64_t latency() const { return latency_; }

  void keep(const Crossing& crossing);
  bool has_crossings() const { return !kept_.empty(); }
  // Something to say: crossings, a promise that changed, or a message that the other side wants to know read.
  bool wants_to_send(const News& news) const { return has_crossings() || news != told_ || owes_; }
  // As much as there is credit for; false when something is left.
  bool send(const News& news);
  // Everything that has arrived, into the engine; true when there was something.
  bool receive(Engine& engine);

  // What to wait for.
  void add_interests(std::vector<Interest>& interests, bool blocked) const;

 private:
  int64_t after_latency(int64_t time) const { return time == kNeverTime ? kNeverTime : time + latency_; }
  int64_t answered(Crosses what) const;

  Transport& transport_;
  int64_t out_flow_;
  int64_t in_flow_;
  int64_t latency_;
  std::vector<Crossing> kept_;
  int64_t earliest_kept_ = kNeverTime;
  News told_{.promise = {-1, -1}, .quiet = {-1, -1}};
  News heard_;
  int64_t sent_ = 0, read_ = 0;
  bool owes_ = false;
  struct Unknown {
    int64_t message = 0;
    int64_t earliest = 0;  // arrival
  };
  std::deque<Unknown> unknown_;  // sent, and not in the promise heard
};

}  // namespace millrace::simulation
