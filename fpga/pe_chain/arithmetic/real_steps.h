// The recurrent part of a layer on chained elements in floating point, forward and back, on one board or several in a row.
//
//   const RealLayer<float> layer{.cell = CellKind::kGru, .hidden = 256, ...};
//   RealSteps<float> steps(layer, {{0, 100}, {100, 256}}, {.elements = 64});
//   RealKept<float> kept;
//   const std::vector<float> h = steps.forward(sums, 20, state, kept);
//   const RealErrors<float> errors = steps.back(dh, 20, kept, back_state);
//
// float is the engine's arithmetic, with functions by pieces; double is the same code with exact functions, for tests of gradients.
// Order, declared: a product as chain_sum.h says; a gate's sum is (W x + bias) + product, gru's n keeps U h + b apart; parts of dh by
// gate are added as (i + f) + (g + o), of gru as (r + z) + u. dh is (dy + carried) + parts. A projection's inputs are dealt to the four
// units, input i to unit i mod 4; each unit's product is of as many inputs, zero behind the last, and the four are added as those of dh.
// Whatever comes in without a leading one (weights, biases, sums, errors, states, a record) counts as zero, as in the hardware's operators;
// a record keeps the state before its first step as it came. Nothing depends on the elements or the boards. One sequence at a time; a
// projected layer on several boards has them own units and features as fixed_steps.h says, and takes parts of steps likewise.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/operation/recurrent.h"
#include "fpga/pe_chain/arithmetic/chain_sum.h"
#include "fpga/pe_chain/arithmetic/dealt_inputs.h"
#include "fpga/pe_chain/arithmetic/fixed_steps.h"
#include "fpga/pe_chain/arithmetic/real_functions.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

template <typename T>
struct RealLayer {
  CellKind cell = CellKind::kLstm;
  int64_t hidden = 0;
  int64_t projection = 0;
  std::vector<T> hidden_weight;      // [gate][unit][feature]
  std::vector<T> bias;               // [gate][unit]: of input and state together, but for gru's n
  std::vector<T> hidden_bias;        // [unit], gru: of U h of n
  std::vector<T> projection_weight;  // [feature][unit]

  int64_t gates() const { return gates_of(cell); }
  int64_t features() const { return projection > 0 ? projection : hidden; }
};

template <typename T>
struct RealState {
  std::vector<T> hidden, cell;
};
template <typename T>
struct RealBackState {
  std::vector<T> errors, carried;  // [gate][unit] that the recurrent product takes; dc, or gru's direct part
};

template <typename T>
struct RealKept {         // [step][unit] each
  std::vector<T> gates;   // [gate], bounded
  std::vector<T> bound;   // lstm: tanh c; gru: U h + b of n
  std::vector<T> before;  // lstm: c before; gru: h before
  std::vector<T> units;   // what is projected
};

template <typename T>
struct RealErrors {
  std::vector<T> sums;        // [step][gate][unit] of W x
  std::vector<T> candidates;  // gru: [step][unit] of U h of n
  std::vector<T> features;    // [step][feature]: dh
};

template <typename T>
class RealSteps {
 public:
  RealSteps(const RealLayer<T>& layer, std::vector<UnitRange> boards, const ChainBuild& build)
      : l_(layer), boards_(std::move(boards)), build_(build), gates_(layer.gates()), hidden_(layer.hidden), features_(layer.features()) {
    find_owners();
  }

  // One board of several, as FixedSteps has it.
  RealSteps(const RealLayer<T>& layer, const UnitRange& board, const ChainBuild& build, StepPart part = StepPart::kBoth)
      : l_(layer), boards_({board}), build_(build), gates_(layer.gates()), hidden_(layer.hidden), features_(layer.features()), part_(part) {
    find_owners();
  }

  std::vector<T> forward(std::span<const T> sums, int64_t steps, RealState<T>& state, RealKept<T>& kept) const {
    std::vector<T> output;
    const auto units = to_size(hidden_), all = to_size(steps) * units;
    const bool units_too = part_ != StepPart::kFeatures;
    if (units_too) kept = {std::vector<T>(all * to_size(gates_)), std::vector<T>(all), std::vector<T>(all), std::vector<T>(all)};
    std::vector<T> made(units);
    const DealtInputs deal{.inputs = hidden_, .units = gates_};
    const std::vector<T> projection = deal.of(l_.projection_weight);
    for (int64_t step = 0; step < steps; ++step) {
      for (const UnitRange& board : boards_)
        for (int64_t unit = board.begin; units_too && unit < board.end; ++unit) {
          T product[4] = {}, sum[4] = {};
          for (int64_t gate = 0; gate < gates_; ++gate) {
            const int64_t row = gate * hidden_ + unit;
            product[gate] = chained({features_, board.count(), build_.elements, build_.most_parts}, unit - board.begin,
                                    l_.hidden_weight.data() + row * features_, state.hidden.data());
            sum[gate] = flushed(flushed(sums[at(step * gates_ * hidden_ + row)]) + flushed(l_.bias[at(row)]));
          }
          made[at(unit)] = unit_forward(step, unit, sum, product, state, kept);
        }
      if (l_.projection > 0) {
        if (units_too) std::copy(made.begin(), made.end(), kept.units.begin() + step * hidden_);
        std::copy_n(kept.units.begin() + step * hidden_, hidden_, made.begin());
        const std::vector<T> dealt = deal.of(made);
        for (const UnitRange& own : owners_)
          for (int64_t feature = own.begin; part_ != StepPart::kUnits && feature < own.end; ++feature)
            state.hidden[at(feature)] = by_units(deal, own, feature, projection, dealt);
      } else {
        for (const UnitRange& board : boards_)
          std::copy(made.begin() + board.begin, made.begin() + board.end, state.hidden.begin() + board.begin);
      }
      output.insert(output.end(), state.hidden.begin(), state.hidden.end());
    }
    return output;
  }

