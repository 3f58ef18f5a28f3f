#include "fpga/emulated/step_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

namespace {

// Numbers do not depend on it.
constexpr ChainBuild kBuild{.elements = 256};

// Rows [begin, end) of [step][width].
template <typename T>
std::vector<T> rows_of(const std::vector<T>& values, StepRange rows, size_t width) {
  if (values.empty()) return {};
  const auto at = [&](int64_t row) { return values.begin() + static_cast<std::ptrdiff_t>(to_size(row) * width); };
  return {at(rows.begin), at(rows.end)};
}

template <typename T>
void append(const std::vector<T>& rows, std::vector<T>& all) {
  all.insert(all.end(), rows.begin(), rows.end());
}
// What the steps behind left, or nothing.
template <typename State>
State& state_in(StepBackState& behind, State nothing) {
  State* const known = std::get_if<State>(&behind);
  return known != nullptr ? *known : behind.emplace<State>(std::move(nothing));
}

class FixedArithmetic final : public StepArithmetic {
 public:
  FixedArithmetic(const KernelSpec& spec, LayerArithmetic& counters, const LayerFormats& book, TanhForm smooth, ChainEngine& engine)
      : engine_(engine),
        layer_(spec.layer),
        cell_(std::get<Recurrent>(spec.operation)),
        counters_(counters),
        book_(book),
        formats_(recurrent_formats_of(book, spec.layer, cell_)),
        forms_(gate_forms_of(cell_, smooth)) {
    counters_.formats.activation = {formats_.input};
    counters_.formats.weight = {formats_.weight};
    counters_.formats.sum = {formats_.hidden};
  }

  void forget() override { directions_.clear(); }
  bool has_parameters() const override { return !directions_.empty(); }
  void take(const Parameters& p) override {
    directions_.push_back(
        fixed_recurrent(cell_, 0, {{}, p.hidden_weight, p.input_bias, p.hidden_bias, p.projection}, formats_, forms_, counters_.weights));
  }

  StepState held(const StepState& state) override {
    const RecurrentState fixed = fixed_state(state);
    return real_state(fixed);
  }

  StepKept nothing_kept() const override { return FixedKept{}; }
  std::vector<double> forward(int64_t direction, std::span<const double> sums, int64_t steps, StepState& state, StepKept& kept) override {
    RecurrentState fixed = fixed_state(state);
    FixedKept made;
    RecurrentCounters counted;
    const std::vector<int16_t> elements = elements_of(sums, {formats_.sum(cell_.cell)}, counters_.inputs);
    const std::vector<int16_t> h = engine_.forward(whole(direction, 0), elements, {.steps = steps, .lengths = {}}, fixed, made, counted);
    auto& own = std::get<FixedKept>(kept);
    append(made.records, own.records);
    append(made.units, own.units);
    counters_.sums += counted.sums;
    counters_.cells += counted.cells;
    counters_.outputs += counted.outputs;
    state = real_state(fixed);
    return reals(h, formats_.hidden);
  }

  StepErrors back(int64_t direction, std::span<const double> errors, StepRange range, const StepKept& kept, StepBackState& behind,
                  double error_scale) override {
    const FixedFormat format = formats_of(book_, layer_, error_scale).error;
    counters_.formats.error = counters_.formats.input_error = format;
    const StepsOfBoard of = whole(direction, format.fraction_bits);
    const auto& own = std::get<FixedKept>(kept);
    const auto hidden = to_size(cell_.hidden);
    auto& state = state_in(behind, zero_back_state(of.layer, 1));
    const FixedErrors made =
        engine_.back(of, elements_of(errors, format, counters_.errors), {.steps = range.size(), .lengths = {}},
                     {rows_of(own.records, range, hidden), rows_of(own.units, range, hidden)}, state, counters_.errors);
    return {reals(made.sums, format.fraction_bits), reals(made.candidates, format.fraction_bits),
            reals(made.features, format.fraction_bits)};
  }

  std::vector<double> projected(const StepKept& kept) const override { return reals(std::get<FixedKept>(kept).units, kGateFraction); }
  double given_out(double value) override { return real_value(quantized(value, {formats_.hidden}, counters_.outputs), formats_.hidden); }

 private:
  StepsOfBoard whole(int64_t direction, int error_fraction) const {
    MILLRACE_CHECK(has_parameters(), "{}: no parameters have been taken", layer_);
    return {fast_item(directions_, direction), {0, cell_.hidden}, error_fraction};
  }
  static std::vector<double> reals(const std::vector<int16_t>& values, int fraction) {
    const double step = real_value(1, fraction);  // a power of two: products are exact
    std::vector<double> real;
    real.reserve(values.size());
    for (const int16_t value : values) real.push_back(value * step);
    return real;
  }
  RecurrentState fixed_state(const StepState& state) {
    RecurrentState fixed{elements_of(state.hidden, {formats_.hidden}, counters_.outputs), {}};
    for (const double value : state.cell) fixed.cell.push_back(static_cast<int32_t>(std::llrint(std::ldexp(value, kCellFraction))));
    return fixed;
  }
  StepState real_state(const RecurrentState& fixed) const {
    StepState state{reals(fixed.hidden, formats_.hidden), {}};
    for (const int32_t value : fixed.cell) state.cell.push_back(real_value(value, kCellFraction));
    return state;
  }

