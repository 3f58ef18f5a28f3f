// How boards in a row divide the cells of a recurrent layer whose steps they share: the split whose slowest board or link is fastest.
//
//   UnitSplit split{.cells = 1024, .boards = 2};
//   split.seconds = [&](size_t board, int64_t units) { return ...; };     // infinite where so many do not fit
//   split.exchange = [&](size_t board, int64_t most) { return ...; };
//   const auto best = best_split(split);                                  // best->units: {[0, 512), [512, 1024)}
//
// A board takes seconds(its cells) + exchange(the most cells of any board), since a step ends when the largest row has come from the
// farthest board; a link between two of them what its lines say of the cells before it. Exact where seconds and exchange never fall with
// more cells: for every size of the largest row the least time is found for which cells can be handed out from board to board. Of equals
// the most even. Pure. Internal to partitioner/baseline.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

// Between board `link` and the next: base + slope x cells before it, seconds of a sample.
struct LinkLine {
  size_t link = 0;
  double base = 0, slope = 0;
};

struct UnitSplit {
  int64_t cells = 0;
  size_t boards = 0;
  std::function<double(size_t board, int64_t units)> seconds;
  std::function<double(size_t board, int64_t most)> exchange;
  std::vector<LinkLine> links;
};

struct BestSplit {
  double seconds = 0;
  std::vector<ChannelRange> units;
};
std::optional<BestSplit> best_split(const UnitSplit& split);

}  // namespace millrace
