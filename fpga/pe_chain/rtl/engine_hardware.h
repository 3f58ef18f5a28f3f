// The engine of chained elements as its modules are told of it: what is built (parameters), what a pass sets, what its elements hold.
//
//   const PassSettings settings = pass_settings(hardware, layer.hidden);
//   for (const WeightBeat& beat : weight_beats(hardware, settings, layer, /*back=*/true)) ...     // U transposed: by the host, never here
//   emission_cycles(hardware, settings, {.samples = 2, .steps = 5}, /*back=*/false);              // of every word, exact
//
// The modules are fpga/pe_chain/rtl/modules, those of fpga/recurrence/rtl and of fpga/common/rtl; pe_chain_engine.sv is the top. A WORD is
// one result of every chain. Outputs of the last slice are divided over two neighbours of a chain where that leaves none too few. Elements
// have 16 bits of fixed point, or 32 of floating point, whose words are the bits of a float and whose record is what real_steps.h keeps.
// One board of several gives its own units from the state of all: a pass of one step, before which the state is written. Not built:
// projections (two products a step), sequences of unequal length.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fpga/common/rtl/rtl_modules.h"
#include "fpga/pe_chain/arithmetic/real_steps.h"
#include "fpga/pe_chain/arithmetic/unit_back.h"
#include "fpga/pe_chain/rtl/pass_settings.h"
#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

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
  bool operator==(const PeChainHardware&) const = default;
};

const std::vector<RtlModule>& pe_chain_rtl_modules();
// Those and the ones of other folders that the engine is made of.
std::vector<RtlModule> pe_chain_engine_modules();
// Of pe_chain_engine.sv, but for the table's file.
std::vector<std::pair<std::string_view, int64_t>> parameters_of(const PeChainHardware& hardware, const GateForms& forms);

// What a word of the streams is made of, each part of every chain.
struct WordParts {
  int64_t gates = 4, biases = 4, record = 5, before = 1;
  int64_t in() const { return 1 + record + before; }
  int64_t out() const { return 1 + record; }
};
WordParts word_parts_of(CellKind cell, int64_t element_bits = 16);
// A part of a unit's record in those words.
int16_t record_word(const UnitRecord& record, CellKind cell, int64_t part);
float record_word(const RealKept<float>& kept, CellKind cell, int64_t place, int64_t part);

// Of a layer of so many units, forward or back; `inputs` of its product, as many as units where not said. Fails with kUnavailable on what
// does not fit, naming the number.
PassSettings pass_settings(const PeChainHardware& hardware, int64_t units, int64_t samples = 1, bool divide = true, int64_t inputs = 0);

template <typename Word>
struct WeightBeatOf {
  int64_t unit = 0;  // gate
  int64_t depth = 0;
  int64_t address = 0;
  std::vector<Word> weights;  // by chain
};
using WeightBeat = WeightBeatOf<int16_t>;
std::vector<WeightBeat> weight_beats(const PeChainHardware& hardware, const PassSettings& settings, const FixedRecurrent& layer, bool back);

// Those of a board's units: of U its rows forward, its columns back.
std::vector<WeightBeatOf<uint32_t>> weight_beats(const PeChainHardware& hardware, const PassSettings& settings,
                                                 const RealLayer<float>& layer, const UnitRange& board, bool back);

// Words of every chain's biases, zero where there is no unit.
std::vector<int32_t> bias_image(const PeChainHardware& hardware, const PassSettings& settings, const FixedRecurrent& layer);
std::vector<uint32_t> bias_image(const PeChainHardware& hardware, const PassSettings& settings, const RealLayer<float>& layer,
                                 const UnitRange& board);

struct PassShape {
  int64_t samples = 1;
  int64_t steps = 1;
};
// When each word of a pass is made, counted from the first feed, with inputs there and outputs taken: [step][sample][word].
std::vector<int64_t> emission_cycles(const PeChainHardware& hardware, const PassSettings& settings, const PassShape& shape, bool back);

// Cycles between the last inputs of two slices, at least, in which an element adds its lanes.
inline constexpr int64_t kLanesSettle = 26;

// From an input's feed to where the result of the first element can be fed again.
int64_t loop_cycles(CellKind cell, bool back, int64_t element_bits = 16);

}  // namespace millrace