  ChainEngine& engine_;
  std::string layer_;
  Recurrent cell_;
  LayerArithmetic& counters_;
  const LayerFormats& book_;
  CellFormats formats_;
  GateForms forms_;
  std::vector<FixedRecurrent> directions_;
};

class FloatArithmetic final : public StepArithmetic {
 public:
  explicit FloatArithmetic(const KernelSpec& spec) : cell_(std::get<Recurrent>(spec.operation)) {
    if (cell_.gate_activation != GateActivation::kSigmoid)
      fail(ErrorCode::kUnavailable, "layer \"{}\": a board's steps in single precision have sigmoids for gates; use sixteen bits",
           spec.layer);
  }

  void forget() override { directions_.clear(); }
  bool has_parameters() const override { return !directions_.empty(); }
  void take(const Parameters& p) override {
    const bool gru = cell_.cell == CellKind::kGru;
    const auto apart = to_size(gru ? 2 * cell_.hidden : gates_of(cell_.cell) * cell_.hidden);
    RealLayer<float> layer{.cell = cell_.cell,
                           .hidden = cell_.hidden,
                           .projection = cell_.projection,
                           .hidden_weight = {p.hidden_weight.begin(), p.hidden_weight.end()},
                           .bias = {p.input_bias.begin(), p.input_bias.end()},
                           .hidden_bias = {},
                           .projection_weight = {p.projection.begin(), p.projection.end()}};
    for (size_t i = 0; i < apart; ++i) layer.bias[i] = flushed(flushed(layer.bias[i]) + flushed(p.hidden_bias[i]));
    if (gru) layer.hidden_bias.assign(p.hidden_bias.begin() + static_cast<std::ptrdiff_t>(apart), p.hidden_bias.end());
    directions_.push_back(std::move(layer));
  }

  StepState held(const StepState& state) override { return state; }
  StepKept nothing_kept() const override { return RealKept<float>{}; }

  std::vector<double> forward(int64_t direction, std::span<const double> sums, int64_t steps, StepState& state, StepKept& kept) override {
    RealState<float> own{floats(state.hidden), floats(state.cell)};
    if (own.cell.empty()) own.cell.resize(to_size(cell_.hidden));
    RealKept<float> made;
    const std::vector<float> h = steps_of(direction).forward(by_gate(sums, steps), steps, own, made);
    auto& all = std::get<RealKept<float>>(kept);
    append(made.gates, all.gates);
    append(made.bound, all.bound);
    append(made.before, all.before);
    append(made.units, all.units);
    state.hidden.assign(own.hidden.begin(), own.hidden.end());
    if (!state.cell.empty()) state.cell.assign(own.cell.begin(), own.cell.end());
    return {h.begin(), h.end()};
  }

  StepErrors back(int64_t direction, std::span<const double> errors, StepRange range, const StepKept& kept, StepBackState& behind,
                  double) override {
    const auto& all = std::get<RealKept<float>>(kept);
    const auto hidden = to_size(cell_.hidden), gates = to_size(gates_of(cell_.cell));
    const RealKept<float> own{rows_of(all.gates, range, hidden * gates), rows_of(all.bound, range, hidden),
                              rows_of(all.before, range, hidden), rows_of(all.units, range, hidden)};
    auto& state = state_in(behind, RealBackState<float>{std::vector<float>(hidden * gates), std::vector<float>(hidden)});
    const RealErrors<float> made = steps_of(direction).back(floats(errors), range.size(), own, state);
    StepErrors result{std::vector<double>(made.sums.size()), {}, {}};
    for (size_t step = 0; step < to_size(range.size()); ++step)
      for (size_t gate = 0; gate < gates; ++gate)
        for (size_t unit = 0; unit < hidden; ++unit)
          result.sums[(step * hidden + unit) * gates + gate] = made.sums[(step * gates + gate) * hidden + unit];
    if (cell_.cell == CellKind::kGru) result.candidates.assign(made.candidates.begin(), made.candidates.end());
    if (cell_.projection > 0) result.features.assign(made.features.begin(), made.features.end());
    return result;
  }

  std::vector<double> projected(const StepKept& kept) const override {
    const std::vector<float>& units = std::get<RealKept<float>>(kept).units;
    return {units.begin(), units.end()};
  }
  double given_out(double value) override { return static_cast<double>(static_cast<float>(value)); }

 private:
  RealSteps<float> steps_of(int64_t direction) const { return {fast_item(directions_, direction), {{0, cell_.hidden}}, kBuild}; }
  static std::vector<float> floats(std::span<const double> values) {
    std::vector<float> made;
    for (const double value : values) made.push_back(static_cast<float>(value));
    return made;
  }
  // [step][unit][gate] as [step][gate][unit].
  std::vector<float> by_gate(std::span<const double> sums, int64_t steps) const {
    const auto hidden = to_size(cell_.hidden), gates = to_size(gates_of(cell_.cell));
    std::vector<float> made(sums.size());
    for (size_t step = 0; step < to_size(steps); ++step)
      for (size_t unit = 0; unit < hidden; ++unit)
        for (size_t gate = 0; gate < gates; ++gate)
          made[(step * gates + gate) * hidden + unit] = static_cast<float>(sums[(step * hidden + unit) * gates + gate]);
    return made;
  }

  Recurrent cell_;
  std::vector<RealLayer<float>> directions_;
};

}  // namespace

std::unique_ptr<StepArithmetic> make_fixed_arithmetic(const KernelSpec& spec, LayerArithmetic& counters, const LayerFormats& book,
                                                      TanhForm smooth, ChainEngine& engine) {
  return std::make_unique<FixedArithmetic>(spec, counters, book, smooth, engine);
}
std::unique_ptr<StepArithmetic> make_float_arithmetic(const KernelSpec& spec) { return std::make_unique<FloatArithmetic>(spec); }

}  // namespace millrace::emulated
