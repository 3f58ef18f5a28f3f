// Steps of some cells of a recurrent layer on the functional model of chained elements, where several boards share them: each has its rows
// of the recurrent weights forward, their columns back, and numbers that do not depend on how many there are.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/unit_steps.h"
#include "core/plan/parts.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"
#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/pe_chain/arithmetic/real_steps.h"

namespace millrace::emulated {

namespace {

constexpr ChainBuild kBoardBuild{.elements = 256};  // numbers do not depend on it

size_t at(int64_t index) { return to_size(index); }

// What both arithmetics have: where one's own cells lie, and weights of which only one's own are there.
class Cells {
 public:
  explicit Cells(const KernelSpec& spec)
      : cell(std::get<Recurrent>(spec.operation)),
        gates(gates_of(cell.cell)),
        own(spec.units.size()),
        begin(spec.units.begin),
        features(features_of(cell, spec.units)) {}

  UnitRange board() const { return {begin, begin + own}; }
  bool gru() const { return cell.cell == CellKind::kGru; }
  int64_t vectors() const { return gates + (gru() ? 1 : 0); }
  // The error that the recurrent product takes of a gate.
  int64_t taken_vector(int64_t gate) const { return gru() && gate == 2 ? 3 : gate; }

  // [gate][cell][feature], zero where it is not one's own.
  std::vector<float> weights(bool back, std::span<const double> from) const {
    const ChannelRange rows = back ? ChannelRange{0, cell.hidden} : ChannelRange{begin, begin + own};
    return placed(from, {gates, cell.hidden, cell.features()}, rows, back ? features : ChannelRange{0, cell.features()});
  }
  // [feature][cell], likewise; none where there is no projection.
  std::vector<float> projection(bool back, std::span<const double> from) const {
    if (cell.projection == 0) return {};
    const ChannelRange columns = back ? ChannelRange{begin, begin + own} : ChannelRange{0, cell.hidden};
    return placed(from, {1, cell.projection, cell.hidden}, back ? ChannelRange{0, cell.projection} : features, columns);
  }
  std::vector<float> biases(std::span<const double> from) const {
    std::vector<float> full(at(gates * cell.hidden));
    for (int64_t gate = 0; gate < gates; ++gate)
      for (int64_t j = 0; j < own; ++j) full[at(gate * cell.hidden + begin + j)] = static_cast<float>(from[at(gate * own + j)]);
    return full;
  }

  Recurrent cell;
  int64_t gates, own, begin;
  ChannelRange features;  // of h, that this board makes

 private:
  struct Extent {
    int64_t matrices, rows, columns;
  };
  // Of every matrix those rows and columns, zero around them.
  static std::vector<float> placed(std::span<const double> from, const Extent& full, const ChannelRange& rows,
                                   const ChannelRange& columns) {
    std::vector<float> made(at(full.matrices * full.rows * full.columns));
    size_t next = 0;
    for (int64_t matrix = 0; matrix < full.matrices; ++matrix)
      for (int64_t row = rows.begin; row < rows.end; ++row)
        for (int64_t column = columns.begin; column < columns.end; ++column)
          made[at((matrix * full.rows + row) * full.columns + column)] = static_cast<float>(from[next++]);
    return made;
  }
};

class FixedUnits final : public UnitArithmetic {
 public:
  FixedUnits(const KernelSpec& spec, LayerArithmetic& counters, const LayerFormats& book, TanhForm smooth, ChainEngine& engine)
      : engine_(engine),
        c_(spec),
        layer_(spec.layer),
        counters_(counters),
        book_(book),
        formats_(recurrent_formats_of(book, spec.layer, c_.cell)),
        forms_(gate_forms_of(c_.cell, smooth)),
        rows_(at(c_.cell.directions())),
        columns_(rows_.size()) {
    counters_.formats.activation = {formats_.input};
    counters_.formats.weight = {formats_.weight};
    counters_.formats.sum = {formats_.hidden};
  }

