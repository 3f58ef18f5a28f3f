// The places where a profile may be cut, and what lies before each: the ground on which stage_partition.h searches.
//
//   const CutSpace cuts = linear_cuts(profile);                 // or antichain_cuts
//   if (cuts.precedes(a, b)) seconds = cuts.seconds[b] - cuts.seconds[a];      // of the nodes between the two cuts
//
// A cut is a set of nodes that holds, with each node, all it depends on; a stage is what lies between two cuts of which one
// holds the other. Cut 0 holds nothing, the last one everything. Cuts come in an order in which each stands behind those it
// holds, and in which the seconds before a cut never fall: a search that walks forward may stop where a stage grows too long.
// Plain values; borrows nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/index.h"

namespace millrace {

enum class CutKind {
  kChain,       // the profile is a chain: all its cuts
  kAntichains,  // the profile branches: all its cuts
  kLinearised,  // the profile branches, and only the cuts of one order are looked at
};

struct CutSpace {
  CutKind kind = CutKind::kChain;
  // Of the nodes before each cut.
  std::vector<double> seconds;
  std::vector<double> parameter_bytes;
  std::vector<double> activation_bytes;
  std::vector<int64_t> nodes;
  // What crosses it, one way.
  std::vector<double> crossing_bytes;
  // A bit per node, `words` words per cut; empty for the cuts of an order, where cut i holds the first i nodes.
  std::vector<uint64_t> members;
  size_t words = 0;

  int64_t size() const { return static_cast<int64_t>(seconds.size()); }
  int64_t last() const { return size() - 1; }
  // Whether `later` holds all that `earlier` holds, and more. Fast for later > earlier only; false otherwise.
  bool precedes(int64_t earlier, int64_t later) const {
    if (earlier >= later) return false;
    if (members.empty()) return true;
    const uint64_t* a = &members[to_size(earlier) * words];
    const uint64_t* b = &members[to_size(later) * words];
    for (size_t w = 0; w < words; ++w)
      if ((a[w] & ~b[w]) != 0) return false;
    return true;
  }
  // The same cuts by another amount that never falls from a cut to one that holds it.
  CutSpace in_order_of(const std::vector<double>& amount) const;
  // Those cuts that are kept, in the same order; the first and the last must be.
  CutSpace only(const std::vector<bool>& kept) const;
  // The nodes of a stage, ascending.
  std::vector<int64_t> nodes_between(int64_t earlier, int64_t later) const;

 private:
  CutSpace picked(const std::vector<size_t>& which) const;
};

}  // namespace millrace
