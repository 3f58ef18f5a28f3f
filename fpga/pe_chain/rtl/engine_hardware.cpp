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
  const WordParts parts = word_parts_of(h.cell);
  const int64_t cell = h.cell == CellKind::kLstm ? 0 : h.cell == CellKind::kGru ? 1 : h.cell == CellKind::kVanillaRelu ? 2 : 3;
  return {{"CELL", cell},
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

WordParts word_parts_of(CellKind cell) {
  const bool vanilla = gates_of(cell) == 1;
  return {gates_of(cell), vanilla ? 1 : 4, vanilla ? 1 : 5, cell == CellKind::kLstm ? 1 : 0};
}

int16_t record_word(const UnitRecord& record, CellKind cell, int64_t part) {
  return part < 4 ? record.sums[static_cast<size_t>(part)] : cell == CellKind::kLstm ? record.cell : record.before;
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

PassSettings pass_settings(const PeChainHardware& h, int64_t units, int64_t samples, bool divide) {
  const int64_t elements = h.chains * h.per_chain;
  PassSettings s;
  s.full_slices = units / elements;
  const int64_t rest = units % elements;
  s.has_last = rest > 0;
  s.words_last = divided_up(rest, h.chains);
  s.divided = divide && s.has_last && 2 * s.words_last <= h.per_chain && units > 1;
  s.feeds = units;
  s.feeds_last = s.has_last ? (s.divided ? divided_up(units, 2) : units) : 1;
  s.depths_last = s.divided ? 2 * s.words_last : s.words_last;
  s.words = s.full_slices * h.per_chain + s.words_last;
  if (s.fullest() > h.words)
    fail(ErrorCode::kUnavailable, "{} units put {} weights on the fullest element, which holds {}; build longer chains, or more of them",
         units, s.fullest(), h.words);
  if (s.words * samples > h.state_words)
    fail(ErrorCode::kUnavailable, "the state of {} samples takes {} words of {}; give the engine fewer samples", samples, s.words * samples,
         h.state_words);
  if (samples > h.samples) fail(ErrorCode::kUnavailable, "{} samples take turns, and the engine tells {} apart", samples, h.samples);
  return s;
}

std::vector<WeightBeat> weight_beats(const PeChainHardware& h, const PassSettings& s, const FixedRecurrent& layer, bool back) {
  if (layer.projection > 0) fail(ErrorCode::kUnavailable, "the engine pe_chain is not built with a projection; use its functional model");
  const int64_t units = layer.hidden, gates = layer.gates(), elements = h.chains * h.per_chain;
  const int64_t slices = s.full_slices + (s.has_last ? 1 : 0);
  std::vector<WeightBeat> beats;
  for (int64_t gate = 0; gate < gates; ++gate)
    for (int64_t slice = 0; slice < slices; ++slice) {
      const bool full = slice < s.full_slices, divided = !full && s.divided;
      const int64_t depths = full ? h.per_chain : s.depths_last, feeds = full ? s.feeds : s.feeds_last;
      for (int64_t depth = 0; depth < depths; ++depth)
        for (int64_t feed = 0; feed < feeds; ++feed) {
          WeightBeat beat{gate, depth, slice * s.feeds + feed, std::vector<int16_t>(static_cast<size_t>(h.chains), 0)};
          const int64_t input = feed + (divided && depth % 2 == 1 ? s.feeds_last : 0);
          for (int64_t chain = 0; chain < h.chains; ++chain) {
            const int64_t output = slice * elements + (divided ? depth / 2 : depth) * h.chains + chain;
            if (output >= units || input >= units) continue;
            const int64_t place = back ? (input * gates + gate) * units + output : (output * gates + gate) * units + input;
            beat.weights[static_cast<size_t>(chain)] = layer.hidden_weight[static_cast<size_t>(place)];
          }
          beats.push_back(std::move(beat));
        }
    }
  return beats;
}

int64_t loop_cycles(CellKind cell, bool back) {
  // State, input, weight, product, sum, slot, head, the gates' first stage; then the gates, and the state's write.
  constexpr int64_t kToGates = 8, kForward = 10, kWrite = 1;
  const int64_t of_back = cell == CellKind::kLstm ? 9 : cell == CellKind::kGru ? 12 : 5;
  return kToGates + (back ? of_back : kForward) + kWrite;
}

std::vector<int64_t> emission_cycles(const PeChainHardware& h, const PassSettings& s, const PassShape& shape, bool back) {
  const int64_t slices = s.full_slices + (s.has_last ? 1 : 0), loop = loop_cycles(h.cell, back);
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
        settled = time + 2 * (full ? h.per_chain : s.depths_last);
        for (int64_t word = 0; word < words; ++word) now.push_back(time + loop + 2 * (divided ? 2 * word + 1 : word));
      }
      emissions.insert(emissions.end(), now.begin(), now.end());
      std::swap(there[static_cast<size_t>(sample)], now);
    }
  return emissions;
}

}  // namespace millrace
