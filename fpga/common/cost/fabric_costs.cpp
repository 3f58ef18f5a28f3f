#include "fpga/common/cost/fabric_costs.h"

#include "fpga/common/cost/bram_packing.h"
#include "fpga/common/cost/buffer.h"

namespace millrace {

namespace {

// An adder of twice the element's width per product: a kernel's products, and those of several input channels, meet in trees.
constexpr double kAdderBitsPerElementBit = 2;
// The window's element and the weight that waits for the next row.
constexpr double kOperandRegisters = 2;
// Counters and address generators of one phase, five nested loops of 16 bits with their comparisons.
constexpr double kControlLuts = 900;
constexpr double kControlFlipFlops = 1100;
// Activations, partial sums, errors of the output and errors of the input.
constexpr double kStreams = 4;
constexpr double kStreamControlLuts = 60;
// Aurora-like framing, credits, a checksum and two clock-crossing FIFOs.
constexpr double kInterconnectionModules = 6;
constexpr double kInterconnectionLuts = 3000;
constexpr double kInterconnectionFlipFlops = 4500;

}  // namespace

FabricUse engine_fabric(const EngineLogic& logic, int64_t element_bits) {
  const auto bits = static_cast<double>(element_bits);
  const auto multipliers = static_cast<double>(logic.multipliers);
  const double in_fabric = static_cast<double>(logic.fabric_multipliers) * bits * bits;
  const auto phases = static_cast<double>(logic.phases);
  const double word = bits * static_cast<double>(kLanes);
  FabricUse use;
  use.luts = multipliers * kAdderBitsPerElementBit * bits + in_fabric + phases * kControlLuts +
             kStreams * (kStreamControlLuts + lutram_luts(kLutramDepth, word));
  use.flip_flops =
      multipliers * (kAdderBitsPerElementBit + kOperandRegisters) * bits + in_fabric + phases * kControlFlipFlops + kStreams * 2 * word;
  return use;
}

FabricUse special_function_fabric(double lane_logic, int64_t element_bits) {
  const double logic = (1 + lane_logic) * static_cast<double>(kLanes * element_bits);
  return {logic, logic};
}

FabricUse interconnection_fabric() {
  return {kInterconnectionModules * kInterconnectionLuts, kInterconnectionModules * kInterconnectionFlipFlops};
}

std::vector<Constant> fabric_constants() {
  const auto constant = [](const char* name, double value) { return Constant{name, value, "projected"}; };
  return {constant("adder_bits_per_element_bit", kAdderBitsPerElementBit),
          constant("operand_registers_per_multiplier", kOperandRegisters),
          constant("control_luts_per_engine", kControlLuts),
          constant("control_flip_flops_per_engine", kControlFlipFlops),
          constant("streams_per_shard", kStreams),
          constant("control_luts_per_stream", kStreamControlLuts),
          constant("interconnection_modules", kInterconnectionModules),
          constant("interconnection_module_luts", kInterconnectionLuts),
          constant("interconnection_module_flip_flops", kInterconnectionFlipFlops),
          constant("lanes", static_cast<double>(kLanes)),
          constant("lutram_depth", static_cast<double>(kLutramDepth))};
}

}  // namespace millrace
