#include "fpga/pe_chain/paper_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "fpga/pe_chain/chain_product.h"

namespace millrace {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();
constexpr std::string_view kHolds = "holds", kNotReproduced = "not reproduced", kContradicts = "paper contradicts itself",
                           kNotPinned = "not pinned";
constexpr int64_t kWordsOfElement = 4096;
constexpr int64_t kLatency = kActivationCycles + kAdderCycles + kRelayCycles;

constexpr FarnnNetwork kLstm{};
constexpr FarnnNetwork kGru{.cells = 1280, .inputs = 1280, .gates = 3};
constexpr FarnnNetwork kRnnt{.cells = 2048, .inputs = 640, .projection = 640, .steps = 400, .layers = 8};
constexpr FarnnNetwork kSpeech{.steps = 548, .layers = 7, .directions = 2};

FarnnNetwork of_batch(FarnnNetwork network, int64_t batch) {
  network.batch = batch;
  return network;
}
FarnnNetwork of_steps(FarnnNetwork network, int64_t steps) {
  network.steps = steps;
  return network;
}
FarnnNetwork of_cells(FarnnNetwork network, int64_t cells) {
  network.cells = network.inputs = cells;
  return network;
}

int64_t square_words(int64_t cells, int64_t elements) { return feed_cycles({.inputs = cells, .outputs = cells, .elements = elements}); }

// By both readings: a number each.
using Both = std::array<double, 2>;
Both both(const std::function<double(const FarnnReading&)>& figure) { return {figure(farnn_readings()[0]), figure(farnn_readings()[1])}; }
Both both(double figure) { return {figure, figure}; }

class RowList {
 public:
  // Held against the bounds, or with a verdict of its own.
  void add(FarnnRow row, const Both& model, double least, double most, std::string_view verdict = {}) {
    row.four = model[0];
    row.wide = model[1];
    row.least = least;
    row.most = most;
    const auto judged = [&](double figure) {
      return !verdict.empty() ? verdict : least <= figure && figure <= most ? kHolds : kNotReproduced;
    };
    row.verdict_four = judged(row.four);
    row.verdict_wide = judged(row.wide);
    rows.push_back(std::move(row));
  }
  // Of a model that is made of what training steps take.
  void add_timed(FarnnRow row, const Both& model, double least, double most, std::string_view verdict = {}) {
    row.timed = true;
    add(std::move(row), model, least, most, verdict);
  }
  std::vector<FarnnRow> rows;
};

constexpr std::string_view kMachine = "elements load_GBs pass_ms forward_exposed gpu_share";

// Of a step pair: with which cuDNN-Std takes 3.6 times as long as VU13P.
double pair_of(const FarnnReading& reading, const FarnnTimes& times) {
  return fitted_step_pair(kLstm, reading.vu13p, 3.6 * times.training(kLstm, reading.vu13p));
}

void add_speeds(RowList& rows, const FarnnTimes& times) {
  for (const auto& [id, batch, paper] :
       {std::tuple<std::string_view, int64_t, double>{"eff_b1", 1, 82.8}, {"eff_b2", 2, 88.0}, {"eff_b4", 4, 92.5}})
    rows.add_timed({.id = id,
                    .place = "6.2.3",
                    .quantity = batch == 1   ? "peak throughput reached, LSTM-1024, batch 1"
                                : batch == 2 ? "the same, batch 2"
                                             : "the same, batch 4",
                    .unit = "%",
                    .paper = paper,
                    .constants = kMachine,
                    .note = "the FPGA is not named: VU9P; peak: every element busy"},
                   both([&, b = batch](const FarnnReading& r) {
                     const FarnnNetwork network = of_batch(kLstm, b);
                     return 100 * array_bound_seconds(network, r.vu9p) / times.training(network, r.vu9p);
                   }),
                   paper - 1, paper + 1);
  const Both four_to_one =
      both([&](const FarnnReading& r) { return times.training(of_batch(kLstm, 4), r.vu9p) / times.training(kLstm, r.vu9p); });
  const double own = 4 * 82.8 / 92.5;
  rows.add_timed({.id = "b4_b1",
                  .place = "6.2.3",
                  .quantity = "time of batch 4 by that of batch 1",
                  .unit = "",
                  .paper = 3.4,
                  .constants = kMachine,
                  .note = fmt::format("its own efficiencies make 4 x 82.8 / 92.5 = {:.2f}", own)},
                 four_to_one, 3.35, 3.45, kContradicts);
  rows.add_timed({.id = "b4_b1_own",
                  .place = "6.2.3",
                  .quantity = "the same from its own efficiencies",
                  .unit = "",
                  .paper = own,
                  .constants = kMachine},
                 four_to_one, own * 0.97, own * 1.03);
  rows.add_timed({.id = "lstm_9_13",
                  .place = "6.2.1",
                  .quantity = "time VU9P by VU13P, LSTM-1024",
                  .unit = "",
                  .paper = 0.48 / 0.39,
                  .constants = kMachine,
                  .note = "52% and 61% less than cuDNN-PD, rounded"},
                 both([&](const FarnnReading& r) { return times.training(kLstm, r.vu9p) / times.training(kLstm, r.vu13p); }), 0.475 / 0.395,
                 0.485 / 0.385);
  rows.add_timed({.id = "gru_9_13",
                  .place = "6.2.1",
                  .quantity = "time VU9P by VU13P, GRU-1280",
                  .unit = "",
                  .paper = 0.68 / 0.50,
                  .constants = kMachine,
                  .note = "32% and 50%, rounded; 3 and 2 slices (four), 2.5 and 2 (wide)"},
                 both([&](const FarnnReading& r) {
                   return times.training(kGru, r.with(r.vu9p, r.gru_vu9p)) / times.training(kGru, r.with(r.vu13p, r.gru_vu13p));
                 }),
                 0.675 / 0.505, 0.685 / 0.495);
}

void add_gpu(RowList& rows, const FarnnTimes& times) {
  const Both pair = both([&](const FarnnReading& r) { return pair_of(r, times); });
  const std::string pairs = fmt::format("{:.1f}, {:.1f} us a step pair", 1e6 * pair[0], 1e6 * pair[1]);
  rows.add_timed({.id = "pair_GBs",
                  .place = "6.2.2",
                  .quantity = "memory rate that cuDNN-Std needs if 3.6x is VU13P's",
                  .unit = "GB/s",
                  .paper = 732,
                  .constants = kMachine,
                  .note = "the P100 has 732; R read once a step, forward and back: " + pairs},
                 both([&](const FarnnReading& r) { return 8 * static_cast<double>(kLstm.recurrent_weights()) / pair_of(r, times) / 1e9; }),
                 0, 732 * 0.93);
  rows.add_timed({.id = "std_T1600",
                  .place = "6.2.2",
                  .quantity = "cuDNN-Std by VU13P, 1,600 steps, GPU by its memory alone",
                  .unit = "",
                  .paper = 3.6,
                  .constants = "gpu_GBs gpu_dram_share",
                  .note = "unfitted: 85% of the catalogue's bandwidth; 69% would meet it (four)",
                  .expected_to_hold = false},
                 both([&](const FarnnReading& r) {
                   return gpu_alone_seconds(kLstm, r.vu9p, roofline_step_pair(kLstm, r.vu9p)) / times.training(kLstm, r.vu13p);
                 }),
                 3.24, 3.96);
  const auto against_std = [&](const FarnnNetwork& network) {
    return both(
        [&](const FarnnReading& r) { return gpu_alone_seconds(network, r.vu9p, pair_of(r, times)) / times.training(network, r.vu9p); });
  };
  rows.add_timed({.id = "std_T100",
                  .place = "6.2.2",
                  .quantity = "cuDNN-Std by VU9P, 100 steps: no significant benefit",
                  .unit = "",
                  .paper = 1,
                  .constants = kMachine,
                  .note = "cuDNN-Std calibrated at 1,600 steps"},
                 against_std(of_steps(kLstm, 100)), 0.8, 1.2);
  rows.add_timed({.id = "std_B4",
                  .place = "6.2.3",
                  .quantity = "cuDNN-Std by VU9P, batch 4: cuDNN-Std wins",
                  .unit = "",
                  .paper = 1,
                  .constants = kMachine,
                  .note = "a step pair as slow as at batch 1"},
                 against_std(of_batch(kLstm, 4)), 0.5, 1);
  rows.add_timed({.id = "pd_std",
                  .place = "6.2.1",
                  .quantity = "cuDNN-PD by cuDNN-Std, LSTM-1024: its gain diminishes",
                  .unit = "",
                  .paper = 1,
                  .constants = kMachine,
                  .note = "from 52% and 3.6x: below 1, as Fig 7 must show"},
                 both([&](const FarnnReading& r) {
                   return times.training(kLstm, r.vu9p) / 0.48 / gpu_alone_seconds(kLstm, r.vu9p, pair_of(r, times));
                 }),
                 0.3, 1);
  rows.add_timed({.id = "rmvm_peak",
                  .place = "4.1, Fig 2",
                  .quantity = "GPU's peak in the recurrent product, batch 1: less than 2%",
                  .unit = "%",
                  .paper = 2,
                  .constants = kMachine,
                  .note = "Fig 2 is one layer; the 3.6x are five, which cuDNN can run as a wavefront"},
                 both([&](const FarnnReading& r) {
                   return 200 * static_cast<double>(kLstm.recurrent_weights()) / (pair_of(r, times) / 2) / kGpuPeakFlops;
                 }),
                 0, 2, kNotPinned);
}

void add_strategies(RowList& rows, const FarnnTimes& times) {
  const auto mean = [&](const std::function<double(const FarnnNetwork&, const FarnnMachine&)>& seconds) {
    return both([&](const FarnnReading& r) {
      double sum = 0;
      for (const int64_t cells : {512, 768, 1024}) {
        const FarnnNetwork network = of_cells(of_steps(kLstm, 800), cells);
        sum += seconds(network, r.vu9p) / times.training(network, r.vu9p);
      }
      return sum / 3;
    });
  };
  rows.add_timed({.id = "all_fpga",
                  .place = "6.2.4",
                  .quantity = "AllFPGA by FARNN, 800 steps: doubles",
                  .unit = "",
                  .paper = 2,
                  .constants = kMachine,
                  .note = "mean of 512, 768 and 1,024 cells; Fig 10's are not in the text"},
                 mean(times.all_on_board), 1.9, 2.1);
  const Both without = mean([](const FarnnNetwork& n, const FarnnMachine& m) { return no_overlap_seconds(n, m, false); });
  rows.add_timed({.id = "no_overlap",
                  .place = "6.2.4",
                  .quantity = "NoOverlap by FARNN, 800 steps: more than 20%",
                  .unit = "",
                  .paper = 1.2,
                  .constants = kMachine,
                  .note = fmt::format("all transfers in sequence; weights alone {:.2f}, {:.2f}", without[0], without[1])},
                 mean(times.no_overlap), 1.2, kInfinite);
  const auto half_lanes = [&](int64_t batch) {
    return both([&](const FarnnReading& r) {
      FarnnMachine half = r.vu9p;
      half.load_bytes_per_second = r.half_lanes_bytes_per_second;
      const FarnnNetwork network = of_batch(kSpeech, batch);
      return 100 * (times.training(network, half) / times.training(network, r.vu9p) - 1);
    });
  };
  const Both two = half_lanes(2);
  rows.add_timed({.id = "x8",
                  .place = "6.7",
                  .quantity = "more time with x8 lanes, Deep Speech 2 LSTM",
                  .unit = "%",
                  .paper = 6,
                  .constants = "half_lanes_GBs",
                  .note = fmt::format(
                      "recurrent part at batch 1, at least the whole network's 6; batch 2 {:.1f}, {:.1f}; batch and \"Others\" not said",
                      two[0], two[1])},
                 half_lanes(1), 6, kInfinite, kNotPinned);
  rows.add({.id = "x8_identity",
            .place = "6.6, 6.7",
            .quantity = "speed over the GPU alone at x8",
            .unit = "",
            .paper = 1.39,
            .note = "from 27% more power, 13% less energy, 6% more time: \"39% better\" is a ratio of speeds, of VU9P at batch 1"},
           both(1 / (0.87 / 1.27 * 1.06)), 1.33, 1.45);
  rows.add({.id = "link_rate",
            .place = "5.3",
            .quantity = "per step to the FPGA, LSTM-1024",
            .unit = "GB/s",
            .paper = 0.11,
            .constants = kMachine,
            .note = "16 KiB a step there, 4 KiB back; 0.11 GB/s would be 149 us a step; that it is no bottleneck holds"},
           both([&](const FarnnReading& r) { return 16384 / (parts_of(kLstm, r.vu9p).forward / 1600) / 1e9; }), 0.1, 0.12, kContradicts);
}

void add_chains(RowList& rows) {
  const auto exact = [&](std::string_view id, std::string_view place, std::string_view what, std::string_view unit, double paper,
                         double model) {
    rows.add({.id = id, .place = place, .quantity = what, .unit = unit, .paper = paper}, both(model), paper, paper);
  };
  exact("cycles_768", "5.1.3", "1,024 cells on 768 elements, a cell over two", "cycles", 1536,
        static_cast<double>(square_words(1024, 768)));
  exact("cycles_768_1", "5.1.3", "the same, cells whole", "cycles", 2048,
        static_cast<double>(feed_cycles({.inputs = 1024, .outputs = 1024, .elements = 768, .most_parts = 1})));
  exact("slices_256", "5.1.3", "slices of 1,024 cells on 256 elements", "", 4,
        static_cast<double>(slice_feeds({.inputs = 1024, .outputs = 1024, .elements = 256}).size()));
  exact("words_256", "5.1.3", "weights of an element then", "", 4096, static_cast<double>(square_words(1024, 256)));
  exact("uram_pair", "6.1", "weights of an element, two to an UltraRAM of 4,096 x 72", "", 4096, static_cast<double>(kWordsOfElement));
  rows.add({.id = "most_4k",
            .place = "6.1",
            .quantity = "largest LSTM in 4,096 weights an element, VU9P",
            .unit = "cells",
            .paper = 1024,
            .constants = "elements",
            .note = "more than 1,024 cells use 8,192: four columns of 1,024 are 4,096"},
           both([](const FarnnReading& r) {
             int64_t cells = 2048;
             while (square_words(cells, r.vu9p.elements) > kWordsOfElement) --cells;
             return static_cast<double>(cells);
           }),
           1024, 1024);
  rows.add({.id = "gru_4k",
            .place = "6.2.1",
            .quantity = "weights of the fullest element, GRU-1280, VU9P",
            .unit = "",
            .paper = 4096,
            .constants = "elements",
            .note = "at most; pins a GRU's unit to 432 elements or more"},
           both([](const FarnnReading& r) { return static_cast<double>(square_words(1280, r.gru_vu9p)); }), 0, 4096);
  rows.add(
      {.id = "vu9p_mb", .place = "6.2.1", .quantity = "on chip, VU9P: more than 40", .unit = "MB", .paper = 40, .constants = "uram bram36"},
      both((960 * 294912.0 + 2160 * 36864.0) / 8e6), 40, kInfinite);
  const auto hidden = static_cast<double>(exposed_cycles({.inputs = 512, .outputs = 512, .elements = 512}, {.latency = kLatency}));
  rows.add({.id = "hidden_204",
            .place = "5.1.3",
            .quantity = "exposed, 512 cells on 512 elements: hidden above 256",
            .unit = "cycles",
            .paper = 0,
            .constants = "activation_cycles adder_cycles relay_cycles",
            .note = "one slice hides nothing, whatever its length"},
           both(hidden), 0, 0, kContradicts);
  rows.add({.id = "more_than_256",
            .place = "5.1.3, 6.1",
            .quantity = "elements of a unit, 8,192 weights each: more than 256",
            .unit = "",
            .paper = 257,
            .note = "768 in all are 192 for each of four units"},
           both(768.0 / 4), 257, kInfinite, kContradicts);
}

void add_applications(RowList& rows, const FarnnTimes& times) {
  const double rnnt_weights = static_cast<double>(kRnnt.recurrent_weights());
  rows.add({.id = "rnnt_fits",
            .place = "6.1, 6.5",
            .quantity = "weights in 768 elements of 8,192: RNN-T's layer",
            .unit = "M",
            .paper = rnnt_weights / 1e6,
            .note = fmt::format("{:.0f} an element on average", rnnt_weights / 768)},
           both(768 * 8192 / 1e6), rnnt_weights / 1e6, kInfinite, kContradicts);
  const FarnnNetwork longer = of_steps(kRnnt, 1000);
  const Both other = both(
      [&](const FarnnReading& r) { return times.training(longer, r.with(r.vu9p, 192)) / times.training(longer, r.with(r.vu13p, 320)); });
  rows.add_timed(
      {.id = "rnnt_9_13",
       .place = "6.5",
       .quantity = "RNN-T's encoder, VU9P by VU13P, batch 1",
       .unit = "",
       .paper = 4.2 / 2.7,
       .constants = kMachine,
       .note = fmt::format("steps and VU13P's count for 8,192 weights are not in the text; 1,000 steps and 320 would give {:.2f}, {:.2f}",
                           other[0], other[1])},
      both([&](const FarnnReading& r) {
        return times.training(kRnnt, r.with(r.vu9p, r.rnnt_vu9p)) / times.training(kRnnt, r.with(r.vu13p, r.rnnt_vu13p));
      }),
      4.15 / 2.75, 4.25 / 2.65, kNotPinned);
  rows.add({.id = "rnnt_share9",
            .place = "6.5",
            .quantity = "encoder's share that 2.7x and -40% mean: more than 65%",
            .unit = "%",
            .paper = 65,
            .note = "Amdahl: 0.40 / (1 - 1 / 2.7)"},
           both(100 * 0.4 / (1 - 1 / 2.7)), 65, kInfinite, kContradicts);
  rows.add({.id = "rnnt_share13",
            .place = "6.5",
            .quantity = "encoder's share that 4.2x and -48% mean: more than 65%",
            .unit = "%",
            .paper = 65,
            .note = "Amdahl: 0.48 / (1 - 1 / 4.2)"},
           both(100 * 0.48 / (1 - 1 / 4.2)), 65, kInfinite, kContradicts);
  rows.add({.id = "rnnt_power",
            .place = "6.6",
            .quantity = "power ratio that RNN-T's EDP of -60% at time 0.60 means",
            .unit = "",
            .paper = 1.27,
            .note = "Deep Speech 2's is 1.27"},
           both(0.4 / 0.36), 1.2, 1.34, kContradicts);
  rows.add({.id = "ds2_steps",
            .place = "4.1, 6.4",
            .quantity = "average steps of Deep Speech 2",
            .unit = "",
            .paper = 576,
            .note = "576 in 4.1, 548 in 6.4"},
           both(548), 576, 576, kContradicts);
  rows.add({.id = "ds2_b2",
            .place = "6.4",
            .quantity = "less time, Deep Speech 2, VU13P, batch 2",
            .unit = "%",
            .paper = 52,
            .note = "whole network, GRU 43; needs the time of \"Others\""},
           both(kNone), 0, 100, kNotPinned);
  rows.add({.id = "rnnt_up_to",
            .place = "6.5",
            .quantity = "RNN-T's encoder over cuDNN-Std, batch 1",
            .unit = "",
            .paper = 4.2,
            .note = "2.7 on VU9P; needs cuDNN-Std's time with a projection"},
           both(kNone), 0, kInfinite, kNotPinned);
  const Both twice = both(
      [&](const FarnnReading& r) { return times.training(kLstm, r.vu13p) / times.training(kLstm, r.with(r.vu13p, 2 * r.vu13p.elements)); });
  rows.add({.id = "versal",
            .place = "6.8",
            .quantity = "Versal against V100: up to 45% faster",
            .unit = "",
            .paper = 1.45,
            .note = fmt::format("the V100 was measured; Versal over VU13P is {:.2f}, {:.2f}", twice[0], twice[1])},
           both(kNone), 0, kInfinite, kNotPinned);
  rows.add({.id = "cpu_tpu",
            .place = "6.5",
            .quantity = "CPU slower than cuDNN-Std, Deep Speech 2 LSTM",
            .unit = "",
            .paper = 6,
            .note = "TPU 5; measured on machines that are not modelled here"},
           both(kNone), 0, kInfinite, kNotPinned);
  rows.add({.id = "ds2_energy",
            .place = "6.6",
            .quantity = "time that +27% power and -13% energy mean",
            .unit = "",
            .paper = 0.87 / 1.27,
            .note = "an identity; there is no bar to hold it against"},
           both(0.87 / 1.27), 0, 1, kNotPinned);
}

}  // namespace

