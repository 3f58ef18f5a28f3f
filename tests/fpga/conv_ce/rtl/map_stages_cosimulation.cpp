// What hands maps on, each alone against the functional model, over random channels, maps and pauses: sums of two maps (map_adder), maps
// with several readers (map_fork), channels moved to other lanes (channel_aligner), and the way back through a running batch norm
// (running_norm_back), its sums of 64 bits too.
//
//   cosimulation_map_stages_3 --geometries 25 --seed 7
//
// Ranges and offsets of the modules are their parameters, which the program is compiled with.
#include <fmt/format.h>

#include <string>

#include "fpga/conv_ce/arithmetic/running_norm.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include "tests/fpga/conv_ce/rtl/streams.h"
#include MILLRACE_ADDER_HEADER
#include MILLRACE_FORK_HEADER
#include MILLRACE_ALIGNER_HEADER
#include MILLRACE_NORM_HEADER

namespace millrace {
namespace {

constexpr int64_t kLanes = MILLRACE_LANES;
constexpr int64_t kMostCycles = 1'000'000;
// In groups of what leaves: A from 0 to 3, B from 2 to 5.
constexpr int64_t kAEnd = 3, kBBegin = 2, kGroups = 5;
constexpr int64_t kChannels = MILLRACE_CHANNELS, kInOffset = MILLRACE_IN_OFFSET, kOutOffset = MILLRACE_OUT_OFFSET;
constexpr int64_t kMostGroups = 8;

using Map = std::vector<int16_t>;

double some_pause(std::mt19937_64& random) {
  const double some[] = {0, 0.3, 0.8};
  return some[random() % 3];
}

BeatOrder random_order(std::mt19937_64& random, int64_t channels) {
  return {.channels = channels, .height = drawn(random, 1, 5), .width = drawn(random, 1, 12), .lanes = kLanes};
}

Map random_map(std::mt19937_64& random, const BeatOrder& order) {
  return random_elements(random, static_cast<size_t>(order.channels * order.height * order.width), random() % 2 == 0 ? 16 : 5);
}

void append(Map& beats, const BeatOrder& order, const Map& map) {
  const Map more = beats_of_map(order, map);
  beats.insert(beats.end(), more.begin(), more.end());
}

bool differs(const std::string& what, const BeatOrder& order) {
  fmt::print("{} differs, or does not end: {} channels, {} x {}\n", what, order.channels, order.height, order.width);
  return false;
}

bool adder_agrees(MILLRACE_ADDER_MODEL& m, std::mt19937_64& random) {
  const BeatOrder all = random_order(random, kGroups * kLanes);
  BeatOrder of_a = all, of_b = all;
  of_a.channels = kAEnd * kLanes;
  of_b.channels = (kGroups - kBBegin) * kLanes;
  const size_t plane = static_cast<size_t>(all.height * all.width), begin = static_cast<size_t>(kBBegin * kLanes) * plane;
  Map in_a, in_b, expected;
  for (int64_t sample = 0; sample < 2; ++sample) {
    const Map a = random_map(random, of_a), b = random_map(random, of_b);
    Map sum = a;
    sum.resize(static_cast<size_t>(all.channels) * plane);
    for (size_t i = 0; i < b.size(); ++i) sum[begin + i] = static_cast<int16_t>(saturated(int64_t{sum[begin + i]} + b[i]));
    append(in_a, of_a, a);
    append(in_b, of_b, b);
    append(expected, all, sum);
  }
  set_number(m.width, all.width);
  set_number(m.groups, kGroups);
  m.a_tvalid = m.b_tvalid = 0;
  m.clear = 1;
  tick(m);
  m.clear = 0;
  StreamSource a(in_a, kLanes, some_pause(random), random), b(in_b, kLanes, some_pause(random), random);
  StreamSink sink(kLanes, some_pause(random), random);
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < expected.size() / kLanes; ++cycle) {
    a.drive(m.a_tvalid, m.a_tdata);
    b.drive(m.b_tvalid, m.b_tdata);
    sink.drive(m.out_tready);
    settle(m);
    a.after(m.a_tready);
    b.after(m.b_tready);
    sink.after(m.out_tvalid, m.out_tdata);
    edge(m);
  }
  return sink.beats() == expected || differs("map_adder", all);
}

// The data do not go through it: what is counted are beats, of the reader that takes groups up to kAEnd and of the one from kBBegin on.
bool fork_agrees(MILLRACE_FORK_MODEL& m, std::mt19937_64& random) {
  const BeatOrder all = random_order(random, kGroups * kLanes);
  const int64_t beats = 2 * all.beats();
  set_number(m.width, all.width);
  set_number(m.groups, kGroups);
  m.in_tvalid = 0;
  m.out_tready = 0;
  m.clear = 1;
  tick(m);
  m.clear = 0;
  Pauses in(some_pause(random), random), first(some_pause(random), random), second(some_pause(random), random);
  std::vector<int64_t> taken[2], expected[2];
  for (int64_t beat = 0; beat < beats; ++beat) {
    const int64_t group = beat / all.width % kGroups;
    if (group < kAEnd) expected[0].push_back(beat);
    if (group >= kBBegin) expected[1].push_back(beat);
  }
  int64_t at = 0;
  bool offered = false;
  for (int64_t cycle = 0; cycle < kMostCycles && at < beats; ++cycle) {
    offered = offered || !in.pause();
    m.in_tvalid = offered;
    const int ready = (first.pause() ? 0 : 1) | (second.pause() ? 0 : 2);
    set_number(m.out_tready, ready);
    settle(m);
    for (int reader = 0; reader < 2; ++reader)
      if ((m.out_tvalid >> reader & ready >> reader & 1) != 0) taken[reader].push_back(at);
    if (offered && m.in_tready != 0) {
      ++at;
      offered = false;
    }
    edge(m);
  }
  return (taken[0] == expected[0] && taken[1] == expected[1]) || differs("map_fork", all);
}

bool aligner_agrees(MILLRACE_ALIGNER_MODEL& m, std::mt19937_64& random) {
  const BeatOrder own = random_order(random, kChannels);
  BeatOrder in = own, out = own;
  in.channels = kInOffset + kChannels;
  out.channels = (kOutOffset + kChannels + kLanes - 1) / kLanes * kLanes;  // lanes behind the last channel are zero
  const size_t plane = static_cast<size_t>(own.height * own.width);
  Map given, expected;
  for (int64_t sample = 0; sample < 2; ++sample) {
    const Map map = random_map(random, in);
    Map moved(static_cast<size_t>(out.channels) * plane);
    std::copy(map.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(kInOffset) * plane), map.end(),
              moved.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(kOutOffset) * plane));
    append(given, in, map);
    append(expected, out, moved);
  }
  // Anything behind the last channel.
  set_number(m.width, own.width);
  m.in_tvalid = 0;
  m.clear = 1;
  tick(m);
  m.clear = 0;
  StreamSource source(given, kLanes, some_pause(random), random);
  StreamSink sink(kLanes, some_pause(random), random);
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < expected.size() / kLanes; ++cycle) {
    source.drive(m.in_tvalid, m.in_tdata);
    sink.drive(m.out_tready);
    settle(m);
    source.after(m.in_tready);
    sink.after(m.out_tvalid, m.out_tdata);
    edge(m);
  }
  return sink.beats() == expected || differs("channel_aligner", own);
}

