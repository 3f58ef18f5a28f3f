#include "fpga/pe_chain/built_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/bram_packing.h"

namespace millrace {

namespace {

// Slices and tables behind a chain for the gates, forward and back together.
struct GateParts {
  int64_t multipliers = 0, functions = 0;
};
// In fixed point a multiplier is one slice and functions are straight lines; in single precision a multiplier is two slices, and a
// function's pieces lie in memory.
GateParts gate_parts_of(CellKind cell, int64_t element_bits) {
  const bool real = element_bits == 32;
  switch (cell) {
    case CellKind::kLstm: return real ? GateParts{13 + 16, 5} : GateParts{4 + 16, 0};
    case CellKind::kGru: return real ? GateParts{9 + 11, 3} : GateParts{3 + 12, 0};
    case CellKind::kVanillaRelu: return {0, 0};
    case CellKind::kVanillaTanh: return real ? GateParts{2 + 2, 1} : GateParts{2, 0};
  }
  return {};
}

// What a unit keeps from step to step, forward and back.
std::vector<int64_t> kept_bits(CellKind cell, int64_t element_bits) {
  if (gates_of(cell) == 1) return {};
  return {cell == CellKind::kLstm ? 32 : element_bits, element_bits};
}

}  // namespace

int64_t biases_of(CellKind cell) { return gates_of(cell) == 1 ? 1 : 4; }

ChainUse chain_use_of(const PeChainHardware& h) {
  constexpr int64_t kPieceBits = 96, kPieces = 512;
  const GateParts gates = gate_parts_of(h.cell, h.element_bits);
  const int64_t slices = h.element_bits / 16;  // of a multiplier
  ChainUse use{.dsp = slices * (h.elements() + h.chains * gates.multipliers)};
  constexpr int64_t kUltraBits = 64, kUltraWords = 4096;  // of a block's 72 those that are whole weights
  if (h.ultra)
    use.urams = gates_of(h.cell) * h.per_chain * divided_up(h.chains * h.element_bits, kUltraBits) * divided_up(h.words, kUltraWords);
  else
    use.weight_blocks = bram18_blocks({.width = h.element_bits, .depth = h.words, .banks = h.elements()});
  // The state is read in two places, in two halves that are addressed by a bit.
  const auto addressed = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(h.state_words)));
  use.gate_blocks = bram18_blocks({.width = gates_of(h.cell) * h.chains * h.element_bits, .depth = 2 * addressed, .banks = 2});
  for (const int64_t bits : kept_bits(h.cell, h.element_bits))
    use.gate_blocks += bram18_blocks({.width = h.chains * bits, .depth = h.state_words});
  use.gate_blocks += bram18_blocks({.width = kPieceBits, .depth = kPieces, .banks = h.chains * gates.functions});
  return use;
}

PeChainHardware chain_for(const ChainWork& work, int64_t per_chain) {
  PeChainHardware hardware{.cell = work.cell,
                           .chains = work.chains > 0 ? work.chains : kPortBits / work.element_bits,
                           .per_chain = per_chain,
                           .words = 2,
                           .samples = work.samples,
                           .state_words = 2,
                           .element_bits = work.element_bits,
                           .projects = work.projected > 0};
  if (hardware.projects)
    for (const bool back : {false, true}) {
      const StepExtent extent{work.products.front().outputs, work.projected, work.all_units, work.all_features};
      const StepSettings settings = settings_of(hardware, extent, back);
      hardware.words = std::max(hardware.words, settings.fullest());
      const int64_t taken = divided_up(std::max(extent.inputs_of_units(), extent.inputs_of_features()), hardware.chains);
      const int64_t made = std::max(settings.recurrent.words, settings.projection.words);
      hardware.state_words = std::max(hardware.state_words, work.samples * (work.all_units > 0 ? std::max(made, taken) : made));
    }
  else
    for (const ChainWork::Product& product : work.products) {
      const PassSettings settings = settings_of(hardware, product.outputs, true, product.inputs);
      hardware.words = std::max(hardware.words, settings.fullest());
      hardware.state_words =
          std::max(hardware.state_words, work.samples * std::max(settings.words, divided_up(product.inputs, hardware.chains)));
    }
  while (hardware.queue < 2 * per_chain) hardware.queue *= 2;
  return hardware;
}

PassSettings settings_of(const PeChainHardware& h, int64_t outputs, bool divide, int64_t inputs) {
  if (inputs == 0) inputs = outputs;
  const int64_t elements = h.chains * h.per_chain;
  PassSettings s;
  s.full_slices = outputs / elements;
  const int64_t rest = outputs % elements;
  s.has_last = rest > 0;
  s.words_last = divided_up(rest, h.chains);
  s.divided = divide && s.has_last && 2 * s.words_last <= h.per_chain && inputs > 1;
  s.feeds = inputs;
  s.feeds_last = s.has_last ? (s.divided ? divided_up(inputs, 2) : inputs) : 1;
  s.depths_last = s.divided ? 2 * s.words_last : s.words_last;
  s.words = s.full_slices * h.per_chain + s.words_last;
  s.taken_words = divided_up(inputs, h.chains);
  return s;
}

