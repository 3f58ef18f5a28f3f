// The engines that are generated for a shard: rectangles of lanes and the cycles they take, for plans that count what is built.
//
//   const GeneratedEngines engines(graph, /*slowest_clock_hz=*/200e6);
//   const std::optional<GeneratedEngine> engine = engines.engine_for(node, blocks, /*period_seconds=*/5e-3, /*clock_hz=*/200e6);
//   if (engine && engine->keeps_up) engine->engine.tiles() * engine->engine.taps();      // multipliers of each phase
//
// The ring's streams are as wide as its period asks for (ring_lanes.h), a shard holds whole groups of them, and the smallest engine that
// keeps the period is taken (engine_sizing.h), where what is dropped behind the sum passes within it, too: the generator's own functions,
// so it builds what is planned. Its memories are counted in blocks (built_memory.h), and what a search reserves for it never falls as the
// shard grows. Of a shard whose words are streamed, a larger engine may leave less of them empty. Nothing comes back for layers without
// such an engine (more than two channel groups, kernels that are not square, recurrent ones): those keep the paper's free counts. A longer
// period never asks for a larger engine, a shard that holds another never for a smaller one; a smaller engine may take more memory. Borrows
// the graph. Thread safe; fronts are kept.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"

namespace millrace {

// A memory that may be made of block RAM or of UltraRAM.
struct MemoryBlocks {
  int64_t bram18 = 0;  // halves of a BRAM36
  int64_t urams = 0;

  MemoryBlocks() = default;
  explicit MemoryBlocks(const MemoryShape& memory);
  bool operator==(const MemoryBlocks&) const = default;
};

// Of what follows the sum, on the device that ends the group.
struct BlocksAfterSum {
  std::vector<MemoryBlocks> before;  // on every device: errors that wait for each other
  int64_t bram18 = 0;
  std::vector<MemoryBlocks> large;
};

// Of an engine, and of what lies between it and the ring's streams.
struct EngineMemory {
  int64_t bram18 = 0;          // of what is never made of UltraRAM
  int64_t input_channels = 0;  // that the Act-RAM holds, in whole beats
  int64_t input_lanes = 0;
  MemoryBlocks parameters, gradients;  // LPRAM and LGB, where they are not streamed
  int64_t port_cycles = 0;             // of the slowest port to the memory outside, a sample; 0 where nothing is streamed
  double streamed_bytes = 0;           // to and from that memory, a sample
  int64_t tiles = 0;                   // of the engine
  bool operator==(const EngineMemory&) const = default;
};

// Of each kind the larger.
EngineMemory larger_of(EngineMemory one, const EngineMemory& other);

// Where weights and gradients lie, and of how many samples PG puts side by side what it reads.
struct WeightsAt {
  bool off_chip = false;
  int64_t gradient_samples = 1;
  auto operator<=>(const WeightsAt&) const = default;
};

struct GeneratedEngine {
  bool keeps_up = false;  // without it the rest says nothing
  bool passes = false;    // what comes and goes keeps up, whatever the engine does
  EngineParallelism engine;
  int64_t reserved_tiles = 0;   // what a search reckons with: at least those of any part of the shard
  EngineCycles cycles;          // per sample, of the board's clock, streams of the ring apart
  bool error_back = false;      // EB is built
  double stream_seconds = 0;    // per sample, of the maps around the layer, and of dropout
  int64_t lanes = 1;            // of the ring's streams
  ConvolutionShape held;        // what the shard holds of the layer
  size_t layer = 0, width = 0;  // of the engines that answer
  int64_t cycles_given = 0;
};

class GeneratedEngines {
 public:
  // Engines that together, FP's, EB's and PG's, have more multipliers than `most_multipliers`, which no board of the ring has, do not keep
  // up; 0: of any number.
  GeneratedEngines(const Graph& graph, double slowest_clock_hz, int64_t most_multipliers = 0);

