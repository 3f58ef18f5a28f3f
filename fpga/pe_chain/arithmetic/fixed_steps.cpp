#include "fpga/pe_chain/arithmetic/fixed_steps.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/pe_chain/arithmetic/dealt_inputs.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

namespace {

// An output's sum as its elements make it: each takes its part of the inputs, its accumulator wraps, and parts are added.
int64_t chained(const ChainProduct& product, int64_t output, const int16_t* weights, const int16_t* elements) {
  const LastSlice last = last_slice_of(product);
  const int64_t parts = output < last.full_slices * product.elements ? 1 : last.parts, length = divided_up(product.inputs, parts);
  int64_t sum = 0;
  for (int64_t part = 0; part < parts; ++part) {
    uint32_t accumulator = 0;
    for (int64_t input = part * length; input < std::min(product.inputs, (part + 1) * length); ++input)
      accumulator += static_cast<uint32_t>(int32_t{weights[input]} * elements[input]);
    sum += wrapped(accumulator);
  }
  return sum;
}

// What boards keep for the way back, [gate][feature][unit]: columns of U as rows, of the features that they own.
std::vector<int16_t> columns_of(const FixedRecurrent& layer, const std::vector<UnitRange>& boards) {
  const int64_t gates = layer.gates(), hidden = layer.hidden, features = layer.features();
  std::vector<int16_t> columns(layer.hidden_weight.size());
  for (const UnitRange& board : boards)
    for (int64_t gate = 0; gate < gates; ++gate)
      for (int64_t feature = board.begin; feature < board.end; ++feature)
        for (int64_t i = 0; i < hidden; ++i)
          fast_item(columns, (gate * features + feature) * hidden + i) =
              fast_item(layer.hidden_weight, (i * gates + gate) * features + feature);
  return columns;
}
std::vector<int16_t> projection_columns_of(const FixedRecurrent& layer) {
  const int64_t hidden = layer.hidden, features = layer.features();
  std::vector<int16_t> columns(layer.projection_weight.size());
  for (int64_t unit = 0; unit < hidden; ++unit)
    for (int64_t i = 0; i < features; ++i) fast_item(columns, unit * features + i) = fast_item(layer.projection_weight, i * hidden + unit);
  return columns;
}

// An output of a projection, from weights and elements as they are dealt to the units of the engine; `local`: among those of its board.
int64_t dealt_product(const DealtInputs& deal, ChainProduct product, int64_t output, int64_t local, const std::vector<int16_t>& weights,
                      const std::vector<int16_t>& elements) {
  product.inputs = deal.each();
  int64_t sum = 0;
  for (int64_t unit = 0; unit < deal.units; ++unit)
    sum += chained(product, local, weights.data() + deal.begin(output, unit), elements.data() + deal.begin(0, unit));
  return sum;
}

}  // namespace

UnitRange features_of_board(int64_t hidden, int64_t features, const UnitRange& board) {
  return {board.begin * features / hidden, board.end * features / hidden};
}
bool divides_features(int64_t hidden, int64_t features, const UnitRange& board) {
  return board.begin * features % hidden == 0 && board.end * features % hidden == 0;
}

FixedSteps::FixedSteps(const FixedRecurrent& layer, std::vector<UnitRange> boards, const ChainBuild& build, int error_fraction)
    : layer_(layer), boards_(std::move(boards)), build_(build), error_fraction_(error_fraction) {
  int64_t next = 0;
  for (const UnitRange& board : boards_) {
    if (board.begin != next || board.end <= board.begin)
      fail(ErrorCode::kUsage, "boards own units [{}, {}) behind {}: give each at least one, in order, without a gap", board.begin,
           board.end, next);
    if (!divides_features(layer.hidden, layer.features(), board))
      fail(ErrorCode::kUsage, "a board owns units [{}, {}) of {} and no whole number of their {} features", board.begin, board.end,
           layer.hidden, layer.features());
    next = board.end;
  }
  if (next != layer.hidden) fail(ErrorCode::kUsage, "boards own {} units of {}", next, layer.hidden);
  if (error_fraction < 0 || error_fraction > kMostFractionBits)
    fail(ErrorCode::kUsage, "{} fraction bits of errors: 0 to {}", error_fraction, kMostFractionBits);
}

FixedSteps::FixedSteps(const FixedRecurrent& layer, const UnitRange& board, const ChainBuild& build, int error_fraction, StepPart part)
    : layer_(layer), boards_({board}), build_(build), error_fraction_(error_fraction), part_(part) {
  MILLRACE_CHECK(0 <= board.begin && board.begin < board.end && board.end <= layer.hidden &&
                     divides_features(layer.hidden, layer.features(), board) && (layer.projection > 0) == (part != StepPart::kBoth),
                 "units [{}, {}) of {} in parts {}", board.begin, board.end, layer.hidden, static_cast<int>(part));
}

