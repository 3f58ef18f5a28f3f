// Compares the special-function unit and the un-pooling unit of one parameter set with the functional model, bit by bit,
// over random geometries and pauses.
//
//   cosimulation_maximum_p3s2_4 --geometries 25 --seed 7
//   cosimulation_maximum_p3s2_4 --cycles 10       rows of the RTL against the cycle model, at full speed
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/engine_bench.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include MILLRACE_FORWARD_HEADER
#include MILLRACE_BACK_HEADER

namespace millrace {
namespace {

constexpr int64_t kKernel = MILLRACE_KERNEL;
constexpr int64_t kStride = MILLRACE_STRIDE;
// Of columns, where the window is not square; its padding there is fixed.
constexpr int64_t kColumns = MILLRACE_COLUMNS;
constexpr int64_t kColumnStride = MILLRACE_COLUMN_STRIDE;
constexpr int64_t kColumnPad = MILLRACE_COLUMN_PAD;
constexpr int64_t kLanes = MILLRACE_LANES;
constexpr bool kAverage = MILLRACE_AVERAGE != 0;
constexpr int16_t kSlope = MILLRACE_SLOPE;
constexpr bool kNotPooled = kKernel == 1 && kColumns == 1 && kStride == 1 && kColumnStride == 1;
const auto kPlaceBits = static_cast<size_t>(PoolingWindow{.kernel_h = kKernel, .kernel_w = kColumns}.place_bits());

struct Job {
  PoolingWindow window;
  int64_t channels = 1;
  int64_t samples = 1;
  std::vector<std::vector<int16_t>> sums, errors;
  std::vector<int16_t> scale, offset;
  int offset_shift = 0, shift = 0;
  bool relu = false;
  double source_pause = 0, sink_pause = 0;
};

// A steady job is tall, and does not pause.
Job drawn_job(std::mt19937_64& random, bool steady = false) {
  Job job;
  PoolingWindow& w = job.window;
  w.kernel_h = kKernel;
  w.kernel_w = kColumns;
  w.stride_h = kStride;
  w.stride_w = kColumnStride;
  // Large ones that overlap may be larger than the map, and begin far before it.
  const bool gathers = w.is_large() && w.overlaps();
  w.pad_h = drawn(random, 0, gathers ? kKernel - 1 : kKernel / 2);
  w.pad_w = kColumnPad < 0 ? w.pad_h : kColumnPad;
  const auto least = [&](int64_t kernel, int64_t pad) { return gathers ? std::max<int64_t>(1, kernel - 2 * pad) : kernel; };
  w.height = steady ? drawn(random, kKernel + 8 * kStride, kKernel + 12 * kStride) : drawn(random, least(kKernel, w.pad_h), kKernel + 8);
  w.width = drawn(random, least(kColumns, w.pad_w), kColumns + 10);
  w.average = kAverage;
  w.count_padding = random() % 2 == 0;
  const bool partial_windows = random() % 2 == 0;  // the last window may hang over the edge
  const auto windows = [&](int64_t size, int64_t pad, int64_t kernel, int64_t stride) {
    const int64_t room = size + 2 * pad - kernel;
    int64_t count = room / stride + 1;
    if (partial_windows && room % stride != 0 && count * stride < size + pad) ++count;
    return count;
  };
  w.out_height = windows(w.height, w.pad_h, kKernel, kStride);
  w.out_width = windows(w.width, w.pad_w, kColumns, kColumnStride);
  job.channels = drawn(random, 1, 3 * kLanes);
  job.samples = steady ? 3 : drawn(random, 1, 3);
  const int bits = random() % 2 == 0 ? 16 : 5;
  for (int64_t sample = 0; sample < job.samples; ++sample) {
    job.sums.push_back(random_elements(random, static_cast<size_t>(job.channels * w.height * w.width), bits));
    job.errors.push_back(random_elements(random, static_cast<size_t>(job.channels * w.out_height * w.out_width), 16));
  }
  job.scale = random_elements(random, static_cast<size_t>(job.channels), random() % 2 == 0 ? 16 : 4);
  job.offset = random_elements(random, static_cast<size_t>(job.channels), 16);
  job.offset_shift = static_cast<int>(drawn(random, 0, 15));
  job.shift = static_cast<int>(drawn(random, 0, 20));
  job.relu = random() % 2 == 0;
  if (steady) return job;
  const double pauses[] = {0, 0.3, 0.8};
  job.source_pause = pauses[random() % 3];
  job.sink_pause = pauses[random() % 3];
  return job;
}

struct Kept {
  int16_t winner;
  bool above_zero;
};

class Benches {
 public:
  bool compare(const Job& job, std::mt19937_64& random) {
    const PoolingWindow& w = job.window;
    const BeatOrder in{job.channels, w.height, w.width, kLanes};
    const BeatOrder out{job.channels, w.out_height, w.out_width, kLanes};
    if (!run_forward(job, in, out, random)) return false;
    ArithmeticCounters counters;
    std::vector<std::vector<int16_t>> unpooled;
    for (size_t sample = 0; sample < job.sums.size(); ++sample) {
      const std::vector<int16_t> values = scaled_and_offset(job.sums[sample], job.channels,
                                                            {.scale = job.scale,
                                                             .offset = job.offset,
                                                             .offset_shift = job.offset_shift,
                                                             .shift = job.shift,
                                                             .relu = job.relu,
                                                             .slope = kSlope},
                                                            counters);
      PooledPlane pooled;
      if constexpr (kNotPooled) {
        pooled = {values, std::vector<int16_t>(values.size())};
      } else {
        pooled = pooled_forward(w, job.channels, values, counters);
      }
      if (!same("output", job, pooled.values, map_of_beats(out, sample_of(outputs_, sample, out)))) return false;
      if constexpr (kAverage) {
        std::vector<int16_t> expected_mask;
        for (const int16_t value : values) expected_mask.push_back(value > 0);
        if (!same("mask", job, expected_mask, map_of_beats(in, sample_of(mask_, sample, in)))) return false;
        unpooled.push_back(pooled_back(w, job.channels, job.errors[sample], pooled, counters));
      } else {
        const std::vector<int16_t> winners = map_of_beats(out, sample_of(winners_, sample, out));
        const std::vector<int16_t> above = map_of_beats(out, sample_of(above_zero_, sample, out));
        std::vector<int16_t> expected_above;
        for (const int16_t value : pooled.values) expected_above.push_back(value > 0);
        if (!same("winner", job, pooled.winners, winners) || !same("sign", job, expected_above, above)) return false;
        const std::vector<int16_t> error = job.relu ? error_through_relu(pooled.values, job.errors[sample], kSlope) : job.errors[sample];
        unpooled.push_back(pooled_back(w, job.channels, error, pooled, counters));
      }
    }
    if constexpr (kNotPooled) return true;
    return run_back(job, in, out, unpooled, random);
  }