  std::optional<GeneratedEngine> engine_for(const Node& node, std::span<const Block> blocks, double period_seconds, double clock_hz) const;
  // The same in two steps: all but the engine, which is that of the layer, the channels held, the streams' width and the cycles alone.
  std::optional<GeneratedEngine> without_engine(const Node& node, std::span<const Block> blocks, double period_seconds,
                                                double clock_hz) const;
  void add_engine(GeneratedEngine& built) const;
  // Of an answer that keeps up: with the engine that moves the fewest bytes to and from the memory outside, of up to `larger` times the
  // tiles.
  GeneratedEngine with_fewest_words(GeneratedEngine engine, const WeightsAt& weights, int64_t larger) const;
  // Of an answer that keeps up: as it is built.
  EngineMemory memory_of(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // What a search reckons with: as much as that of any part of the shard, and of any longer period. (As far as the ring's streams stay as
  // wide; of large layers in steps of some channels.)
  EngineMemory reserved_memory(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // Of any part, and of this period alone: a search finds feasible what does not fit for some longer periods, too.
  EngineMemory reserved_for_period(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // Likewise of engines with the fewest words, and as much as the very engine takes.
  EngineMemory reserved_with_fewest_words(const GeneratedEngine& engine, const WeightsAt& weights, int64_t larger) const;
  // Null where some layer behind the sum has no hardware.
  const BlocksAfterSum* after_sum(const GeneratedEngine& engine) const;

 private:
  // Engines' choices by numbers of channels, found when first asked for.
  struct Fronts {
    explicit Fronts(int64_t channels) : of_channels(static_cast<size_t>(channels) + 1) {}
    std::mutex mutex;
    std::vector<std::unique_ptr<EngineFront>> of_channels;
  };
  struct Layer {
    ConvolutionShape whole;
    int64_t elements_per_channel = 1;  // of a dense layer's input
    bool error_back = false;
    bool by_outputs = false;  // how it is divided
    size_t alike = 0;         // the first layer whose engines take the same memories
    int64_t error_block_rows = 1;
    int64_t dropout_cycles = 0;                                // of the slowest unit behind the sum, with streams of any width
    std::shared_ptr<const std::vector<BlocksAfterSum>> after;  // by width of the streams
    std::shared_ptr<Fronts> by_inputs, of_outputs;             // of all outputs, or of all inputs; one for all layers alike
  };
  // Of the ring's streams, in steps of a power of two: what the slowest takes.
  struct Width {
    int64_t lanes;
    int64_t cycles;
  };
  // By held channels, in steps of so many; made as far as they are asked for. Of a front's first engines: what they take, and the most
  // that one of them takes.
  using BlocksByChoice = std::vector<std::vector<int64_t>>;
  struct ChoiceMemory {
    int64_t slowest;  // cycles
    EngineMemory most;
  };
  struct Reserves {
    std::mutex mutex;
    int64_t step = 1;
    std::shared_ptr<BlocksByChoice> anywhere;  // whether weights are on chip or not; guarded by the fronts' mutex
    std::vector<std::vector<ChoiceMemory>> of_choices;
    std::vector<std::map<size_t, EngineMemory>> of_smallest;  // of the smallest engine that keeps up, by its place in the front
    int64_t cycles = -1;                                      // that were asked for last
    std::vector<EngineMemory> of_channels;                    // for those: of so many channels, and of fewer
  };
  using ReservesKey = std::tuple<size_t, size_t, WeightsAt, int64_t>;  // layer, width, and how much larger engines may be; 0: the smallest
  Reserves& reserves_of(const GeneratedEngine& engine, const WeightsAt& weights, int64_t larger) const;
  // The most that memory_at answers of fewer steps of channels than the engine holds, and of as many.
  struct Steps {
    EngineMemory below, most;
  };
  template <typename MemoryAt>
  Steps steps_of_channels(const Layer& layer, const GeneratedEngine& engine, Reserves& reserves, MemoryAt memory_at) const;
  Steps steps_for_period(const GeneratedEngine& engine, const WeightsAt& weights, int64_t larger) const;
  ConvolutionShape shape_at(const Layer& layer, size_t place, int64_t step) const;
  EngineParallelism fewest_words(EngineFront& front, const EngineFront::Choice& smallest, const ConvolutionShape& held, bool error_back,
                                 const WeightsAt& weights, int64_t larger, int64_t cycles) const;
  EngineMemory most_memory(const Layer& layer, const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                           Reserves& reserves) const;
  void add_blocks_after(const LayerGroup& group, Layer& layer) const;
  Fronts& fronts_of(const Layer& layer, const ConvolutionShape& held) const;
  EngineFront& front_of(Fronts& fronts, const Layer& layer, const ConvolutionShape& held) const;
  std::optional<EngineParallelism> engine_within(const Layer& layer, const ConvolutionShape& held, int64_t cycles) const;

  const Graph* graph_;
  double slowest_clock_hz_;
  int64_t most_multipliers_;
  std::vector<std::optional<Layer>> layers_;  // by node
  std::vector<Width> widths_;
  mutable std::mutex mutex_;
  mutable std::map<ReservesKey, Reserves> reserves_;
  mutable std::map<std::tuple<size_t, size_t, int64_t>, std::shared_ptr<BlocksByChoice>> anywhere_;  // layer, width, samples of PG
};

}  // namespace millrace
