#include "fpga/pe_chain/rtl/engine_hardware.h"

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "core/base/error.h"
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
          {"QUEUE_LOG2", std::bit_width(static_cast<uint64_t>(h.queue)) - 1}};
}

WordParts word_parts_of(CellKind cell, int64_t element_bits) {
  const bool vanilla = gates_of(cell) == 1;
  if (element_bits == 32) return {gates_of(cell), vanilla ? 1 : 4, vanilla ? 1 : cell == CellKind::kLstm ? 6 : 5, 0};
  return {gates_of(cell), vanilla ? 1 : 4, vanilla ? 1 : 5, cell == CellKind::kLstm ? 1 : 0};
}

int16_t record_word(const UnitRecord& record, CellKind cell, int64_t part) {
  return part < 4 ? record.sums[static_cast<size_t>(part)] : cell == CellKind::kLstm ? record.cell : record.before;
}

float record_word(const RealKept<float>& kept, CellKind cell, int64_t place, int64_t part) {
  const int64_t gates = gates_of(cell);
  if (part < gates) return kept.gates[static_cast<size_t>(place * gates + part)];
  return (part == gates ? kept.bound : kept.before)[static_cast<size_t>(place)];
}

std::vector<int32_t> bias_image(const PeChainHardware& h, const PassSettings& settings, const FixedRecurrent& layer) {
  const WordParts parts = word_parts_of(layer.cell);
  std::vector<int32_t> biases;
  for (int64_t unit = 0; unit < settings.words * h.chains; ++unit)
    for (int64_t bias = 0; bias < parts.biases; ++bias)
      biases.push_back(unit >= layer.hidden                              ? 0
                       : bias < parts.gates                              ? layer.bias[static_cast<size_t>(unit * parts.gates + bias)]
                       : parts.biases == 4 && !layer.hidden_bias.empty() ? layer.hidden_bias[static_cast<size_t>(unit)]
                                                                         : 0);
  return biases;
}

std::vector<uint32_t> bias_image(const PeChainHardware& h, const PassSettings& settings, const RealLayer<float>& layer,
                                 const UnitRange& board) {
  const WordParts parts = word_parts_of(layer.cell, 32);
  std::vector<uint32_t> biases;
  for (int64_t word = 0; word < settings.words; ++word)
    for (int64_t lane = 0; lane < h.chains; ++lane)
      for (int64_t bias = 0; bias < parts.biases; ++bias) {
        const int64_t unit = board.begin + word * h.chains + lane;
        const float value = unit >= board.end              ? 0
                            : bias < parts.gates           ? layer.bias[static_cast<size_t>(bias * layer.hidden + unit)]
                            : layer.cell == CellKind::kGru ? layer.hidden_bias[static_cast<size_t>(unit)]
                                                           : 0;
        biases.push_back(std::bit_cast<uint32_t>(value));
      }
  return biases;
}

PassSettings pass_settings(const PeChainHardware& h, int64_t units, int64_t samples, bool divide, int64_t inputs) {
  if (inputs == 0) inputs = units;
  const int64_t elements = h.chains * h.per_chain;
  PassSettings s;
  s.full_slices = units / elements;
  const int64_t rest = units % elements;
  s.has_last = rest > 0;
  s.words_last = divided_up(rest, h.chains);
  s.divided = divide && s.has_last && 2 * s.words_last <= h.per_chain && inputs > 1;
  s.feeds = inputs;
  s.feeds_last = s.has_last ? (s.divided ? divided_up(inputs, 2) : inputs) : 1;
  s.depths_last = s.divided ? 2 * s.words_last : s.words_last;
  s.words = s.full_slices * h.per_chain + s.words_last;
  if (s.fullest() > h.words)
    fail(ErrorCode::kUnavailable, "{} units put {} weights on the fullest element, which holds {}; build longer chains, or more of them",
         units, s.fullest(), h.words);
  const int64_t state_words = samples * std::max(s.words, divided_up(inputs, h.chains));
  if (state_words > h.state_words)
    fail(ErrorCode::kUnavailable, "the state of {} samples takes {} words of {}; give the engine fewer samples", samples, state_words,
         h.state_words);
  if (samples > h.samples) fail(ErrorCode::kUnavailable, "{} samples take turns, and the engine tells {} apart", samples, h.samples);
  return s;
}

namespace {

// In the order in which they are fed; `weight` is of a gate, an output and an input.
template <typename Word, typename Weight>
std::vector<WeightBeatOf<Word>> beats_of(const PeChainHardware& h, const PassSettings& s, int64_t gates, int64_t outputs,
                                         const Weight& weight) {
  const int64_t elements = h.chains * h.per_chain, slices = s.full_slices + (s.has_last ? 1 : 0);
  std::vector<WeightBeatOf<Word>> beats;
  for (int64_t gate = 0; gate < gates; ++gate)
    for (int64_t slice = 0; slice < slices; ++slice) {
      const bool full = slice < s.full_slices, divided = !full && s.divided;
      const int64_t depths = full ? h.per_chain : s.depths_last, feeds = full ? s.feeds : s.feeds_last;
      for (int64_t depth = 0; depth < depths; ++depth)
        for (int64_t feed = 0; feed < feeds; ++feed) {
          WeightBeatOf<Word> beat{gate, depth, slice * s.feeds + feed, std::vector<Word>(static_cast<size_t>(h.chains), 0)};
          const int64_t input = feed + (divided && depth % 2 == 1 ? s.feeds_last : 0);
          for (int64_t chain = 0; chain < h.chains; ++chain) {
            const int64_t output = slice * elements + (divided ? depth / 2 : depth) * h.chains + chain;
            if (output < outputs && input < s.feeds) beat.weights[static_cast<size_t>(chain)] = weight(gate, output, input);
          }
          beats.push_back(std::move(beat));
        }
    }
  return beats;
}

}  // namespace

