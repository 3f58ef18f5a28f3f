// What stands where the FPGA's logic would: it does one phase at a time on the device's memory. Internal to fpga/xrt.
//
//   const std::unique_ptr<PhaseBody> body = make_phase_body("functional");
//   body->run(registers, memory);                // the result's header says how it went
//
// Bodies by name:
//   functional          phase_model.h, fixed_recurrent.h and fixed_steps.h
//   rtl:PLAN#DEVICE     the generated engines of a plan's device under Verilator (fpga/cosim), each result checked against
//                       phase_model.h as it comes; the update is the model's, as it is the host's in the generated design
// Another one is added by implementing PhaseArithmetic and one entry in make_phase_body. Nothing that a host writes makes a
// body fail: bad shapes and addresses are statuses of the result, and a result that cannot be written is lost, which the
// host notices by its run number. What its arithmetic fails with comes out of run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fpga/conv_ce/registers/register_map.h"
#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/recurrence/arithmetic/recurrence_engine.h"
#include "fpga/xrt/emulator/device_memory.h"

namespace millrace::xrt {

class PhaseBody {
 public:
  virtual ~PhaseBody() = default;
  virtual std::string description() const = 0;
  virtual void run(const PhaseRegisters& registers, DeviceMemory& memory) = 0;
};

// What a body computes with: phase_model.h's functions, or something that equals them.
class PhaseArithmetic {
 public:
  virtual ~PhaseArithmetic() = default;
  virtual std::string description() const = 0;
  virtual std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters) = 0;
  virtual std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                          ArithmeticCounters& counters) = 0;
  virtual void add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                            std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters) = 0;
  virtual RecurrenceEngine& recurrence() = 0;
  virtual ChainEngine& chains() = 0;
};

std::unique_ptr<PhaseArithmetic> make_functional_arithmetic();
// `which`: PLAN#DEVICE. Fails with kUnavailable where the engines cannot be built, and kNotFound or kUsage for the words.
std::unique_ptr<PhaseArithmetic> make_rtl_arithmetic(std::string_view which);

std::unique_ptr<PhaseBody> make_phase_body_on(std::unique_ptr<PhaseArithmetic> arithmetic);
// Fails with kUsage and the nearest name.
std::unique_ptr<PhaseBody> make_phase_body(std::string_view name);

}  // namespace millrace::xrt
