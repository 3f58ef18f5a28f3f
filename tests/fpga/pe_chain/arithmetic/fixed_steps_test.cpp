// Sixteen bits on chained elements: forward against the plain order of products, back against real numbers and an oracle in doubles,
// and the same bits on any boards.
#include "fpga/pe_chain/arithmetic/fixed_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>

#include "core/base/error.h"
#include "fpga/pe_chain/arithmetic/real_steps.h"

namespace millrace {

namespace {

using Random = std::mt19937;
int64_t from_to(Random& random, int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }
std::vector<int16_t> elements(Random& random, int64_t count, int64_t most) {
  std::vector<int16_t> made(static_cast<size_t>(count));
  for (int16_t& value : made) value = static_cast<int16_t>(from_to(random, -most, most));
  return made;
}

constexpr CellKind kCells[] = {CellKind::kLstm, CellKind::kGru, CellKind::kVanillaTanh, CellKind::kVanillaRelu};

FixedRecurrent layer_of(Random& random, CellKind cell, int64_t hidden, int64_t projection, int64_t most_weight) {
  FixedRecurrent layer{.cell = cell,
                       .inputs = 0,
                       .hidden = hidden,
                       .projection = projection,
                       .formats = {.hidden = cell == CellKind::kVanillaRelu ? 12 : static_cast<int>(from_to(random, 12, 15))},
                       .forms = {SigmoidForm::kTable, TanhForm::kTable},
                       .input_weight = {},
                       .hidden_weight = {},
                       .bias = {},
                       .hidden_bias = {},
                       .projection_weight = {}};
  layer.hidden_weight = elements(random, layer.rows() * layer.features(), most_weight);
  layer.projection_weight = elements(random, projection * hidden, 6000);
  for (int64_t row = 0; row < layer.rows(); ++row) layer.bias.push_back(static_cast<int32_t>(from_to(random, -(1 << 26), 1 << 26)));
  if (cell == CellKind::kGru)
    for (int64_t unit = 0; unit < hidden; ++unit) layer.hidden_bias.push_back(static_cast<int32_t>(from_to(random, -(1 << 26), 1 << 26)));
  return layer;
}

std::vector<UnitRange> boards_of(Random& random, int64_t units, int64_t count, int64_t grain = 1) {
  std::vector<int64_t> cuts = {0, units};
  while (static_cast<int64_t>(cuts.size()) <= count) {
    const int64_t cut = grain * from_to(random, 1, units / grain - 1);
    if (std::ranges::find(cuts, cut) == cuts.end()) cuts.push_back(cut);
  }
  std::ranges::sort(cuts);
  std::vector<UnitRange> boards;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) boards.push_back({cuts[i], cuts[i + 1]});
  return boards;
}

}  // namespace

// Sums from elsewhere are W x of a W that makes them exactly: the whole layer in the plain order must give the same bits.
TEST(FixedSteps, ForwardIsThePlainOrder) {
  Random random(5);
  for (int trial = 0; trial < 120; ++trial) {
    const CellKind cell = kCells[trial % 4];
    const int64_t hidden = from_to(random, 3, 20), projection = cell == CellKind::kLstm && trial % 8 == 0 ? from_to(random, 1, hidden) : 0;
    const FixedRecurrent layer = layer_of(random, cell, hidden, projection, trial % 10 == 0 ? 32767 : 3000);
    const int shift = layer.formats.sum_shift(cell);
    FixedRecurrent whole = layer;
    const int64_t copies = int64_t{1} << (shift - 14);
    whole.inputs = layer.rows() * copies;
    whole.input_weight.assign(static_cast<size_t>(layer.rows() * whole.inputs), 0);
    for (int64_t row = 0; row < layer.rows(); ++row)
      for (int64_t copy = 0; copy < copies; ++copy)
        whole.input_weight[static_cast<size_t>(row * whole.inputs + row * copies + copy)] = 1 << 14;
    RecurrentRun run{.streams = from_to(random, 1, 3), .steps = from_to(random, 1, 6), .first_step = 0, .lengths = {}};
    if (trial % 3 == 0)
      for (int64_t stream = 0; stream < run.streams; ++stream) run.lengths.push_back(from_to(random, 0, run.steps));
    const std::vector<int16_t> sums = elements(random, run.streams * run.steps * layer.rows(), 32767);
    std::vector<int16_t> x;
    for (const int16_t sum : sums) x.insert(x.end(), static_cast<size_t>(copies), sum);
    RecurrentState state = zero_state(layer, run.streams), plain = state;
    RecurrentCounters counters, of_plain;
    FixedKept kept;
    const FixedSteps steps(layer, projection > 0 ? std::vector<UnitRange>{{0, hidden}} : boards_of(random, hidden, from_to(random, 1, 3)),
                           {.elements = 4 * from_to(random, 1, 8)}, 12);
    ASSERT_EQ(steps.forward(sums, run, state, kept, counters), direct_forward(whole, run, x, plain, of_plain)) << "trial " << trial;
    EXPECT_EQ(state, plain);
    EXPECT_EQ(counters.sums.saturated, of_plain.sums.saturated);
  }
}

