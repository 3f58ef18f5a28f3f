// The engine of blocked columns that a recurrent layer gets on a board in a plan for inference: out of every way to build it, the one that
// keeps a period and takes least of what the board has least of.
//
//   const BlockedEngines engines(board, /*streams=*/4);
//   const BlockedEngine* engine = engines.within(node, /*period_seconds=*/1e-3);      // null: no engine is so fast
//
// The ways are the exploration's front (fpga/sbe/exploration.h) over what can be generated, with so many sequences side by side; a layer's
// is found once and kept. A sample is a sequence: it takes a batch's time, divided by its sequences, for each batch of steps.
// Thread safe; pointers live as long as the engines.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "core/graph/graph.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/sbe/exploration.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

SbeBoard sbe_board_of(const FpgaResources& board);
// What plans choose from: every way that can be generated, with so many sequences side by side.
SbeSpace planned_space(const GateMatrix& shape, int64_t steps, int64_t streams);

struct BlockedEngine {
  SbePoint point;
  double seconds_per_sample = 0;
  double bytes_per_sample = 0;  // of weights, from the memory outside
  double share = 0;             // of what the board has least of
};

class BlockedEngines {
 public:
  BlockedEngines(const FpgaResources& board, int64_t streams) : board_(sbe_board_of(board)), streams_(streams) {}

  const BlockedEngine* within(const Node& node, double period_seconds) const;

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // inputs, hidden units, gates, steps
  struct Ways {
    std::vector<BlockedEngine> all;  // by rising time
    std::vector<size_t> best;        // of those up to here, the one of least share
  };
  const Ways& ways_of(const Node& node) const;

  SbeBoard board_;
  int64_t streams_;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::unique_ptr<Ways>> known_;
};

}  // namespace millrace