  RealErrors<T> back(std::span<const T> errors, int64_t steps, const RealKept<T>& kept, RealBackState<T>& state) const {
    RealErrors<T> result{std::vector<T>(at(steps * gates_ * hidden_)), std::vector<T>(at(steps * hidden_)),
                         std::vector<T>(at(steps * features_))};
    std::vector<T> next(state.errors.size());
    const bool features_too = part_ != StepPart::kUnits;
    const std::vector<T> columns = columns_of(owners_);
    const DealtInputs deal{.inputs = features_, .units = gates_};
    const std::vector<T> back_projection = l_.projection > 0 ? deal.of(projection_columns()) : std::vector<T>{};
    for (int64_t step = steps - 1; step >= 0; --step) {
      T* dh = result.features.data() + step * features_;
      if (!features_too) std::copy_n(errors.begin() + step * features_, features_, dh);
      for (const UnitRange& board : owners_)
        for (int64_t feature = board.begin; features_too && feature < board.end; ++feature) {
          T part[4] = {};
          for (int64_t gate = 0; gate < gates_; ++gate)
            part[gate] = chained({hidden_, board.count(), build_.elements, build_.most_parts}, feature - board.begin,
                                 columns.data() + (gate * features_ + feature) * hidden_, state.errors.data() + gate * hidden_);
          const T product = added(part);
          const T direct = l_.cell == CellKind::kGru ? flushed(state.carried[at(feature)]) : T{0};
          dh[feature] = flushed(flushed(flushed(errors[at(step * features_ + feature)]) + direct) + product);
        }
      if (part_ == StepPart::kFeatures) continue;
      const std::vector<T> dealt = l_.projection > 0 ? deal.of(std::vector<T>(dh, dh + features_)) : std::vector<T>{};
      for (const UnitRange& board : boards_)
        for (int64_t unit = board.begin; unit < board.end; ++unit) {
          const T error = l_.projection > 0 ? by_units(deal, board, unit, back_projection, dealt) : dh[unit];
          unit_back(step, unit, error, kept, state.carried[at(unit)], result, next);
        }
      state.errors = next;
    }
    return result;
  }

 private:
  static size_t at(int64_t index) { return to_size(index); }
  void find_owners() {
    for (const UnitRange& board : boards_) {
      if (!divides_features(hidden_, features_, board))
        fail(ErrorCode::kUsage, "a board owns units [{}, {}) of {} and no whole number of their {} features", board.begin, board.end,
             hidden_, features_);
      owners_.push_back(features_of_board(hidden_, features_, board));
    }
  }
  static T sigmoid(T x) {
    if constexpr (std::is_same_v<T, float>)
      return sigmoid_by_pieces(x);
    else
      return 1 / (1 + std::exp(-x));
  }
  static T tangent(T x) {
    if constexpr (std::is_same_v<T, float>)
      return tanh_by_pieces(x);
    else
      return std::tanh(x);
  }

  // What boards keep for the way back, [gate][feature][unit]: columns of U as rows, of the features that they own.
  std::vector<T> columns_of(const std::vector<UnitRange>& boards) const {
    std::vector<T> columns(l_.hidden_weight.size());
    for (const UnitRange& board : boards)
      for (int64_t gate = 0; gate < gates_; ++gate)
        for (int64_t feature = board.begin; feature < board.end; ++feature)
          for (int64_t i = 0; i < hidden_; ++i)
            columns[at((gate * features_ + feature) * hidden_ + i)] = l_.hidden_weight[at((gate * hidden_ + i) * features_ + feature)];
    return columns;
  }
  std::vector<T> projection_columns() const {
    std::vector<T> columns(l_.projection_weight.size());
    for (int64_t unit = 0; unit < hidden_; ++unit)
      for (int64_t i = 0; i < features_; ++i) columns[at(unit * features_ + i)] = l_.projection_weight[at(i * hidden_ + unit)];
    return columns;
  }

