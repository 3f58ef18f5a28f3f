// All phases of a device's convolutions and dense layers on simulated RTL: each goes to an engine that can do it.
//
//   SimulatedPhases phases({.planned = planned_engines(design)});       // the engines of a plan's device
//   SimulatedPhases any({.lanes = 2});                                  // engines made as phases ask for them
//   const std::vector<int16_t> sums = phases.forward(phase, data, counters);
//
// The functions have phase_model.h's arguments and results, so this can stand where the functional model stands: behind a
// device of the ring (cosim_device.h), or in the body of a device process. Every result is the RTL's; the functional model
// computes it too, for the counters, and the first difference is an error that says where.
// A dense phase on an engine whose kernel is a whole map has its inputs laid out as such a map, zeros behind them.
// Limits: square strides, padding of at most half the kernel, kernels with holes or that are not square on engines of a plan alone: else
// kUnavailable.
// The update is the host's, in the generated design as well: it reads LGB, and writes LPRAM.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/phases/phase_model.h"
#include "fpga/cosim/convolution_library.h"
#include "fpga/cosim/simulated_engine.h"

namespace millrace {

// An engine that the plan has, and the largest layer it is made for.
struct PlannedEngine {
  std::string layer;
  EngineHardware hardware;
  ConvolutionShape shape;
  ErrorBlocks blocks;
};
std::vector<PlannedEngine> planned_engines(const DeviceDesign& design);
// Of `lanes` x `lanes` tiles, as large as this convolution; fails with kUnavailable on those that engines cannot do.
PlannedEngine small_engine(const ConvolutionShape& shape, int64_t lanes);

struct SimulatedPhasesOptions {
  std::vector<PlannedEngine> planned;  // empty: engines of lanes x lanes tiles, as large as the phases that come
  int64_t lanes = 2;
  EngineBuildOptions build;
};

class SimulatedPhases {
 public:
  explicit SimulatedPhases(SimulatedPhasesOptions options);
  ~SimulatedPhases();

  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters);
  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                  ArithmeticCounters& counters);
  void add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters);

  // Of all engines, so far.
  SimulatedCycles cycles() const;

 private:
  struct Served;
  Served& engine_for(const ConvolutionShape& shape);

  SimulatedPhasesOptions options_;
  std::vector<std::unique_ptr<Served>> served_;
};

}  // namespace millrace
