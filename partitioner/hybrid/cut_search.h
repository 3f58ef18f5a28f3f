// The cuts that make the slowest device and the slowest link as fast as possible: exact for the stated model.
//
//   const CutSearch search(loads, cut_loads, links, {.allow_empty = false});
//   std::optional<std::vector<int64_t>> cuts = search.cuts_at({.compute = 1e-3, .link = 1e-3});    // D-1 positions, or none
//
// The model: device d computes the stretch between cut d-1 and cut d within one period if SegmentLoads says so; link d
// carries what CutLoads says of cut d within one period; every device gets at least one unit unless it may stay empty.
// For a given period the search keeps, device by device, the set of all positions where a feasible prefix can end. That
// set is a union of few progressions: a stretch that fits can be shortened and still fits, so from all ends between b
// and e the next ends are everything in (b, reach(e)] where link and channel quantum allow a cut; of stretches whose weights are kept
// off chip (segment_load.h) everything behind the first layer that is. No greedy choice is
// made: a link may forbid the furthest cut and allow an earlier one that a greedy probe has left behind.
// Positions from which the remaining devices cannot finish, even with free links, are dropped.
// The optimum over periods is found by bisection, which is exact because a longer period never hurts.
// Complexity: O(P * (D * (S + log U) + K * L * log U)) for D devices, L layers, S of them spanned by the range of a cut,
// U units of a layer, K kinds of links and P probes of the bisection (about 50); memory O(D * S + K * L).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "partitioner/hybrid/cut_loads.h"
#include "partitioner/hybrid/segment_load.h"

namespace millrace {

struct Periods {
  double compute = 0;  // seconds per sample for devices
  double link = 0;     // and for links
};

struct CutRules {
  bool allow_empty = false;
  // Where each link must cut: [first, last] positions, from pins and cuts given by hand. Empty: anywhere.
  std::vector<Progression> windows = {};
  // Only between layers.
  bool whole_layers = false;
};

class CutSearch {
 public:
  // The links must outlive the search, as must the loads.
  CutSearch(const SegmentLoads& segments, const CutLoads& cuts, std::span<const Link> links, CutRules rules);

  // D-1 ascending positions, preferring light links; nothing when no cuts keep the periods.
  std::optional<std::vector<int64_t>> cuts_at(const Periods& periods, const Storage& storage = {}) const;
  bool feasible(const Periods& periods, const Storage& storage = {}) const;
  // Likewise, and where the devices could begin, from the last one backwards.
  struct Reached {
    bool feasible = false;
    int64_t begin = 0;
  };
  Reached reached(const Periods& periods, const Storage& storage = {}) const;
  // Where each device may end, behind devices that all keep the periods; fewer entries than devices when there are no cuts.
  std::vector<PositionSet> ends_at(const Periods& periods, const Storage& storage = {}) const { return prefixes(periods, storage); }

  // When infeasible: how far a prefix can get, device by device (the furthest end of device d; -1 when none).
  std::vector<int64_t> furthest(const Periods& periods, const Storage& storage = {}) const;

 private:
  // What one walk over the devices, for one period, has found out already.
  struct Memory {
    std::vector<std::optional<PositionSet>> allowed;            // per kind of link: where it may cut
    std::map<std::tuple<size_t, int64_t, int64_t>, bool> fits;  // kind of device, stretch
    SegmentLoads::Found found;
  };
  Memory new_memory() const { return {std::vector<std::optional<PositionSet>>(kinds_.size()), {}, SegmentLoads::Found(*segments_)}; }
  // From the first device on, each as far as it goes and shown to fit: for loads of which a larger stretch may demand less. May miss cuts.
  // `kept`: ends of a device, the furthest, from which the next one is looked at. `whole_channels`: one of each channel.
  std::optional<std::vector<int64_t>> cuts_from_first(const Periods& periods, const Storage& storage, size_t kept,
                                                      bool whole_channels) const;
  std::vector<PositionSet> prefixes(const Periods& periods, const Storage& storage, Reached* reached = nullptr) const;
  PositionSet next(int64_t device, const PositionSet& from, const Periods& periods, const Storage& storage, int64_t nearest,
                   Memory& memory) const;
  void append_allowed(int64_t link, double seconds, int64_t first, int64_t last, Memory& memory, PositionSet& set) const;
  int64_t devices() const { return segments_->devices(); }

  const SegmentLoads* segments_;
  const CutLoads* cuts_;
  std::span<const Link> links_;
  CutRules rules_;
  std::vector<int64_t> quanta_;  // per link
  std::vector<size_t> kinds_;    // per link: links of equal bandwidth and quantum, between devices that divide the same layers, share one
  std::vector<std::set<int64_t>> whole_;  // per kind: groups that a device beside it does not divide
};

}  // namespace millrace
