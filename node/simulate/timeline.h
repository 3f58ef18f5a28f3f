// When each of many things wants attention next: the simulator's clock, as a tournament of times.
//
//   Timeline timeline(stations);
//   timeline.set(7, 1200);
//   while (timeline.next_time() < bound) handle(timeline.next_id(), timeline.next_time());
//
// One time per id, kNever for none; of equal times the lowest id comes first, so the order never depends on who set what
// when. Setting costs the depth of the tree. Owns 16 bytes per node.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

namespace millrace::simulation {

inline constexpr int64_t kNeverTime = std::numeric_limits<int64_t>::max();

class Timeline {
 public:
  explicit Timeline(size_t ids) : leaves_(std::bit_ceil(ids < 2 ? size_t{2} : ids)), nodes_(2 * leaves_, Node{kNeverTime, 0}) {
    for (size_t i = 0; i < leaves_; ++i) nodes_[leaves_ + i].id = static_cast<int32_t>(i);
    for (size_t i = leaves_ - 1; i > 0; --i) nodes_[i] = winner(i);
  }

  void set(int32_t id, int64_t time) {
    size_t at = leaves_ + static_cast<size_t>(id);
    if (nodes_[at].time == time) return;
    nodes_[at].time = time;
    for (at >>= 1; at > 0; at >>= 1) {
      const Node next = winner(at);
      // Where another id won before and wins now, nothing above can change.
      if (nodes_[at].id == next.id && nodes_[at].time == next.time) return;
      nodes_[at] = next;
    }
  }
  int64_t time_of(int32_t id) const { return nodes_[leaves_ + static_cast<size_t>(id)].time; }
  int64_t next_time() const { return nodes_[1].time; }
  int32_t next_id() const { return nodes_[1].id; }
  size_t bytes() const { return nodes_.size() * sizeof(Node); }

 private:
  struct Node {
    int64_t time;
    int32_t id;
  };
  Node winner(size_t parent) const {
    const Node& left = nodes_[2 * parent];
    const Node& right = nodes_[2 * parent + 1];
    return right.time < left.time ? right : left;
  }

  size_t leaves_;
  std::vector<Node> nodes_;
};

}  // namespace millrace::simulation
