// What chains take, beside what synthesis found; what planner and generator make of one layer.
#include "fpga/pe_chain/built_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/pe_chain/board_row.h"

namespace millrace {

namespace {

const std::map<std::string, CellKind> kCells = {{"lstm", CellKind::kLstm},
                                                {"gru", CellKind::kGru},
                                                {"relu", CellKind::kVanillaRelu},
                                                {"tanh", CellKind::kVanillaTanh},
                                                {"lstm_projected", CellKind::kLstm}};

}  // namespace

TEST(BuiltChain, TakesWhatSynthesisFinds) {
  const auto results = nlohmann::json::parse(read_text(MILLRACE_SOURCE_DIR "/tests/benchmarks/results/pe_chain_synthesis.json"));
  int rows = 0;
  for (const auto& engine : results.at("engines")) {
    const std::string cell = engine.at("cell");
    const PeChainHardware hardware{.cell = kCells.at(cell),
                                   .chains = engine.at("chains"),
                                   .per_chain = engine.at("per_chain"),
                                   .words = engine.at("words"),
                                   .element_bits = engine.at("element_bits"),
                                   .projects = cell.ends_with("_projected"),
                                   .ultra = engine.at("family") == "ultra"};
    const ChainUse use = chain_use_of(hardware);
    EXPECT_EQ(use.dsp, engine.at("dsp").at(0).get<int64_t>()) << engine.dump();
    EXPECT_EQ(use.weight_blocks + use.gate_blocks, engine.at("bram18").at(0).get<int64_t>()) << engine.dump();
    EXPECT_EQ(use.urams, engine.at("uram").at(0).get<int64_t>()) << engine.dump();
    ++rows;
  }
  EXPECT_EQ(rows, 21);
}

// Of a board with a slice too few, or a half block too few, of what the gates take.
TEST(BuiltChain, IsRefusedWhereItsGatesDoNotFit) {
  for (const CellKind cell : {CellKind::kLstm, CellKind::kGru, CellKind::kVanillaTanh})
    for (const int bits : {16, 32}) {
      const RecurrentSize size{.cells = 256, .fed_back = 256, .cell = cell};
      const PeChainHardware hardware =
          chain_for({.cell = cell, .element_bits = bits, .products = {{.outputs = 256, .inputs = 256}}}, /*per_chain=*/2);
      const ChainUse use = chain_use_of(hardware);
      ChainBoard board{.name = "board", .dsp = 1e6, .bram36 = 1e6, .clock_hz = 200e6};
      board.dimensions = ChainDimensions{hardware.chains, hardware.per_chain, hardware.words};
      const auto row = best_row(size, board, 1, bits);
      ASSERT_TRUE(row);
      EXPECT_EQ(row->dsp, static_cast<double>(use.dsp));
      EXPECT_EQ(row->half_blocks, static_cast<double>(use.weight_blocks + use.gate_blocks));
      const int64_t gates = use.dsp - hardware.elements() * bits / 16;
      ASSERT_GT(gates, 0);
      std::string why;
      ChainBoard slices = board;
      slices.dsp = (static_cast<double>(use.dsp) - 0.5) / kUsableDsp;  // all but one, so the elements alone would fit
      EXPECT_FALSE(best_row(size, slices, 1, bits, &why));
      EXPECT_NE(why.find("of them for the gates"), std::string::npos) << why;
      slices.dsp = (static_cast<double>(use.dsp) + 0.5) / kUsableDsp;
      EXPECT_TRUE(best_row(size, slices, 1, bits, &why)) << why;
      ChainBoard blocks = board;
      blocks.bram36 = (row->half_blocks - 0.5) / 2 / kUsableMemory;
      EXPECT_FALSE(best_row(size, blocks, 1, bits, &why));
      EXPECT_NE(why.find("half blocks"), std::string::npos) << why;
      // Fewer chains are tried where nobody gave the engine.
      slices.dsp = (static_cast<double>(use.dsp) - 0.5) / kUsableDsp;
      slices.dimensions = {};
      const auto fewer = best_row(size, slices, 1, bits, &why);
      ASSERT_TRUE(fewer) << why;
      EXPECT_LE(fewer->dsp, slices.dsp * kUsableDsp);
      // So they are where weights lie in UltraRAM.
      ChainBoard ultra = board;
      ultra.uram = 1e4;
      ultra.bram36 = (static_cast<double>(use.gate_blocks) - 0.5) / 2 / kUsableMemory;
      EXPECT_FALSE(best_row(size, ultra, 1, bits, &why));
      ultra.bram36 += 1;
      EXPECT_TRUE(best_row(size, ultra, 1, bits, &why)) << why;
    }
}

// A plan's chain, its memories and its steps are those of the engine that is generated for it.
TEST(BuiltChain, PlansCountTheEngineThatIsGenerated) {
  const ChainBoard board{.name = "board", .dsp = 3600, .bram36 = 1470, .clock_hz = 200e6};
  std::mt19937 random(7);
  int planned = 0;
  while (planned < 40) {
    const CellKind cell = std::vector{CellKind::kLstm, CellKind::kGru, CellKind::kVanillaRelu, CellKind::kVanillaTanh}[random() % 4];
    const int bits = random() % 2 == 0 ? 16 : 32;
    const auto cells = static_cast<int64_t>(1 + random() % 700), samples = static_cast<int64_t>(1 + random() % 5);
    const auto row = best_row({.cells = cells, .fed_back = cells, .cell = cell}, board, 1, bits, nullptr, samples);
    if (!row) continue;
    const PeChainHardware hardware =
        chain_for({.cell = cell, .element_bits = bits, .samples = samples, .products = {{cells, cells}}, .chains = row->chains},
                  row->elements / row->chains);
    const PassSettings settings = pass_settings(hardware, cells, samples);  // fits: does not fail
    const ChainUse use = chain_use_of(hardware);
    EXPECT_EQ(row->dsp, static_cast<double>(use.dsp));
    EXPECT_EQ(row->half_blocks, static_cast<double>(use.weight_blocks + use.gate_blocks));
    EXPECT_EQ(row->forward_load_beats, load_beats(hardware, settings));
    EXPECT_EQ(row->back_load_beats, load_beats(hardware, settings));
    for (const bool back : {false, true}) {
      const std::vector<int64_t> words = emission_cycles(hardware, settings, {.samples = samples, .steps = 7}, back);
      const int64_t step = words.back() - words[words.size() - 1 - static_cast<size_t>(samples * settings.words)];
      EXPECT_EQ(back ? row->back_cycles : row->forward_cycles, step) << cells << " cells of " << bits << " bits, " << samples << " samples";
    }
    ++planned;
  }
}

// So they do for a layer that projects its outputs.
TEST(BuiltChain, PlansCountTheEngineThatProjects) {
  const ChainBoard board{.name = "board", .dsp = 3600, .bram36 = 1470, .clock_hz = 200e6};
  std::mt19937 random(8);
  int planned = 0, loads = 0;
  while (planned < 40) {
    const int bits = random() % 2 == 0 ? 16 : 32;
    const auto cells = static_cast<int64_t>(2 + random() % 700), samples = static_cast<int64_t>(1 + random() % 5);
    const auto features = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(cells - 1));
    const auto row = best_row({.cells = cells, .fed_back = features}, board, 1, bits, nullptr, samples);
    if (!row) continue;
    const PeChainHardware hardware =
        chain_for({.element_bits = bits, .samples = samples, .products = {{cells, features}}, .chains = row->chains, .projected = features},
                  row->elements / row->chains);
    const ChainUse use = chain_use_of(hardware);
    EXPECT_EQ(row->dsp, static_cast<double>(use.dsp));
    EXPECT_EQ(row->half_blocks, static_cast<double>(use.weight_blocks + use.gate_blocks));
    for (const bool back : {false, true}) {
      const StepSettings settings = step_settings(hardware, {cells, features}, back, samples);  // fits: does not fail
      EXPECT_EQ(back ? row->back_load_beats : row->forward_load_beats, load_beats(hardware, settings, back));
      const std::vector<int64_t> words = emission_cycles(hardware, settings, {.samples = samples, .steps = 7}, back);
      const auto of_step = static_cast<size_t>(samples * (settings.recurrent.words + settings.projection.words));
      EXPECT_EQ(back ? row->back_cycles : row->forward_cycles, words.back() - words[words.size() - 1 - of_step])
          << cells << " cells to " << features << " of " << bits << " bits, " << samples << " samples";
    }
    loads += row->forward_load_beats != row->back_load_beats ? 1 : 0;
    ++planned;
  }
  EXPECT_GT(loads, 10);
}

}  // namespace millrace