  // Of a job at full speed: rows late in the middle sample take the modelled cycles, forward and back.
  bool rows_are_modelled(const Job& job) const {
    const PoolingWindow& w = job.window;
    const int64_t groups = BeatOrder{.channels = job.channels, .lanes = kLanes}.groups();
    const ErrorBackSteps steps = unpooling_steps(w);
    const bool gathers = w.is_large() && w.overlaps();
    const int64_t last = w.out_height - (gathers ? 2 + rows_left_behind(w) : 1);  // before those that end with the map's last row
    const int64_t row = w.out_height + std::min(w.out_height * 3 / 4, last);
    const auto forward_end = [&](int64_t n) { return forward_cycles_[static_cast<size_t>((n + 1) * groups * w.out_width - 1)]; };
    const int64_t forward = forward_end(row) - forward_end(row - 1);
    const int64_t step_rows = w.height + steps.first_block_rows + steps.rows / 2 * kStride;
    const auto back_end = [&](int64_t rows) { return back_cycles_[static_cast<size_t>(rows * groups * w.width - 1)]; };
    const int64_t back = back_end(step_rows) - back_end(step_rows - kStride);
    if (gathers) {
      const int64_t all = forward_end(3 * w.out_height - 1) - forward_end(2 * w.out_height - 1);
      const int64_t all_back = back_end(3 * w.height) - back_end(2 * w.height);
      // A word that would be read too soon costs a cycle of a sample, where it is alone.
      if (std::abs(all - pooling_cycles(w, groups)) > 1 || all_back != unpooling_cycles(w, groups)) {
        fmt::print("a sample takes {} cycles forward and {} back, modelled {} and {}\n  {} channels, {} x {} to {} x {}, pad {}\n", all,
                   all_back, pooling_cycles(w, groups), unpooling_cycles(w, groups), job.channels, w.height, w.width, w.out_height,
                   w.out_width, w.pad_h);
        return false;
      }
    }
    if (forward == pooling_row_cycles(w, groups) && back == unpooling_row_cycles(w, groups)) return true;
    fmt::print("a row takes {} cycles forward and {} back, modelled {} and {}\n  {} channels, {} x {} to {} x {}, pad {}\n", forward, back,
               pooling_row_cycles(w, groups), unpooling_row_cycles(w, groups), job.channels, w.height, w.width, w.out_height, w.out_width,
               w.pad_h);
    return false;
  }

