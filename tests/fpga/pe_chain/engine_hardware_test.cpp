// What the modules of chained elements are told: every weight on one element, forward and back; cycles beside the closed form.
#include "fpga/pe_chain/rtl/engine_hardware.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

namespace {

FixedRecurrent numbered_layer(CellKind cell, int64_t units, int64_t projection = 0) {
  FixedRecurrent layer{.cell = cell,
                       .inputs = 0,
                       .hidden = units,
                       .projection = projection,
                       .formats = {},
                       .forms = {},
                       .input_weight = {},
                       .hidden_weight = {},
                       .bias = {},
                       .hidden_bias = {},
                       .projection_weight = {}};
  int16_t next = 0;
  for (int64_t i = 0; i < layer.rows() * layer.features(); ++i) layer.hidden_weight.push_back(++next);
  for (int64_t i = 0; i < projection * units; ++i) layer.projection_weight.push_back(++next);
  return layer;
}

void expect_weights_once(const PeChainHardware& hardware, const StepSettings& settings, const FixedRecurrent& layer, bool back) {
  std::map<int16_t, int64_t> times;
  std::map<std::tuple<int64_t, int64_t, int64_t>, int64_t> held;
  for (const WeightBeat& beat : weight_beats(hardware, settings, layer, {0, layer.hidden}, back)) {
    ++held[{beat.unit, beat.depth, beat.address}];
    EXPECT_LT(beat.address, settings.fullest());
    for (const int16_t weight : beat.weights)
      if (weight != 0) ++times[weight];
  }
  EXPECT_EQ(times.size(), layer.hidden_weight.size() + layer.projection_weight.size()) << layer.hidden << " units";
  for (const auto& [weight, count] : times) EXPECT_EQ(count, 1) << weight;
  for (const auto& [place, count] : held) EXPECT_EQ(count, 1);
}

}  // namespace

// Boards that share a layer's steps have every weight once between them, forward by rows and back by columns, of a projection, too.
TEST(PeChainHardware, EveryWeightLiesOnceOnABoard) {
  const PeChainHardware hardware{.cell = CellKind::kLstm, .words = 1024, .projects = true};
  const FixedRecurrent layer = numbered_layer(CellKind::kLstm, 30, 12);
  const std::vector<UnitRange> boards = {{0, 5}, {5, 20}, {20, 30}};
  for (const bool back : {false, true}) {
    std::map<int16_t, int64_t> times;
    for (const UnitRange& board : boards) {
      const StepSettings settings = step_settings(hardware, extent_of(layer, board), back);
      int64_t here = 0;
      for (const WeightBeat& beat : weight_beats(hardware, settings, layer, board, back))
        for (const int16_t weight : beat.weights)
          if (weight != 0) {
            ++times[weight];
            ++here;
          }
      EXPECT_EQ(here, board.count() * 4 * 12 + board.count() * 12);
    }
    EXPECT_EQ(times.size(), layer.hidden_weight.size() + layer.projection_weight.size());
    for (const auto& [weight, count] : times) EXPECT_EQ(count, 1) << weight;
  }
}

TEST(PeChainHardware, EveryWeightLiesOnceOnAnElement) {
  for (const int64_t units : {1, 3, 8, 13, 16, 17, 24, 30, 41})
    for (const bool back : {false, true}) {
      const PeChainHardware hardware{.cell = CellKind::kGru};
      const FixedRecurrent layer = numbered_layer(CellKind::kGru, units);
      expect_weights_once(hardware, step_settings(hardware, {units, 0}, back), layer, back);
    }
}

// Those of a projection behind them.
TEST(PeChainHardware, EveryWeightOfAProjectionToo) {
  for (const auto& [units, features] : {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {5, 3}, {13, 13}, {16, 4}, {17, 9}, {30, 7}})
    for (const bool back : {false, true}) {
      const PeChainHardware hardware{.cell = CellKind::kLstm, .projects = true};
      const FixedRecurrent layer = numbered_layer(CellKind::kLstm, units, features);
      expect_weights_once(hardware, step_settings(hardware, {units, features}, back), layer, back);
    }
}