  void take(int64_t direction, bool back, const Weights& given) override {
    const std::vector<float> weights = c_.weights(back, given.hidden), first = c_.biases(given.input_bias),
                             second = c_.biases(given.hidden_bias), projection = c_.projection(back, given.projection);
    (back ? columns_ : rows_)[at(direction)] =
        fixed_recurrent(c_.cell, 0, {{}, weights, first, second, projection}, formats_, forms_, counters_.weights);
  }

  std::unique_ptr<Kept> forward(int64_t direction, std::span<const double> sums, std::span<const double> state, std::span<double> cell,
                                std::span<double> made) override {
    auto kept = std::make_unique<Step>();
    const std::vector<int16_t> own = elements_of(sums, {formats_.sum(c_.cell.cell)}, counters_.inputs);
    std::vector<int16_t> all(at(c_.gates * c_.cell.hidden));
    for (int64_t gate = 0; gate < c_.gates; ++gate)
      for (int64_t j = 0; j < c_.own; ++j) all[at((c_.begin + j) * c_.gates + gate)] = own[at(gate * c_.own + j)];
    RecurrentState fixed{integers<int16_t>(state, formats_.hidden), {}};
    const bool lstm = c_.cell.cell == CellKind::kLstm;
    if (lstm) fixed.cell.resize(at(c_.cell.hidden));
    for (int64_t j = 0; lstm && j < c_.own; ++j) fixed.cell[at(c_.begin + j)] = integer<int32_t>(cell[at(j)], kCellFraction);
    const bool projects = c_.cell.projection > 0;
    const StepsOfBoard of{rows_[at(direction)], c_.board(), 0, projects ? StepPart::kUnits : StepPart::kBoth};
    const std::vector<int16_t> h = made_forward(of, all, fixed, kept->kept);
    for (int64_t j = 0; j < c_.own; ++j)
      made[at(j)] =
          projects ? real_value(kept->kept.units[at(c_.begin + j)], kGateFraction) : real_value(h[at(c_.begin + j)], formats_.hidden);
    for (int64_t j = 0; lstm && j < c_.own; ++j) cell[at(j)] = real_value(fixed.cell[at(c_.begin + j)], kCellFraction);
    return kept;
  }

  void project(int64_t direction, std::span<const double> units, std::span<double> made) override {
    FixedKept kept{.records = {}, .units = integers<int16_t>(units, kGateFraction)};
    RecurrentState state{std::vector<int16_t>(at(c_.cell.features())), std::vector<int32_t>(at(c_.cell.hidden))};
    const std::vector<int16_t> h = made_forward({rows_[at(direction)], c_.board(), 0, StepPart::kFeatures}, {}, state, kept);
    for (int64_t j = 0; j < c_.features.size(); ++j) made[at(j)] = real_value(h[at(c_.features.begin + j)], formats_.hidden);
  }

  void back(int64_t direction, const Kept& kept, std::span<const double> output_errors, std::span<const double> errors, bool product,
            std::span<double> carried, double error_scale, std::span<double> made) override {
    const FixedFormat format = error_format(error_scale);
    std::vector<int16_t> all(at(c_.cell.hidden));
    std::ranges::copy(elements_of(output_errors, format, counters_.errors), all.begin() + c_.begin);
    back_of_units(direction, StepPart::kBoth, kept, all, product ? errors : std::span<const double>{}, carried, format, made);
  }

  void back_features(int64_t direction, std::span<const double> output_errors, std::span<const double> errors, bool product,
                     double error_scale, std::span<double> made) override {
    const FixedFormat format = error_format(error_scale);
    const StepsOfBoard of{columns_[at(direction)], c_.board(), format.fraction_bits, StepPart::kFeatures};
    FixedBackState state = state_of(of.layer, product ? errors : std::span<const double>{}, format);
    std::vector<int16_t> all(at(c_.cell.features()));
    std::ranges::copy(elements_of(output_errors, format, counters_.errors), all.begin() + c_.features.begin);
    const FixedErrors result = engine_.back(of, all, {.steps = 1, .lengths = {}}, {}, state, counters_.errors);
    for (int64_t j = 0; j < c_.features.size(); ++j)
      made[at(j)] = real_value(result.features[at(c_.features.begin + j)], format.fraction_bits);
  }

