// The cost model of devices whose shards take turns, CPUs and GPUs: per phase, the larger of arithmetic and memory traffic.
//
//   Roofline roofline;
//   roofline.device = "cpu";
//   roofline.macs_per_second = 60e9, roofline.bytes_per_second = 35e9, roofline.memory_bytes = 20e9;
//   std::unique_ptr<CostModel> model = make_roofline_cost_model(std::move(roofline));
//
// Arithmetic is macs / (peak * efficiency), traffic is bytes / bandwidth, and every kernel adds the time to launch it.
// Efficiencies are shares of the peak that count nominal multiply-accumulates, so Winograd can take a convolution's above
// one. Weights are read once per micro-batch. The update comes once per mini-batch and is no part of a sample's time:
// ShardCost has it apart, the time of reading and writing weights, gradients and the optimizer's slots, and of launching a kernel for
// each tensor.
// Recurrent layers: x W as any product; then the steps, one after the other, at what h U takes in arithmetic, in reading U
// (at every step, or once where it fits on the chip) or in the least time of a step, whichever is longest.
// Embeddings: the rows looked up are read and written; PG adds to them.
// Memory "memory_bytes": the shard's input and inner activations, with what the steps of a cell leave, times the window, one set of
// errors, and the parameters of the layers after the sum; the layer's own, with gradients and optimizer slots, are
// "parameter_memory_bytes". Where what recurrent layers keep is made again, it takes one place of a micro-batch for all layers of
// a device, and F of these layers is counted twice. Parameters are kept in 32 bits whatever the element.
// Pure once made; thread safe; demand_of allocates nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/device/cost_model.h"

namespace millrace {

// Shares of the peak, per phase.
struct PhaseEfficiency {
  double forward = 1;
  double error_back = 1;
  double parameter_gradient = 1;
};

// Of the whole device, all its cores together.
struct Roofline {
  std::string device;  // the catalogue's short name
  double macs_per_second = 0;
  double bytes_per_second = 0;
  double memory_bytes = 0;
  PhaseEfficiency convolution;
  PhaseEfficiency dense;      // recurrent layers too
  double element_bytes = 4;   // of activations, errors and weights as they are read
  double launch_seconds = 0;  // per kernel: one for each layer and phase
  double step_seconds = 0;    // the least time of one step of a recurrent layer
  double on_chip_bytes = 0;   // recurrent weights up to this size are not read again at every step
  int64_t channel_quantum = 1;
  double update_launch_seconds = 0;                 // per tensor of parameters, once per mini-batch
  double watts = 0;                                 // of the board at work; 0: not known
  std::function<std::string(const Node&)> refusal;  // CostModel::refusal; empty: none
  // Of a convolution by its layer and the micro-batch; empty: `convolution`. Must not allocate.
  std::function<PhaseEfficiency(const Node&, int64_t)> convolution_of = {};
  std::vector<Constant> constants;
};

// Fails with kUsage when rates or memory are not above zero.
std::unique_ptr<CostModel> make_roofline_cost_model(Roofline roofline);

}  // namespace millrace
