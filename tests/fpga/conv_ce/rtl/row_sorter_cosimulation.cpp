// Compares the row sorter's RTL with what it is for, over random maps, blocks and pauses, and its cycles with the cycle model.
//
//   cosimulation_sorter_2_4 --geometries 25 --seed 7
//
// Every other geometry runs without pauses: whole runs and steady rows must then take the modelled cycles exactly.
#include <fmt/format.h>

#include <string>

#include "fpga/conv_ce/rtl/cycle_model.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/engine_bench.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include MILLRACE_MODEL_HEADER

namespace millrace {
namespace {

constexpr int64_t kBlock = MILLRACE_BLOCK;
constexpr int64_t kLanes = MILLRACE_LANES;
constexpr SorterMemory kMemory{.row_banks = MILLRACE_ROW_BANKS, .address = 6};

std::string text_of(const BeatOrder& order, int64_t samples) {
  return fmt::format("{} channels, {} x {}, blocks of {} after one of {}, {} samples", order.channels, order.height, order.width,
                     order.block_rows, order.first_block_rows, samples);
}

bool compare(MILLRACE_MODEL& m, bool pauses, std::mt19937_64& random) {
  BeatOrder order{.lanes = kLanes, .first_block_rows = drawn(random, 1, kBlock), .block_rows = kBlock};
  do {
    order.channels = drawn(random, 1, 4 * kLanes);
    order.height = drawn(random, 1, 6 * kBlock);
    order.width = drawn(random, 1, 20);
  } while (sorter_memory(order.groups(), order.width, kBlock).address > kMemory.address);
  const int64_t samples = drawn(random, 1, 3);
  BeatOrder rows = order;
  rows.first_block_rows = rows.block_rows = 1;
  std::vector<int16_t> in, expected;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto map = random_elements(random, static_cast<size_t>(order.channels * order.height * order.width), 16);
    const std::vector<int16_t> blocks = beats_of_map(order, map), one_by_one = beats_of_map(rows, map);
    in.insert(in.end(), blocks.begin(), blocks.end());
    expected.insert(expected.end(), one_by_one.begin(), one_by_one.end());
  }
  m.height = port16(order.height);
  m.width = port16(order.width);
  m.groups = port16(order.groups());
  m.first_block_rows = port16(order.first_block_rows);
  m.block_rows = port16(order.block_rows);
  m.in_tvalid = 0;
  clear_model(m);
  const double some[] = {0, 0.3, 0.8};
  StreamSource source(in, kLanes, pauses ? some[random() % 3] : 0, random);
  StreamSink sink(kLanes, pauses ? some[random() % 3] : 0, random);
  const size_t beats = expected.size() / static_cast<size_t>(kLanes);
  std::vector<int64_t> left;
  int64_t cycles = 0;
  for (; cycles < 1'000'000 && sink.beat_count() < beats; ++cycles) {
    source.drive(m.in_tvalid, m.in_tdata);
    sink.drive(m.out_tready);
    settle(m);
    source.after(m.in_tready);
    if (sink.after(m.out_tvalid, m.out_tdata)) left.push_back(cycles);
    edge(m);
  }
  if (sink.beats() != expected) {
    fmt::print("rows differ, or do not end\n  {}\n", text_of(order, samples));
    return false;
  }
  if (pauses) return true;
  const int64_t modelled = sorter_cycles(order, kMemory, samples);
  if (cycles != modelled) {
    fmt::print("{} cycles, modelled {}\n  {}\n", cycles, modelled, text_of(order, samples));
    return false;
  }
  // From the second full block of the first sample on, where that has three of them.
  const int64_t row_beats = sorter_row_cycles(order);
  const int64_t first = order.first_block_rows + order.block_rows;
  if (order.height < first + 2 * order.block_rows) return true;
  const auto end_of = [&](int64_t row) { return left[static_cast<size_t>((row + 1) * row_beats - 1)]; };
  for (int64_t row = first; row < first + 2 * order.block_rows; ++row)
    if (end_of(row) - end_of(row - 1) != row_beats) {
      fmt::print("row {} takes {} cycles, modelled {}\n  {}\n", row, end_of(row) - end_of(row - 1), row_beats, text_of(order, samples));
      return false;
    }
  return true;
}

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  MILLRACE_MODEL model;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!compare(model, geometry % 2 == 0, random)) return 1;
  fmt::print("row sorter, blocks of {}, {} lanes: {} geometries bit by bit, half of them to the cycle\n", kBlock, kLanes, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  return millrace::compare_many(flags.geometries, flags.seed);
}