 private:
  static std::span<const int16_t> sample_of(const std::vector<int16_t>& beats, size_t sample, const BeatOrder& order) {
    const auto one = static_cast<size_t>(order.beats() * kLanes);
    return std::span<const int16_t>(beats).subspan(sample * one, one);
  }

  static bool same(const char* what, const Job& job, const std::vector<int16_t>& expected, const std::vector<int16_t>& found) {
    if (expected == found) return true;
    size_t at = 0;
    while (at < std::min(expected.size(), found.size()) && expected[at] == found[at]) ++at;
    const PoolingWindow& w = job.window;
    fmt::print(
        "{} differs at element {} of {}: expected {}, RTL {}\n  {} channels, {} x {} to {} x {}, window {} x {} stride {} x {} pad {} x "
        "{}, relu {}\n",
        what, at, expected.size(), at < expected.size() ? expected[at] : 0, at < found.size() ? found[at] : 0, job.channels, w.height,
        w.width, w.out_height, w.out_width, w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, w.pad_h, w.pad_w, job.relu);
    return false;
  }

  bool run_forward(const Job& job, const BeatOrder& in, const BeatOrder& out, std::mt19937_64& random) {
    auto& m = forward_;
    const PoolingWindow& w = job.window;
    m.height = port16(w.height);
    m.width = port16(w.width);
    m.groups = port16(in.groups());
    m.out_height = port16(w.out_height);
    m.out_width = port16(w.out_width);
    m.pool_pad = port16(w.pad_h);
    m.relu = job.relu;
    m.count_padding = w.count_padding;
    set_number(m.offset_shift, job.offset_shift);
    set_number(m.shift, job.shift);
    m.clear = 1;
    m.sum_tvalid = 0;
    for (int64_t group = 0; group < in.groups(); ++group) {
      std::vector<int16_t> scales(kLanes), offsets(kLanes);
      for (int64_t lane = 0; lane < kLanes && group * kLanes + lane < job.channels; ++lane) {
        scales[static_cast<size_t>(lane)] = job.scale[static_cast<size_t>(group * kLanes + lane)];
        offsets[static_cast<size_t>(lane)] = job.offset[static_cast<size_t>(group * kLanes + lane)];
      }
      m.parameter_write_enable = 1;
      set_number(m.parameter_write_address, group);
      set_elements<int16_t>(m.parameter_write_scales, scales);
      set_elements<int16_t>(m.parameter_write_offsets, offsets);
      settle(m);
      edge(m);
    }
    m.parameter_write_enable = 0;
    settle(m);
    edge(m);
    m.clear = 0;

    std::vector<int16_t> beats;
    for (const auto& map : job.sums) {
      const auto some = beats_of_map(in, map);
      beats.insert(beats.end(), some.begin(), some.end());
    }
    StreamSource source(beats, kLanes, job.source_pause, random);
    StreamSink sink(kLanes, job.sink_pause, random);
    winners_.clear();
    above_zero_.clear();
    mask_.clear();
    forward_cycles_.clear();
    Pauses mask_pauses(job.sink_pause, random);
    const auto expected = static_cast<size_t>(out.beats() * job.samples);
    // Rows at the end that no window reaches have a mask too.
    const auto masks = static_cast<size_t>(kAverage ? in.beats() * job.samples * kLanes : 0);
    for (int64_t cycle = 0; cycle < 1'000'000 && (sink.beat_count() < expected || mask_.size() < masks); ++cycle) {
      source.drive(m.sum_tvalid, m.sum_tdata);
      sink.drive(m.out_tready);
      m.mask_tready = !mask_pauses.pause();
      settle(m);
      source.after(m.sum_tready);
      if (m.mask_tvalid && m.mask_tready)
        for (size_t lane = 0; lane < kLanes; ++lane) mask_.push_back(static_cast<int16_t>(take_bits(m.mask_tdata, lane, 1)));
      if (sink.after(m.out_tvalid, m.out_tdata)) {
        forward_cycles_.push_back(cycle);
        for (size_t lane = 0; lane < kLanes; ++lane) {
          above_zero_.push_back(static_cast<int16_t>(bit_of_kept(lane, 0, 1)));
          winners_.push_back(static_cast<int16_t>(bit_of_kept(lane, 1, kPlaceBits)));
        }
      }
      edge(m);
    }
    if (sink.beat_count() < expected || mask_.size() < masks) {
      fmt::print("the special-function unit does not end\n");
      return false;
    }
    outputs_ = sink.beats();
    return true;
  }

