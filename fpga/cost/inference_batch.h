// What of a plan for inference is fixed by hand before its engines are chosen: how a recurrent layer's batch is made.
//
//   make_fpga_cost_model(device, arithmetic, {.streams = 4});                      // steps and blocks as is best
//   make_fpga_cost_model(device, arithmetic, {.streams = 1, .steps = 64});        // 64 steps of each sequence at a time
//
// A batch is streams x steps (fpga/sbe/engine_config.h). 0 streams: the plan trains, and nothing of this is read.
#pragma once

#include <cstdint>
#include <memory>

namespace millrace {

struct EnginesTogether;  // blocked_engines.h
struct KnownEngines;

struct InferenceBatch {
  int64_t streams = 0;                                        // sequences side by side
  int64_t steps = 0;                                          // of each sequence at a time; 0: what is best
  int64_t blocks = 0;                                         // of streamed weights; 0: what is best, none where all are pinned
  std::shared_ptr<const EnginesTogether> together = nullptr;  // of layers that share a board; they have no others
  std::shared_ptr<KnownEngines> known = nullptr;              // of searches before this one; nothing: all are made anew
};

}  // namespace millrace
