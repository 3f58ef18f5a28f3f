// The small stages of the way back, each alone against the functional model, over random maps, blocks and pauses: the scale of a folded
// batch norm (error_scaler), the ReLU that an average hides (relu_gate), and the gradients of all biases (bias_gradient).
//
//   cosimulation_back_stages_3 --geometries 25 --seed 7
#include <fmt/format.h>

#include <string>

#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include "tests/fpga/conv_ce/rtl/streams.h"
#include MILLRACE_SCALER_HEADER
#include MILLRACE_GATE_HEADER
#include MILLRACE_BIAS_HEADER

namespace millrace {
namespace {

constexpr int64_t kLanes = MILLRACE_LANES;
constexpr int16_t kSlope = 3277;  // a tenth
constexpr int64_t kMostGroups = 8;
constexpr int64_t kMostCycles = 1'000'000;

using Map = std::vector<int16_t>;

struct Geometry {
  BeatOrder order;
  int64_t samples = 1;

  size_t elements() const { return static_cast<size_t>(order.channels * order.height * order.width); }
  std::string text() const {
    return fmt::format("{} channels, {} x {}, blocks of {} after one of {}, {} samples", order.channels, order.height, order.width,
                       order.block_rows, order.first_block_rows, samples);
  }
};

Geometry random_geometry(std::mt19937_64& random) {
  Geometry drawn_one;
  BeatOrder& order = drawn_one.order;
  order.lanes = kLanes;
  order.channels = drawn(random, 1, kMostGroups * kLanes);
  order.height = drawn(random, 1, 9);
  order.width = drawn(random, 1, 12);
  order.block_rows = drawn(random, 1, 4);
  order.first_block_rows = drawn(random, 1, order.block_rows);
  drawn_one.samples = drawn(random, 1, 3);
  return drawn_one;
}

// Small numbers now and then, so that signs and ties come as often as saturation.
Map random_map(std::mt19937_64& random, const Geometry& geometry) {
  return random_elements(random, geometry.elements(), random() % 2 == 0 ? 16 : 5);
}

double some_pause(std::mt19937_64& random) {
  const double some[] = {0, 0.3, 0.8};
  return some[random() % 3];
}

void append(Map& beats, const BeatOrder& order, const Map& map) {
  const Map more = beats_of_map(order, map);
  beats.insert(beats.end(), more.begin(), more.end());
}

// Lanes beyond the last channel carry anything.
bool same_maps(const Geometry& geometry, const Map& expected, const Map& found) {
  if (expected.size() != found.size()) return false;
  const size_t sample = expected.size() / static_cast<size_t>(geometry.samples);
  for (size_t at = 0; at < expected.size(); at += sample)
    if (map_of_beats(geometry.order, std::span(expected).subspan(at, sample)) !=
        map_of_beats(geometry.order, std::span(found).subspan(at, sample)))
      return false;
  return true;
}

bool scaler_agrees(MILLRACE_SCALER_MODEL& m, std::mt19937_64& random) {
  const Geometry geometry = random_geometry(random);
  const BeatOrder& order = geometry.order;
  const int shift = static_cast<int>(drawn(random, 0, 20));
  Map scales = random_elements(random, static_cast<size_t>(order.channels), 16);
  ArithmeticCounters counters;
  Map in, expected;
  for (int64_t sample = 0; sample < geometry.samples; ++sample) {
    const Map error = random_map(random, geometry);
    append(in, order, error);
    append(expected, order, error_through_scale(error, order.channels, scales, shift, counters));
  }
  set_number(m.height, order.height);
  set_number(m.width, order.width);
  set_number(m.groups, order.groups());
  set_number(m.first_block_rows, order.first_block_rows);
  set_number(m.block_rows, order.block_rows);
  set_number(m.shift, shift);
  m.error_tvalid = 0;
  m.clear = 1;
  m.parameter_write_enable = 1;
  scales.resize(static_cast<size_t>(order.groups() * kLanes));
  for (int64_t group = 0; group < order.groups(); ++group) {
    set_number(m.parameter_write_address, group);
    set_elements<int16_t>(m.parameter_write_scales, std::span<const int16_t>(scales).subspan(static_cast<size_t>(group * kLanes), kLanes));
    tick(m);
  }
  m.parameter_write_enable = 0;
  tick(m);
  m.clear = 0;
  StreamSource source(in, kLanes, some_pause(random), random);
  StreamSink sink(kLanes, some_pause(random), random);
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < expected.size() / kLanes; ++cycle) {
    source.drive(m.error_tvalid, m.error_tdata);
    sink.drive(m.out_tready);
    settle(m);
    source.after(m.error_tready);
    sink.after(m.out_tvalid, m.out_tdata);
    edge(m);
  }
  if (same_maps(geometry, expected, sink.beats())) return true;
  fmt::print("error_scaler: scaled errors differ, or do not end\n  {}, shift {}\n", geometry.text(), shift);
  return false;
}

// Bits of a mask as a stream: one per lane and beat.
class MaskSource {
 public:
  MaskSource(const Map& beats, double pause, std::mt19937_64& random) : beats_(beats), pauses_(pause, random) {}
  void drive(MILLRACE_GATE_MODEL& m) {
    if (!offered_ && at_ < beats_.size() && !pauses_.pause()) {
      offered_ = true;
      uint64_t bits = 0;
      for (size_t lane = 0; lane < static_cast<size_t>(kLanes); ++lane) bits |= uint64_t{beats_[at_ + lane] > 0} << lane;
      set_number(m.mask_tdata, static_cast<int64_t>(bits));
    }
    m.mask_tvalid = offered_;
  }
  void after(bool ready) {
    if (!offered_ || !ready) return;
    offered_ = false;
    at_ += static_cast<size_t>(kLanes);
  }