TEST(FixedSteps, NothingDependsOnBoardsOrElements) {
  Random random(6);
  for (int trial = 0; trial < 60; ++trial) {
    const CellKind cell = kCells[trial % 4];
    const bool projects = trial % 8 == 4;
    const int64_t grain = projects ? from_to(random, 2, 4) : 1, hidden = projects ? grain * from_to(random, 4, 9) : from_to(random, 4, 30);
    const FixedRecurrent layer = layer_of(random, cell, hidden, projects ? hidden / grain : 0, 8000);
    const RecurrentRun run{.streams = 2, .steps = from_to(random, 1, 5), .first_step = 0, .lengths = {}};
    const std::vector<int16_t> sums = elements(random, run.streams * run.steps * layer.rows(), 20000);
    const std::vector<int16_t> errors = elements(random, run.streams * run.steps * layer.features(), 4000);
    std::vector<int16_t> first_h, first_d, first_u, first_f;
    for (int64_t boards = 1; boards <= 4; ++boards) {
      const FixedSteps steps(layer, boards_of(random, hidden, boards, grain),
                             {.elements = from_to(random, 1, 40), .most_parts = from_to(random, 1, 2)}, 12);
      RecurrentState state = zero_state(layer, run.streams);
      FixedKept kept;
      RecurrentCounters counters;
      const std::vector<int16_t> h = steps.forward(sums, run, state, kept, counters);
      FixedBackState back_state = steps.zero_back_state(run.streams);
      ArithmeticCounters back_counters;
      const FixedErrors back = steps.back(errors, run, kept, back_state, back_counters);
      if (boards == 1) {
        first_h = h;
        first_d = back.sums;
        first_u = back.candidates;
        first_f = back.features;
      }
      ASSERT_EQ(back.features, first_f);
      ASSERT_EQ(h, first_h);
      ASSERT_EQ(back.sums, first_d);
      ASSERT_EQ(back.candidates, first_u);
    }
  }
}