StepSettings settings_of(const PeChainHardware& h, const StepExtent& extent, bool back, bool divide) {
  if (extent.projected == 0) return {.recurrent = settings_of(h, extent.units, divide, extent.all_units), .projection = {}};
  const int64_t gates = gates_of(h.cell), units = extent.units, features = extent.projected;
  const int64_t dealt = back ? extent.inputs_of_units() : extent.inputs_of_features();
  StepSettings s{
      .recurrent = settings_of(h, back ? features : units, divide, back ? extent.inputs_of_features() : extent.inputs_of_units()),
      .projects = true,
      .projection = settings_of(h, back ? units : features, divide, divided_up(dealt, gates))};
  s.projection.taken_words = divided_up(dealt, h.chains);
  s.first_address = s.recurrent.fullest();
  s.units_of_last = dealt - gates * (s.projection.feeds - 1);
  return s;
}

namespace {

// What every pass has to fit into; `what` names what it is of, as the beginning of a sentence.
void check_fit(const PeChainHardware& h, const std::string& what, const StepSettings& s, int64_t state_words, int64_t samples) {
  if (s.fullest() > h.words)
    fail(ErrorCode::kUnavailable, "{} put {} weights on the fullest element, which holds {}; build longer chains, or more of them", what,
         s.fullest(), h.words);
  const int64_t slices = std::max(s.recurrent.full_slices, s.projection.full_slices);
  if (slices > kMostSlices)
    fail(ErrorCode::kUnavailable, "{} take {} rounds of all elements, of {} at most; build longer chains, or more of them", what, slices,
         kMostSlices);
  if (state_words > h.state_words)
    fail(ErrorCode::kUnavailable, "the state of {} samples takes {} words of {}; give the engine fewer samples", samples, state_words,
         h.state_words);
  if (samples > h.samples) fail(ErrorCode::kUnavailable, "{} samples take turns, and the engine tells {} apart", samples, h.samples);
}

}  // namespace

PassSettings pass_settings(const PeChainHardware& h, int64_t units, int64_t samples, bool divide, int64_t inputs) {
  const PassSettings s = settings_of(h, units, divide, inputs);
  check_fit(h, fmt::format("{} units", units), {.recurrent = s, .projection = {}},
            samples * std::max(s.words, divided_up(s.feeds, h.chains)), samples);
  return s;
}

StepSettings step_settings(const PeChainHardware& h, const StepExtent& extent, bool back, int64_t samples, bool divide) {
  if (extent.projected == 0) return {.recurrent = pass_settings(h, extent.units, samples, divide, extent.all_units), .projection = {}};
  if (!h.projects || h.cell != CellKind::kLstm || h.chains < gates_of(h.cell))
    fail(ErrorCode::kUnavailable, "{} units are projected, which engines of lstm do that are built for it, with {} chains or more",
         extent.units, gates_of(CellKind::kLstm));
  const StepSettings s = settings_of(h, extent, back, divide);
  check_fit(h, fmt::format("{} units and their projection to {}", extent.units, extent.projected), s,
            samples * std::max({s.recurrent.words, s.projection.words, s.recurrent.taken_words, s.projection.taken_words}), samples);
  return s;
}

int64_t load_beats(const PeChainHardware& h, const StepSettings& s, bool back) {
  constexpr int64_t kBiasBits = 32;
  const auto fed = [&](const PassSettings& of) {
    return of.full_slices * h.per_chain * of.feeds + (of.has_last ? of.depths_last * of.feeds_last : 0);
  };
  return gates_of(h.cell) * (fed(s.recurrent) + (s.projects ? fed(s.projection) : 0)) +
         s.gated(back).words * biases_of(h.cell) * kBiasBits / h.element_bits;
}

int64_t load_beats(const PeChainHardware& h, const PassSettings& s) { return load_beats(h, {.recurrent = s, .projection = {}}, false); }

namespace {

// State, input; weight, product, sum, slot; halves. In floating point weight, product, lane, tree, slot; halves.
constexpr int64_t kToGatesFixed = 2 + 1 + 1 + 1 + 1 + 1, kToGatesReal = 2 + 1 + 3 + 5 + 25 + 1 + 4;
constexpr int64_t kWrite = 1;

}  // namespace

int64_t loop_cycles(CellKind cell, bool back, int64_t element_bits) {
  if (element_bits == 32) {
    // Then the gates (gates_forward_fp32.sv, gates_back_fp32.sv).
    const bool lstm = cell == CellKind::kLstm, gru = cell == CellKind::kGru;
    const int64_t forward = lstm ? 59 : gru ? 63 : cell == CellKind::kVanillaRelu ? 10 : 29, of_back = lstm ? 22 : gru ? 18 : 15;
    return kToGatesReal + (back ? of_back : forward) + kWrite;
  }
  // Then the gates, whose first stage is one more, and the state's write.
  constexpr int64_t kForward = 1 + 10;
  const int64_t of_back = 1 + (cell == CellKind::kLstm ? 9 : cell == CellKind::kGru ? 12 : 5);
  return kToGatesFixed + (back ? of_back : kForward) + kWrite;
}

