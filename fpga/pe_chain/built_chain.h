// The engine of chained elements as it is built: how large it is, how long its steps take. Planner, generator, simulated RTL and cycle
// model all ask here, so that a plan counts what is built.
//
//   const PeChainHardware hardware = chain_for({.cell = CellKind::kLstm, .products = {{.outputs = 1024, .inputs = 1024}}}, 16);
//   chain_use_of(hardware).dsp;           // 2,688 of 32 chains of 16 elements: 2,048 elements, and 20 behind each chain for the gates
//   chain_use_of(hardware).gate_blocks;   // half blocks besides the weights': the state twice, what units keep, tables of functions
//   steady_step_cycles(hardware, settings, /*samples=*/1, /*back=*/false);
//
// Slices and half blocks are those that Yosys finds (tests/benchmarks/results/pe_chain_synthesis.json, row by row a test); cycles are
// those of the SystemVerilog, to the cycle. Gates in fixed point are counted with straight lines for their functions, as plans build them.
// A WORD is one result of every chain. Outputs of the last slice are divided over two neighbours of a chain where that leaves none too few.
// A layer that projects its outputs has two products a step on the same elements, one of gates and one without: forward the recurrent one
// and the projection, back the recurrent one transposed and the projection transposed. The projection's inputs are dealt to the four units,
// unit u takes inputs u, 4 + u, 8 + u and so on, which needs four chains or more. LUTs and flip-flops are not counted here. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "core/operation/operation.h"
#include "fpga/pe_chain/pass_settings.h"

namespace millrace {

struct PeChainHardware {
  CellKind cell = CellKind::kLstm;
  int64_t chains = 4;
  int64_t per_chain = 4;
  int64_t words = 256;  // weights of an element
  int64_t samples = 4;
  int64_t state_words = 64;  // of all samples
  int64_t queue = 64;        // words
  int64_t element_bits = 16;
  bool projects = false;  // lstm alone
  bool ultra = false;     // weights in UltraRAM, those of neighbouring chains in one word
  bool operator==(const PeChainHardware&) const = default;

  int64_t elements() const { return gates_of(cell) * chains * per_chain; }
};

inline constexpr int64_t kPortBits = 512;     // paper 5.1.2
inline constexpr int64_t kMostSlices = 255;   // that a pass can be told of
inline constexpr int64_t kLongestChain = 63;  // chosen

// What the products of a layer's steps are, of which an engine serves each.
struct ChainWork {
  struct Product {
    int64_t outputs = 0, inputs = 0;
  };
  CellKind cell = CellKind::kLstm;
  int64_t element_bits = 16;
  int64_t samples = 1;
  std::vector<Product> products = {};
  int64_t chains = 0;                       // 0: as many as elements of that width fill the port
  int64_t projected = 0;                    // features that the first product's outputs are projected to; 0: they are not
  int64_t all_units = 0, all_features = 0;  // of the layer, where this board makes some of both; 0: it makes all
};
// With memories as deep as the products fill them.
PeChainHardware chain_for(const ChainWork& work, int64_t per_chain);

struct ChainUse {
  int64_t dsp = 0;
  int64_t weight_blocks = 0, gate_blocks = 0;  // halves of a BRAM36
  int64_t urams = 0;                           // instead of weight_blocks
};
ChainUse chain_use_of(const PeChainHardware& hardware);

// Of a product of so many outputs, forward or back; `inputs` of it, as many as outputs where not said. pass_settings() fails with
// kUnavailable on what does not fit, naming the number.
PassSettings settings_of(const PeChainHardware& hardware, int64_t outputs, bool divide = true, int64_t inputs = 0);
PassSettings pass_settings(const PeChainHardware& hardware, int64_t units, int64_t samples = 1, bool divide = true, int64_t inputs = 0);

// Of a layer of so many units projected to so many features, 0: it is not. Where a board makes some of both its products take what all
// boards made: inputs are `all_units` and `all_features`, 0: these.
struct StepExtent {
  int64_t units = 0, projected = 0;
  int64_t all_units = 0, all_features = 0;

  int64_t inputs_of_units() const { return all_features > 0 ? all_features : projected; }
  int64_t inputs_of_features() const { return all_units > 0 ? all_units : units; }
};
StepSettings settings_of(const PeChainHardware& hardware, const StepExtent& extent, bool back, bool divide = true);
// Fails with kUnavailable on what does not fit, naming the number.
StepSettings step_settings(const PeChainHardware& hardware, const StepExtent& extent, bool back, int64_t samples = 1, bool divide = true);

// Beats of the port in which a pass's weights arrive, and its biases.
int64_t load_beats(const PeChainHardware& hardware, const StepSettings& settings, bool back);
int64_t load_beats(const PeChainHardware& hardware, const PassSettings& settings);

struct PassShape {
  int64_t samples = 1;
  int64_t steps = 1;
};
// When each word of a pass is made, counted from the first feed, with inputs there and outputs taken: [step][sample][word].
// Of a step that projects: [step][product][sample][word].
std::vector<int64_t> emission_cycles(const PeChainHardware& hardware, const PassSettings& settings, const PassShape& shape, bool back);
std::vector<int64_t> emission_cycles(const PeChainHardware& hardware, const StepSettings& settings, const PassShape& shape, bool back);
// From one step of all samples to the next, where all comes in time.
int64_t steady_step_cycles(const PeChainHardware& hardware, const PassSettings& settings, int64_t samples, bool back);
int64_t steady_step_cycles(const PeChainHardware& hardware, const StepSettings& settings, int64_t samples, bool back);
// From the first feed to the last word of a step whose state is all there; of one that projects, of both products, each by itself.
int64_t lone_step_cycles(const PeChainHardware& hardware, const StepSettings& settings, int64_t samples, bool back);

// Cycles between the last inputs of two slices, at least, in which an element adds its lanes.
inline constexpr int64_t kLanesSettle = 26;

// From an input's feed to where the result of the first element can be fed again.
int64_t loop_cycles(CellKind cell, bool back, int64_t element_bits = 16);
// The same of a product without gates.
int64_t ungated_loop_cycles(int64_t element_bits);

// Values behind a unit's gates, of 32 bits each, with which a pass begins.
int64_t biases_of(CellKind cell);

}  // namespace millrace
