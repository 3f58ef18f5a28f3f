// Cuts and homes found together: whether a ring can keep a period when parameters must move upstream, and where to cut then.
//
//   const JointSearch joint(segments, cut_loads, links, search, traffic);
//   JointAnswer answer = joint.at({.compute = 1e-3, .link = 1e-3}, /*cells=*/64);
//   if (answer.verdict == JointAnswer::Verdict::kFound) use(answer.cuts);
//
// Homes lie upstream of their users, so one walk from the last device to the first decides: for every place where a link may cut
// it keeps the least excess, the parameters of the devices after it that found no room there. The excess is also exactly
// what the link carries, forward as parameters and backward as gradients, so the link's bandwidth bounds it. Less excess is never worse
// for the devices before, hence one number per place and kind of memory is enough (with several kinds, those of which none is
// less in all).
// Places are too many to keep them all: about `cells` are looked at per link. Where they are all there are, the answer is exact.
// Elsewhere the walk is done twice: over the places themselves, which finds cuts that are right, and over the cells between
// them, each stretch taken as long as any two places of its cells surely make it, which shows that there are none. Neither holding,
// the answer is "undecided", and more cells tell more. Over cells the walk keeps, where it can, excess and the parameters before the
// place in one sum: what a stretch holds of its own drops out of that, so that not knowing where in a cell it ends costs nothing.
// Weights whose storage per element differs within one kind of memory are counted by the largest: what is impossible stays so, what
// is found has to be checked (place_homes).
// Borrows all it is made of. Immutable, thread safe. Time O(devices * cells^2), counted in `work`.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "partitioner/hybrid/cut_loads.h"
#include "partitioner/hybrid/cut_search.h"
#include "partitioner/hybrid/segment_load.h"

namespace millrace {

// What a parameter stored upstream of its user adds to every link between the two.
struct HomeTraffic {
  bool allowed = true;              // parameters may move
  double bits_per_element = 32;     // on the wire
  double passes_per_sample = 1;     // of the parameter, forward
  double gradients_per_sample = 1;  // of its gradient, backward

  LinkBits with(LinkBits load, int64_t elements) const;
};

struct JointAnswer {
  enum class Verdict { kFound, kImpossible, kUndecided } verdict = Verdict::kImpossible;
  // Where found; else cuts that leave the least storage without room, if any come so far.
  std::vector<int64_t> cuts;
  bool every_place = false;  // all places were looked at
  int64_t work = 0;          // stretches weighed
};

class JointSearch {
 public:
  JointSearch(const SegmentLoads& segments, const CutLoads& cuts, std::span<const Link> links, const CutSearch& search, HomeTraffic traffic,
              bool allow_empty);

  // How much room stretches take: as much as some way to place their weights does, or, quickly, as little as none of their ways undercuts.
  // What is impossible with that is so with any; nothing is found with it.
  enum class Rooms { kFound, kLeastOfAll };
  JointAnswer at(const Periods& periods, int64_t cells, Rooms rooms = Rooms::kFound) const;

  // Every element of a memory takes the same storage: what at() finds needs no check, and is exact with every place.
  bool uniform() const { return weights().uniform; }
  // Some layer has weights that may be stored elsewhere; without any, cuts alone decide.
  bool some_move() const { return weights().before.back() > 0; }

 private:
  static constexpr size_t kMostMemories = 4;
  using Excess = std::array<double, kMostMemories>;  // storage, per kind of memory

  // Places of one link, of one layer: all between `first` and `last` where it may cut.
  struct Cell {
    int64_t first = 0;
    int64_t last = 0;
    int64_t group = 0;        // that holds `first`; the number of groups at the chain's end
    double spare_first = 0;   // elements that may come on top, at `first`
    double spare_most = 0;    // and at most, anywhere in the cell
    double before_first = 0;  // storage of the parameters upstream of `first`
    double before_last = 0;
  };
  struct Label {
    Excess excess{};
    int32_t next_cell = -1;
    int32_t next_label = -1;
  };
  using Labels = std::vector<std::vector<Label>>;  // per cell
  struct Walk;
  // Of parameters that may move. Most rings are solved without.
  struct Weights {
    bool uniform = true;
    bool adds_up = true;       // a stretch on chip stores what lies between its ends, on whatever device
    std::vector<double> unit;  // per kind of memory: storage of an element, the most
    std::vector<int64_t> of_group;
    std::vector<int64_t> before;  // the group
  };
  const Weights& weights() const;
  void weigh() const;

  std::vector<Cell> cells_of(int64_t link, const PositionSet& places, double period, int64_t cells, bool& every_place) const;
  double spare(int64_t link, LinkBits load, double period) const;
  void pass_device(int64_t device, Walk& walk) const;
  void extend(int64_t device, int64_t start, int64_t end, const ShardDemand& demand, bool off_chip, Walk& walk) const;
  double storage_before(int64_t position) const;
  bool is_boundary(int64_t position) const;
  double elements_of(const Excess& excess) const;

  const SegmentLoads* segments_;
  const CutLoads* cuts_;
  std::span<const Link> links_;
  const CutSearch* search_;
  HomeTraffic traffic_;
  bool allow_empty_;
  std::vector<size_t> memory_of_;  // per device: its kind of memory
  mutable std::once_flag weighed_;
  mutable Weights weights_;
};

}  // namespace millrace
