#include "fpga/pe_chain/generator/steps_vectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "core/base/files.h"
#include "core/base/index.h"
#include "fpga/common/generator/memory_images.h"
#include "fpga/pe_chain/arithmetic/fixed_steps.h"
#include "fpga/pe_chain/rtl/pass_words.h"

namespace millrace {
namespace {

class StepsVectors {
 public:
  StepsVectors(const std::filesystem::path& folder, std::string prefix, const PeChainHardware& hardware, const FixedRecurrent& layer,
               const StepsTestbench& bench, const UnitRange& board)
      : folder_(folder),
        prefix_(std::move(prefix)),
        hardware_(hardware),
        layer_(layer),
        bench_(bench),
        board_(board),
        features_(features_of_board(layer.hidden, layer.features(), board)),
        settings_{settings_for(false), settings_for(true)},
        parts_(word_parts_of(layer.cell)),
        random_(bench.seed) {}

  StepsPlace write() {
    StepsPlace place{.prefix = prefix_,
                     .settings = settings_,
                     .shifts = {shifts_of(layer_, false), shifts_of(layer_, true)},
                     .whole = whole(),
                     .steps = whole() ? bench_.steps : 1};
    write_images(place);
    if (whole())
      write_vectors();
    else
      write_vectors_of_board();
    place.passes = passes_;
    for (StepsPass& pass : place.passes) pass.name = prefix_ + pass.name;
    return place;
  }

 private:
  bool whole() const { return board_.count() == layer_.hidden; }
  bool projects() const { return layer_.projection > 0; }
  StepSettings settings_for(bool back) const { return step_settings(hardware_, extent_of(layer_, board_), back, bench_.samples); }
  void put(const std::string& file, std::string_view text) const { write_atomically(folder_ / file, text); }
  std::string image(const char* name) const { return fmt::format("images/{}{}.hex", prefix_, name); }

  void write_images(StepsPlace& place) const {
    for (const bool back : {false, true}) {
      std::vector<int16_t> words;
      std::string places;
      for (const WeightBeat& beat : weight_beats(hardware_, settings_[back], layer_, board_, back)) {
        words.insert(words.end(), beat.weights.begin(), beat.weights.end());
        places += fmt::format("{:02x}{:02x}{:04x}\n", beat.unit, beat.depth, beat.address);
        ++place.beats[back];
      }
      put(image(back ? "weights_back" : "weights_forward"), hex_words<int16_t>(words, hardware_.chains));
      put(image(back ? "places_back" : "places_forward"), places);
    }
    put(image("biases"), hex_words<int32_t>(bias_image(hardware_, layer_, board_), hardware_.chains * parts_.biases));
  }