  void back_units(int64_t direction, const Kept& kept, std::span<const double> feature_errors, std::span<double> carried,
                  double error_scale, std::span<double> made) override {
    const FixedFormat format = error_format(error_scale);
    back_of_units(direction, StepPart::kUnits, kept, integers<int16_t>(feature_errors, format.fraction_bits), {}, carried, format, made);
  }

  double held(double hidden) override { return real_value(quantized(hidden, {formats_.hidden}, counters_.outputs), formats_.hidden); }

 private:
  struct Step final : Kept {
    FixedKept kept;
  };
  FixedFormat error_format(double error_scale) {
    const FixedFormat format = formats_of(book_, layer_, error_scale).error;
    counters_.formats.error = counters_.formats.input_error = format;
    return format;
  }
  std::vector<int16_t> made_forward(const StepsOfBoard& of, std::span<const int16_t> sums, RecurrentState& state, FixedKept& kept) {
    RecurrentCounters counted;
    const std::vector<int16_t> h = engine_.forward(of, sums, {.steps = 1, .lengths = {}}, state, kept, counted);
    counters_.sums += counted.sums;
    counters_.cells += counted.cells;
    counters_.outputs += counted.outputs;
    return h;
  }
  // `errors` [vector][cell] that the recurrent product takes; none reach this step where they are empty.
  FixedBackState state_of(const FixedRecurrent& layer, std::span<const double> errors, const FixedFormat& format) const {
    FixedBackState state = zero_back_state(layer, 1);
    for (int64_t gate = 0; !errors.empty() && gate < c_.gates; ++gate)
      for (int64_t i = 0; i < c_.cell.hidden; ++i)
        state.errors[at(gate * c_.cell.hidden + i)] =
            integer<int16_t>(errors[at(c_.taken_vector(gate) * c_.cell.hidden + i)], format.fraction_bits);
    return state;
  }
  void back_of_units(int64_t direction, StepPart part, const Kept& kept, std::span<const int16_t> given, std::span<const double> errors,
                     std::span<double> carried, const FixedFormat& format, std::span<double> made) {
    const StepsOfBoard of{columns_[at(direction)], c_.board(), format.fraction_bits, part};
    FixedBackState state = state_of(of.layer, errors, format);
    for (int64_t j = 0; j < c_.own; ++j) state.carried[at(c_.begin + j)] = integer<int16_t>(carried[at(j)], format.fraction_bits);
    const FixedErrors result =
        engine_.back(of, given, {.steps = 1, .lengths = {}}, static_cast<const Step&>(kept).kept, state, counters_.errors);
    for (int64_t j = 0; j < c_.own; ++j) {
      for (int64_t gate = 0; gate < c_.gates; ++gate)
        made[at(gate * c_.own + j)] = real_value(result.sums[at((c_.begin + j) * c_.gates + gate)], format.fraction_bits);
      if (c_.gru()) made[at(3 * c_.own + j)] = real_value(result.candidates[at(c_.begin + j)], format.fraction_bits);
      carried[at(j)] = real_value(state.carried[at(c_.begin + j)], format.fraction_bits);
    }
  }
  template <typename Integer>
  static Integer integer(double value, int fraction) {
    return static_cast<Integer>(std::llrint(std::ldexp(value, fraction)));
  }
  template <typename Integer>
  static std::vector<Integer> integers(std::span<const double> values, int fraction) {
    std::vector<Integer> made;
    for (const double value : values) made.push_back(integer<Integer>(value, fraction));
    return made;
  }

