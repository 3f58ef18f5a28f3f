// The engine of chained elements as its modules are told of it: parameters, words of its streams, what its elements hold. How large it is,
// what a pass sets and how long it takes says built_chain.h.
//
//   const StepSettings settings = step_settings(hardware, extent_of(layer, board), /*back=*/true);
//   for (const WeightBeat& beat : weight_beats(hardware, settings, layer, board, /*back=*/true)) ...     // U transposed: by the host
//
// The modules are fpga/pe_chain/rtl/modules, those of fpga/recurrence/rtl and of fpga/common/rtl; pe_chain_engine.sv is the top. A WORD is
// one result of every chain. Outputs of the last slice are divided over two neighbours of a chain where that leaves none too few. Elements
// have 16 bits of fixed point, or 32 of floating point, whose words are the bits of a float and whose record is what real_steps.h keeps.
// One board of several gives its own units from the state of all: a pass of one step, before which the state is written. The projection's
// weights of a layer that projects lie behind those of U, and its words come product by product; on one board of several a pass is of one
// product, of the units or of the features that are its own. Not built: sequences of unequal length.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fpga/common/rtl/rtl_modules.h"
#include "fpga/pe_chain/arithmetic/real_steps.h"
#include "fpga/pe_chain/arithmetic/unit_back.h"
#include "fpga/pe_chain/built_chain.h"
#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

namespace millrace {

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

template <typename Word>
struct WeightBeatOf {
  int64_t unit = 0;  // gate
  int64_t depth = 0;
  int64_t address = 0;
  std::vector<Word> weights;  // by chain
};
using WeightBeat = WeightBeatOf<int16_t>;

// Of a board that makes those units of a layer, all of them or some.
StepExtent extent_of(const FixedRecurrent& layer, const UnitRange& board);
StepExtent extent_of(int64_t hidden, int64_t projection, const UnitRange& board);

// Those of a board: of U rows of its units forward, columns of its features back; of a projection rows of its features, columns of its
// units.
std::vector<WeightBeat> weight_beats(const PeChainHardware& hardware, const StepSettings& settings, const FixedRecurrent& layer,
                                     const UnitRange& board, bool back);
std::vector<WeightBeatOf<uint32_t>> weight_beats(const PeChainHardware& hardware, const StepSettings& settings,
                                                 const RealLayer<float>& layer, const UnitRange& board, bool back);

// Words of every chain's biases, zero where there is no unit.
std::vector<int32_t> bias_image(const PeChainHardware& hardware, const FixedRecurrent& layer, const UnitRange& board);
std::vector<uint32_t> bias_image(const PeChainHardware& hardware, const RealLayer<float>& layer, const UnitRange& board);

// What a pass in fixed point shifts by. Fails with kUnavailable on a projection's sums that have more fraction bits than hardware drops.
struct PassShifts {
  int64_t sum = 0, weight = 0, hidden = 0, projected = 0;
};
PassShifts shifts_of(const FixedRecurrent& layer, bool back);

}  // namespace millrace
