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
// such an engine (kernels that no square one stands for, recurrent ones): those keep the paper's free counts. Convolutions of more than two
// channel groups stay whole. A longer period never asks for a larger engine, a shard that holds another never for a smaller one; a smaller
// engine may take more memory. Borrows the graph. Thread safe; fronts are kept.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

// A memory that may be made of block RAM or of UltraRAM, or be cut by columns.
struct MemoryBlocks {
  int64_t bram18 = 0;  // halves of a BRAM36
  int64_t urams = 0;
  // Of these the last column's, which words do not fill: in UltraRAM it takes as much as a full one, in block RAM less.
  int64_t last_bram18 = 0, last_urams = 0;

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
  FabricUse streams = {};              // packs and unpacks those
  double act_ram_times = 1;            // counted for a larger part of the layer: at least so many times what the shard's Act-RAM holds
  bool operator==(const EngineMemory&) const = default;
};

// Of each kind the larger.
EngineMemory larger_of(EngineMemory one, const EngineMemory& other);

// Where weights and gradients lie, and of how many samples PG puts side by side what it reads.
struct WeightsAt {
  bool off_chip = false;
  int64_t gradient_samples = 1;
  int64_t held_samples = 1;      // of them those that take memory
  bool act_ram_outside = false;  // in the board's own memory, too
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

  // The same in a ring whose slowest clock is another.
  std::shared_ptr<const GeneratedEngines> at_clock(double slowest_clock_hz) const;
  double slowest_clock_hz() const { return slowest_clock_hz_; }