  ChainEngine& engine_;
  Cells c_;
  std::string layer_;
  LayerArithmetic& counters_;
  const LayerFormats& book_;
  CellFormats formats_;
  GateForms forms_;
  std::vector<FixedRecurrent> rows_, columns_;
};

class FloatUnits final : public UnitArithmetic {
 public:
  explicit FloatUnits(const KernelSpec& spec) : c_(spec), rows_(at(c_.cell.directions())), columns_(rows_.size()) {
    if (c_.cell.gate_activation != GateActivation::kSigmoid)
      fail(ErrorCode::kUnavailable, "layer \"{}\": a board's steps in single precision have sigmoids for gates; use sixteen bits",
           spec.layer);
  }

  void take(int64_t direction, bool back, const Weights& given) override {
    const std::vector<float> second = c_.biases(given.hidden_bias);
    const int64_t apart = c_.gru() ? 2 * c_.cell.hidden : c_.gates * c_.cell.hidden;
    RealLayer<float> layer{.cell = c_.cell.cell,
                           .hidden = c_.cell.hidden,
                           .projection = c_.cell.projection,
                           .hidden_weight = c_.weights(back, given.hidden),
                           .bias = c_.biases(given.input_bias),
                           .hidden_bias = {},
                           .projection_weight = c_.projection(back, given.projection)};
    for (int64_t i = 0; i < apart; ++i) layer.bias[at(i)] = flushed(flushed(layer.bias[at(i)]) + flushed(second[at(i)]));
    if (c_.gru()) layer.hidden_bias.assign(second.begin() + apart, second.end());
    (back ? columns_ : rows_)[at(direction)] = std::move(layer);
  }

  std::unique_ptr<Kept> forward(int64_t direction, std::span<const double> sums, std::span<const double> state, std::span<double> cell,
                                std::span<double> made) override {
    auto kept = std::make_unique<Step>();
    std::vector<float> all(at(c_.gates * c_.cell.hidden));
    for (int64_t gate = 0; gate < c_.gates; ++gate)
      for (int64_t j = 0; j < c_.own; ++j) all[at(gate * c_.cell.hidden + c_.begin + j)] = static_cast<float>(sums[at(gate * c_.own + j)]);
    RealState<float> own{{state.begin(), state.end()}, std::vector<float>(at(c_.cell.hidden))};
    std::ranges::copy(cell, own.cell.begin() + c_.begin);
    const bool projects = c_.cell.projection > 0;
    const RealSteps<float> steps(rows_[at(direction)], c_.board(), kBoardBuild, projects ? StepPart::kUnits : StepPart::kBoth);
    const std::vector<float> h = steps.forward(all, 1, own, kept->kept);
    std::copy_n((projects ? kept->kept.units : h).begin() + c_.begin, c_.own, made.begin());
    std::copy_n(own.cell.begin() + c_.begin, c_.own, cell.begin());
    return kept;
  }

  void project(int64_t direction, std::span<const double> units, std::span<double> made) override {
    RealKept<float> kept;
    kept.units.assign(units.begin(), units.end());
    RealState<float> state{std::vector<float>(at(c_.cell.features())), std::vector<float>(at(c_.cell.hidden))};
    const RealSteps<float> steps(rows_[at(direction)], c_.board(), kBoardBuild, StepPart::kFeatures);
    const std::vector<float> h = steps.forward({}, 1, state, kept);
    std::copy_n(h.begin() + c_.features.begin, c_.features.size(), made.begin());
  }

  void back(int64_t direction, const Kept& kept, std::span<const double> output_errors, std::span<const double> errors, bool product,
            std::span<double> carried, double, std::span<double> made) override {
    std::vector<float> all(at(c_.cell.hidden));
    std::ranges::copy(output_errors, all.begin() + c_.begin);
    back_of_units(direction, StepPart::kBoth, kept, all, product ? errors : std::span<const double>{}, carried, made);
  }