  // Words of a pass in the order of its steps: of the product that the gates follow, and of the other one of a layer that projects.
  template <typename Value, typename Plain>
  std::vector<int16_t> words_of(const StepsPass& pass, int64_t width, int64_t parts, const Value& value, int64_t plain_parts,
                                const Plain& plain) const {
    StepSettings settings = settings_[pass.back];
    settings.part = pass.part;
    return step_words(hardware_, settings, {.samples = bench_.samples, .steps = bench_.steps}, pass.back, width, {board_.count(), parts},
                      value, {features_.count(), plain_parts}, plain);
  }
  int64_t put_words(const std::string& file, const std::vector<int16_t>& words, int64_t width) const {
    if (!words.empty()) put("vectors/" + prefix_ + file, hex_words<int16_t>(words, width * hardware_.chains));
    return static_cast<int64_t>(words.size()) / (width * hardware_.chains);
  }
  // What comes in; what has to leave, and where in it there is something.
  template <typename Value, typename Plain>
  void put_given(StepsPass& pass, int64_t parts, const Value& value, int64_t plain_parts, const Plain& plain) const {
    pass.in = put_words(pass.name + "_in.hex", words_of(pass, parts_.in(), parts, value, plain_parts, plain), parts_.in());
  }
  template <typename Value, typename Plain>
  void put_expected(StepsPass& pass, int64_t parts, const Value& value, const Plain& plain) const {
    const auto there = [](int64_t, int64_t, int64_t, int64_t) { return int16_t{-1}; };
    pass.out = put_words(pass.name + "_out.hex", words_of(pass, parts_.out(), parts, value, 1, plain), parts_.out());
    put_words(pass.name + "_out.hex.mask", words_of(pass, parts_.out(), parts, there, 1, there), parts_.out());
  }
  // A state: what the product takes, `taken` of so many units or features, a sample and a gate, and what the board's units keep.
  template <typename Taken, typename Kept>
  void put_state(StepsPass& pass, int64_t inputs, const Taken& taken, const Kept& kept) const {
    const StepSettings& s = settings_[pass.back];
    const int64_t taken_words = pass.part == 2 ? s.projection.taken_words : s.recurrent.taken_words;
    std::vector<int16_t> of_product;
    std::vector<int32_t> of_units;
    add_words(
        hardware_, taken_words, bench_.samples, inputs, parts_.gates, parts_.gates,
        [&](int64_t sample, int64_t index, int64_t gate) { return taken(sample, gate, index); }, of_product);
    add_words(
        hardware_, s.gated(pass.back).words, bench_.samples, board_.count(), 1, 1,
        [&](int64_t sample, int64_t unit, int64_t) { return int32_t{kept(sample, board_.begin + unit)}; }, of_units);
    const auto lanes = to_size(hardware_.chains), gates = to_size(parts_.gates);
    const size_t words = std::max(of_product.size() / (lanes * gates), of_units.size() / lanes);
    of_product.resize(words * lanes * gates);
    of_units.resize(words * lanes);
    pass.state_words = static_cast<int64_t>(words);
    put("vectors/" + prefix_ + pass.name + "_taken.hex", hex_words<int16_t>(of_product, hardware_.chains * parts_.gates));
    put("vectors/" + prefix_ + pass.name + "_kept.hex", hex_words<int32_t>(of_units, hardware_.chains));
  }
  std::vector<int16_t> drawn(int64_t count, int most) {
    std::uniform_int_distribution<int> draw(-most, most);
    std::vector<int16_t> values(to_size(count));
    for (int16_t& value : values) value = static_cast<int16_t>(draw(random_));
    return values;
  }

  void write_vectors() {
    const int64_t units = layer_.hidden, features = layer_.features(), samples = bench_.samples, steps = bench_.steps;
    StepsPass forward{.name = "forward"}, of_back{.name = "back", .back = true};
    const FixedSteps model(layer_, {{0, units}}, {.elements = hardware_.chains * hardware_.per_chain}, /*error_fraction=*/12);
    const RecurrentRun run{.streams = samples, .steps = steps, .first_step = 0, .lengths = {}};
    const auto at = [&](int64_t sample, int64_t step, int64_t unit) { return to_size((sample * steps + step) * units + unit); };
    const std::vector<int16_t> sums = drawn(samples * steps * layer_.rows(), 20000), errors = drawn(samples * steps * features, 8000);
    RecurrentState state = zero_state(layer_, samples);
    FixedKept kept;
    RecurrentCounters counters;
    const std::vector<int16_t> h = model.forward(sums, run, state, kept, counters);
    FixedBackState back_state = model.zero_back_state(samples);
    ArithmeticCounters back_counters;
    const FixedErrors made = model.back(errors, run, kept, back_state, back_counters);
    const auto gate = [&](const std::vector<int16_t>& values, int64_t sample, int64_t step, int64_t unit, int64_t part) {
      return values[at(sample, step, unit) * to_size(parts_.gates) + to_size(part)];
    };
    const auto of_features = [&](const std::vector<int16_t>& values) {
      return [&values, features, steps](int64_t sample, int64_t step, int64_t feature, int64_t) {
        return item(values, (sample * steps + step) * features + feature);
      };
    };
    put_given(
        forward, parts_.gates,
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) { return gate(sums, sample, step, unit, part); }, 0, of_features(h));
    put_expected(
        forward, parts_.out(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          if (part > 0) return record_word(kept.records[at(sample, step, unit)], layer_.cell, part - 1);
          return (projects() ? kept.units : h)[at(sample, step, unit)];
        },
        of_features(h));
    put_given(
        of_back, parts_.in(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          const UnitRecord& record = kept.records[at(sample, step, unit)];
          if (part == 0) return projects() ? int16_t{0} : errors[at(sample, step, unit)];
          return part == 6 ? record.before : record_word(record, layer_.cell, part - 1);
        },
        1, of_features(errors));
    put_expected(
        of_back, parts_.gates + (layer_.cell == CellKind::kGru ? 1 : 0),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          return part < parts_.gates ? gate(made.sums, sample, step, unit, part) : made.candidates[at(sample, step, unit)];
        },
        of_features(made.features));
    passes_ = {forward, of_back};
  }

