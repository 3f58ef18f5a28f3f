// Compares dropout_unit.sv with the functional model, bit by bit, over random maps, probabilities and pauses.
//
//   cosimulation_dropout_3 --geometries 25 --seed 7
//   cosimulation_dropout_3 --cycles 10       samples of the RTL against the cycle model, at full speed
#include <fmt/format.h>

#include <string>

#include "fpga/conv_ce/arithmetic/fixed_dropout.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include "tests/fpga/conv_ce/rtl/streams.h"
#include MILLRACE_MODEL_HEADER

namespace millrace {
namespace {

constexpr int64_t kLanes = MILLRACE_LANES;
constexpr int64_t kMostSamples = 4;
constexpr int64_t kMostCycles = 2'000'000;

using Map = std::vector<int16_t>;

bool agrees(MILLRACE_MODEL& m, std::mt19937_64& random, bool steady) {
  BeatOrder order{.lanes = kLanes};
  const bool dense = random() % 3 == 0;
  order.channels = drawn(random, 1, dense ? 30 * kLanes : 4 * kLanes);
  order.height = dense ? 1 : drawn(random, 1, 7);
  order.width = dense ? 1 : drawn(random, 1, 9);
  const int64_t samples = steady ? 3 : drawn(random, 1, kMostSamples);
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < samples; ++sample) ids.push_back(static_cast<int64_t>(random() % (uint64_t{1} << 40)));
  const Dropout dropout{.probability = static_cast<double>(random() % 95) / 100};
  const int64_t elements = order.channels * order.height * order.width;
  const bool training = random() % 8 != 0;
  const DropoutDraws draws = dropout_draws(dropout, random(), "drop", static_cast<int64_t>(random() % 1000), ids, elements, training);
  ArithmeticCounters counters;
  Map in, expected;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const Map map = random_elements(random, static_cast<size_t>(elements), random() % 2 == 0 ? 16 : 5);
    const Map beats = beats_of_map(order, map);
    in.insert(in.end(), beats.begin(), beats.end());
    const Map kept = dropped_out(map, draws, static_cast<size_t>(sample), counters);
    expected.insert(expected.end(), kept.begin(), kept.end());
  }
  set_number(m.height, order.height);
  set_number(m.width, order.width);
  set_number(m.groups, order.groups());
  set_number(m.plane, order.height * order.width);
  set_number(m.group_step, kLanes * order.height * order.width);
  m.in_tvalid = 0;
  m.out_tready = 0;
  m.clear = 1;
  m.write_enable = 1;
  const std::vector<uint64_t> words = draws.words();
  for (size_t at = 0; at < words.size(); ++at) {
    set_number(m.write_address, static_cast<int64_t>(at));
    m.write_word = words[at];
    tick(m);
  }
  m.write_enable = 0;
  tick(m);
  m.clear = 0;
  const double pauses[] = {0, 0.3, 0.8};
  StreamSource source(in, kLanes, steady ? 0 : pauses[random() % 3], random);
  StreamSink sink(kLanes, steady ? 0 : pauses[random() % 3], random);
  const auto wanted = static_cast<size_t>(order.beats() * samples);
  std::vector<int64_t> ends;
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < wanted; ++cycle) {
    source.drive(m.in_tvalid, m.in_tdata);
    sink.drive(m.out_tready);
    settle(m);
    source.after(m.in_tready);
    if (sink.after(m.out_tvalid, m.out_tdata)) ends.push_back(cycle);
    edge(m);
  }
  const std::string text = fmt::format("{} channels, {} x {}, {} samples, probability {}, training {}", order.channels, order.height,
                                       order.width, samples, dropout.probability, training);
  if (sink.beat_count() < wanted) {
    fmt::print("dropout does not end: {}\n", text);
    return false;
  }
  Map found;
  const auto one = static_cast<size_t>(order.beats() * kLanes);
  for (size_t sample = 0; sample < static_cast<size_t>(samples); ++sample) {
    const Map map = map_of_beats(order, std::span<const int16_t>(sink.beats()).subspan(sample * one, one));
    found.insert(found.end(), map.begin(), map.end());
  }
  if (found != expected) {
    fmt::print("dropout differs: {}\n", text);
    return false;
  }
  if (!steady) return true;
  const auto end_of = [&](int64_t sample) { return ends[static_cast<size_t>((sample + 1) * order.beats() - 1)]; };
  const int64_t cycles = end_of(2) - end_of(1);
  if (cycles != dropout_cycles(order)) fmt::print("a sample takes {} cycles, modelled {}: {}\n", cycles, dropout_cycles(order), text);
  return cycles == dropout_cycles(order);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  std::mt19937_64 random(flags.seed);
  MILLRACE_MODEL model;
  const int64_t count = flags.cycles > 0 ? flags.cycles : flags.geometries;
  for (int64_t geometry = 0; geometry < count; ++geometry)
    if (!millrace::agrees(model, random, flags.cycles > 0)) return 1;
  fmt::print("dropout, {} lanes: {} geometries bit by bit as the functional model{}\n", MILLRACE_LANES, count,
             flags.cycles > 0 ? ", samples exact to the cycle" : "");
  return 0;
}