// Two boards that tell each other what they made, part by part of every step, with what each has of the weights alone: forward rows of U
// of its units and of the projection of its features, back the columns of these. Bits of one board.
TEST(FixedSteps, PartsOfProjectedStepsAreTheWholeStep) {
  Random random(16);
  for (int trial = 0; trial < 24; ++trial) {
    const int64_t grain = from_to(random, 2, 3), hidden = grain * from_to(random, 2, 7), features = hidden / grain, steps = 4;
    const FixedRecurrent layer = layer_of(random, CellKind::kLstm, hidden, features, 8000);
    const RecurrentRun all{.streams = 1, .steps = steps, .first_step = 0, .lengths = {}},
        one{.streams = 1, .steps = 1, .first_step = 0, .lengths = {}};
    const std::vector<int16_t> sums = elements(random, steps * layer.rows(), 20000), errors = elements(random, steps * features, 4000);
    const FixedSteps whole(layer, {{0, hidden}}, {.elements = 4}, 12);
    RecurrentState state = zero_state(layer, 1);
    FixedKept kept;
    RecurrentCounters counters;
    const std::vector<int16_t> h = whole.forward(sums, all, state, kept, counters);
    FixedBackState back_state = whole.zero_back_state(1);
    ArithmeticCounters back_counters;
    const FixedErrors back = whole.back(errors, all, kept, back_state, back_counters);

    const std::vector<UnitRange> boards = boards_of(random, hidden, 2, grain);
    const auto own_of = [&](size_t b) { return features_of_board(hidden, features, boards[b]); };
    // What a board has: [0] forward, [1] back.
    std::vector<std::array<FixedRecurrent, 2>> has;
    for (size_t b = 0; b < 2; ++b) {
      has.push_back({layer, layer});
      const auto inside = [](int64_t i, const UnitRange& range) { return range.begin <= i && i < range.end; };
      for (size_t way : {size_t{0}, size_t{1}}) {
        for (int64_t unit = 0; unit < hidden; ++unit)
          for (int64_t gate = 0; gate < 4; ++gate)
            for (int64_t f = 0; f < features; ++f)
              if (way == 0 ? !inside(unit, boards[b]) : !inside(f, own_of(b)))
                has[b][way].hidden_weight[static_cast<size_t>((unit * 4 + gate) * features + f)] = 7;
        for (int64_t f = 0; f < features; ++f)
          for (int64_t unit = 0; unit < hidden; ++unit)
            if (way == 0 ? !inside(f, own_of(b)) : !inside(unit, boards[b]))
              has[b][way].projection_weight[static_cast<size_t>(f * hidden + unit)] = 7;
      }
    }
    const auto model = [&](size_t b, bool of_back, StepPart part) {
      return FixedSteps(has[b][of_back ? 1 : 0], boards[b], {.elements = 3}, 12, part);
    };
    std::vector<RecurrentState> states(2, zero_state(layer, 1));
    std::vector<std::vector<FixedKept>> records(2, std::vector<FixedKept>(static_cast<size_t>(steps)));
    for (int64_t step = 0; step < steps; ++step) {
      const std::span<const int16_t> now(sums.data() + step * layer.rows(), static_cast<size_t>(layer.rows()));
      std::vector<int16_t> m(static_cast<size_t>(hidden)), next(static_cast<size_t>(features));
      for (size_t b = 0; b < 2; ++b) {
        FixedKept& own = records[b][static_cast<size_t>(step)];
        model(b, false, StepPart::kUnits).forward(now, one, states[b], own, counters);
        std::copy(own.units.begin() + boards[b].begin, own.units.begin() + boards[b].end, m.begin() + boards[b].begin);
      }
      for (size_t b = 0; b < 2; ++b) {
        FixedKept given{.records = {}, .units = m};
        model(b, false, StepPart::kFeatures).forward({}, one, states[b], given, counters);
        std::copy(states[b].hidden.begin() + own_of(b).begin, states[b].hidden.begin() + own_of(b).end, next.begin() + own_of(b).begin);
      }
      for (RecurrentState& other : states) other.hidden = next;
      ASSERT_EQ(next, std::vector<int16_t>(h.begin() + step * features, h.begin() + (step + 1) * features)) << trial << ", step " << step;
    }
    std::vector<FixedBackState> behind(2, whole.zero_back_state(1));
    for (int64_t step = steps - 1; step >= 0; --step) {
      const std::span<const int16_t> now(errors.data() + step * features, static_cast<size_t>(features));
      std::vector<int16_t> dh(static_cast<size_t>(features)), delta(static_cast<size_t>(layer.rows()));
      for (size_t b = 0; b < 2; ++b) {
        const FixedErrors made = model(b, true, StepPart::kFeatures).back(now, one, {}, behind[b], back_counters);
        std::copy(made.features.begin() + own_of(b).begin, made.features.begin() + own_of(b).end, dh.begin() + own_of(b).begin);
      }
      ASSERT_EQ(dh, std::vector<int16_t>(back.features.begin() + step * features, back.features.begin() + (step + 1) * features));
      for (size_t b = 0; b < 2; ++b) {
        const FixedErrors made =
            model(b, true, StepPart::kUnits).back(dh, one, records[b][static_cast<size_t>(step)], behind[b], back_counters);
        for (int64_t unit = boards[b].begin; unit < boards[b].end; ++unit)
          for (int64_t gate = 0; gate < 4; ++gate) {
            const int16_t sum = made.sums[static_cast<size_t>(unit * 4 + gate)];
            ASSERT_EQ(sum, back.sums[static_cast<size_t>(step * layer.rows() + unit * 4 + gate)]) << trial << ", step " << step;
            delta[static_cast<size_t>(gate * hidden + unit)] = sum;
          }
      }
      for (FixedBackState& other : behind) other.errors = delta;
    }
  }
}

