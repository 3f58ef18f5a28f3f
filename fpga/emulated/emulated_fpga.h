// A device of the ring whose arithmetic is that of the convolution engine on an FPGA, computed on the host.
//
//   std::unique_ptr<EmulatedFpga> device = make_emulated_fpga(EngineArithmetic::kFixed16);
//   auto kernel = device->make_kernel(spec);
//   for (const auto& [layer, counters] : device->counters()) fmt::print("{}: {} saturated\n", layer, counters.sums.saturated);
//
// kFixed16: convolutions and dense layers are the functional model of fpga/conv_ce/arithmetic, bit by bit the engine's RTL:
// elements of 16 bits, accumulators of 32, partial sums rounded where they would cross a wire, gradients kept in 32 bits and
// summed over a mini-batch, updates computed in single precision and rounded stochastically to 16 bits (counters: layer,
// tensor, step, element). Formats are those of use_formats, else engine_formats.h's, errors' by the micro-batch's error_scale.
// kFloat32: the same sums in single precision, in the same order; the reference for the fixed-point mode.
// Recurrent layers are the functional model of fpga/recurrence forward; back, the host's loops go through the gates and states that it
// kept, straight through every rounding, and their weights, of which the model takes sixteen bits, are updated in single precision.
// Their steps alone are the same behind products with x that another device makes; where that device makes their gradients, too
// (core/plan/parts.h), they are the functional model of fpga/pe_chain, forward and back.
// Dropout and local response norms are the functional model's too (a norm without a table in hardware is the host's), and the slope of a
// leaky ReLU has fifteen bits. All other layers are the host's plain loops; in kFixed16 what they give out is rounded to the format of
// activations or errors. The loss is the host's in both modes. Values are held as doubles, which hold every element and gradient exactly.
// Everything runs at once on the calling thread. Limits: the CTC loss and a GRU whose reset comes before the product are kUnavailable;
// recurrent layers take a micro-batch's steps all at once. Scale and shift of a batch norm are updated without rounding.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/device/device.h"
#include "fpga/common/arithmetic/arithmetic_counters.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/recurrence/arithmetic/cell_arithmetic.h"

namespace millrace {

enum class EngineArithmetic { kFixed16, kFloat32 };

// What happened to the numbers of one layer so far.
struct LayerArithmetic {
  EngineFormats formats;         // the last that were used
  ArithmeticCounters inputs;     // on their way into the engine; exact where an engine made them
  ArithmeticCounters weights;    // likewise
  ArithmeticCounters sums;       // of FP
  ArithmeticCounters cells;      // of recurrent layers
  ArithmeticCounters outputs;    // behind bias and activation
  ArithmeticCounters errors;     // of the output, and those made for the input
  ArithmeticCounters gradients;  // accumulators that wrapped
  ArithmeticCounters updates;
};

// A recurrent layer's fraction bits: those that `book` has for it (of x its activations', of h its sums'), else 12 of x, 13 of weights
// and of h, 11 of a relu's h, 12 of a projected one.
CellFormats recurrent_formats_of(const LayerFormats& book, const std::string& layer, const Recurrent& cell);

class EmulatedFpga : public Device {
 public:
  // By layer.
  virtual const std::map<std::string, LayerArithmetic>& counters() const = 0;
  // Instead of the engine's own, before the first kernel is made.
  virtual void use_formats(LayerFormats formats) = 0;
  // What stands for sigmoid and tanh in recurrent layers: straight lines (the default) or tables; before the first kernel is made.
  virtual void use_gates(TanhForm smooth) = 0;
};

std::unique_ptr<EmulatedFpga> make_emulated_fpga(EngineArithmetic arithmetic);

class ConvolutionEngine;  // fpga/conv_ce/phases/convolution_engine.h
class RecurrenceEngine;   // fpga/recurrence/arithmetic/recurrence_engine.h
class ChainEngine;        // fpga/pe_chain/arithmetic/chain_engine.h
// The same device in kFixed16 with the phases of its convolutions, the forward pass of its recurrent layers and the steps alone of others
// computed somewhere else.
std::unique_ptr<EmulatedFpga> make_fpga_on(std::unique_ptr<ConvolutionEngine> engine, std::unique_ptr<RecurrenceEngine> recurrence,
                                           std::unique_ptr<ChainEngine> chains, std::string description);

}  // namespace millrace