FarnnTimes farnn_formulas() {
  return {.training = training_step_seconds,
          .no_overlap = [](const FarnnNetwork& network, const FarnnMachine& machine) { return no_overlap_seconds(network, machine, true); },
          .all_on_board = all_on_board_seconds};
}

std::vector<FarnnRow> farnn_rows(const FarnnTimes& times) {
  RowList rows;
  add_speeds(rows, times);
  add_gpu(rows, times);
  add_strategies(rows, times);
  add_chains(rows);
  add_applications(rows, times);
  return std::move(rows.rows);
}

std::vector<FarnnCurve> farnn_curves(const FarnnTimes& times) {
  std::vector<FarnnCurve> curves;
  for (const FarnnReading& reading : farnn_readings()) {
    const auto curve = [&](const char* id, const char* title, std::string_view x, std::string_view y) -> FarnnCurve& {
      curves.push_back({.id = fmt::format("{}_{}", id, reading.name),
                        .title = fmt::format("{}: reading \"{}\"", title, reading.name),
                        .x_label = x,
                        .y_label = y,
                        .series = {}});
      return curves.back();
    };
    const double pair = pair_of(reading, times);
    const FarnnMachine gru9 = reading.with(reading.vu9p, reading.gru_vu9p), gru13 = reading.with(reading.vu13p, reading.gru_vu13p);
    const auto over_std = [&](FarnnCurve& into, const std::vector<FarnnNetwork>& networks, int64_t FarnnNetwork::*x) {
      for (const auto& [name, machine] :
           {std::pair<std::string_view, const FarnnMachine*>{"VU9P", &reading.vu9p}, {"VU13P", &reading.vu13p}}) {
        FarnnSeries& series = into.series.emplace_back(FarnnSeries{name, {}});
        for (const FarnnNetwork& network : networks)
          series.points.push_back(
              {static_cast<double>(network.*x), gpu_alone_seconds(network, *machine, pair) / times.training(network, *machine)});
      }
    };
    FarnnCurve& fig7 = curve("fig7", "Fig 7: a training step by cells, 5 layers, 1,600 steps, batch 1", "cells", "ms");
    const std::array<std::tuple<std::string_view, const FarnnMachine*, int64_t>, 4> lines = {
        {{"LSTM, VU9P", &reading.vu9p, 4}, {"LSTM, VU13P", &reading.vu13p, 4}, {"GRU, VU9P", &gru9, 3}, {"GRU, VU13P", &gru13, 3}}};
    for (const auto& [name, machine, gates] : lines) {
      FarnnSeries& series = fig7.series.emplace_back(FarnnSeries{name, {}});
      for (int64_t cells = 256; cells <= (gates == 4 ? 1024 : 1280); cells += 64) {
        FarnnNetwork network = of_cells(kLstm, cells);
        network.gates = gates;
        series.points.push_back({static_cast<double>(cells), 1e3 * times.training(network, *machine)});
      }
    }
    std::vector<FarnnNetwork> by_steps, by_batch;
    for (const int64_t steps : {100, 200, 400, 800, 1200, 1600}) by_steps.push_back(of_steps(kLstm, steps));
    for (const int64_t batch : {1, 2, 4, 8}) by_batch.push_back(of_batch(kLstm, batch));
    over_std(curve("fig8", "Fig 8: times faster than cuDNN-Std by steps, LSTM-1024, batch 1", "steps", "times faster"), by_steps,
             &FarnnNetwork::steps);
    over_std(curve("fig9", "Fig 9: times faster than cuDNN-Std by batch, LSTM-1024, 1,600 steps", "batch", "times faster"), by_batch,
             &FarnnNetwork::batch);
    FarnnCurve& fig10 = curve("fig10", "Fig 10: time by that of FARNN on VU9P, 800 steps, batch 1", "cells", "times as long");
    fig10.series = {{"FARNN", {}}, {"NoOverlap", {}}, {"AllFPGA", {}}};
    for (int64_t cells = 256; cells <= 1024; cells += 128) {
      const FarnnNetwork network = of_cells(of_steps(kLstm, 800), cells);
      const double farnn = times.training(network, reading.vu9p), x = static_cast<double>(cells);
      fig10.series[0].points.push_back({x, 1});
      fig10.series[1].points.push_back({x, times.no_overlap(network, reading.vu9p) / farnn});
      fig10.series[2].points.push_back({x, times.all_on_board(network, reading.vu9p) / farnn});
    }
  }
  return curves;
}

}  // namespace millrace