FixedBackState zero_back_state(const FixedRecurrent& layer, int64_t streams) {
  return {std::vector<int16_t>(to_size(streams * layer.rows()), 0), std::vector<int16_t>(to_size(streams * layer.hidden), 0)};
}

std::vector<int16_t> FixedSteps::forward(std::span<const int16_t> sums, const RecurrentRun& run, RecurrentState& state, FixedKept& kept,
                                         RecurrentCounters& counters) const {
  const int64_t gates = layer_.gates(), hidden = layer_.hidden, features = layer_.features();
  const int64_t vectors = run.streams * run.steps;
  const bool projected = layer_.projection > 0, units_too = part_ != StepPart::kFeatures, features_too = part_ != StepPart::kUnits;
  MILLRACE_CHECK(sums.size() == to_size(units_too ? vectors * layer_.rows() : 0), "{} sums", sums.size());
  const int shift = layer_.formats.sum_shift(layer_.cell);
  const bool gru = layer_.cell == CellKind::kGru;
  std::vector<int16_t> output(to_size(vectors * features));
  if (units_too) {
    kept.records.assign(to_size(vectors * hidden), {});
    kept.units.assign(projected ? to_size(vectors * hidden) : 0, 0);
  }
  MILLRACE_CHECK(!projected || kept.units.size() == to_size(vectors * hidden), "{} units", kept.units.size());
  const DealtInputs deal{.inputs = hidden, .units = gates};
  const std::vector<int16_t> projection = deal.of(layer_.projection_weight);
  std::vector<int16_t> made(to_size(hidden));
  std::vector<int64_t> exact(4);
  for (int64_t step = 0; step < run.steps; ++step)
    for (int64_t stream = 0; stream < run.streams; ++stream) {
      if (step >= run.valid_steps(stream)) continue;
      const int64_t vector = stream * run.steps + step;
      int16_t* h = state.hidden.data() + stream * features;
      if (!projected) std::copy_n(h, hidden, made.begin());  // units of other boards stand still here
      for (const UnitRange& board : boards_) {
        if (!units_too) break;
        const ChainProduct product{features, board.count(), build_.elements, build_.most_parts};
        for (int64_t unit = board.begin; unit < board.end; ++unit) {
          int64_t hidden_sum = 0;
          for (int64_t gate = 0; gate < gates; ++gate) {
            const int64_t row = unit * gates + gate;
            const int64_t of_state = chained(product, unit - board.begin, layer_.hidden_weight.data() + row * features, h);
            int64_t& sum = fast_item(exact, gate);
            sum = fast_item(layer_.bias, row) + int64_t{fast_item(sums, vector * layer_.rows() + row)} * (int64_t{1} << shift);
            const bool apart = gru && gate == 2;
            (apart ? hidden_sum : sum) += of_state + (apart ? fast_item(layer_.hidden_bias, unit) : 0);
          }
          UnitRecord& record = fast_item(kept.records, vector * hidden + unit);
          ArithmeticCounters counted_below;
          for (int64_t gate = 0; gate < gates; ++gate)
            fast_item(record.sums, gate) = cell_sum(fast_item(exact, gate), shift, counted_below);
          if (gru) record.sums[3] = cell_sum(hidden_sum, shift, counted_below);
          const auto argument = [](int32_t c) {
            return static_cast<int16_t>(saturated(shifted_to_nearest(c, kCellFraction - kSumFraction)));
          };
          int32_t* cell = state.cell.empty() ? nullptr : &fast_item(state.cell, stream * hidden + unit);
          const int16_t before = projected ? int16_t{0} : h[unit];
          record.before = cell != nullptr ? argument(*cell) : gru ? before : int16_t{0};
          fast_item(made, unit) = unit_step(layer_, exact, hidden_sum, cell, before, counters);
          if (cell != nullptr) record.cell = argument(*cell);
        }
      }
      if (!projected) {
        std::ranges::copy(made, h);
      } else if (units_too) {
        std::ranges::copy(made, kept.units.begin() + vector * hidden);
      } else {
        std::copy_n(kept.units.begin() + vector * hidden, hidden, made.begin());
      }
      if (projected && features_too) {
        const std::vector<int16_t> units = deal.of(made);
        for (const UnitRange& board : boards_) {
          const UnitRange own = features_of_board(hidden, features, board);
          const ChainProduct product{hidden, own.count(), build_.elements, build_.most_parts};
          for (int64_t feature = own.begin; feature < own.end; ++feature) {
            const int64_t sum = dealt_product(deal, product, feature, feature - own.begin, projection, units);
            h[feature] = cell_sum(sum, layer_.projection_shift(), counters.outputs);
          }
        }
      }
      std::copy_n(h, features, output.data() + vector * features);
    }
  return output;
}

