#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

namespace {

int32_t bias_of(double value, const CellFormats& formats, ArithmeticCounters& counters) {
  const double scaled = std::ldexp(value, formats.accumulator()), nearest = std::nearbyint(scaled);
  const double most = std::numeric_limits<int32_t>::max();
  if (!(std::fabs(nearest) <= most)) ++counters.saturated;
  return std::isnan(nearest) ? 0 : static_cast<int32_t>(std::fmin(std::fmax(nearest, -most - 1), most));
}

int64_t product(const int16_t* weights, const int16_t* values, int64_t count) {
  int64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += int32_t{weights[i]} * int32_t{values[i]};
  return sum;
}

int64_t traced_sums(const FixedRecurrent& layer) { return layer.gates() + (layer.cell == CellKind::kGru ? 1 : 0); }

void start(const FixedRecurrent& layer, int64_t vectors, RecurrentTrace& trace) {
  const auto units = to_size(vectors * layer.hidden);
  trace.sums.assign(units * to_size(traced_sums(layer)), 0);
  trace.cells.assign(layer.cell == CellKind::kLstm ? units : 0, 0);
  trace.units.assign(layer.projection > 0 ? units : 0, 0);
}

void note(const FixedRecurrent& layer, int64_t place, std::span<const int64_t> sums, int64_t hidden_sum, const int32_t* cell,
          int16_t output, RecurrentTrace& trace) {
  ArithmeticCounters counted_already;
  const int shift = layer.formats.sum_shift(layer.cell);
  int16_t* to = trace.sums.data() + place * traced_sums(layer);
  for (const int64_t sum : sums) *to++ = cell_sum(sum, shift, counted_already);
  if (layer.cell == CellKind::kGru) *to = cell_sum(hidden_sum, shift, counted_already);
  if (cell != nullptr) fast_item(trace.cells, place) = *cell;
  if (layer.projection > 0) fast_item(trace.units, place) = output;
}

}  // namespace

FixedRecurrent fixed_recurrent(const Recurrent& cell, int64_t inputs, const RealParameters& parameters, const CellFormats& formats,
                               const GateForms& forms, ArithmeticCounters& counters) {
  check(formats, cell.cell);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable, "a gru whose reset comes before the product walks its state twice a step; boards have reset_after alone");
  FixedRecurrent made{.cell = cell.cell,
                      .inputs = inputs,
                      .hidden = cell.hidden,
                      .projection = cell.projection,
                      .formats = formats,
                      .forms = forms,
                      .input_weight = {},
                      .hidden_weight = {},
                      .bias = {},
                      .hidden_bias = {},
                      .projection_weight = {}};
  const int64_t gates = made.gates(), features = made.features();
  const auto rows = to_size(made.rows());
  const auto expect = [](std::span<const float> values, size_t count) {
    MILLRACE_CHECK(values.size() == count, "{} values, expected {}", values.size(), count);
  };
  expect(parameters.input_weight, rows * to_size(inputs));
  expect(parameters.hidden_weight, rows * to_size(features));
  expect(parameters.input_bias, rows);
  expect(parameters.hidden_bias, rows);
  expect(parameters.projection, to_size(cell.projection * cell.hidden));
  for (int64_t unit = 0; unit < cell.hidden; ++unit)
    for (int64_t gate = 0; gate < gates; ++gate) {
      const auto row = to_size(gate * cell.hidden + unit);
      const auto take = [&](std::span<const float> from, int64_t columns, int fraction, std::vector<int16_t>& to) {
        for (const float value : from.subspan(row * to_size(columns), to_size(columns)))
          to.push_back(quantized(value, {fraction}, counters));
      };
      take(parameters.input_weight, inputs, formats.weight, made.input_weight);
      take(parameters.hidden_weight, features, formats.hidden_weight(), made.hidden_weight);
      const bool apart = cell.cell == CellKind::kGru && gate == 2;
      const double of_state = parameters.hidden_bias[row];
      made.bias.push_back(bias_of(parameters.input_bias[row] + (apart ? 0 : of_state), formats, counters));
      if (apart) made.hidden_bias.push_back(bias_of(of_state, formats, counters));
    }
  for (const float value : parameters.projection) made.projection_weight.push_back(quantized(value, {formats.projection}, counters));
  return made;
}

