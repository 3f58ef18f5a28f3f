// Compares response_norm.sv and response_norm_back.sv with the functional model, bit by bit, over random maps and pauses.
//
//   cosimulation_response_norm_3 --geometries 25 --seed 7
//
// The parameters of the modules are those that the functional model finds for the norm below: a difference is said first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <string>

#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/fixed_response_norm.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include "tests/fpga/conv_ce/rtl/streams.h"
#include MILLRACE_FORWARD_HEADER
#include MILLRACE_BACK_HEADER

namespace millrace {
namespace {

constexpr int64_t kLanes = MILLRACE_LANES;
constexpr int64_t kMostWidth = 9;
constexpr int64_t kMostCycles = 1'000'000;
// A strong one, so that both terms of an error count.
const LocalResponseNorm kNorm{.size = 5, .alpha = 0.5, .beta = 0.75, .k = 2.0};

using Map = std::vector<int16_t>;

template <typename Model>
void begin(Model& m, const BeatOrder& order) {
  set_number(m.width, order.width);
  set_number(m.groups, order.groups());
  set_number(m.lanes_of_last, order.channels - (order.groups() - 1) * kLanes);
  clear_model(m);
}

Map maps_of(const BeatOrder& order, const Map& beats, int64_t samples) {
  Map maps;
  const auto one = static_cast<size_t>(order.beats() * kLanes);
  for (size_t sample = 0; sample < static_cast<size_t>(samples); ++sample) {
    const Map map = map_of_beats(order, std::span<const int16_t>(beats).subspan(sample * one, one));
    maps.insert(maps.end(), map.begin(), map.end());
  }
  return maps;
}

bool agrees(const FixedResponseNorm& norm, MILLRACE_FORWARD_MODEL& forward, MILLRACE_BACK_MODEL& back, std::mt19937_64& random) {
  const BeatOrder order{
      .channels = drawn(random, 1, 4 * kLanes + 3), .height = drawn(random, 1, 6), .width = drawn(random, 1, kMostWidth), .lanes = kLanes};
  const int64_t samples = drawn(random, 1, 3);
  const bool relu = random() % 2 == 0;
  const auto elements = static_cast<size_t>(order.channels * order.height * order.width);
  ArithmeticCounters counters;
  Map x_beats, error_beats, y, errors;
  for (int64_t sample = 0; sample < samples; ++sample) {
    const Map x = random_elements(random, elements, random() % 2 == 0 ? 16 : 11);
    const Map error = random_elements(random, elements, random() % 2 == 0 ? 16 : 9);
    const Map x_some = beats_of_map(order, x), error_some = beats_of_map(order, error);
    x_beats.insert(x_beats.end(), x_some.begin(), x_some.end());
    error_beats.insert(error_beats.end(), error_some.begin(), error_some.end());
    const Map y_some = responded(norm, order.channels, x, counters);
    y.insert(y.end(), y_some.begin(), y_some.end());
    Map before = response_back(norm, order.channels, x, error, counters);
    if (relu) before = error_through_relu(x, before);
    errors.insert(errors.end(), before.begin(), before.end());
  }
  const auto wanted = static_cast<size_t>(order.beats() * samples);
  const double pauses[] = {0, 0.3, 0.8};
  const auto pause = [&] { return pauses[random() % 3]; };
  // Lanes that are no channel carry anything.
  for (size_t beat = 0; beat < x_beats.size() / kLanes; ++beat) {
    const auto group = static_cast<int64_t>(beat) / order.width % order.groups();
    for (int64_t lane = 0; lane < kLanes; ++lane)
      if (group * kLanes + lane >= order.channels) {
        x_beats[beat * kLanes + static_cast<size_t>(lane)] = static_cast<int16_t>(random());
        error_beats[beat * kLanes + static_cast<size_t>(lane)] = static_cast<int16_t>(random());
      }
  }
  const std::string text =
      fmt::format("{} channels, {} x {}, {} samples, relu {}", order.channels, order.height, order.width, samples, relu);

  begin(forward, order);
  StreamSource source(x_beats, kLanes, pause(), random);
  StreamSink sink(kLanes, pause(), random);
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < wanted; ++cycle) {
    source.drive(forward.in_tvalid, forward.in_tdata);
    sink.drive(forward.out_tready);
    settle(forward);
    source.after(forward.in_tready);
    sink.after(forward.out_tvalid, forward.out_tdata);
    edge(forward);
  }
  if (sink.beat_count() < wanted || maps_of(order, sink.beats(), samples) != y) {
    fmt::print("the response norm {}: {}\n", sink.beat_count() < wanted ? "does not end" : "differs", text);
    return false;
  }

  begin(back, order);
  back.relu = relu;
  StreamSource x_source(x_beats, kLanes, pause(), random), error_source(error_beats, kLanes, pause(), random);
  StreamSink back_sink(kLanes, pause(), random);
  for (int64_t cycle = 0; cycle < kMostCycles && back_sink.beat_count() < wanted; ++cycle) {
    x_source.drive(back.x_tvalid, back.x_tdata);
    error_source.drive(back.error_tvalid, back.error_tdata);
    back_sink.drive(back.out_tready);
    settle(back);
    x_source.after(back.x_tready);
    error_source.after(back.error_tready);
    back_sink.after(back.out_tvalid, back.out_tdata);
    edge(back);
  }
  if (back_sink.beat_count() < wanted || maps_of(order, back_sink.beats(), samples) != errors) {
    fmt::print("the response norm's way back {}: {}\n", back_sink.beat_count() < wanted ? "does not end" : "differs", text);
    return false;
  }
  return true;
}

// Where the modules look for it when they begin.
void write_table(const FixedResponseNorm& norm) {
  std::ofstream file("response_norm_table.hex");
  for (size_t entry = 0; entry < norm.p.size(); ++entry) file << fmt::format("{:04x}{:04x}\n", norm.q[entry], norm.p[entry]);
}

bool same_parameters(const FixedResponseNorm& n) {
  const std::vector<int64_t> found = {n.half, n.base, n.factor, n.factor_shift, n.first_octave, n.octaves, n.p_shift, n.u_shift, n.t_shift};
  if (found == std::vector<int64_t>{MILLRACE_NORM}) return true;
  fmt::print("the modules are built for other parameters: {}\n", fmt::join(found, ", "));
  return false;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  const auto norm = millrace::fixed_response_norm(millrace::kNorm, {11});
  if (!norm || !millrace::same_parameters(*norm)) return 1;
  millrace::write_table(*norm);
  std::mt19937_64 random(flags.seed);
  MILLRACE_FORWARD_MODEL forward;
  MILLRACE_BACK_MODEL back;
  for (int64_t geometry = 0; geometry < flags.geometries; ++geometry)
    if (!millrace::agrees(*norm, forward, back, random)) return 1;
  fmt::print("local response norm, {} lanes: {} geometries forward and back bit by bit as the functional model\n", MILLRACE_LANES,
             flags.geometries);
  return 0;
}