FixedErrors FixedSteps::back(std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept, FixedBackState& state,
                             ArithmeticCounters& counters) const {
  const int64_t gates = layer_.gates(), hidden = layer_.hidden, features = layer_.features();
  const int64_t vectors = run.streams * run.steps;
  MILLRACE_CHECK(errors.size() == to_size(vectors * features), "{} errors", errors.size());
  const bool gru = layer_.cell == CellKind::kGru, projected = layer_.projection > 0;
  const bool units_too = part_ != StepPart::kFeatures, features_too = part_ != StepPart::kUnits;
  MILLRACE_CHECK(!units_too || kept.records.size() == to_size(vectors * hidden), "{} records", kept.records.size());
  const int weight_fraction = layer_.formats.hidden_weight();
  FixedErrors result;
  result.sums.assign(units_too ? to_size(vectors * layer_.rows()) : 0, 0);
  result.candidates.assign(gru ? to_size(vectors * hidden) : 0, 0);
  result.features.assign(projected && features_too ? to_size(vectors * features) : 0, 0);
  std::vector<UnitRange> owners;
  for (const UnitRange& board : boards_) owners.push_back(features_of_board(hidden, features, board));
  const std::vector<int16_t> columns = columns_of(layer_, owners);
  const DealtInputs deal{.inputs = features, .units = gates};
  const std::vector<int16_t> projection = projected ? deal.of(projection_columns_of(layer_)) : std::vector<int16_t>{};
  std::vector<int16_t> dh(to_size(features)), dm(to_size(hidden));
  std::vector<int16_t> next(to_size(layer_.rows()));
  for (int64_t step = run.steps - 1; step >= 0; --step)
    for (int64_t stream = 0; stream < run.streams; ++stream) {
      if (step >= run.valid_steps(stream)) continue;
      const int64_t vector = stream * run.steps + step;
      int16_t* taken = state.errors.data() + stream * layer_.rows();
      int16_t* carried = state.carried.data() + stream * hidden;
      const auto error_of_state = [&](const ChainProduct& product, int64_t feature, int64_t local) {
        int64_t sum = 0;
        for (int64_t gate = 0; gate < gates; ++gate)
          sum += chained(product, local, columns.data() + (gate * features + feature) * hidden, taken + gate * hidden);
        const int64_t direct = int64_t{fast_item(errors, vector * features + feature)} + (gru ? carried[feature] : 0);
        return cell_sum(sum + direct * (int64_t{1} << weight_fraction), weight_fraction, counters);
      };
      if (!features_too) std::copy_n(errors.begin() + vector * features, features, dh.begin());
      for (const UnitRange& board : owners)
        for (int64_t feature = board.begin; features_too && feature < board.end; ++feature)
          fast_item(dh, feature) =
              error_of_state({hidden, board.count(), build_.elements, build_.most_parts}, feature, feature - board.begin);
      if (projected && features_too) std::ranges::copy(dh, result.features.begin() + vector * features);
      if (!units_too) continue;
      const std::vector<int16_t> dealt_dh = projected ? deal.of(dh) : std::vector<int16_t>{};
      for (const UnitRange& board : boards_) {
        const ChainProduct product{features, board.count(), build_.elements, build_.most_parts};
        for (int64_t unit = board.begin; projected && unit < board.end; ++unit) {
          const int64_t sum = dealt_product(deal, product, unit, unit - board.begin, projection, dealt_dh);
          fast_item(dm, unit) = cell_sum(sum, layer_.formats.projection, counters);
        }
      }
      for (const UnitRange& board : boards_)
        for (int64_t unit = board.begin; unit < board.end; ++unit) {
          const int16_t error = (projected ? dm : dh)[to_size(unit)];
          const UnitErrors now = unit_back(layer_.cell, layer_.forms, layer_.formats, fast_item(kept.records, vector * hidden + unit),
                                           error, carried[unit], counters);
          carried[unit] = now.carried;
          for (int64_t gate = 0; gate < gates; ++gate) {
            fast_item(result.sums, vector * layer_.rows() + unit * gates + gate) = fast_item(now.gates, gate);
            fast_item(next, gate * hidden + unit) = recurrent_error(layer_.cell, now, to_size(gate));
          }
          if (gru) fast_item(result.candidates, vector * hidden + unit) = now.candidate;
        }
      std::ranges::copy(next, taken);
    }
  return result;
}

}  // namespace millrace