  // Two steps forward and two back, from states that are drawn, and what the other boards make is drawn, too. What units keep is written
  // before the first of either way.
  void write_vectors_of_board() {
    bench_.steps = 1;  // of a pass
    constexpr int64_t kSteps = 2;
    const int64_t units = layer_.hidden, features = layer_.features(), samples = bench_.samples, rows = layer_.rows();
    RecurrentState state = zero_state(layer_, samples);
    for (int32_t& cell : state.cell) cell = drawn(1, 8000).front();
    std::vector<FixedKept> kept(kSteps);
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<int16_t> hidden = drawn(samples * features, 12000);
      if (step > 0) copy_own(state.hidden, features_, features, hidden);
      state.hidden = hidden;
      const std::vector<int16_t> sums = drawn(samples * rows, 20000);
      step_forward(step, sums, drawn(samples * units, 30000), state, item(kept, step));
    }
    FixedBackState behind = zero_back_state(layer_, samples);
    behind.carried = drawn(samples * units, 4000);
    for (int64_t step = kSteps - 1; step >= 0; --step) {
      std::vector<int16_t> taken = drawn(samples * rows, 4000);
      for (int64_t gate = 0; step + 1 < kSteps && gate < parts_.gates; ++gate)
        copy_own(behind.errors, {gate * units + board_.begin, gate * units + board_.end}, rows, taken);
      behind.errors = taken;
      step_back(step, step + 1 == kSteps, drawn(samples * features, 8000), drawn(samples * features, 4000), item(kept, step), behind);
    }
  }
  // Of every sample what the board has.
  void copy_own(const std::vector<int16_t>& from, const UnitRange& own, int64_t each, std::vector<int16_t>& to) const {
    for (int64_t sample = 0; sample < bench_.samples; ++sample)
      std::copy_n(from.begin() + sample * each + own.begin, own.count(), to.begin() + sample * each + own.begin);
  }
  FixedSteps model_of(StepPart part) const {
    return {layer_, board_, {.elements = hardware_.chains * hardware_.per_chain}, /*error_fraction=*/12, part};
  }
  RecurrentRun one_step() const { return {.streams = bench_.samples, .steps = 1, .first_step = 0, .lengths = {}}; }
  // Words count the board's units and features from its first; values are of the layer's.
  template <typename Value>
  auto of_units(const Value& value) const {
    return [&value, this](int64_t sample, int64_t, int64_t unit, int64_t part) { return value(sample, board_.begin + unit, part); };
  }
  auto of_features(const std::vector<int16_t>& values) const {
    return [&values, this](int64_t sample, int64_t, int64_t feature, int64_t) {
      return item(values, sample * layer_.features() + features_.begin + feature);
    };
  }
  // One vector that a product takes, of its first gate.
  static auto vector_of(const std::vector<int16_t>& values, int64_t each) {
    return [&values, each](int64_t sample, int64_t gate, int64_t i) { return gate > 0 ? int16_t{0} : item(values, sample * each + i); };
  }
  static int32_t nothing(int64_t, int64_t) { return 0; }

  void step_forward(int64_t step, const std::vector<int16_t>& sums, std::vector<int16_t> all_units, RecurrentState& state,
                    FixedKept& kept) {
    const int64_t units = layer_.hidden, features = layer_.features();
    const RecurrentState before = state;
    RecurrentCounters counters;
    const std::vector<int16_t> h =
        model_of(projects() ? StepPart::kUnits : StepPart::kBoth).forward(sums, one_step(), state, kept, counters);
    StepsPass pass{.name = fmt::format("forward_{}", step), .part = projects() ? 1 : 0, .keeps = step == 0};
    put_state(pass, features, vector_of(before.hidden, features), [&](int64_t sample, int64_t unit) {
      const auto at = to_size(sample * units + unit);
      return layer_.cell == CellKind::kLstm ? before.cell[at] : int32_t{before.hidden[at]};
    });
    const auto sum_of = [&](int64_t sample, int64_t unit, int64_t part) {
      return item(sums, (sample * units + unit) * parts_.gates + part);
    };
    const auto made_of = [&](int64_t sample, int64_t unit, int64_t part) {
      const auto at = to_size(sample * units + unit);
      return part > 0 ? record_word(kept.records[at], layer_.cell, part - 1) : (projects() ? kept.units : h)[at];
    };
    put_given(pass, parts_.gates, of_units(sum_of), 0, of_features(h));
    put_expected(pass, parts_.out(), of_units(made_of), of_features(h));
    passes_.push_back(pass);
    if (!projects()) return;
    // The projection of what all units gave out.
    copy_own(kept.units, board_, units, all_units);
    FixedKept projected{.records = {}, .units = std::move(all_units)};
    const std::vector<int16_t> next = model_of(StepPart::kFeatures).forward({}, one_step(), state, projected, counters);
    StepsPass second{.name = fmt::format("forward_features_{}", step), .part = 2};
    put_state(second, units, vector_of(projected.units, units), nothing);
    put_given(second, parts_.gates, of_units(sum_of), 0, of_features(next));
    put_expected(second, parts_.out(), of_units(made_of), of_features(next));
    passes_.push_back(second);
  }

  void step_back(int64_t step, bool keeps, const std::vector<int16_t>& errors, std::vector<int16_t> all_features, const FixedKept& kept,
                 FixedBackState& behind) {
    const int64_t units = layer_.hidden, features = layer_.features();
    const FixedBackState before = behind;
    ArithmeticCounters counters;
    const auto taken = [&](int64_t sample, int64_t gate, int64_t i) {
      return item(before.errors, (sample * parts_.gates + gate) * units + i);
    };
    const auto carried = [&](int64_t sample, int64_t unit) { return item(before.carried, sample * units + unit); };
    const auto given_of = [&](int64_t sample, int64_t unit, int64_t part) {
      const auto at = to_size(sample * units + unit);
      if (part == 0) return projects() ? int16_t{0} : errors[at];
      return part == 6 ? kept.records[at].before : record_word(kept.records[at], layer_.cell, part - 1);
    };
    FixedErrors made;
    const auto error_of = [&](int64_t sample, int64_t unit, int64_t part) {
      const int64_t at = sample * units + unit;
      return part < parts_.gates ? item(made.sums, at * parts_.gates + part) : item(made.candidates, at);
    };
    if (projects()) {
      const std::vector<int16_t> dh = model_of(StepPart::kFeatures).back(errors, one_step(), {}, behind, counters).features;
      StepsPass first{.name = fmt::format("back_features_{}", step), .back = true, .part = 1};
      put_state(first, units, taken, nothing);
      put_given(first, parts_.in(), of_units(given_of), 1, of_features(errors));
      put_expected(first, parts_.gates, of_units(error_of), of_features(dh));
      passes_.push_back(first);
      copy_own(dh, features_, features, all_features);
    }
    StepsPass pass{.name = fmt::format("back_{}", step), .back = true, .part = projects() ? 2 : 0, .keeps = keeps};
    made = model_of(projects() ? StepPart::kUnits : StepPart::kBoth)
               .back(projects() ? all_features : errors, one_step(), kept, behind, counters);
    if (projects())
      put_state(pass, features, vector_of(all_features, features), carried);
    else
      put_state(pass, units, taken, carried);
    put_given(pass, parts_.in(), of_units(given_of), 1, of_features(errors));
    put_expected(pass, parts_.gates + (layer_.cell == CellKind::kGru ? 1 : 0), of_units(error_of), of_features(errors));
    passes_.push_back(pass);
  }

  std::filesystem::path folder_;
  std::string prefix_;
  PeChainHardware hardware_;
  const FixedRecurrent& layer_;
  StepsTestbench bench_;
  UnitRange board_, features_;
  std::array<StepSettings, 2> settings_;  // forward, back
  WordParts parts_;
  std::mt19937_64 random_;
  std::vector<StepsPass> passes_;
};

}  // namespace

StepsPlace write_steps_vectors(const std::filesystem::path& folder, const std::string& prefix, const PeChainHardware& hardware,
                               const FixedRecurrent& layer, const StepsTestbench& testbench, const UnitRange& board) {
  return StepsVectors(folder, prefix, hardware, layer, testbench, board).write();
}

}  // namespace millrace