// Chunks of time: two runs give the bits of one, forward and back.
TEST(FixedSteps, RunsInARowAreOneLongRun) {
  Random random(7);
  for (int trial = 0; trial < 24; ++trial) {
    const CellKind cell = kCells[trial % 4];
    const int64_t projection = cell == CellKind::kLstm && trial % 8 == 0 ? 3 : 0;
    const FixedRecurrent layer = layer_of(random, cell, 9, projection, 6000);
    const int64_t rows = layer.rows(), features = layer.features();
    const FixedSteps steps(layer, {{0, 9}}, {.elements = 4}, 12);
    const std::vector<int16_t> sums = elements(random, 6 * rows, 20000), errors = elements(random, 6 * features, 4000);
    const auto run_of = [](int64_t count) { return RecurrentRun{.streams = 1, .steps = count, .first_step = 0, .lengths = {}}; };
    RecurrentState state = zero_state(layer, 1), chunked = state;
    FixedKept kept, early, late;
    RecurrentCounters counters;
    ArithmeticCounters of_back;
    const std::vector<int16_t> h = steps.forward(sums, run_of(6), state, kept, counters);
    const std::span all(sums), error(errors);
    std::vector<int16_t> parts = steps.forward(all.first(static_cast<size_t>(2 * rows)), run_of(2), chunked, early, counters);
    const std::vector<int16_t> rest = steps.forward(all.subspan(static_cast<size_t>(2 * rows)), run_of(4), chunked, late, counters);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, h);
    FixedBackState one = steps.zero_back_state(1), two = one;
    const FixedErrors whole = steps.back(errors, run_of(6), kept, one, of_back);
    const FixedErrors last = steps.back(error.subspan(static_cast<size_t>(2 * features)), run_of(4), late, two, of_back);
    FixedErrors first = steps.back(error.first(static_cast<size_t>(2 * features)), run_of(2), early, two, of_back);
    first.sums.insert(first.sums.end(), last.sums.begin(), last.sums.end());
    EXPECT_EQ(first.sums, whole.sums);
  }
}