  uint64_t bit_of_kept(size_t lane, size_t first, size_t count) {
    uint64_t value = 0;
    for (size_t bit = 0; bit < count; ++bit) value |= take_bits(forward_.kept_tdata, lane * (kPlaceBits + 1) + first + bit, 1) << bit;
    return value;
  }

  bool run_back(const Job& job, const BeatOrder& in, const BeatOrder& out, const std::vector<std::vector<int16_t>>& expected,
                std::mt19937_64& random) {
    auto& m = back_;
    const PoolingWindow& w = job.window;
    const ErrorBackSteps steps = unpooling_steps(w);
    m.height = port16(w.height);
    m.width = port16(w.width);
    m.pad = port16(w.pad_h);
    m.count_padding = w.count_padding;
    m.out_height = port16(w.out_height);
    m.out_width = port16(w.out_width);
    m.groups = port16(in.groups());
    m.step_rows = port16(steps.rows);
    m.step_columns = port16(steps.columns);
    m.first_step = port16(steps.first);
    m.first_phase = port16(steps.first_phase);
    m.last_phase = port16(steps.last_phase);
    m.relu = job.relu;
    clear_model(m);
    std::vector<int16_t> beats;
    for (const auto& map : job.errors) {
      const auto some = beats_of_map(out, map);
      beats.insert(beats.end(), some.begin(), some.end());
    }
    StreamSource source(beats, kLanes, job.source_pause, random);
    StreamSink sink(kLanes, job.sink_pause, random);
    const bool rows_alone = w.is_large();
    const BeatOrder order{job.channels, w.height, w.width, kLanes, rows_alone ? 1 : steps.first_block_rows, rows_alone ? 1 : kStride};
    const auto wanted = static_cast<size_t>(order.beats() * job.samples);
    size_t next = 0;
    back_cycles_.clear();
    for (int64_t cycle = 0; cycle < 1'000'000 && sink.beat_count() < wanted; ++cycle) {
      source.drive(m.error_tvalid, m.error_tdata);
      if (m.error_tvalid)
        for (size_t lane = 0; lane < kLanes; ++lane) {
          put_bits(m.kept_tdata, lane * (kPlaceBits + 1), 1, static_cast<uint64_t>(above_zero_[next + lane]));
          for (size_t bit = 0; bit < kPlaceBits; ++bit)
            put_bits(m.kept_tdata, lane * (kPlaceBits + 1) + 1 + bit, 1, static_cast<uint64_t>(winners_[next + lane]) >> bit & 1);
        }
      sink.drive(m.raw_error_tready);
      settle(m);
      if (m.error_tvalid && m.error_tready) next += kLanes;
      source.after(m.error_tready);
      if (sink.after(m.raw_error_tvalid, m.raw_error_tdata)) back_cycles_.push_back(cycle);
      edge(m);
    }
    if (sink.beat_count() < wanted) {
      fmt::print("the un-pooling unit does not end\n");
      return false;
    }
    for (size_t sample = 0; sample < expected.size(); ++sample)
      if (!same("un-pooled error", job, expected[sample], map_of_beats(order, sample_of(sink.beats(), sample, order)))) return false;
    return true;
  }

  MILLRACE_FORWARD_MODEL forward_;
  MILLRACE_BACK_MODEL back_;
  std::vector<int16_t> outputs_, winners_, above_zero_, mask_;
  std::vector<int64_t> forward_cycles_, back_cycles_;  // of every beat
};

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  Benches benches;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!benches.compare(drawn_job(random), random)) return 1;
  fmt::print("{} pooling {} x {} stride {} x {}, {} lanes: {} geometries bit by bit as the functional model\n",
             kAverage ? "average" : "maximum", kKernel, kColumns, kStride, kColumnStride, kLanes, geometries);
  return 0;
}

int compare_cycles(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  Benches benches;
  for (int64_t geometry = 0; geometry < geometries; ++geometry) {
    const Job job = drawn_job(random, /*steady=*/true);
    if (!benches.compare(job, random) || !benches.rows_are_modelled(job)) return 1;
  }
  fmt::print("{} pooling {} stride {}, {} lanes: {} geometries, rows forward and back exact\n", kAverage ? "average" : "maximum", kKernel,
             kStride, kLanes, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  if (flags.cycles > 0) return millrace::compare_cycles(flags.cycles, flags.seed);
  return millrace::compare_many(flags.geometries, flags.seed);
}
