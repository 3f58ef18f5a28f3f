// The engines that a search may choose from at one of the places of a layer, which are numbers of channels, and what each of them takes.
//
//   const EnginesAtPlace engines(*this, engine, weights, place, reserves);
//   for (const EngineFront::Choice& choice : engines.keeping_up(cycles)) {
//     if (engines.least_blocks(choice) < fewest) fewest = std::min(fewest, engines.at(choice).blocks());
//   }
//
// Most engines are ruled out by what they take at least, which is lanes' blocks, that are kept, and the bits of the weights: only of the
// rest their memories are counted. So nothing is kept of an engine. Holds the lock of the kept blocks. Borrows all it is
// given. Internal to fpga/cost.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>

#include "core/base/index.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/cost/built_blocks.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

class GeneratedEngines::EnginesAtPlace {
 public:
  // Those of the layer, of streams as wide as the engine's.
  EnginesAtPlace(const GeneratedEngines& all, const GeneratedEngine& engine, const WeightsAt& weights, size_t place, Reserves& reserves)
      : EnginesAtPlace(all, engine, weights, all.shape_at(*all.layers_[engine.layer], engine, place, reserves.step), place,
                       reserves.blocks) {}
  // Those of what the engine itself holds; nothing is kept.
  EnginesAtPlace(const GeneratedEngines& all, const GeneratedEngine& engine, const WeightsAt& weights)
      : EnginesAtPlace(all, engine, weights, engine.held, 0, std::make_shared<EngineBlocks>(1, 1)) {}

  // The smallest first, each larger one is faster.
  std::span<const EngineFront::Choice> keeping_up(int64_t cycles) const { return choices_.subspan(too_slow(cycles)); }
  // Of the others the fastest.
  int64_t next_slowest(int64_t cycles) const;

  // Of one, no more than it takes: the first two of what any of them takes of the outside.
  int64_t least_input_channels() const { return shape_.inputs; }
  double least_bytes() const { return least_bytes_; }
  int64_t least_blocks(const EngineFront::Choice& choice) const {
    const bool has_deep_words = shape_.inputs * shape_.outputs > kLutramDepth * choice.tiles() * shape_.groups;
    return of_lanes(choice) + (weights_.off_chip || has_deep_words ? least_of_weights_ : 0);
  }

  // As least_blocks(), of boards of two kinds: what is never of UltraRAM, and what may be of either.
  struct LeastOfKinds {
    double fixed = 0, either = 0;  // BRAM36s
  };
  LeastOfKinds least_of_kinds(const EngineFront::Choice& choice) const;

  class One {
   public:
    One(const EnginesAtPlace& place, const EngineFront::Choice& choice);

    int64_t least_blocks() const;
    // Halves of BRAM36s, with all but the Act-RAM's bits, where none is of UltraRAM.
    int64_t blocks() const;
    // Of what may be of either kind, where weights lie beside the engine.
    MemoryBlocks parameters() const;
    MemoryBlocks gradients() const;
    // Of the slowest port to the memory outside, a sample; 0 where nothing is streamed.
    int64_t port_cycles() const;
    // To and from that memory, a sample.
    double bytes() const;
    const EngineParallelism& engine() const { return engine_; }
    // Without weights, and without columns for the Act-RAM's width.
    int64_t blocks_anywhere() const { return of_lanes_ - act_ram_columns(engine_.input_lanes, place_->weights_); }
    // Of boards of two kinds: what is never of UltraRAM, but for columns of the Act-RAM, which may lie in either.
    int64_t blocks_of_one_kind() const {
      return place_->weights_.off_chip ? blocks() - act_ram_columns(engine_.input_lanes, place_->weights_) : blocks_anywhere();
    }
    // That the Act-RAM holds.
    int64_t input_channels() const { return groups_of_inputs_ * engine_.input_lanes; }

   private:
    const EnginesAtPlace* place_;
    EngineParallelism engine_;
    int64_t groups_of_inputs_, words_, of_lanes_;
  };
  One at(const EngineFront::Choice& choice) const { return {*this, choice}; }
  const ConvolutionShape& shape() const { return shape_; }

 private:
  EnginesAtPlace(const GeneratedEngines& all, const GeneratedEngine& engine, const WeightsAt& weights, const ConvolutionShape& shape,
                 size_t place, std::shared_ptr<EngineBlocks> known);
  size_t too_slow(int64_t cycles) const;
  int64_t of_lanes(const EngineFront::Choice& choice) const {
    const int32_t of_inputs = fast_item(*of_inputs_, choice.input_lanes), of_outputs = fast_item(*of_outputs_, choice.output_lanes);
    const int64_t of_both = of_inputs < 0 || of_outputs < 0 ? count_of_lanes(choice) : int64_t{of_inputs} + of_outputs;
    return of_both + act_ram_columns(choice.input_lanes, weights_);
  }
  int64_t count_of_lanes(const EngineFront::Choice& choice) const;

  const Layer* layer_;
  size_t place_;
  std::shared_ptr<EngineBlocks> known_;
  WeightsAt weights_;
  ConvolutionShape shape_;
  EngineSurroundings around_;
  WeightStreams streams_;
  double least_bytes_ = 0;
  int64_t least_of_weights_ = 0;  // blocks
  std::unique_lock<std::mutex> of_blocks_;
  const EngineFront* front_;
  const std::vector<int32_t>*of_inputs_, *of_outputs_;  // blocks, by lanes; below 0: not counted yet
  std::span<const EngineFront::Choice> choices_;
};

}  // namespace millrace