// Formulas as doubles, rounded by nearbyint() where the page says so: another way to the same bits.
TEST(UnitBack, IsTheOracleInDoubles) {
  Random random(8);
  const auto rounded = [](double value, int fraction) {
    return std::fmin(std::fmax(std::nearbyint(std::ldexp(value, fraction)), -32768.0), 32767.0) * std::ldexp(1.0, -fraction);
  };
  constexpr int kError = 12;
  for (int trial = 0; trial < 20000; ++trial) {
    const CellKind cell = kCells[trial % 4];
    const GateForms forms{static_cast<SigmoidForm>(from_to(random, 0, 3)), static_cast<TanhForm>(from_to(random, 0, 1))};
    const CellFormats formats{.hidden = static_cast<int>(from_to(random, 10, 15))};
    UnitRecord record;
    const int64_t most = trial % 3 == 0 ? 32767 : 9000;
    for (int16_t& sum : record.sums) sum = static_cast<int16_t>(from_to(random, -most, most));
    record.cell = static_cast<int16_t>(from_to(random, -most, most));
    record.before = static_cast<int16_t>(from_to(random, -most, most));
    const auto dh16 = static_cast<int16_t>(from_to(random, -32767, 32767)),
               carried16 = static_cast<int16_t>(from_to(random, -32767, 32767));
    ArithmeticCounters counters;
    const UnitErrors errors = unit_back(cell, forms, formats, record, dh16, carried16, counters);
    const auto sigma = [&](int16_t z) { return std::ldexp(sigmoid_of(forms.sigmoid, z), -15); };
    const auto tangent = [&](int16_t z) { return std::ldexp(tanh_of(forms.tanh, z), -15); };
    const auto slope = [&](double y) {
      if (forms.sigmoid == SigmoidForm::kHardFifth || forms.sigmoid == SigmoidForm::kHardSixth)
        return y > 0 && y < 1 - std::ldexp(1.0, -15) ? rounded(forms.sigmoid == SigmoidForm::kHardFifth ? 0.2 : 1.0 / 6, 15) : 0.0;
      return rounded(y * (1 - y), 15);
    };
    const auto bend = [&](double y) { return std::fmin(1 - rounded(y * y, 15), 1 - std::ldexp(1.0, -15)); };
    const double dh = std::ldexp(dh16, -kError), carried = std::ldexp(carried16, -kError);
    const auto same = [&](int16_t element, double expected, const char* what) {
      ASSERT_EQ(static_cast<double>(element), std::ldexp(expected, kError)) << what << ", trial " << trial;
    };
    if (cell == CellKind::kLstm) {
      const double i = sigma(record.sums[0]), f = sigma(record.sums[1]), g = tangent(record.sums[2]), o = sigma(record.sums[3]);
      const double t = tangent(record.cell), before = std::ldexp(record.before, -12);
      const double dc = rounded(dh * rounded(o * bend(t), 15) + carried, kError);
      same(errors.gates[0], rounded(dc * rounded(g * slope(i), 15), kError), "i");
      same(errors.gates[1], rounded(dc * rounded(before * slope(f), 12), kError), "f");
      same(errors.gates[2], rounded(dc * rounded(i * bend(g), 15), kError), "g");
      same(errors.gates[3], rounded(dh * rounded(t * slope(o), 15), kError), "o");
      same(errors.carried, rounded(dc * f, kError), "c");
    } else if (cell == CellKind::kGru) {
      const double r = sigma(record.sums[0]), z = sigma(record.sums[1]), q = std::ldexp(record.sums[3], -12);
      const double sum = rounded(std::ldexp(record.sums[2], -12) + r * q, 12);
      const double n = tangent(static_cast<int16_t>(std::ldexp(sum, 12))), before = std::ldexp(record.before, -formats.hidden);
      const double dn = rounded(dh * rounded((1 - z) * bend(n), 15), kError);
      same(errors.gates[0], rounded(dn * rounded(q * slope(r), 12), kError), "r");
      same(errors.gates[1], rounded(dh * rounded((before - n) * slope(z), 15), kError), "z");
      same(errors.gates[2], dn, "n");
      same(errors.candidate, rounded(dn * r, kError), "u");
      same(errors.carried, rounded(dh * z, kError), "h");
    } else if (cell == CellKind::kVanillaTanh) {
      same(errors.gates[0], rounded(dh * bend(tangent(record.sums[0])), kError), "tanh");
    } else {
      same(errors.gates[0], record.sums[0] > 0 ? dh : 0, "relu");
    }
  }
}