bool norm_agrees(MILLRACE_NORM_MODEL& m, std::mt19937_64& random) {
  const BeatOrder order = random_order(random, drawn(random, 1, kMostGroups * kLanes));
  const auto channels = static_cast<size_t>(order.channels);
  RunningNorm norm;
  norm.centre = random_elements(random, channels, 16);
  norm.slope = random_elements(random, channels, 16);
  norm.slope_shift = static_cast<int>(drawn(random, 0, 31));
  for (size_t c = 0; c < channels; ++c) norm.level.push_back(static_cast<int32_t>(random()) >> drawn(random, 0, 20));
  Map scale = random_elements(random, channels, 16);
  const int shift = static_cast<int>(drawn(random, 0, 15));
  ArithmeticCounters counters;
  NormSums sums(order.channels);
  Map in, errors, expected;
  const int64_t samples = drawn(random, 1, 3);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const Map x = random_map(random, order), error = random_map(random, order);
    append(in, order, x);
    append(errors, order, error);
    append(expected, order, error_through_running_norm(norm, scale, shift, order.channels, x, error, sums, counters));
  }
  set_number(m.width, order.width);
  set_number(m.groups, order.groups());
  set_number(m.shift, shift);
  set_number(m.slope_shift, norm.slope_shift);
  m.x_tvalid = m.error_tvalid = 0;
  m.clear = 1;
  const auto lanes = static_cast<size_t>(kLanes);
  const auto groups = static_cast<size_t>(order.groups());
  std::vector<int32_t> levels = norm.level;
  for (Map* part : {&scale, &norm.centre, &norm.slope}) part->resize(groups * lanes);
  levels.resize(groups * lanes);
  m.parameter_write_enable = 1;
  for (size_t group = 0; group < groups; ++group) {
    set_number(m.parameter_write_address, static_cast<int64_t>(group));
    set_elements<int16_t>(m.parameter_write_scales, std::span<const int16_t>(scale).subspan(group * lanes, lanes));
    set_elements<int16_t>(m.parameter_write_centres, std::span<const int16_t>(norm.centre).subspan(group * lanes, lanes));
    set_elements<int16_t>(m.parameter_write_slopes, std::span<const int16_t>(norm.slope).subspan(group * lanes, lanes));
    set_elements<int32_t>(m.parameter_write_levels, std::span<const int32_t>(levels).subspan(group * lanes, lanes));
    tick(m);
  }
  m.parameter_write_enable = 0;
  tick(m);
  m.clear = 0;
  StreamSource x(in, kLanes, some_pause(random), random), error(errors, kLanes, some_pause(random), random);
  StreamSink sink(kLanes, some_pause(random), random);
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < expected.size() / lanes; ++cycle) {
    x.drive(m.x_tvalid, m.x_tdata);
    error.drive(m.error_tvalid, m.error_tdata);
    sink.drive(m.out_tready);
    settle(m);
    x.after(m.x_tready);
    error.after(m.error_tready);
    sink.after(m.out_tvalid, m.out_tdata);
    edge(m);
  }
  const auto maps = [&](const Map& beats) {  // lanes behind the last channel carry anything
    Map all;
    const size_t one = beats.size() / static_cast<size_t>(samples);
    for (size_t at = 0; at + one <= beats.size(); at += one) {
      const Map map = map_of_beats(order, std::span(beats).subspan(at, one));
      all.insert(all.end(), map.begin(), map.end());
    }
    return all;
  };
  if (sink.beats().size() != expected.size() || maps(sink.beats()) != maps(expected)) return differs("running_norm_back", order);
  m.x_tvalid = m.error_tvalid = 0;
  m.clear = 1;  // as between mini-batches, when the host reads
  tick(m);
  for (size_t c = 0; c < channels; ++c) {
    set_number(m.read_address, static_cast<int64_t>(c / lanes));
    tick(m);
    std::vector<int32_t> word(lanes * 8);
    get_elements<int32_t>(m.read_word, std::span(word));
    size_t at = c % lanes * 8;
    for (const std::vector<int64_t>* of : {&sums.distances, &sums.squares, &sums.errors, &sums.products}) {
      if (word[at] != wrapped((*of)[c]) || word[at + 1] != wrapped((*of)[c] >> 32)) return differs("what running_norm_back gathers", order);
      at += 2;
    }
  }
  return true;
}

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  MILLRACE_ADDER_MODEL adder;
  MILLRACE_FORK_MODEL fork;
  MILLRACE_ALIGNER_MODEL aligner;
  MILLRACE_NORM_MODEL norm;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!adder_agrees(adder, random) || !fork_agrees(fork, random) || !aligner_agrees(aligner, random) || !norm_agrees(norm, random))
      return 1;
  fmt::print(
      "map_adder, map_fork, channel_aligner ({} channels from lane {} to {}) and running_norm_back, {} lanes: {} geometries of each\n",
      kChannels, kInOffset, kOutOffset, kLanes, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  return millrace::compare_many(flags.geometries, flags.seed);
}
