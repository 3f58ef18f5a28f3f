// Generated engines as folders: each simulates under Icarus as it stands, against the vectors that lie beside it.
#include "fpga/sbe/generator/engine_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace {
namespace {

using testing_support::Dice;

bool has(const char* program) { return std::system(fmt::format("{} -V > /dev/null 2>&1", program).c_str()) == 0; }

// Of any cell, residency, groups, columns and lengths that engines are built for.
SbeConfig random_buildable(Dice& dice) {
  for (;;) {
    const int64_t gates = dice.one_of<int64_t>({1, 3, 4});
    SbeConfig config{.shape = {dice.from_to(1, 20), dice.from_to(1, 16), gates},
                     .row_lanes = gates * dice.from_to(1, 8),
                     .columns = dice.one_of<int64_t>({1, 2, 4}),
                     .tail_units = dice.one_of<int64_t>({1, 2, 4}),
                     .latency = kBuiltLatency,
                     .slots = dice.from_to(2, 3),
                     .pinned = dice.one_of({Pinned::kNone, Pinned::kNone, Pinned::kHidden, Pinned::kAll}),
                     .words_per_cycle = dice.one_of<int64_t>({4, 8, 16}),
                     .inputs_share_bus = false,
                     .streams = dice.from_to(1, 3),
                     .steps = dice.from_to(1, 6)};
    config.sums_arrive = dice.from_to(0, 4) == 0;
    if (config.sums_arrive) config.shape.inputs = 0, config.pinned = Pinned::kAll;
    if (gates == 4 && dice.from_to(0, 1) == 0) config.shape.projection = dice.from_to(1, config.shape.hidden);
    const int64_t chunks = config.input_chunks() + (config.pinned == Pinned::kNone ? config.hidden_chunks() : 0);
    if (config.pinned != Pinned::kAll) config.block_chunks = divided_up(chunks, dice.from_to(1, 8));
    try {
      check_buildable(config);
      return config;
    } catch (const Error&) {
    }
  }
}

// "PASS: ..." of the testbench, or what stands in its place.
std::string simulated(const std::string& folder) {
  const std::string run = fmt::format(
      "cd '{}' && iverilog -g2012 -s testbench -o testbench rtl/*.sv testbench.sv > log.txt 2>&1 && vvp testbench >> log.txt 2>&1", folder);
  const int status = std::system(run.c_str());
  const std::string log = read_text(folder + "/log.txt");
  return status == 0 ? log : fmt::format("ends with {}\n{}", status, log);
}

void pass(uint32_t seed, int count) {
  if (!has("iverilog")) GTEST_SKIP() << "iverilog is not installed";
  Dice dice(seed);
  for (int i = 0; i < count; ++i) {
    const SbeConfig config = random_buildable(dice);
    const FixedRecurrent layer = testing_support::random_layer(dice, testing_support::cell_of(dice, config.shape.gates),
                                                               config.shape.inputs, config.shape.hidden, config.shape.projection);
    EngineVectors vectors{.run = {.streams = config.streams, .steps = config.steps, .first_step = 0, .lengths = {}}, .x = {}, .batches = 2};
    for (int64_t stream = 0; stream < config.streams; ++stream) vectors.run.lengths.push_back(dice.from_to(0, config.steps));
    vectors.x = testing_support::random_elements(dice, vectors.batches * config.vectors() * config.shape.inputs, 32767);
    for (int64_t sum = 0; config.sums_arrive && sum < vectors.batches * config.vectors() * layer.rows(); ++sum)
      vectors.sums.push_back(static_cast<int32_t>(dice.from_to(-(1 << 28), 1 << 28)));
    const std::string folder = fmt::format("{}sbe_engine_{}_{}", testing::TempDir(), seed, i);
    write_engine(folder, config, layer, vectors, {.memory_latency = dice.from_to(0, 100), .seed = dice.from_to(1, 1000)});
    const std::string said = simulated(folder);
    ASSERT_NE(said.find("PASS"), std::string::npos) << folder << "\n" << said;
  }
}

}  // namespace