// The same layer in real numbers: fixed point stays beside it, forward and back.
TEST(FixedSteps, BackIsTheWayOfTheRealLayer) {
  Random random(9);
  for (int trial = 0; trial < 24; ++trial) {
    const CellKind cell = kCells[trial % 4];
    const int64_t hidden = 10, projection = cell == CellKind::kLstm && trial % 8 == 0 ? 6 : 0, count = 5;
    const FixedRecurrent layer = layer_of(random, cell, hidden, projection, 1200);
    const int64_t gates = layer.gates(), features = layer.features();
    const CellFormats& formats = layer.formats;
    RealLayer<double> real{.cell = cell,
                           .hidden = hidden,
                           .projection = projection,
                           .hidden_weight = {},
                           .bias = {},
                           .hidden_bias = {},
                           .projection_weight = {}};
    const auto value = [](int64_t integer, int fraction) { return std::ldexp(static_cast<double>(integer), -fraction); };
    for (int64_t gate = 0; gate < gates; ++gate)
      for (int64_t unit = 0; unit < hidden; ++unit) {
        const int64_t row = unit * gates + gate;
        real.bias.push_back(value(layer.bias[static_cast<size_t>(row)], formats.accumulator()));
        for (int64_t i = 0; i < features; ++i)
          real.hidden_weight.push_back(value(layer.hidden_weight[static_cast<size_t>(row * features + i)], formats.hidden_weight()));
      }
    for (const int32_t bias : layer.hidden_bias) real.hidden_bias.push_back(value(bias, formats.accumulator()));
    for (const int16_t weight : layer.projection_weight) real.projection_weight.push_back(value(weight, formats.projection));
    const std::vector<int16_t> sums = elements(random, count * layer.rows(), 5000), errors = elements(random, count * features, 4000);
    std::vector<double> real_sums(sums.size()), real_errors;
    for (int64_t step = 0; step < count; ++step)
      for (int64_t unit = 0; unit < hidden; ++unit)
        for (int64_t gate = 0; gate < gates; ++gate)
          real_sums[static_cast<size_t>((step * gates + gate) * hidden + unit)] =
              value(sums[static_cast<size_t>((step * hidden + unit) * gates + gate)], formats.sum(cell));
    for (const int16_t error : errors) real_errors.push_back(value(error, 12));
    const RecurrentRun run{.streams = 1, .steps = count, .first_step = 0, .lengths = {}};
    const FixedSteps steps(layer, {{0, hidden}}, {.elements = 4}, 12);
    const RealSteps<double> exact(real, {{0, hidden}}, {.elements = 4});
    RecurrentState state = zero_state(layer, 1);
    FixedKept kept;
    RecurrentCounters counters;
    FixedBackState back_state = steps.zero_back_state(1);
    ArithmeticCounters of_back;
    const std::vector<int16_t> h = steps.forward(sums, run, state, kept, counters);
    const FixedErrors back = steps.back(errors, run, kept, back_state, of_back);
    RealState<double> real_state{std::vector<double>(static_cast<size_t>(features)), std::vector<double>(static_cast<size_t>(hidden))};
    RealKept<double> real_kept;
    RealBackState<double> real_back_state{std::vector<double>(static_cast<size_t>(gates * hidden)),
                                          std::vector<double>(static_cast<size_t>(hidden))};
    const std::vector<double> real_h = exact.forward(real_sums, count, real_state, real_kept);
    const RealErrors<double> real_back = exact.back(real_errors, count, real_kept, real_back_state);
    for (size_t i = 0; i < h.size(); ++i) ASSERT_NEAR(value(h[i], formats.hidden), real_h[i], 6e-3) << "trial " << trial;
    for (int64_t step = 0; step < count; ++step)
      for (int64_t unit = 0; unit < hidden; ++unit)
        for (int64_t gate = 0; gate < gates; ++gate)
          ASSERT_NEAR(value(back.sums[static_cast<size_t>((step * hidden + unit) * gates + gate)], 12),
                      real_back.sums[static_cast<size_t>((step * gates + gate) * hidden + unit)], 1e-2)
              << "trial " << trial << ", step " << step << ", unit " << unit << ", gate " << gate;
  }
}

TEST(FixedSteps, RefusesWhatItCannotDo) {
  Random random(10);
  const FixedRecurrent plain = layer_of(random, CellKind::kGru, 6, 0, 100), projected = layer_of(random, CellKind::kLstm, 6, 3, 100);
  const auto made = [](const FixedRecurrent& layer, std::vector<UnitRange> boards) { FixedSteps(layer, std::move(boards), {}, 12); };
  EXPECT_NO_THROW(made(projected, {{0, 4}, {4, 6}}));
  EXPECT_THROW(made(projected, {{0, 3}, {3, 6}}), Error);  // three of six cells are no whole number of three features
  EXPECT_THROW(made(plain, {{0, 3}, {4, 6}}), Error);
  EXPECT_THROW(made(plain, {{0, 3}, {3, 5}}), Error);
  EXPECT_THROW(made(plain, {{0, 6}, {6, 6}}), Error);
}

}  // namespace millrace
