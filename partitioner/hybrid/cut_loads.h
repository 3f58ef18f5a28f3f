// What crosses a link that cuts the chain at a position: flows_of() as a function of the cut alone, in O(1).
//
//   const CutLoads loads(chain, 16);                       // bits of an element on the wire
//   LinkBits bits = loads.at(position);                    // per sample, both directions
//   PositionSet here = loads.allowed(link, 1e-3, first, last);     // cuts that let the link carry a sample every millisecond
//
// Parameters that are stored away from their user come on top; they depend on homes, not on the cut.
// Inside a layer the load is monotone along each run of positions it consists of: falling in the input channels that
// still have to pass, rising in the output channels already begun. allowed() finds the ends of those runs by bisection.
// The chain must outlive it. Immutable, thread safe.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"
#include "partitioner/hybrid/chain.h"

namespace millrace {

struct LinkBits {
  int64_t forward = 0;
  int64_t backward = 0;
  int64_t sum() const { return forward + backward; }
};

// The least time per sample in which a link carries so much.
double seconds_on(const Link& link, const LinkBits& bits);

class CutLoads {
 public:
  CutLoads(const Chain& chain, int64_t element_bits);

  LinkBits at(int64_t position) const;
  // Positions in [first, last] where the link needs at most `seconds` per sample and devices of the quantum may cut.
  PositionSet allowed(const Link& link, double seconds, int64_t quantum, int64_t first, int64_t last) const;

 private:
  // In elements. A cut right before the group carries all of `before`; inside it, `inside` and what the cut divides.
  struct GroupLoad {
    LinkBits before;
    LinkBits inside;
    int64_t input_plane_forward = 0;  // per channel of the head's input that still has to pass; 0: all of it passes anyway
    int64_t input_plane_backward = 0;
    int64_t sum_plane_forward = 0;  // per output channel begun upstream
    int64_t sum_plane_backward = 0;
  };
  void append_allowed(int64_t group, const Link& link, double seconds, int64_t quantum, int64_t first, int64_t last,
                      PositionSet& set) const;

  const Chain* chain_;
  int64_t element_bits_;
  std::vector<GroupLoad> groups_;
};

}  // namespace millrace