TEST(EngineFiles, SimulateAsTheyStand) { pass(1, 2); }
TEST(EngineFilesLong, SimulateAsTheyStand) { pass(2, 20); }

// Words of sums of more than eight thousand bits.
TEST(EngineFiles, OfManyLanesAreCleanWithoutWaivers) {
  if (std::system("verilator --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "verilator is not installed";
  Dice dice(4);
  for (const bool sums : {false, true}) {
    const int64_t inputs = sums ? 0 : 4, hidden = sums ? 272 : 128;
    const SbeConfig config{.shape = {inputs, hidden, 3},
                           .row_lanes = 3 * hidden,
                           .tail_units = 4,
                           .latency = kBuiltLatency,
                           .pinned = Pinned::kAll,
                           .words_per_cycle = 16,
                           .inputs_share_bus = false,
                           .sums_arrive = sums};
    EngineVectors vectors{.run = {.lengths = {}}, .x = std::vector<int16_t>(to_size(inputs), 9000)};
    if (sums) vectors.sums.assign(to_size(3 * hidden), 9000);
    const std::string folder = fmt::format("{}sbe_engine_of_many_lanes_{}", testing::TempDir(), hidden);
    write_engine(folder, config, testing_support::random_layer(dice, CellKind::kGru, inputs, hidden), vectors);
    const std::string lint =
        fmt::format("cd '{}' && verilator --lint-only -Wall --top-module millrace_sbe rtl/*.sv > lint.log 2>&1", folder);
    EXPECT_EQ(std::system(lint.c_str()), 0) << read_text(folder + "/lint.log");
  }
}

TEST(EngineFiles, ADifferenceIsSaid) {
  if (!has("iverilog")) GTEST_SKIP() << "iverilog is not installed";
  Dice dice(3);
  const FixedRecurrent layer = testing_support::random_layer(dice, CellKind::kLstm, 5, 4);
  const SbeConfig config{.shape = {5, 4, 4},
                         .row_lanes = 16,
                         .tail_units = 1,
                         .latency = kBuiltLatency,
                         .block_chunks = 3,
                         .words_per_cycle = 4,
                         .inputs_share_bus = false,
                         .steps = 2};
  const std::string folder = testing::TempDir() + "sbe_engine_changed";
  write_engine(folder, config, layer, {.run = {.steps = 2, .lengths = {}}, .x = std::vector<int16_t>(10, 9000)});
  std::string states = read_text(folder + "/vectors/h.hex");
  states[3] = states[3] == '0' ? '1' : '0';
  write_atomically(folder + "/vectors/h.hex", std::string_view(states));
  EXPECT_NE(simulated(folder).find("FAIL: 1 words differ"), std::string::npos);
}

TEST(EngineFiles, WhatCannotBeBuiltIsRefused) {
  const SbeConfig good{.shape = {5, 4, 4},
                       .row_lanes = 16,
                       .tail_units = 1,
                       .latency = kBuiltLatency,
                       .block_chunks = 3,
                       .words_per_cycle = 4,
                       .inputs_share_bus = false};
  EXPECT_NO_THROW(check_buildable(good));
  const auto refuses = [&good](auto change) {
    SbeConfig config = good;
    change(config);
    EXPECT_THROW(check_buildable(config), Error);
  };
  refuses([](SbeConfig& c) { c.columns = 3; });
  refuses([](SbeConfig& c) { c.tail_units = 3; });
  refuses([](SbeConfig& c) { c.words_per_cycle = 6; });
  refuses([](SbeConfig& c) { c.words_per_cycle = 32; });
  refuses([](SbeConfig& c) { c.inputs_share_bus = true; });
  refuses([](SbeConfig& c) { c.steps = 100'000; });
  refuses([](SbeConfig& c) { c.row_lanes = 6; });
  refuses([](SbeConfig& c) { c.slots = 1; });
  refuses([](SbeConfig& c) { c.block_chunks = 0; });
  refuses([](SbeConfig& c) { c.shape.projection = 3; });  // three weights of a cycle in beats of four
  refuses([](SbeConfig& c) { c.shape.projection = 5; });
}

}  // namespace millrace
