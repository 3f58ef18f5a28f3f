// Compares smooth_activation.sv and smooth_activation_back.sv with the functional model, bit by bit, over random maps and pauses.
//
//   cosimulation_smooth_tangent_11_3 --geometries 25 --seed 7
#include <fmt/format.h>

#include <fstream>
#include <string>

#include "fpga/conv_ce/arithmetic/smooth_activation.h"
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
constexpr int64_t kMostCycles = 1'000'000;
constexpr Activation kActivation{MILLRACE_TANGENT != 0 ? ActivationKind::kTanh : ActivationKind::kSigmoid};

using Map = std::vector<int16_t>;

bool agrees(const SmoothActivation& made, MILLRACE_FORWARD_MODEL& forward, MILLRACE_BACK_MODEL& back, std::mt19937_64& random) {
  const BeatOrder order{
      .channels = drawn(random, 1, 4 * kLanes + 3), .height = drawn(random, 1, 6), .width = drawn(random, 1, 9), .lanes = kLanes};
  const int64_t samples = drawn(random, 1, 3);
  const auto elements = static_cast<size_t>(order.channels * order.height * order.width);
  ArithmeticCounters counters;
  Map x_beats, y_beats, error_beats, back_beats;
  const auto append = [](Map& beats, const Map& some) { beats.insert(beats.end(), some.begin(), some.end()); };
  for (int64_t sample = 0; sample < samples; ++sample) {
    const Map x = random_elements(random, elements, static_cast<int>(drawn(random, MILLRACE_FRACTION, 16)));
    const Map error = random_elements(random, elements, random() % 2 == 0 ? 16 : 9);
    const Map y = smoothed(made, x, counters);
    append(x_beats, beats_of_map(order, x));
    append(y_beats, beats_of_map(order, y));
    append(error_beats, beats_of_map(order, error));
    append(back_beats, beats_of_map(order, smooth_back(made, y, error, counters)));
  }
  // Lanes that are no channel carry anything.
  for (size_t beat = 0; beat < x_beats.size() / kLanes; ++beat)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      if (static_cast<int64_t>(beat) / order.width % order.groups() * kLanes + lane >= order.channels)
        x_beats[beat * kLanes + static_cast<size_t>(lane)] = static_cast<int16_t>(random());
  const size_t wanted = x_beats.size() / kLanes;
  const double pauses[] = {0, 0.3, 0.8};
  const auto pause = [&] { return pauses[random() % 3]; };
  const std::string text = fmt::format("{} channels, {} x {}, {} samples", order.channels, order.height, order.width, samples);

  set_number(forward.width, order.width);
  set_number(forward.groups, order.groups());
  set_number(forward.lanes_of_last, order.channels - (order.groups() - 1) * kLanes);
  clear_model(forward);
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
  if (sink.beats() != y_beats) {
    fmt::print("the smooth activation {}: {}\n", sink.beat_count() < wanted ? "does not end" : "differs", text);
    return false;
  }

  clear_model(back);
  StreamSource y_source(y_beats, kLanes, pause(), random), error_source(error_beats, kLanes, pause(), random);
  StreamSink back_sink(kLanes, pause(), random);
  for (int64_t cycle = 0; cycle < kMostCycles && back_sink.beat_count() < wanted; ++cycle) {
    y_source.drive(back.y_tvalid, back.y_tdata);
    error_source.drive(back.error_tvalid, back.error_tdata);
    back_sink.drive(back.out_tready);
    settle(back);
    y_source.after(back.y_tready);
    error_source.after(back.error_tready);
    back_sink.after(back.out_tvalid, back.out_tdata);
    edge(back);
  }
  if (back_sink.beats() != back_beats) {
    fmt::print("the smooth activation's way back {}: {}\n", back_sink.beat_count() < wanted ? "does not end" : "differs", text);
    return false;
  }
  return true;
}

// Where the module looks for it when it begins.
void write_table(const SmoothActivation& made) {
  std::ofstream file("smooth_activation_table.hex");
  for (size_t entry = 0; entry < SmoothActivation::kEntries; ++entry)
    file << fmt::format("{:04x}{:04x}\n", made.slopes[entry], made.bases[entry]);
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  const auto made = millrace::smooth_activation(millrace::kActivation, {MILLRACE_FRACTION});
  millrace::write_table(*made);
  std::mt19937_64 random(flags.seed);
  MILLRACE_FORWARD_MODEL forward;
  MILLRACE_BACK_MODEL back;
  for (int64_t geometry = 0; geometry < flags.geometries; ++geometry)
    if (!millrace::agrees(*made, forward, back, random)) return 1;
  fmt::print("{} of {} fraction bits, {} lanes: {} geometries forward and back bit by bit as the functional model\n",
             MILLRACE_TANGENT != 0 ? "tangent" : "sigmoid", MILLRACE_FRACTION, MILLRACE_LANES, flags.geometries);
  return 0;
}
