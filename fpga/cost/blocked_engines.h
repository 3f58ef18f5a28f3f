// The engine of blocked columns that a recurrent layer gets on a board in a plan for inference: out of every way to build it, the one that
// keeps a period and takes least of what the board has least of.
//
//   const BlockedEngines engines(board, {.streams = 4});
//   const BlockedEngine* engine = engines.within(node, /*period_seconds=*/1e-3);      // null: no engine is so fast
//   const EnginesTogether chosen = engines_together(nodes, board, {.streams = 4}, {});      // of layers that share a board
//
// The ways are the exploration's front (fpga/sbe/exploration.h) over what can be generated, with so many sequences side by side, and so
// many steps and blocks where those are given; a layer's is found once and kept, with batch.known for all that ask with it. A sample is a
// sequence: it takes a batch's time, divided by its sequences, for each batch of steps. Thread safe; pointers live as long as the engines.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/cost/inference_batch.h"
#include "fpga/sbe/exploration.h"
#include "fpga/sbe/joint_exploration.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

SbeBoard sbe_board_of(const FpgaResources& board);
// What plans choose from: every way that can be generated, with such batches.
SbeSpace planned_space(const GateMatrix& shape, int64_t steps, const InferenceBatch& batch);

struct BlockedEngine {
  SbePoint point;
  double seconds_per_sample = 0;
  double bytes_per_sample = 0;  // of weights, from the memory outside
  double share = 0;             // of what the board has least of
};

// Ways to build the engines of layers that share a board, fastest first (joint_exploration.h): the n-th of every layer go together. Slices
// are given out in the layers' order; what finds none is of LUTs.
struct EnginesTogether {
  struct Ways {
    std::vector<double> seconds;  // a sequence, of all layers together
    std::vector<BlockedEngine> engines;
  };
  std::map<std::string, Ways> of_layers;
};
// Each with fewer blocks of memory than the one before.
// None where a layer is one that the engine does not compute.
EnginesTogether engines_together(std::span<const Node* const> nodes, const FpgaResources& board, const InferenceBatch& batch,
                                 const BoardShare& taken);
// For the paces from the fastest that there is room for up to `period_seconds`: `others` take so much of the board at that period, and of
// its slices and LUTs more the faster it goes.
EnginesTogether engines_at_paces(std::span<const Node* const> nodes, const FpgaResources& board, const InferenceBatch& batch,
                                 const BoardShare& others, double period_seconds);

// What searches find, for plans of many cuts and batches: each question is answered once, whoever asks.
struct KnownEngines {
  struct Ways {
    std::vector<BlockedEngine> all;  // by rising time
    std::vector<size_t> best;        // of those up to here, the one of least share
    std::string refusal;             // why there is none; else empty
  };
  // Board; inputs, hidden units, gates, features projected to, steps; streams, steps and blocks of the batch.
  using Key = std::tuple<SbeBoard, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
  std::mutex mutex;  // of both
  std::map<Key, std::unique_ptr<const Ways>> alone;
  std::map<std::pair<int64_t, int64_t>, KnownLayers> together;  // by the batch's steps and blocks
};

class BlockedEngines {
 public:
  BlockedEngines(const FpgaResources& board, const InferenceBatch& batch);

  const BlockedEngine* within(const Node& node, double period_seconds) const;
  // Why there is no engine for the layer, however slow, and what sizes have one; "" where there is.
  std::string refusal(const Node& node) const;

 private:
  const KnownEngines::Ways& ways_of(const Node& node) const;

  SbeBoard board_;
  InferenceBatch batch_;
};

}  // namespace millrace
