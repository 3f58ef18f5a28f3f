// How many lanes an engine gets: the one function that sizes it, for whoever plans, generates or simulates it.
//
//   EngineFront front(shape);
//   const EngineFront::Choice* choice = front.smallest(/*cycles_per_sample=*/1'018'000);
//   front.engine(*choice);            // 4 x 29 lanes
//   front.cycles(*choice).forward;    // at most 1,018,000
//
// An engine is a rectangle of input and output lanes, the same for FP, EB and PG of a shard: a sweep serves all lanes at once, so lanes
// that do not divide the channels evenly stand still in the last group of them. Of all rectangles the smallest that keeps up is
// taken, of those the fastest, then the one whose streams are narrowest, then the one with fewer output lanes. So an engine chosen for
// some cycles is also chosen for every number from its own cycles to those. A shape that holds another never gets a smaller engine.
// Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

// No engine is wider: what reads and writes as many channels at once grows with their square.
inline constexpr int64_t kMostEngineLanes = 64;

// With as many kernels per word as its sweeps need.
EngineParallelism engine_of(const ConvolutionShape& shape, int64_t input_lanes, int64_t output_lanes);

// Of a sample in the steady state, by phase, streams of the engine's own width among them; EB in whole cycles per input row, as plans
// count it.
struct EngineCycles {
  int64_t forward = 0, error_back = 0, gradient = 0;

  // Side by side; without EB where no error goes back.
  int64_t slowest(bool with_error_back) const;
};
EngineCycles engine_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);
int64_t sample_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back = true);

// All engines of a shape that are worth building: each larger one is faster. They are found as far as somebody asks. One thread at a time.
class EngineFront {
 public:
  // Of at most so many tiles; 0: of any number.
  explicit EngineFront(const ConvolutionShape& shape, bool error_back = true, int64_t most_tiles = 0);

  // A planner keeps hundreds of thousands of these; what follows from the lanes is found anew.
  struct Choice {
    int64_t slowest = 0;
    int32_t input_lanes = 0, output_lanes = 0;
    int64_t tiles() const { return int64_t{input_lanes} * output_lanes; }
  };
  // Nothing where none keeps up; until the next question.
  const Choice* smallest(int64_t cycles_per_sample);
  const Choice* after(const Choice& choice);  // likewise the next larger one, which is faster
  std::span<const Choice> choices();          // all
  // That keep up, of at most so many tiles; the smallest first.
  std::vector<Choice> keeping_up(int64_t cycles_per_sample, int64_t most_tiles);
  std::span<const Choice> found() const { return choices_; }  // the first of them
  EngineParallelism engine(const Choice& choice) const;
  EngineCycles cycles(const Choice& choice) const;

 private:
  void find_until(int64_t cycles_per_sample);

  ConvolutionShape shape_;
  bool error_back_;
  int64_t most_tiles_;
  uint64_t input_sides_, output_sides_;  // numbers of lanes that are worth it
  size_t next_ = 0;                      // rectangle, of all there are by size
  std::vector<Choice> choices_;          // the smallest first
};

// Once; whoever asks often keeps the front.
std::optional<EngineParallelism> smallest_engine(const ConvolutionShape& shape, int64_t cycles_per_sample, bool error_back = true);
// Of at most so many multipliers, and of one tile at least.
EngineParallelism fastest_engine(const ConvolutionShape& shape, int64_t multipliers);

}  // namespace millrace