  void back_features(int64_t direction, std::span<const double> output_errors, std::span<const double> errors, bool product, double,
                     std::span<double> made) override {
    RealBackState<float> state = state_of(product ? errors : std::span<const double>{});
    std::vector<float> all(at(c_.cell.features()));
    std::ranges::copy(output_errors, all.begin() + c_.features.begin);
    const RealSteps<float> steps(columns_[at(direction)], c_.board(), kBoardBuild, StepPart::kFeatures);
    const RealErrors<float> result = steps.back(all, 1, {}, state);
    std::copy_n(result.features.begin() + c_.features.begin, c_.features.size(), made.begin());
  }

  void back_units(int64_t direction, const Kept& kept, std::span<const double> feature_errors, std::span<double> carried, double,
                  std::span<double> made) override {
    const std::vector<float> all(feature_errors.begin(), feature_errors.end());
    back_of_units(direction, StepPart::kUnits, kept, all, {}, carried, made);
  }

 private:
  struct Step final : Kept {
    RealKept<float> kept;
  };

  // `errors` [vector][cell] that the recurrent product takes; none reach this step where they are empty.
  RealBackState<float> state_of(std::span<const double> errors) const {
    RealBackState<float> state{std::vector<float>(at(c_.gates * c_.cell.hidden)), std::vector<float>(at(c_.cell.hidden))};
    for (int64_t gate = 0; !errors.empty() && gate < c_.gates; ++gate)
      for (int64_t i = 0; i < c_.cell.hidden; ++i)
        state.errors[at(gate * c_.cell.hidden + i)] = static_cast<float>(errors[at(c_.taken_vector(gate) * c_.cell.hidden + i)]);
    return state;
  }
  void back_of_units(int64_t direction, StepPart part, const Kept& kept, std::span<const float> given, std::span<const double> errors,
                     std::span<double> carried, std::span<double> made) {
    RealBackState<float> state = state_of(errors);
    std::ranges::copy(carried, state.carried.begin() + c_.begin);
    const RealSteps<float> steps(columns_[at(direction)], c_.board(), kBoardBuild, part);
    const RealErrors<float> result = steps.back(given, 1, static_cast<const Step&>(kept).kept, state);
    for (int64_t j = 0; j < c_.own; ++j) {
      for (int64_t gate = 0; gate < c_.gates; ++gate) made[at(gate * c_.own + j)] = result.sums[at(gate * c_.cell.hidden + c_.begin + j)];
      if (c_.gru()) made[at(3 * c_.own + j)] = result.candidates[at(c_.begin + j)];
      carried[at(j)] = state.carried[at(c_.begin + j)];
    }
  }

  Cells c_;
  std::vector<RealLayer<float>> rows_, columns_;
};

}  // namespace

std::unique_ptr<Kernel> make_shared_steps(const KernelSpec& spec, bool fixed, Device& host, LayerArithmetic& counters,
                                          const LayerFormats& book, TanhForm smooth, ChainEngine& engine) {
  const auto& cell = std::get<Recurrent>(spec.operation);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable, "layer \"{}\": boards compute a GRU whose reset gate comes after the recurrent product; set reset_after",
         spec.layer);
  TensorAccess access;
  access.make = [&host](const TensorSpec& tensor) { return std::make_unique<EmulatedTensor>(host.make_tensor(tensor)); };
  access.read = [&host](const Tensor& tensor) { return values_of(host, *host_of(&tensor)); };
  access.write = [&host](Tensor& tensor, std::span<const double> values) { set_values(host, *host_of(&tensor), values); };
  std::unique_ptr<UnitArithmetic> arithmetic;
  if (fixed)
    arithmetic = std::make_unique<FixedUnits>(spec, counters, book, smooth, engine);
  else
    arithmetic = std::make_unique<FloatUnits>(spec);
  return make_unit_steps(spec, std::move(arithmetic), std::move(access), "functional model of fpga/pe_chain, one board of several",
                         fixed ? 2 : 4);
}

}  // namespace millrace::emulated
