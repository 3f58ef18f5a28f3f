// The steps of one sequence in a board's arithmetic, given and taken as real numbers that it holds exactly. Internal to fpga/emulated.
//
//   const std::unique_ptr<StepArithmetic> arithmetic = make_fixed_steps_arithmetic(...);
//   arithmetic->take({weight, input_bias, hidden_bias, projection});      // of a direction, one behind the other
//   StepKept kept = arithmetic->nothing_kept();
//   const std::vector<double> h = arithmetic->forward(direction, sums, steps, state, kept);
//   StepBackState behind;                                                 // nothing
//   const StepErrors errors = arithmetic->back(direction, dh, {begin, end}, kept, behind, error_scale);
//
// Single precision is the functional model of fpga/pe_chain, to the bit; so are sixteen bits, whatever engine computes them.
#pragma once

#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "core/device/device.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/pe_chain/arithmetic/real_steps.h"

namespace millrace::emulated {

struct StepState {
  std::vector<double> hidden, cell;
};
using StepKept = std::variant<FixedKept, RealKept<float>>;
using StepBackState = std::variant<std::monostate, FixedBackState, RealBackState<float>>;

struct StepErrors {
  std::vector<double> sums;        // [step][unit][gate]
  std::vector<double> candidates;  // gru: [step][unit]
  std::vector<double> features;    // projected: [step][feature]
};

class StepArithmetic {
 public:
  struct Parameters {
    std::span<const float> hidden_weight, input_bias, hidden_bias, projection;
  };

  StepArithmetic() = default;
  StepArithmetic(const StepArithmetic&) = delete;
  StepArithmetic& operator=(const StepArithmetic&) = delete;
  virtual ~StepArithmetic() = default;

  virtual void forget() = 0;
  virtual bool has_parameters() const = 0;
  virtual void take(const Parameters& parameters) = 0;
  // As the arithmetic holds a state that comes from outside.
  virtual StepState held(const StepState& state) = 0;
  virtual StepKept nothing_kept() const = 0;
  // The next steps: `sums` are [step][unit][gate]; gives h as [step][feature], and puts what they keep behind `kept`.
  virtual std::vector<double> forward(int64_t direction, std::span<const double> sums, int64_t steps, StepState& state, StepKept& kept) = 0;
  // The way back through steps [begin, end) of a run; `errors` are those of these steps, `behind` what the steps behind them left, which
  // becomes what these leave.
  virtual StepErrors back(int64_t direction, std::span<const double> errors, StepRange steps, const StepKept& kept, StepBackState& behind,
                          double error_scale) = 0;
  // What is projected, of a run: [step][unit].
  virtual std::vector<double> projected(const StepKept& kept) const = 0;
  // An activation's output as it leaves the board.
  virtual double given_out(double value) = 0;
};

// `counters`, `book` and `engine`, which computes the steps, outlive it.
std::unique_ptr<StepArithmetic> make_fixed_arithmetic(const KernelSpec& spec, LayerArithmetic& counters, const LayerFormats& book,
                                                      TanhForm smooth, ChainEngine& engine);
// Fails with kUnavailable on hard gates.
std::unique_ptr<StepArithmetic> make_float_arithmetic(const KernelSpec& spec);

}  // namespace millrace::emulated
