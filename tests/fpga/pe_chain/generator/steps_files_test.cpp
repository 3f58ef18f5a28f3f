// Generated engines of chained elements as folders: each simulates under Icarus as it stands, against the vectors that lie beside it.
#include "fpga/pe_chain/generator/steps_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/common/arithmetic/divided_up.h"

namespace millrace::steps_files {
namespace {

using testing::HasSubstr;

bool has_icarus() { return std::system("iverilog -V > /dev/null 2>&1") == 0; }

std::string simulated(const std::string& folder) {
  const std::string command =
      fmt::format("cd '{}' && iverilog -g2012 -o testbench rtl/*.sv testbench.sv 2>&1 && vvp testbench 2>&1", folder);
  std::string said;
  FILE* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  while (fgets(part.data(), part.size(), pipe) != nullptr) said += part.data();
  pclose(pipe);
  return said;
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  FixedRecurrent layer(CellKind cell, int64_t units, const GateForms& forms, int64_t projection = 0) {
    FixedRecurrent made{.cell = cell,
                        .inputs = 0,
                        .hidden = units,
                        .projection = projection,
                        .formats = {.hidden = static_cast<int>(cell == CellKind::kVanillaRelu ? from_to(9, 13) : from_to(12, 15))},
                        .forms = forms,
                        .input_weight = {},
                        .hidden_weight = {},
                        .bias = {},
                        .hidden_bias = {},
                        .projection_weight = {}};
    for (int64_t i = 0; i < made.rows() * made.features(); ++i) made.hidden_weight.push_back(static_cast<int16_t>(from_to(-4000, 4000)));
    for (int64_t i = 0; i < projection * units; ++i) made.projection_weight.push_back(static_cast<int16_t>(from_to(-9000, 9000)));
    for (int64_t i = 0; i < made.rows(); ++i) made.bias.push_back(static_cast<int32_t>(from_to(-(1 << 26), 1 << 26)));
    if (cell == CellKind::kGru)
      for (int64_t i = 0; i < units; ++i) made.hidden_bias.push_back(static_cast<int32_t>(from_to(-(1 << 26), 1 << 26)));
    return made;
  }

 private:
  std::mt19937 random_;
};

// Of any cell and form of gates, lengths of chains, units that fill slices or do not, samples that take turns; projected or not.
void pass(uint32_t seed, int count, bool projects = false) {
  if (!has_icarus()) GTEST_SKIP() << "iverilog is not installed";
  Draw draw(seed);
  for (int i = 0; i < count; ++i) {
    const auto cell = projects ? CellKind::kLstm : static_cast<CellKind>((static_cast<uint32_t>(i) + seed) % 4);
    const GateForms forms{static_cast<SigmoidForm>(draw.from_to(0, cell == CellKind::kGru || cell == CellKind::kLstm ? 3 : 1)),
                          static_cast<TanhForm>(draw.from_to(0, 1))};
    PeChainHardware hardware{
        .cell = cell, .chains = int64_t{1} << draw.from_to(projects ? 2 : 1, 3), .per_chain = draw.from_to(2, 5), .projects = projects};
    const int64_t units = draw.from_to(1, 24), projection = projects ? draw.from_to(1, units) : 0;
    const StepsTestbench bench{.samples = draw.from_to(1, 3), .steps = draw.from_to(1, 5), .seed = seed + static_cast<uint32_t>(i)};
    hardware.words = divided_up(units, hardware.chains * hardware.per_chain) * units + 1;
    if (projects) hardware.words *= 2;
    hardware.samples = bench.samples;
    hardware.state_words = std::max<int64_t>(2, divided_up(units, hardware.chains) * bench.samples);
    const std::string folder = fmt::format("{}pe_chain_engine_{}_{}{}", testing::TempDir(), seed, i, projects ? "_projected" : "");
    write_steps_engine(folder, hardware, draw.layer(cell, units, forms, projection), bench);
    ASSERT_THAT(simulated(folder), HasSubstr("PASS"))
        << folder << ": cell " << static_cast<int>(cell) << ", " << units << " units, projected to " << projection;
  }
}

}  // namespace

TEST(StepsFiles, SimulateAsTheyStand) { pass(1, 2); }
TEST(StepsFilesLong, SimulateAsTheyStand) { pass(2, 20); }
TEST(StepsFiles, ProjectedSimulateAsTheyStand) { pass(5, 1, true); }
TEST(StepsFilesLong, ProjectedSimulateAsTheyStand) { pass(6, 20, true); }

// Some units of a layer, two steps of which the state is written before each product; projected or not.
void pass_of_boards(uint32_t seed, int count) {
  if (!has_icarus()) GTEST_SKIP() << "iverilog is not installed";
  Draw draw(seed);
  for (int i = 0; i < count; ++i) {
    const bool projects = i % 2 == 0;
    const auto cell = projects ? CellKind::kLstm : static_cast<CellKind>((static_cast<uint32_t>(i / 2) + seed) % 4);
    const int64_t grain = projects ? draw.from_to(1, 3) : 1, grains = draw.from_to(2, 8), units = grain * grains;
    const int64_t first = draw.from_to(0, grains - 1), last = draw.from_to(first + 1, first == 0 ? grains - 1 : grains);
    const UnitRange board{grain * first, grain * last};
    PeChainHardware hardware{
        .cell = cell, .chains = int64_t{1} << draw.from_to(projects ? 2 : 1, 3), .per_chain = draw.from_to(2, 5), .projects = projects};
    const StepsTestbench bench{.samples = draw.from_to(1, 3), .steps = 1, .seed = seed + static_cast<uint32_t>(i)};
    hardware.words = 2 * (divided_up(units, hardware.chains * hardware.per_chain) * units + 1);
    hardware.samples = bench.samples;
    hardware.state_words = std::max<int64_t>(2, divided_up(units, hardware.chains) * bench.samples);
    const std::string folder = fmt::format("{}pe_chain_engine_board_{}_{}", testing::TempDir(), seed, i);
    write_steps_engine(folder, hardware, draw.layer(cell, units, {}, projects ? grains : 0), bench, board);
    ASSERT_THAT(simulated(folder), HasSubstr("PASS"))
        << folder << ": cell " << static_cast<int>(cell) << ", units " << board.begin << " to " << board.end << " of " << units;
  }
}
TEST(StepsFiles, OfOneBoardOfSeveralSimulateAsTheyStand) { pass_of_boards(7, 2); }
TEST(StepsFilesLong, OfOneBoardOfSeveralSimulateAsTheyStand) { pass_of_boards(8, 24); }

// One engine for two layers of unlike sizes, each with its weights and settings in turn.
TEST(StepsFiles, OneEngineServesSeveralLayers) {
  if (!has_icarus()) GTEST_SKIP() << "iverilog is not installed";
  Draw draw(9);
  const FixedRecurrent first = draw.layer(CellKind::kGru, 13, {}), second = draw.layer(CellKind::kGru, 6, {});
  PeChainHardware small{.cell = CellKind::kGru, .chains = 4, .per_chain = 2, .words = 32, .samples = 2, .state_words = 8}, large = small;
  large.words = 64;
  const PeChainHardware all = engine_for_all(small, large);
  EXPECT_EQ(all.words, 64);
  const std::string folder = testing::TempDir() + "pe_chain_engine_of_two";
  write_steps_engine(folder, all, {{.name = "first", .layer = &first}, {.name = "second", .layer = &second, .steps = 3}},
                     {.samples = 2, .steps = 2});
  EXPECT_THAT(simulated(folder), HasSubstr("PASS"));
  EXPECT_THAT(read_text(folder + "/rtl/millrace_pe_chain.sv"), HasSubstr(".feeds(place == 8'd0 ? (16'd13) : (16'd6))"));
  // With the other's weights it gives other words.
  write_atomically(folder + "/images/place1_biases.hex", std::string_view(read_text(folder + "/images/place0_biases.hex")));
  EXPECT_THAT(simulated(folder), HasSubstr("FAIL"));
  const FixedRecurrent other = draw.layer(CellKind::kLstm, 6, {});
  EXPECT_THROW(write_steps_engine(folder, all, {{.name = "first", .layer = &first}, {.name = "other", .layer = &other}}, {}), Error);
}

TEST(StepsFiles, ADifferenceIsSaid) {
  if (!has_icarus()) GTEST_SKIP() << "iverilog is not installed";
  Draw draw(3);
  const FixedRecurrent layer = draw.layer(CellKind::kLstm, 5, {});
  const std::string folder = testing::TempDir() + "pe_chain_engine_changed";
  write_steps_engine(folder, {.chains = 2, .per_chain = 2, .words = 16, .samples = 1, .state_words = 8}, layer, {.steps = 3});
  // One digit of a unit that there is; of the weights, many.
  const std::string mask = read_text(folder + "/vectors/back_out.hex.mask");
  for (const char* file : {"/vectors/back_out.hex", "/images/weights_back.hex"}) {
    const std::string before = read_text(folder + file);
    std::string text = before;
    if (std::string_view(file).starts_with("/images")) std::ranges::replace(text, 'f', '7');
    const size_t place = mask.rfind('f');
    if (text.size() == mask.size()) text[place] = text[place] == '7' ? '0' : '7';
    ASSERT_NE(text, before);
    write_atomically(folder + file, std::string_view(text));
    EXPECT_THAT(simulated(folder), HasSubstr("FAIL: 0 words differ forward")) << file;
    write_atomically(folder + file, std::string_view(before));
  }
  // U as it is for the way forward, in place of transposed: another answer.
  write_atomically(folder + "/images/weights_back.hex", std::string_view(read_text(folder + "/images/weights_forward.hex")));
  EXPECT_THAT(simulated(folder), HasSubstr("FAIL: 0 words differ forward"));
}

TEST(StepsFiles, WhatIsNotBuiltIsRefused) {
  Draw draw(4);
  const std::string folder = testing::TempDir() + "pe_chain_engine_refused";
  const FixedRecurrent layer = draw.layer(CellKind::kLstm, 9, {});
  const auto refusal = [&](const PeChainHardware& hardware, const FixedRecurrent& of) {
    try {
      write_steps_engine(folder, hardware, of, {.samples = 2});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({.chains = 2, .per_chain = 2, .words = 16}, layer), HasSubstr("weights on the fullest element, which holds 16"));
  EXPECT_THAT(refusal({.chains = 2, .per_chain = 2, .state_words = 4}, layer), HasSubstr("give the engine fewer samples"));
  const FixedRecurrent projected = draw.layer(CellKind::kLstm, 9, {}, 3);
  EXPECT_THAT(refusal({}, projected), HasSubstr("9 units are projected, which engines of lstm do that are built for it"));
  EXPECT_THAT(refusal({.words = 5, .projects = true}, projected), HasSubstr("9 units and their projection to 3 put"));
}

}  // namespace millrace::steps_files
