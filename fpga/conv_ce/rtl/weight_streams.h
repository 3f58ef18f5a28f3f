// Weights that lie in the memory outside: how many samples share a pass over them, and how many words a pass has.
//
//   const WeightStreams streams = weight_streams(engine, shape, /*samples=*/1, /*gradient_samples=*/2, /*cycles=*/1'656'000);
//   bytes_per_sample(streams, engine, shape, /*error_back=*/true);   // of all passes
//
// FP and EB read every kernel once per pass, PG reads every gradient, adds to it and writes it back. Of a dense layer the samples that
// share a pass lie side by side, as one wide row of which every window is a sample's: `samples` of them for FP and EB, `gradient_samples`
// for PG, whose words are twice as wide. A convolution walks over its kernels with every row, and shares nothing. EB walks in an order of
// its own, so its kernels lie there once more. All are packed without gaps (word_unpacker.sv). Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

inline constexpr int64_t kLeastBeatBits = 64, kMostBeatBits = 512;
inline constexpr int64_t kStreamedBeats = 128;  // that a reader has room for: burst_reader.sv's DEPTH
inline constexpr int64_t kWrittenBeats = 64;    // that wait for a writer: burst_writer.sv's
inline constexpr int64_t kBurstBeats = 16;

struct WeightStreams {
  int64_t samples = 1;           // of a pass of FP and EB
  int64_t gradient_samples = 1;  // of a pass of PG
  int64_t beat_bits = kMostBeatBits;

  bool operator==(const WeightStreams&) const = default;
};

// `count` samples side by side.
ConvolutionShape side_by_side(const ConvolutionShape& shape, int64_t count);

// Of the engine's parameter memory, of a pass.
int64_t streamed_words(const EngineParallelism& engine, const ConvolutionShape& shape);
// That a pass takes for words of so many bits per element.
int64_t streamed_beats(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t element_bits, int64_t beat_bits);
// Passes over the kernels, or over the gradients, of a sample that shares none: one with every row.
int64_t forward_passes(const ConvolutionShape& shape);
int64_t error_back_passes(const ConvolutionShape& shape);

// Of the narrowest port at which a sample's passes take no more than so many cycles; 0: the widest.
WeightStreams weight_streams(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples, int64_t gradient_samples,
                             int64_t cycles);

// Cycles of the memory's ports per sample, at a beat per cycle; a writer rests a cycle behind every burst.
struct StreamCycles {
  int64_t forward = 0, error_back = 0, gradient = 0;
};
StreamCycles weight_stream_cycles(const WeightStreams& streams, const EngineParallelism& engine, const ConvolutionShape& shape);
// Of an engine whose parameter memory has so many elements (parameter_elements).
StreamCycles weight_stream_cycles(const WeightStreams& streams, int64_t elements, const ConvolutionShape& shape);

// That a sample moves between the board and its memory, whole beats.
double bytes_per_sample(const WeightStreams& streams, const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back);
// Likewise: never fewer of more.
double bytes_per_sample(const WeightStreams& streams, int64_t elements, const ConvolutionShape& shape, bool error_back);

// The words of parameter_words() in the order in which EB reads them.
std::vector<int16_t> parameter_words_of_error_back(const EngineParallelism& engine, const ConvolutionShape& shape,
                                                   std::span<const int16_t> words);

}  // namespace millrace