int64_t ungated_loop_cycles(int64_t element_bits) {
  return (element_bits == 32 ? kToGatesReal + 12 : kToGatesFixed + 2) + kWrite;  // projected_sums.sv
}

namespace {

// Feeds from behind `time` on, each input as soon as the word it is in is there; gives when the last was fed.
int64_t fed_at(int64_t time, int64_t feeds, int64_t feeds_all, int64_t behind, int64_t chains, const std::vector<int64_t>& there) {
  for (int64_t feed = 0; feed < feeds;) {
    const bool second = behind > 0 && feed + behind < feeds_all;  // of a divided slice: both halves are fed at once
    const int64_t needed = second ? feed + behind : feed;
    int64_t alike = std::min(feeds - feed, chains - needed % chains);
    if (second) alike = std::min(alike, feeds_all - needed);
    time = std::max(time + 1, item(there, needed / chains)) + alike - 1;
    feed += alike;
  }
  return time;
}

}  // namespace

namespace {

// One of a step's products.
struct FedProduct {
  PassSettings settings;
  bool dealt = false;
  int64_t loop = 0;
  int64_t longer = 0;  // than what is fed behind it, which waits as long
};
std::vector<FedProduct> products_of(const PeChainHardware& h, const StepSettings& s, bool back) {
  const int64_t gated = loop_cycles(h.cell, back, h.element_bits), ungated = ungated_loop_cycles(h.element_bits);
  if (!s.projects) return {{.settings = s.recurrent, .loop = gated}};
  const int64_t longer = gated - ungated;
  std::vector<FedProduct> products;
  if (s.has_recurrent()) products.push_back({.settings = s.recurrent, .loop = back ? ungated : gated, .longer = back ? 0 : longer});
  if (s.has_projection())
    products.push_back({.settings = s.projection, .dealt = true, .loop = back ? gated : ungated, .longer = back ? longer : 0});
  return products;
}

}  // namespace

namespace {

std::vector<int64_t> emissions_of(const PeChainHardware& h, const std::vector<FedProduct>& products, const PassShape& shape) {
  std::vector<std::vector<int64_t>> there(to_size(shape.samples)), made = there;
  std::vector<int64_t> emissions;
  int64_t time = -1, settled = 0;  // of the last feed; when the next slice's last feed may come
  for (int64_t step = 0; step < shape.steps; ++step)
    for (size_t which = 0; which < products.size(); ++which) {
      const auto& [s, dealt, loop, longer] = products[which];
      const int64_t slices = s.full_slices + (s.has_last ? 1 : 0), feeds_a_word = dealt ? h.chains / gates_of(h.cell) : h.chains;
      for (int64_t sample = 0; sample < shape.samples; ++sample) {
        std::vector<int64_t>& now = item(made, sample);
        now.clear();
        for (int64_t slice = 0; slice < slices; ++slice) {
          const bool full = slice < s.full_slices, divided = !full && s.divided;
          const int64_t feeds = full ? s.feeds : s.feeds_last, words = full ? h.per_chain : s.words_last;
          const bool waits = (step > 0 || which > 0) && slice == 0;
          time = waits ? fed_at(time, feeds, s.feeds, divided ? s.feeds_last : 0, feeds_a_word, item(there, sample)) : time + feeds;
          time = std::max(time, settled);
          settled = time + std::max(2 * (full ? h.per_chain : s.depths_last), h.element_bits == 32 ? kLanesSettle : 0);
          for (int64_t word = 0; word < words; ++word) now.push_back(time + loop + 2 * (divided ? 2 * word + 1 : word));
        }
        emissions.insert(emissions.end(), now.begin(), now.end());
        std::swap(item(there, sample), now);
      }
      settled += longer;
    }
  return emissions;
}

}  // namespace

std::vector<int64_t> emission_cycles(const PeChainHardware& h, const StepSettings& settings, const PassShape& shape, bool back) {
  return emissions_of(h, products_of(h, settings, back), shape);
}

std::vector<int64_t> emission_cycles(const PeChainHardware& h, const PassSettings& s, const PassShape& shape, bool back) {
  return emission_cycles(h, StepSettings{.recurrent = s, .projection = {}}, shape, back);
}

int64_t steady_step_cycles(const PeChainHardware& h, const StepSettings& s, int64_t samples, bool back) {
  const std::vector<int64_t> words = emission_cycles(h, s, {.samples = samples, .steps = 4}, back);
  const int64_t words_of_step = samples * (s.recurrent.words + (s.projects ? s.projection.words : 0));
  return words.back() - words[words.size() - 1 - to_size(words_of_step)];
}

int64_t steady_step_cycles(const PeChainHardware& h, const PassSettings& s, int64_t samples, bool back) {
  return steady_step_cycles(h, StepSettings{.recurrent = s, .projection = {}}, samples, back);
}

int64_t lone_step_cycles(const PeChainHardware& h, const StepSettings& s, int64_t samples, bool back) {
  int64_t cycles = 0;
  for (const FedProduct& product : products_of(h, s, back)) cycles += emissions_of(h, {product}, {.samples = samples, .steps = 1}).back();
  return cycles;
}

}  // namespace millrace