// Where no cell is divided, a step is F + X of chain_product.h, the loop of the modules for the latency.
TEST(PeChainHardware, StepsAreTheClosedForm) {
  std::mt19937 random(31);
  int compared = 0, waiting = 0;
  while (compared < 200) {
    PeChainHardware hardware{
        .cell = CellKind::kLstm, .chains = 4, .per_chain = 1 + static_cast<int64_t>(random() % 6), .words = 4096, .state_words = 512};
    hardware.element_bits = random() % 2 == 0 ? 16 : 32;
    const auto units = static_cast<int64_t>(1 + random() % 90);
    const PassSettings settings = pass_settings(hardware, units, 1, /*divide=*/false);
    // Slices shorter than a chain's way back wait for it, in floating point those shorter than a sum of lanes.
    if (units < std::max(2 * hardware.per_chain, hardware.element_bits == 32 ? kLanesSettle : 0)) continue;
    for (const bool back : {false, true}) {
      const ChainProduct product{.inputs = units, .outputs = units, .elements = hardware.chains * hardware.per_chain, .most_parts = 1};
      const int64_t exposed =
          exposed_cycles(product, {.latency = loop_cycles(hardware.cell, back, hardware.element_bits) - 1, .chains = hardware.chains});
      const std::vector<int64_t> cycles = emission_cycles(hardware, settings, {.samples = 1, .steps = 6}, back);
      const int64_t step = cycles.back() - cycles[cycles.size() - 1 - static_cast<size_t>(settings.words)];
      EXPECT_EQ(step, feed_cycles(product) + exposed) << units << " units, chains of " << hardware.per_chain;
      waiting += exposed > 0 ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_GT(waiting, 20);
}

TEST(PeChainHardware, RefusesWhatDoesNotFit) {
  const PeChainHardware hardware;
  EXPECT_THROW(pass_settings(hardware, 100), Error);    // 700 weights an element, of 256
  EXPECT_THROW(pass_settings(hardware, 40, 8), Error);  // samples
  PeChainHardware small = hardware;
  small.state_words = 8;
  EXPECT_THROW(pass_settings(small, 40, 1), Error);
  EXPECT_THROW(step_settings(hardware, {8, 4}, false), Error);  // built without projections
  PeChainHardware projects = hardware;
  projects.projects = true;
  EXPECT_NO_THROW(step_settings(projects, {8, 4}, false));
  projects.words = 11;  // of 8 + 4 / 2
  EXPECT_NO_THROW(step_settings(projects, {8, 4}, true));
  projects.words = 4;
  EXPECT_THROW(step_settings(projects, {8, 4}, true), Error);
  projects = {.chains = 2, .projects = true};  // an input of every unit does not lie in one word
  EXPECT_THROW(step_settings(projects, {8, 4}, false), Error);
  projects = {.cell = CellKind::kGru, .projects = true};
  EXPECT_THROW(step_settings(projects, {8, 4}, false), Error);
}

// What is dropped behind a projection's sums has to fit the shifter.
TEST(PeChainHardware, RefusesShiftsThatAreNotBuilt) {
  FixedRecurrent layer = numbered_layer(CellKind::kLstm, 8, 4);
  layer.formats.hidden = 10;
  layer.formats.projection = 26;
  EXPECT_EQ(shifts_of(layer, false).projected, 31);
  EXPECT_EQ(shifts_of(layer, false).hidden, 0);  // of m, which has as many as gates
  EXPECT_EQ(shifts_of(layer, true).projected, layer.formats.hidden_weight());
  layer.formats.projection = 27;
  EXPECT_THROW(shifts_of(layer, false), Error);
}

}  // namespace millrace