RecurrentState zero_state(const FixedRecurrent& layer, int64_t streams) {
  return {std::vector<int16_t>(to_size(streams * layer.features())),
          std::vector<int32_t>(layer.cell == CellKind::kLstm ? to_size(streams * layer.hidden) : 0)};
}

int64_t RecurrentRun::valid_steps(int64_t stream) const {
  return lengths.empty() ? steps : std::clamp<int64_t>(fast_item(lengths, stream) - first_step, 0, steps);
}

int16_t unit_step(const FixedRecurrent& layer, std::span<const int64_t> sums, int64_t hidden_sum, int32_t* cell, int16_t hidden,
                  RecurrentCounters& counters) {
  const int shift = layer.formats.sum_shift(layer.cell);
  const auto z = [&](int64_t exact) { return cell_sum(exact, shift, counters.sums); };
  switch (layer.cell) {
    case CellKind::kLstm: {
      CellFormats formats = layer.formats;
      if (layer.projection > 0) formats.hidden = kGateFraction;  // what is projected has as many as there are
      const LstmStep now = lstm_step({z(sums[0]), z(sums[1]), z(sums[2]), z(sums[3])}, *cell, formats, layer.forms, counters);
      *cell = now.cell;
      return now.output;
    }
    case CellKind::kGru:
      return gru_step({.reset = z(sums[0]), .update = z(sums[1]), .input = z(sums[2]), .hidden = z(hidden_sum)}, hidden, layer.formats,
                      layer.forms, counters);
    case CellKind::kVanillaRelu:
    case CellKind::kVanillaTanh: return vanilla_step(layer.cell, z(sums[0]), layer.formats, layer.forms, counters);
  }
  return 0;
}

std::vector<int16_t> direct_forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                                    RecurrentCounters& counters, RecurrentTrace* trace) {
  const int64_t features = layer.features(), gates = layer.gates();
  MILLRACE_CHECK(x.size() == to_size(run.streams * run.steps * layer.inputs), "{} inputs", x.size());
  MILLRACE_CHECK(run.sums.empty() || run.sums.size() == to_size(run.streams * run.steps * layer.rows()), "{} sums", run.sums.size());
  std::vector<int16_t> output(to_size(run.streams * run.steps * features));
  std::vector<int16_t> units(to_size(layer.hidden));
  std::vector<int64_t> sums(to_size(gates));
  const int64_t vectors = run.streams * run.steps;
  if (trace != nullptr) start(layer, vectors, *trace);
  for (int64_t stream = 0; stream < run.streams; ++stream) {
    int16_t* h = state.hidden.data() + stream * features;
    for (int64_t step = 0; step < run.valid_steps(stream); ++step) {
      const int64_t vector = stream * run.steps + step;
      for (int64_t unit = 0; unit < layer.hidden; ++unit) {
        int64_t hidden_sum = 0;
        for (int64_t gate = 0; gate < gates; ++gate) {
          const int64_t row = unit * gates + gate;
          int64_t& sum = fast_item(sums, gate);
          sum = fast_item(layer.bias, row) +
                product(layer.input_weight.data() + row * layer.inputs, x.data() + vector * layer.inputs, layer.inputs);
          if (!run.sums.empty()) sum += fast_item(run.sums, vector * layer.rows() + row);
          const int64_t of_state = product(layer.hidden_weight.data() + row * features, h, features);
          const bool apart = layer.cell == CellKind::kGru && gate == 2;
          (apart ? hidden_sum : sum) += of_state + (apart ? fast_item(layer.hidden_bias, unit) : 0);
        }
        int32_t* cell = state.cell.empty() ? nullptr : &fast_item(state.cell, stream * layer.hidden + unit);
        const int16_t before = layer.projection > 0 ? int16_t{0} : h[unit];
        fast_item(units, unit) = unit_step(layer, sums, hidden_sum, cell, before, counters);
        if (trace != nullptr) note(layer, vector * layer.hidden + unit, sums, hidden_sum, cell, fast_item(units, unit), *trace);
      }
      if (layer.projection > 0) {
        for (int64_t feature = 0; feature < features; ++feature)
          h[feature] = cell_sum(product(layer.projection_weight.data() + feature * layer.hidden, units.data(), layer.hidden),
                                layer.projection_shift(), counters.outputs);
      } else {
        std::ranges::copy(units, h);
      }
      std::copy_n(h, features, output.data() + vector * features);
    }
  }
  return output;
}

}  // namespace millrace
