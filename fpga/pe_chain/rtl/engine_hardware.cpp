#include "fpga/pe_chain/rtl/engine_hardware.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/recurrence/rtl/rtl_modules.h"

namespace millrace {

std::vector<RtlModule> pe_chain_engine_modules() {
  std::vector<RtlModule> modules = pe_chain_rtl_modules();
  const auto add = [&](const std::vector<RtlModule>& from, std::initializer_list<std::string_view> files) {
    for (const RtlModule& module : from)
      if (std::ranges::find(files, module.file) != files.end()) modules.push_back(module);
  };
  add(recurrence_rtl_modules(), {"gate_function.sv", "tail_unit.sv"});
  add(common_rtl_modules(), {"round_to_element.sv", "stream_fifo.sv"});
  return modules;
}

std::vector<std::pair<std::string_view, int64_t>> parameters_of(const PeChainHardware& h, const GateForms& forms) {
  const WordParts parts = word_parts_of(h.cell, h.element_bits);
  const int64_t cell = h.cell == CellKind::kLstm ? 0 : h.cell == CellKind::kGru ? 1 : h.cell == CellKind::kVanillaRelu ? 2 : 3;
  return {{"ELEMENT", h.element_bits},
          {"CELL", cell},
          {"GATES", parts.gates},
          {"BIASES", parts.biases},
          {"SIGMOID", static_cast<int64_t>(forms.sigmoid)},
          {"TANH", static_cast<int64_t>(forms.tanh)},
          {"CHAINS", h.chains},
          {"PER_CHAIN", h.per_chain},
          {"WORDS", h.words},
          {"SAMPLES", h.samples},
          {"STATE_WORDS", h.state_words},
          {"QUEUE_LOG2", std::bit_width(static_cast<uint64_t>(h.queue)) - 1},
          {"PROJECTS", h.projects ? 1 : 0},
          {"ULTRA", h.ultra ? 1 : 0}};
}

WordParts word_parts_of(CellKind cell, int64_t element_bits) {
  const bool vanilla = gates_of(cell) == 1;
  if (element_bits == 32) return {gates_of(cell), biases_of(cell), vanilla ? 1 : cell == CellKind::kLstm ? 6 : 5, 0};
  return {gates_of(cell), biases_of(cell), vanilla ? 1 : 5, cell == CellKind::kLstm ? 1 : 0};
}

int16_t record_word(const UnitRecord& record, CellKind cell, int64_t part) {
  return part < 4 ? item(record.sums, part) : cell == CellKind::kLstm ? record.cell : record.before;
}

float record_word(const RealKept<float>& kept, CellKind cell, int64_t place, int64_t part) {
  const int64_t gates = gates_of(cell);
  if (part < gates) return item(kept.gates, place * gates + part);
  return (part == gates ? kept.bound : kept.before)[to_size(place)];
}

StepExtent extent_of(const FixedRecurrent& layer, const UnitRange& board) { return extent_of(layer.hidden, layer.projection, board); }

StepExtent extent_of(int64_t hidden, int64_t projection, const UnitRange& board) {
  if (board.count() == hidden) return {.units = hidden, .projected = projection};
  const int64_t features = projection > 0 ? projection : hidden;
  return {.units = board.count(),
          .projected = projection > 0 ? features_of_board(hidden, features, board).count() : 0,
          .all_units = hidden,
          .all_features = features};
}

std::vector<int32_t> bias_image(const PeChainHardware& h, const FixedRecurrent& layer, const UnitRange& board) {
  const WordParts parts = word_parts_of(layer.cell);
  std::vector<int32_t> biases;
  for (int64_t local = 0; local < divided_up(board.count(), h.chains) * h.chains; ++local)
    for (int64_t bias = 0; bias < parts.biases; ++bias) {
      const int64_t unit = board.begin + local;
      biases.push_back(unit >= board.end                                 ? 0
                       : bias < parts.gates                              ? item(layer.bias, unit * parts.gates + bias)
                       : parts.biases == 4 && !layer.hidden_bias.empty() ? item(layer.hidden_bias, unit)
                                                                         : 0);
    }
  return biases;
}

std::vector<uint32_t> bias_image(const PeChainHardware& h, const RealLayer<float>& layer, const UnitRange& board) {
  const WordParts parts = word_parts_of(layer.cell, 32);
  std::vector<uint32_t> biases;
  for (int64_t word = 0; word < divided_up(board.count(), h.chains); ++word)
    for (int64_t lane = 0; lane < h.chains; ++lane)
      for (int64_t bias = 0; bias < parts.biases; ++bias) {
        const int64_t unit = board.begin + word * h.chains + lane;
        const float value = unit >= board.end              ? 0
                            : bias < parts.gates           ? item(layer.bias, bias * layer.hidden + unit)
                            : layer.cell == CellKind::kGru ? item(layer.hidden_bias, unit)
                                                           : 0;
        biases.push_back(std::bit_cast<uint32_t>(value));
      }
  return biases;
}

namespace {

// Adds those of a product in the order in which they are fed, from an address on; `weight` is of a gate, an output and an input.
template <typename Word, typename Weight>
void add_beats(const PeChainHardware& h, const PassSettings& s, int64_t outputs, int64_t first_address, const Weight& weight,
               std::vector<WeightBeatOf<Word>>& beats) {
  const int64_t elements = h.chains * h.per_chain, slices = s.full_slices + (s.has_last ? 1 : 0);
  for (int64_t gate = 0; gate < gates_of(h.cell); ++gate)
    for (int64_t slice = 0; slice < slices; ++slice) {
      const bool full = slice < s.full_slices, divided = !full && s.divided;
      const int64_t depths = full ? h.per_chain : s.depths_last, feeds = full ? s.feeds : s.feeds_last;
      for (int64_t depth = 0; depth < depths; ++depth)
        for (int64_t feed = 0; feed < feeds; ++feed) {
          WeightBeatOf<Word> beat{gate, depth, first_address + slice * s.feeds + feed, std::vector<Word>(to_size(h.chains), 0)};
          const int64_t input = feed + (divided && depth % 2 == 1 ? s.feeds_last : 0);
          for (int64_t chain = 0; chain < h.chains; ++chain) {
            const int64_t output = slice * elements + (divided ? depth / 2 : depth) * h.chains + chain;
            if (output < outputs && input < s.feeds) item(beat.weights, chain) = weight(gate, output, input);
          }
          beats.push_back(std::move(beat));
        }
    }
}

// Those of a step: `weight` is of U, of a gate, an output and an input; `projection` of a feature and a unit.
template <typename Word, typename Weight, typename Projection>
std::vector<WeightBeatOf<Word>> beats_of(const PeChainHardware& h, const StepSettings& s, const StepExtent& extent, bool back,
                                         const Weight& weight, const Projection& projection) {
  std::vector<WeightBeatOf<Word>> beats;
  add_beats(h, s.recurrent, back && s.projects ? extent.projected : extent.units, 0, weight, beats);
  if (!s.projects) return beats;
  const int64_t gates = gates_of(h.cell), inputs = back ? extent.inputs_of_units() : extent.inputs_of_features();
  const auto dealt = [&](int64_t gate, int64_t output, int64_t feed) {
    const int64_t input = feed * gates + gate;
    return input >= inputs ? Word{0} : back ? projection(input, output) : projection(output, input);
  };
  add_beats(h, s.projection, back ? extent.units : extent.projected, s.first_address, dealt, beats);
  return beats;
}

}  // namespace

std::vector<WeightBeat> weight_beats(const PeChainHardware& h, const StepSettings& s, const FixedRecurrent& layer, const UnitRange& board,
                                     bool back) {
  const int64_t gates = layer.gates(), features = layer.features(), first = features_of_board(layer.hidden, features, board).begin;
  return beats_of<int16_t>(
      h, s, extent_of(layer, board), back,
      [&](int64_t gate, int64_t output, int64_t input) {
        const int64_t unit = back ? input : board.begin + output, feature = back ? first + output : input;
        return item(layer.hidden_weight, (unit * gates + gate) * features + feature);
      },
      // Of what is projected a board owns the output, of either way.
      [&](int64_t feature, int64_t unit) {
        return item(layer.projection_weight, (back ? feature : first + feature) * layer.hidden + (back ? board.begin + unit : unit));
      });
}

std::vector<WeightBeatOf<uint32_t>> weight_beats(const PeChainHardware& h, const StepSettings& s, const RealLayer<float>& layer,
                                                 const UnitRange& board, bool back) {
  const int64_t features = layer.features(), first = features_of_board(layer.hidden, features, board).begin;
  return beats_of<uint32_t>(
      h, s, extent_of(layer.hidden, layer.projection, board), back,
      [&](int64_t gate, int64_t output, int64_t input) {
        const int64_t unit = back ? input : board.begin + output, feature = back ? first + output : input;
        return std::bit_cast<uint32_t>(item(layer.hidden_weight, (gate * layer.hidden + unit) * features + feature));
      },
      [&](int64_t feature, int64_t unit) {
        return std::bit_cast<uint32_t>(
            item(layer.projection_weight, (back ? feature : first + feature) * layer.hidden + (back ? board.begin + unit : unit)));
      });
}

PassShifts shifts_of(const FixedRecurrent& layer, bool back) {
  constexpr int kMostShift = 31;
  const CellFormats& formats = layer.formats;
  if (layer.projection == 0)
    return {.sum = formats.sum_shift(layer.cell), .weight = formats.hidden_weight(), .hidden = kGateFraction - formats.hidden};
  if (layer.projection_shift() > kMostShift)
    fail(ErrorCode::kUnavailable,
         "sums of a projection lose {} fraction bits, and the engine pe_chain drops {} at most; give its weights fewer",
         layer.projection_shift(), kMostShift);
  return {.sum = formats.sum_shift(layer.cell),
          .weight = formats.projection,
          .projected = back ? formats.hidden_weight() : layer.projection_shift()};
}

}  // namespace millrace