 private:
  const Map& beats_;
  Pauses pauses_;
  size_t at_ = 0;
  bool offered_ = false;
};

bool gate_agrees(MILLRACE_GATE_MODEL& m, std::mt19937_64& random) {
  const Geometry geometry = random_geometry(random);
  Map in, values, expected;
  for (int64_t sample = 0; sample < geometry.samples; ++sample) {
    const Map error = random_map(random, geometry), value = random_elements(random, geometry.elements(), 2);
    append(in, geometry.order, error);
    append(values, geometry.order, value);
    append(expected, geometry.order, error_through_relu(value, error, kSlope));
  }
  StreamSource source(in, kLanes, some_pause(random), random);
  MaskSource mask(values, some_pause(random), random);
  StreamSink sink(kLanes, some_pause(random), random);
  for (int64_t cycle = 0; cycle < kMostCycles && sink.beat_count() < expected.size() / kLanes; ++cycle) {
    source.drive(m.error_tvalid, m.error_tdata);
    mask.drive(m);
    sink.drive(m.out_tready);
    m.eval();
    source.after(m.error_tready);
    mask.after(m.mask_tready);
    sink.after(m.out_tvalid, m.out_tdata);
  }
  if (sink.beats() == expected) return true;
  fmt::print("relu_gate: errors differ, or do not end\n  {}\n", geometry.text());
  return false;
}

// It watches a stream that somebody else takes, with pauses.
bool biases_agree(MILLRACE_BIAS_MODEL& m, std::mt19937_64& random) {
  Geometry geometry = random_geometry(random);
  BeatOrder& order = geometry.order;
  order.first_block_rows = order.block_rows = 1;
  ConvolutionShape shape{.inputs = 1, .outputs = order.channels, .height = order.height, .width = order.width};
  ArithmeticCounters counters;
  std::vector<int32_t> expected(static_cast<size_t>(order.channels));
  Map in;
  for (int64_t sample = 0; sample < geometry.samples; ++sample) {
    const Map error = random_map(random, geometry);
    append(in, order, error);
    accumulate_bias_gradient(shape, error, expected, counters);
  }
  set_number(m.width, order.width);
  set_number(m.groups, order.groups());
  m.error_taken = 0;
  m.clear = 1;
  tick(m);
  m.clear = 0;
  Pauses pauses(some_pause(random), random);
  for (size_t at = 0; at < in.size();) {
    m.error_taken = !pauses.pause();
    set_elements<int16_t>(m.error_tdata, std::span<const int16_t>(in).subspan(at, kLanes));
    if (m.error_taken != 0) at += static_cast<size_t>(kLanes);
    tick(m);
  }
  m.error_taken = 0;
  m.clear = 1;  // as between mini-batches, when the host reads
  tick(m);
  std::vector<int32_t> found(static_cast<size_t>(order.groups() * kLanes));
  for (int64_t group = 0; group < order.groups(); ++group) {
    set_number(m.read_address, group);
    tick(m);
    get_elements<int32_t>(m.read_word, std::span(found).subspan(static_cast<size_t>(group * kLanes), kLanes));
  }
  found.resize(expected.size());
  if (found == expected) return true;
  fmt::print("bias_gradient: sums differ\n  {}\n", geometry.text());
  return false;
}

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  MILLRACE_SCALER_MODEL scaler;
  MILLRACE_GATE_MODEL gate;
  MILLRACE_BIAS_MODEL biases;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!scaler_agrees(scaler, random) || !gate_agrees(gate, random) || !biases_agree(biases, random)) return 1;
  fmt::print("error_scaler, relu_gate and bias_gradient, {} lanes: {} geometries of each bit by bit\n", kLanes, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  return millrace::compare_many(flags.geometries, flags.seed);
}