  std::optional<GeneratedEngine> engine_for(const Node& node, std::span<const Block> blocks, double period_seconds, double clock_hz) const;
  // The same in two steps: all but the engine, which is that of the layer, the channels held, the streams' width and the cycles alone.
  std::optional<GeneratedEngine> without_engine(const Node& node, std::span<const Block> blocks, double period_seconds,
                                                double clock_hz) const;
  void add_engine(GeneratedEngine& built) const;
  // Whether a shard may be a part of the layer: convolutions of many groups stay whole.
  bool divides(const Node& node) const;
  // Which of the widths that the ring's streams may have they have for a period; beyond the last where no width is enough.
  size_t width_for(double period_seconds) const;
  // Of an answer that keeps up: as it is built.
  EngineMemory memory_of(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // What a search reckons with: of this period, as much as that of any part of the shard. (As far as the ring's streams stay as wide; of
  // large layers in steps of some channels, rounded up.) `least`: rounded down, so that no shorter period takes less.
  EngineMemory reserved_for_period(const GeneratedEngine& engine, const WeightsAt& weights, bool least) const;
  // The least, on a board without UltraRAM: its `bram18` no fewer than any engine of so many channels takes.
  EngineMemory least_for_period(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // On a board of either kind: of each amount the least that an engine takes of those that keep up, of so many channels or more, in steps
  // of some rounded down. What packs words and the bytes of those outside are left out; its port keeps up, or none does.
  EngineMemory least_of_any(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // Of an answer that keeps up, on a board without UltraRAM: engines after the smallest that take fewer blocks than all smaller ones, by
  // their most tiles; what is reserved for them never falls as the shard grows, and never rises as the period does. All their blocks are
  // `bram18`, those of the Act-RAM's width among them.
  // `least`: as the least that they may take, so that the smallest engine of a shorter period takes no less than some of them.
  std::vector<EngineMemory> larger_engines(const GeneratedEngine& engine, const WeightsAt& weights, bool least) const;
  // Every engine that keeps up, of the shard or of a larger part of its layer, that no other undercuts in tiles, blocks, bytes moved and
  // channels held: no shard has any that takes less of all, however it grows. In small steps of channels, but for layers of very many,
  // between whose steps an engine may take some blocks less; by tiles. Empty where none keeps up, whatever the part; nothing of fewer
  // channels than a step has. On a board without UltraRAM all blocks are `bram18`; `two_kinds`:
  // undercut at every rate of exchange, too.
  std::optional<std::vector<EngineMemory>> least_built(const GeneratedEngine& engine, const WeightsAt& weights, bool two_kinds) const;
  // Bytes to and from the memory outside, a sample, of the engine that keeps up and moves the fewest.
  double fewest_bytes(const GeneratedEngine& engine, const WeightsAt& weights) const;
  // Likewise, but never less of a larger shard, or for a shorter period: of large layers in steps of some channels, of the step below or of
  // the one above.
  double reserved_bytes(const GeneratedEngine& engine, const WeightsAt& weights, bool above) const;
  // Of an answer that keeps up: the largest engine of up to so many tiles that keeps up, and all of them.
  GeneratedEngine of_size(GeneratedEngine engine, int64_t most_tiles) const;
  std::vector<GeneratedEngine> that_keep_up(const GeneratedEngine& smallest, int64_t most_tiles) const;
  // As they are built, the memories of those that are larger than the smallest, by tiles; without some that take no less of the board's
  // blocks, whichever it has, and move no fewer bytes than a smaller one that keeps the period, ports and all.
  std::vector<EngineMemory> larger_built(const GeneratedEngine& smallest, const WeightsAt& weights, int64_t most_tiles,
                                         bool two_kinds) const;
  // Null where some layer behind the sum has no hardware.
  const BlocksAfterSum* after_sum(const GeneratedEngine& engine) const;

 private:
  // Engines' choices by numbers of channels, found when first asked for.
  struct Fronts {
    explicit Fronts(int64_t channels) : of_channels(to_size(channels) + 1) {}
    std::mutex mutex;
    std::vector<std::unique_ptr<EngineFront>> of_channels;
  };
  struct FrontsOfWidth {
    std::shared_ptr<Fronts> by_inputs, of_outputs;  // of all outputs, or of all inputs
  };
  struct Layer {
    ConvolutionShape whole;            // of the map, also where it is taken flat
    int64_t elements_per_channel = 1;  // of a dense layer's input
    bool is_flat = false;              // the map is taken so
    bool error_back = false;
    bool by_outputs = false;  // how it is divided
    size_t alike = 0;         // the first layer whose engines take the same memories
    int64_t error_block_rows = 1;
    std::vector<int64_t> dropout_cycles;  // by width of the streams, of the slowest unit behind the sum, with streams up to there
    std::shared_ptr<const std::vector<BlocksAfterSum>> after;  // by width of the streams
    std::vector<FrontsOfWidth> fronts;                         // by width of the streams; one for all layers alike

    // Of a map that is taken flat, the engine's channels of each of the map's.
    int64_t channels_of_each() const { return is_flat ? whole.height * whole.width : 1; }
    int64_t map_channels(const ConvolutionShape& held) const { return held.inputs / channels_of_each(); }
  };
  // Of the ring's streams, in steps of a power of two: what the slowest takes.
  struct Width {
    int64_t lanes;
    int64_t cycles;
  };
  // Of engines up to a size the fewest: from this one on, up to the next that is named.
  struct FewestBlocks {
    size_t size = 0;
    int64_t bram18 = 0, port_cycles = 0;
  };
  using FewestOfSizes = std::vector<FewestBlocks>;  // the smallest first; below it none keeps up
  struct FewestAtPlace {
    int64_t from = 0, until = 0;  // the same for all cycles from here on, up to there
    FewestOfSizes of_sizes;
  };
  static FewestOfSizes larger_of_sizes(const FewestOfSizes& one, const FewestOfSizes& other);
  struct FewestElements {
    int64_t none_empty_from = std::numeric_limits<int64_t>::max();  // cycles that leave an engine whose lanes all have channels
    std::vector<int64_t> of_fastest;                                // of as many as were asked for
  };
  // What no other engine undercuts; and the same on a board of two kinds of blocks.
  struct LeastBuilt;
  struct LeastOfTwoKinds;
  // By held channels, in steps of so many, which are places; found when first asked for.
  // Of engines whose passes take as many samples side by side, by lanes wherever weights lie, of the side that is not divided for all
  // places alike.
  struct EngineBlocks {
    EngineBlocks(size_t places_of_inputs, size_t places_of_outputs) : of_inputs(places_of_inputs), of_outputs(places_of_outputs) {}
    std::mutex mutex;
    std::vector<std::vector<int32_t>> of_inputs, of_outputs;
  };
  struct SmallestAtPlace {
    int64_t from = 0, until = 0;                         // the same for all cycles from here on, up to there
    size_t engine = std::numeric_limits<size_t>::max();  // its place in the front
    EngineMemory memory;
    std::vector<std::pair<size_t, EngineMemory>> others;  // of other cycles
  };
  // By the cycles that were asked for last, and before them: two searches may go on at once.
  template <typename OfCycles>
  struct LastAsked {
    OfCycles latest, before;

    OfCycles& ask(int64_t cycles) {
      if (latest.cycles != cycles) std::swap(latest, before);
      if (latest.cycles != cycles) latest.begin(cycles);
      return latest;
    }
  };
  // Of so many channels, and of fewer.
  struct SmallestOfCycles {
    int64_t cycles = -1;
    std::vector<EngineMemory> of_channels = {};
    std::vector<double> bytes = {};

    void begin(int64_t asked) {
      cycles = asked;
      of_channels.clear();
      bytes.clear();
    }
  };
  // Wherever Act-RAMs lie.
  struct Smallest {
    explicit Smallest(size_t places) : at_places(places), fewest_elements(places) {}
    std::mutex mutex;
    std::vector<SmallestAtPlace> at_places;       // engine that keeps up
    std::vector<FewestElements> fewest_elements;  // that engines move in a pass
    LastAsked<SmallestOfCycles> of_cycles;
  };
  struct SizesOfCycles {
    int64_t cycles = -1;
    std::array<std::vector<FewestOfSizes>, 2> of_sizes = {};

    void begin(int64_t asked) {
      cycles = asked;
      for (auto& sizes : of_sizes) sizes.clear();
    }
  };
  // Of so many channels and of more: the same for all cycles from the first to the last, with which all of them keep up.
  template <typename Least>
  struct LeastAtPlace {
    int64_t first = 0, last = std::numeric_limits<int64_t>::max();
    std::vector<Least> engines = {};
    bool is_for(int64_t cycles) const { return first <= cycles && cycles <= last; }
  };
  // From all channels down; that asked for last first.
  template <typename Least>
  using LeastLists = std::vector<std::vector<std::shared_ptr<const LeastAtPlace<Least>>>>;
  // Of any engine of one place, the same for all cycles from here on, up to there.
  struct LeastOfAny {
    int64_t from = 0, until = 0;
    std::optional<EngineMemory> memory;  // where one keeps up
  };
  // From all channels down.
  struct LeastOfCycles {
    int64_t cycles = -1;
    std::vector<std::optional<EngineMemory>> of_more;

    void begin(int64_t asked) {
      cycles = asked;
      of_more.clear();
    }
  };
  // In steps of so many channels, which are places.
  struct Reserves {
    std::mutex mutex;
    int64_t step = 1;
    size_t places = 0;
    std::shared_ptr<EngineBlocks> blocks;
    std::shared_ptr<Smallest> smallest;                   // not in small steps
    std::array<std::vector<FewestAtPlace>, 2> at_places;  // likewise; without engines that waste, and with them
    LastAsked<SizesOfCycles> of_cycles;
    std::vector<LeastOfAny> least_of_any;  // likewise
    LastAsked<LeastOfCycles> least_of_cycles;
    LeastLists<LeastBuilt> least_built;
    LeastLists<LeastOfTwoKinds> least_of_two_kinds;
  };
  class EnginesAtPlace;
  using ReservesKey = std::tuple<size_t, size_t, WeightsAt, bool>;  // layer, width, in small steps
  Reserves& reserves_of(const GeneratedEngine& engine, const WeightsAt& weights, bool small_steps = false) const;
  // Whoever asks holds the lock of the smallest.
  const EngineMemory& memory_of_smallest(const Layer& layer, const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                                         Reserves& reserves) const;
  static LeastOfAny least_of_those(const EnginesAtPlace& engines, const WeightsAt& weights, int64_t cycles);
  const std::optional<EngineMemory>& least_of_any_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                                                     Reserves& reserves) const;
  template <typename Least>
  LeastAtPlace<Least> least_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place, const LeastAtPlace<Least>& of_more,
                               int64_t cycles, Reserves& reserves) const;
  template <typename Least>
  static void add_least(const EnginesAtPlace& engines, const WeightsAt& weights, int64_t channels, int64_t cycles,
                        std::vector<Least>& least);
  template <typename Least>
  std::shared_ptr<const LeastAtPlace<Least>> least_from(const GeneratedEngine& engine, const WeightsAt& weights, size_t steps,
                                                        LeastLists<Least>& lists, Reserves& reserves) const;
  template <typename Least>
  std::optional<std::vector<EngineMemory>> least_of(const GeneratedEngine& engine, const WeightsAt& weights, LeastLists<Least>& lists,
                                                    Reserves& reserves) const;
  const FewestOfSizes& fewest_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place, bool least,
                                 Reserves& reserves) const;
  // Of engines that keep up, 0 where none does.
  static int64_t fewest_elements(EngineFront& front, const ConvolutionShape& shape, int64_t cycles, FewestElements& known);
  int64_t fewest_blocks_of(const GeneratedEngine& engine, const WeightsAt& weights, int64_t known, Reserves& reserves) const;
  // Whole steps of channels that an engine holds, or as many as hold its channels.
  size_t steps_held(const GeneratedEngine& engine, const Reserves& reserves, bool up) const;
  static int64_t blocks_at(const Layer& layer, const EngineParallelism& engine, const ConvolutionShape& shape,
                           const EngineSurroundings& around, size_t place, EngineBlocks& known);
  // By lanes, below 0 where they are not counted yet.
  static std::vector<int32_t>& of_lanes_at(std::vector<std::vector<int32_t>>& places, size_t place);
  static EngineSurroundings surroundings_of(const Layer& layer, const GeneratedEngine& engine, const WeightsAt& weights);
  ConvolutionShape shape_at(const Layer& layer, const GeneratedEngine& engine, size_t place, int64_t step) const;
  // The whole layer, behind streams of such a width.
  size_t place_of(const Node& node) const;
  static ConvolutionShape shape_held(const Layer& layer, const HeldChannels& held, int64_t lanes);
  static ConvolutionShape whole_shape(const Layer& layer, int64_t lanes);
  void add_blocks_after(const LayerGroup& group, Layer& layer) const;
  // Of an engine of any board; 0: of any number.
  int64_t most_tiles(const Layer& layer, const ConvolutionShape& held) const;
  Fronts& fronts_of(const Layer& layer, size_t width, const ConvolutionShape& held) const;
  std::unique_ptr<EngineFront> new_front(const Layer& layer, const ConvolutionShape& held) const;
  static std::unique_ptr<EngineFront>& front_at(Fronts& fronts, const Layer& layer, size_t width, const ConvolutionShape& held);
  // With all its engines, which stay as they are.
  const EngineFront& whole_front_of(Fronts& fronts, const Layer& layer, size_t width, const ConvolutionShape& held) const;
  EngineFront& front_of(Fronts& fronts, const Layer& layer, size_t width, const ConvolutionShape& held) const;
  std::optional<EngineParallelism> engine_within(const Layer& layer, size_t width, const ConvolutionShape& held, int64_t cycles) const;

  const Graph* graph_;
  double slowest_clock_hz_;
  int64_t most_multipliers_;
  std::vector<std::optional<Layer>> layers_;  // by node
  std::vector<Width> widths_;
  mutable std::mutex mutex_;
  mutable std::map<double, std::shared_ptr<const GeneratedEngines>> at_other_clocks_;
  mutable std::map<ReservesKey, Reserves> reserves_;
  mutable std::map<std::tuple<size_t, size_t, WeightsAt>, std::shared_ptr<Smallest>> smallest_;  // layer, width
  // Layer, width, samples of PG, in small steps.
  mutable std::map<std::tuple<size_t, size_t, int64_t, bool>, std::shared_ptr<EngineBlocks>> blocks_;
};

}  // namespace millrace
