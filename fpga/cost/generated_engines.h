// The engines that are generated for a shard: rectangles of lanes and the cycles they take, for plans that count what is built.
//
//   const GeneratedEngines engines(graph, /*slowest_clock_hz=*/200e6);
//   const std::optional<GeneratedEngine> engine = engines.engine_for(node, blocks, /*period_seconds=*/5e-3, /*clock_hz=*/200e6);
//   if (engine && engine->keeps_up) engine->engine.tiles() * engine->engine.taps();      // multipliers of each phase
//
// The ring's streams are as wide as its period asks for (ring_lanes.h), a shard holds whole groups of them, and the smallest engine that
// keeps the period is taken (engine_sizing.h): the generator's own functions, so it builds what is planned.
// Nothing comes back for layers without such an engine (more than two channel groups, kernels that are not square, recurrent ones): those
// keep the paper's free counts. A longer period never asks for more, a shard that holds another never for less. Borrows the graph. Thread
// safe; fronts are kept.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"

namespace millrace {

struct GeneratedEngine {
  bool keeps_up = false;  // without it the rest says nothing
  EngineParallelism engine;
  int64_t reserved_tiles = 0;  // what a search reckons with: at least those of any part of the shard
  EngineCycles cycles;         // per sample, of the board's clock, streams of the ring apart
  bool error_back = false;     // EB is built
  double stream_seconds = 0;   // per sample, of the maps around the layer
  int64_t lanes = 1;           // of the ring's streams
  ConvolutionShape held;       // what the shard holds of the layer
};

class GeneratedEngines {
 public:
  GeneratedEngines(const Graph& graph, double slowest_clock_hz);

  std::optional<GeneratedEngine> engine_for(const Node& node, std::span<const Block> blocks, double period_seconds, double clock_hz) const;

 private:
  // An engine's choices for so many channels, found when first asked for.
  struct Front {
    std::once_flag once;
    std::unique_ptr<const EngineFront> front;
  };
  struct Layer {
    ConvolutionShape whole;
    int64_t elements_per_channel = 1;  // of a dense layer's input
    bool error_back = false;
    std::shared_ptr<std::deque<Front>> by_inputs, by_outputs;  // of all outputs, or of all inputs; one for all layers alike
  };
  // Of the ring's streams, in steps of a power of two: what the slowest takes.
  struct Width {
    int64_t lanes;
    int64_t cycles;
  };
  static const EngineFront& front_of(const Layer& layer, const ConvolutionShape& held);

  const Graph* graph_;
  double slowest_clock_hz_;
  std::vector<std::optional<Layer>> layers_;  // by node
  std::vector<Width> widths_;
};

}  // namespace millrace
