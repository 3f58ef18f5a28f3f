// The FP, EB and PG of one shard's engine as its RTL computes them: tensors go in as beats, and come out as tensors.
//
//   SimulatedEngine engine({parallelism, memories}, ErrorBlocks{}, EngineBuildOptions{});
//   const std::vector<int16_t> sums = engine.forward(phase, {.input = x, .weight = w, .bias = b});
//   engine.cycles().forward;              // simulated clock cycles so far
//
// The functions mean what phase_model.h's of the same names mean, for phases of this engine's kernel and stride that fit its
// memories. Weights go into LPRAM element by element, where they differ from what lies there, as a host would write them. Those that are
// streamed lie in a memory of a hundred cycles' latency, gradients too; every sample has its own passes over them.
// Fails with kTimeout when the hardware does not end within ten times the modelled cycles.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fpga/conv_ce/phases/phase_model.h"
#include "fpga/cosim/convolution_library.h"

namespace millrace {

struct SimulatedCycles {
  int64_t forward = 0;
  int64_t error_back = 0;
  int64_t gradient = 0;
};

// Rows of errors that come together, as a layer that pools sends them.
struct ErrorBlocks {
  int64_t first = 1;
  int64_t rows = 1;
};

class SimulatedEngine {
 public:
  SimulatedEngine(const EngineHardware& hardware, ErrorBlocks blocks, const EngineBuildOptions& options);
  ~SimulatedEngine();
  SimulatedEngine(const SimulatedEngine&) = delete;
  SimulatedEngine& operator=(const SimulatedEngine&) = delete;

  const EngineHardware& hardware() const;
  // Whether the memories are large enough.
  bool fits(const ConvolutionShape& shape) const;

  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data);
  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight);
  void add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias);

  const SimulatedCycles& cycles() const;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace millrace