std::vector<WeightBeat> weight_beats(const PeChainHardware& h, const PassSettings& s, const FixedRecurrent& layer, bool back) {
  if (layer.projection > 0) fail(ErrorCode::kUnavailable, "the engine pe_chain is not built with a projection; use its functional model");
  const int64_t units = layer.hidden, gates = layer.gates();
  return beats_of<int16_t>(h, s, gates, units, [&](int64_t gate, int64_t output, int64_t input) {
    return layer
        .hidden_weight[static_cast<size_t>(back ? (input * gates + gate) * units + output : (output * gates + gate) * units + input)];
  });
}

std::vector<WeightBeatOf<uint32_t>> weight_beats(const PeChainHardware& h, const PassSettings& s, const RealLayer<float>& layer,
                                                 const UnitRange& board, bool back) {
  if (layer.projection > 0) fail(ErrorCode::kUnavailable, "the engine pe_chain is not built with a projection; use its functional model");
  return beats_of<uint32_t>(h, s, layer.gates(), board.count(), [&](int64_t gate, int64_t output, int64_t input) {
    const int64_t unit = board.begin + output, row = back ? input : unit, column = back ? unit : input;
    return std::bit_cast<uint32_t>(layer.hidden_weight[static_cast<size_t>((gate * layer.hidden + row) * layer.hidden + column)]);
  });
}

int64_t loop_cycles(CellKind cell, bool back, int64_t element_bits) {
  constexpr int64_t kWrite = 1;
  if (element_bits == 32) {
    // State, input; weight, product, lane, tree, slot; halves; then the gates (gates_forward_fp32.sv, gates_back_fp32.sv).
    constexpr int64_t kToGates = 2 + 1 + 3 + 5 + 25 + 1 + 4;
    const bool lstm = cell == CellKind::kLstm, gru = cell == CellKind::kGru;
    const int64_t forward = lstm ? 59 : gru ? 63 : cell == CellKind::kVanillaRelu ? 10 : 29, of_back = lstm ? 22 : gru ? 18 : 15;
    return kToGates + (back ? of_back : forward) + kWrite;
  }
  // State, input, weight, product, sum, slot, head, the gates' first stage; then the gates, and the state's write.
  constexpr int64_t kToGates = 8, kForward = 10;
  const int64_t of_back = cell == CellKind::kLstm ? 9 : cell == CellKind::kGru ? 12 : 5;
  return kToGates + (back ? of_back : kForward) + kWrite;
}

std::vector<int64_t> emission_cycles(const PeChainHardware& h, const PassSettings& s, const PassShape& shape, bool back) {
  const int64_t slices = s.full_slices + (s.has_last ? 1 : 0), loop = loop_cycles(h.cell, back, h.element_bits);
  std::vector<std::vector<int64_t>> there(static_cast<size_t>(shape.samples)), made = there;
  std::vector<int64_t> emissions;
  int64_t time = -1, settled = 0;  // of the last feed; when the next slice's last feed may come
  for (int64_t step = 0; step < shape.steps; ++step)
    for (int64_t sample = 0; sample < shape.samples; ++sample) {
      std::vector<int64_t>& now = made[static_cast<size_t>(sample)];
      const std::vector<int64_t>& before = there[static_cast<size_t>(sample)];
      now.clear();
      for (int64_t slice = 0; slice < slices; ++slice) {
        const bool full = slice < s.full_slices, divided = !full && s.divided;
        const int64_t feeds = full ? s.feeds : s.feeds_last, words = full ? h.per_chain : s.words_last;
        for (int64_t feed = 0; feed < feeds; ++feed) {
          ++time;
          const int64_t needed = divided && feed + s.feeds_last < s.feeds ? feed + s.feeds_last : feed;
          if (step > 0 && slice == 0) time = std::max(time, before[static_cast<size_t>(needed / h.chains)]);
          if (feed == feeds - 1) time = std::max(time, settled);
        }
        settled = time + std::max(2 * (full ? h.per_chain : s.depths_last), h.element_bits == 32 ? kLanesSettle : 0);
        for (int64_t word = 0; word < words; ++word) now.push_back(time + loop + 2 * (divided ? 2 * word + 1 : word));
      }
      emissions.insert(emissions.end(), now.begin(), now.end());
      std::swap(there[static_cast<size_t>(sample)], now);
    }
  return emissions;
}

}  // namespace millrace