  T chained(const ChainProduct& product, int64_t output, const T* weights, const T* elements) const {
    const LastSlice last = last_slice_of(product);
    const int64_t parts = output < last.full_slices * product.elements ? 1 : last.parts;
    return chain_sum<T>({product.inputs, parts}, weights, elements);
  }
  // An output of a projection that a board owns, from weights and elements as they are dealt to the engine's units.
  T by_units(const DealtInputs& deal, const UnitRange& own, int64_t output, const std::vector<T>& weights,
             const std::vector<T>& elements) const {
    T part[4] = {};
    for (int64_t unit = 0; unit < gates_; ++unit)
      part[unit] = chained({deal.each(), own.count(), build_.elements, build_.most_parts}, output - own.begin,
                           weights.data() + deal.begin(output, unit), elements.data() + deal.begin(0, unit));
    return added(part);
  }
  // What the engine's units give of one output.
  T added(const T* part) const {
    if (gates_ == 1) return part[0];
    return gates_ == 3 ? flushed(flushed(part[0] + part[1]) + part[2]) : flushed(flushed(part[0] + part[1]) + flushed(part[2] + part[3]));
  }

  T unit_forward(int64_t step, int64_t unit, const T* sum, const T* product, RealState<T>& state, RealKept<T>& kept) const {
    const size_t place = at(step * hidden_ + unit);
    T* gate = kept.gates.data() + place * at(gates_);
    switch (l_.cell) {
      case CellKind::kLstm: {
        for (int g = 0; g < 4; ++g) gate[g] = g == 2 ? tangent(flushed(sum[g] + product[g])) : sigmoid(flushed(sum[g] + product[g]));
        T& c = state.cell[at(unit)];
        kept.before[place] = c;
        c = flushed(flushed(gate[1] * flushed(c)) + flushed(gate[0] * gate[2]));
        kept.bound[place] = tangent(c);
        return flushed(gate[3] * kept.bound[place]);
      }
      case CellKind::kGru: {
        gate[0] = sigmoid(flushed(sum[0] + product[0]));
        gate[1] = sigmoid(flushed(sum[1] + product[1]));
        const T of_state = flushed(product[2] + flushed(l_.hidden_bias[at(unit)]));
        gate[2] = tangent(flushed(sum[2] + flushed(gate[0] * of_state)));
        kept.bound[place] = of_state;
        const T h = kept.before[place] = state.hidden[at(unit)];
        return flushed(flushed((1 - gate[1]) * gate[2]) + flushed(gate[1] * flushed(h)));
      }
      case CellKind::kVanillaRelu: gate[0] = std::max(flushed(sum[0] + product[0]), T{0}); break;
      case CellKind::kVanillaTanh: gate[0] = tangent(flushed(sum[0] + product[0])); break;
    }
    return gate[0];
  }

  void unit_back(int64_t step, int64_t unit, T dh, const RealKept<T>& kept, T& carried, RealErrors<T>& result, std::vector<T>& next) const {
    const size_t place = at(step * hidden_ + unit);
    const T* gate = kept.gates.data() + place * at(gates_);
    const auto s = [](T y) { return flushed(y * (1 - y)); };
    const auto bend = [](T y) { return 1 - flushed(y * y); };
    const T before = flushed(kept.before[place]);
    T d[4] = {}, taken[4] = {};
    switch (l_.cell) {
      case CellKind::kLstm: {
        const T t = kept.bound[place];
        const T dc = flushed(flushed(carried) + flushed(dh * flushed(gate[3] * bend(t))));
        d[0] = flushed(dc * flushed(gate[2] * s(gate[0])));
        d[1] = flushed(dc * flushed(before * s(gate[1])));
        d[2] = flushed(dc * flushed(gate[0] * bend(gate[2])));
        d[3] = flushed(dh * flushed(t * s(gate[3])));
        carried = flushed(dc * gate[1]);
        break;
      }
      case CellKind::kGru: {
        const T dn = flushed(dh * flushed((1 - gate[1]) * bend(gate[2])));
        d[0] = flushed(dn * flushed(kept.bound[place] * s(gate[0])));
        d[1] = flushed(dh * flushed(flushed(before - gate[2]) * s(gate[1])));
        d[2] = dn;
        result.candidates[place] = flushed(dn * gate[0]);
        carried = flushed(dh * gate[1]);
        break;
      }
      case CellKind::kVanillaRelu: d[0] = gate[0] > 0 ? dh : T{0}; break;
      case CellKind::kVanillaTanh: d[0] = flushed(dh * bend(gate[0])); break;
    }
    for (int64_t g = 0; g < gates_; ++g) {
      taken[g] = l_.cell == CellKind::kGru && g == 2 ? result.candidates[place] : d[g];
      result.sums[at((step * gates_ + g) * hidden_ + unit)] = d[g];
      next[at(g * hidden_ + unit)] = taken[g];
    }
  }

  const RealLayer<T>& l_;
  std::vector<UnitRange> boards_, owners_;  // of units, of features
  ChainBuild build_;
  int64_t gates_, hidden_, features_;
  StepPart part_ = StepPart::kBoth;
};

}  // namespace millrace
