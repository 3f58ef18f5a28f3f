// Compares the RTL of the adapter between streams of unequal width with what it is for, over random maps, blocks and pauses.
//
//   cosimulation_adapter_3_5 --geometries 25 --seed 7
//
// Every other geometry runs without pauses: a map's rows must then leave as fast as the slower of both streams, from the second
// block on, and with them whole runs.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "fpga/conv_ce/rtl/cycle_model.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/engine_bench.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include MILLRACE_MODEL_HEADER

namespace millrace {
namespace {

constexpr int64_t kIn = MILLRACE_IN_LANES;
constexpr int64_t kOut = MILLRACE_OUT_LANES;
constexpr AdapterMemory kMemory{.banks = MILLRACE_BANKS, .address = 6};

std::string text_of(const BeatOrder& order, int64_t samples) {
  return fmt::format("{} channels, {} x {}, blocks of {} after one of {}, {} samples", order.channels, order.height, order.width,
                     order.block_rows, order.first_block_rows, samples);
}

bool compare(MILLRACE_MODEL& m, bool pauses, std::mt19937_64& random) {
  const int64_t block = drawn(random, 1, 3);
  BeatOrder in{.lanes = kIn, .first_block_rows = drawn(random, 1, block), .block_rows = block};
  in.channels = drawn(random, 1, 5 * std::max(kIn, kOut));
  in.height = drawn(random, 1, 6);
  in.width = drawn(random, 1, (int64_t{1} << kMemory.address) / block);
  const int64_t samples = drawn(random, 1, 3);
  BeatOrder out = in;
  out.lanes = kOut;
  std::vector<int16_t> given, expected;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto map = random_elements(random, static_cast<size_t>(in.channels * in.height * in.width), 16);
    std::vector<int16_t> before = beats_of_map(in, map);
    // Lanes beyond the last channel may carry anything.
    const std::vector<int16_t> there = beats_of_map(in, std::vector<int16_t>(map.size(), -1));
    for (size_t i = 0; i < before.size(); ++i)
      if (there[i] == 0) before[i] = static_cast<int16_t>(random());
    const std::vector<int16_t> after = beats_of_map(out, map);
    given.insert(given.end(), before.begin(), before.end());
    expected.insert(expected.end(), after.begin(), after.end());
  }
  m.channels = port16(in.channels);
  m.height = port16(in.height);
  m.width = port16(in.width);
  m.first_block_rows = port16(in.first_block_rows);
  m.block_rows = port16(in.block_rows);
  m.in_tvalid = 0;
  clear_model(m);
  const double some[] = {0, 0.3, 0.8};
  StreamSource source(given, kIn, pauses ? some[random() % 3] : 0, random);
  StreamSink sink(kOut, pauses ? some[random() % 3] : 0, random);
  const size_t beats = expected.size() / static_cast<size_t>(kOut);
  int64_t cycles = 0;
  for (; cycles < 1'000'000 && sink.beat_count() < beats; ++cycles) {
    source.drive(m.in_tvalid, m.in_tdata);
    sink.drive(m.out_tready);
    settle(m);
    source.after(m.in_tready);
    sink.after(m.out_tvalid, m.out_tdata);
    edge(m);
  }
  if (sink.beats() != expected) {
    fmt::print("channels differ, or do not end\n  {}\n", text_of(in, samples));
    return false;
  }
  if (pauses) return true;
  const int64_t modelled = adapter_cycles(in, kOut, kMemory, samples);
  if (cycles != modelled) {
    fmt::print("{} cycles, modelled {}\n  {}\n", cycles, modelled, text_of(in, samples));
    return false;
  }
  return true;
}

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  MILLRACE_MODEL model;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!compare(model, geometry % 2 == 0, random)) return 1;
  fmt::print("lane adapter, {} lanes to {}: {} geometries bit by bit, half of them to the cycle\n", kIn, kOut, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  return millrace::compare_many(flags.geometries, flags.seed);
}
