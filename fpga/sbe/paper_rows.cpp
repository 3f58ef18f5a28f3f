#include "fpga/sbe/paper_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "fpga/recurrence/step_stall.h"
#include "fpga/sbe/event_simulation.h"
#include "fpga/sbe/paper_equations.h"
#include "fpga/sbe/resources.h"
#include "fpga/sbe/timing.h"

namespace millrace {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kMega = 1e6, kMebi = 1 << 20, kBitsOfWord = 16;
constexpr double kClock = 125e6;  // the Virtex's; the Zynq's is not printed
constexpr double kSlices = 900;   // of the XC7Z045
constexpr double kGopsPerDsp = 0.246, kGopsPerWatt = 20.84;
constexpr GateMatrix kLrcn{1792, 256, 4};

constexpr std::string_view kHolds = "holds", kContradicts = "paper contradicts itself", kNotPinned = "not pinned", kReported = "reported",
                           kNotReproduced = "not reproduced";

const SbeBoard& zynq() {
  static const SbeBoard board{.name = "zc706",
                              .dsp = kSlices,
                              .lut = 218'600,
                              .lutram_lut = 70'400,
                              .bram36 = 545,
                              .bytes_per_second = kUsableBandwidth * 12.8e9,
                              .clock_hz = kClock,
                              .bus_bits = 256};
  return board;
}

SbeConfig engine(int64_t blocks, int64_t steps, int64_t streams = 1) {
  SbeConfig config{.shape = kLrcn, .row_lanes = kLrcn.rows(), .streams = streams, .steps = steps};
  config.block_chunks = divided_up(kLrcn.columns(), blocks);
  return config;
}

PaperDesign paper(int64_t blocks, double batch) {
  return {.shape = kLrcn, .multipliers = 1024, .words_per_cycle = 16, .blocks = blocks, .batch = batch};
}

double share(const SbeConfig& config, double cycles) {
  return static_cast<double>(config.shape.weights() * config.vectors()) / cycles / static_cast<double>(config.multipliers());
}
double share(const SbeConfig& config) { return share(config, batch_timing(config).cycles); }

double bits_of_weights(int64_t inputs, int64_t hidden, bool biases) {
  const GateMatrix shape{inputs, hidden, 4};
  return kBitsOfWord * static_cast<double>(shape.weights() + (biases ? shape.rows() : 0));
}

// The smallest batch that keeps 1,024 multipliers busy from a bus that also brings its x and takes its h.
double least_batch_with_traffic() {
  const double weights = static_cast<double>(kLrcn.weights()), vector = static_cast<double>(kLrcn.columns());
  for (double batch = 1;; ++batch)
    if ((weights + batch * vector) / 16 <= weights * batch / 1024) return batch;
}

class RowList {
 public:
  // Held against the paper's number.
  void compared(BbLstmRow row) {
    row.paper_text = row.paper_text.empty() ? fmt::format("{:.6g}", row.paper) : row.paper_text;
    row.verdict = std::fabs(row.model / row.paper - 1) <= row.tolerance ? kHolds : kNotReproduced;
    rows.push_back(std::move(row));
  }
  void told(BbLstmRow row, std::string_view verdict) {
    if (row.paper_text.empty()) row.paper_text = std::isfinite(row.paper) ? fmt::format("{:.6g}", row.paper) : "-";
    row.verdict = verdict;
    rows.push_back(std::move(row));
  }

  std::vector<BbLstmRow> rows;
};

void add_memory(RowList& rows) {
  rows.compared({"weights_512", "Sec 1", "weights of an LSTM of 512 on 512", "Mb", 33.6, "", bits_of_weights(512, 512, true) / kMega, "",
                 0.005, "", "", "Mb of 10^6 bits, with biases or without"});
  rows.compared({"weights_1024", "Sec 1", "weights of an LSTM of 1024 on 1024", "Mb", 134.3, "", bits_of_weights(1024, 1024, true) / kMega,
                 "", 0.0003, "", "", "only with biases; 134.22 without"});
  rows.compared({"memory_7045", "Sec 1", "memory on the XC7Z045", "Mb", 19.2, "", 545 * 36.0 / 1024, "", 0.005, "", "bram36",
                 "Mb of 2^20 bits here"});
  rows.compared({"memory_690t", "Sec 1", "memory on the XC7VX690T", "Mb", 53, "", 1470 * 36.0 / 1000, "", 0.005, "", "bram36",
                 "thousands of 1,024 bits: a third unit"});
  rows.told({"weights_lrcn", "Sec 6.1", "weights of LSTM-256 on 1,792", "Mb", 32, "more than 32", bits_of_weights(1792, 256, true) / kMebi,
             "", 0, "", "", "2^20 bits: the same count as the 33.6 of Sec 1"},
            bits_of_weights(1792, 256, true) / kMebi > 32 ? kHolds : kNotReproduced);
  rows.compared({"chip_share_16", "Sec 6.3.2", "weights on the chip at Nb = 16", "of all", 1.0 / 8, "1/8", 2.0 / 16, "", 0, "", "",
                 "of bits, not of blocks: see the memory's table"});
}

void add_batches(RowList& rows) {
  rows.compared(
      {"least_batch_256", "Eq 1, Sec 6.3.1", "smallest batch that hides loading, bus of 256 bits", "", 64, "", 1024.0 / 16, "", 0, ""});
  rows.compared({"least_batch_512", "Sec 6.2", "the same, bus of 512 bits", "", 32, "", 1024.0 / 32, "", 0, ""});
  rows.told({"least_batch_traffic", "Eq 1", "the same at 256 bits with x and h on the bus", "", 64, "64", least_batch_with_traffic(),
             fmt::format("{:.0f}; B = 64 gives {:.3f} of the peak", least_batch_with_traffic(), share(engine(8, 64))), 0, "", "bus_bits",
             "the paper leaves x and h out at exactly its balance point"},
            kReported);
}

void add_curves(RowList& rows) {
  rows.told({"fig13_full", "Fig 13", "P / Npe at Nb = 1, 2, 4, 8", "", 1, "Pm", paper_products_per_cycle(paper(8, 64)) / 1024, "", 0, "",
             "", "by its equations"},
            paper_products_per_cycle(paper(1, 64)) == 1024 && paper_products_per_cycle(paper(8, 64)) == 1024 ? kHolds : kNotReproduced);
  const double sixteen = paper_products_per_cycle(paper(16, 64)) / 1024, thirty_two = paper_products_per_cycle(paper(32, 64)) / 1024;
  rows.told({"fig13_sweet_spot", "Fig 13, Sec 6.3.2", "proper Nb", "", 16, "16", 16,
             fmt::format("{:.3f} at 16, {:.3f} at 32", sixteen, thirty_two), 0, "", "",
             "the last of case 2; by blocks Nb = 8 costs the same as 16: see the memory's table"},
            paper_case(paper(16, 64)) == 2 && paper_case(paper(32, 64)) == 3 ? kHolds : kNotReproduced);
  const double gain = 100 * (share(engine(8, 64)) / share(engine(16, 64)) - 1);
  rows.compared({"gain_16_to_8", "Sec 6.3.2", "gain from Nb 16 to 8", "%", 10, "about 10", gain,
                 fmt::format("{:.1f} with stalls and traffic, {:.1f} by the equations", gain, 100 * (1 / sixteen - 1)), 0.3, "",
                 "tail_latency_cycles"});
  rows.compared({"final_block", "Sec 5.1", "final block slower by stalls", "%", 10, "about 10",
                 100 * static_cast<double>(batch_timing(engine(8, 64)).stall) / 256, "", 0.1, "", "tail_latency_cycles",
                 "the latency of 25 cycles is fitted to it; nothing at Nb = 4, whose last block has x in front"});
}

void add_boards(RowList& rows) {
  const double gops = kGopsPerDsp * kSlices;
  const double low = 2e-9 * kClock * 1024 * share(engine(16, 64)), high = 2e-9 * kClock * paper_products_per_cycle(paper(16, 64));
  rows.told({"gops_per_watt", "Abstract, Sec 6.4", "GOPS per watt, ZC706", "GOPS/W", kGopsPerWatt, "", kNone,
             fmt::format("{:.1f} GOPS at {:.2f} W", gops, gops / kGopsPerWatt), 0, "", "",
             "an identity: GOPS and watts stand in a table not at hand"},
            kReported);
  rows.told({"gops_zc706", "Table 4", "GOPS on the ZC706, Nb = 16, from 0.246 GOPS/DSP", "GOPS", gops, "", (low + high) / 2,
             fmt::format("{:.1f} with traffic and stalls to {:.1f} without", low, high), 0, "", "clock_hz tail_latency_cycles bus_bits",
             "between the two at 125 MHz; the Zynq's clock is not printed"},
            low <= gops && gops <= high ? kHolds : kNotReproduced);
  rows.told({"gops_vx690t", "Sec 6.4", "GOPS on the VX690T, 2,048 multipliers at 125 MHz", "GOPS", 356, "", 2e-9 * kClock * 2048,
             "512 at best; 410 or 31 to 34 for Nb 8 or 16", 0, "", "clock_hz", "Lx, Nb, B and Nt of LSTM-512 are not stated", false},
            kNotReproduced);
  rows.told({"words_vx690t", "Sec 6.4", "words a cycle, B x Nt, that would give 356 GOPS in case 1", "", kNone, "-", 356e9 / 2 / kClock, "",
             0, "", "", "a slower bus than 32 words explains it; nothing says so"},
            kNotPinned);
  rows.told({"rival_per_watt", "Abstract", "times the best rival's GOPS/W", "", 1.65, "", kNone,
             fmt::format("a rival of {:.2f} GOPS/W", kGopsPerWatt / 1.65)},
            kReported);
  rows.told(
      {"rival_per_dsp", "Abstract", "times the best rival's GOPS/DSP", "", 2.48, "", kNone,
       fmt::format("a rival of {:.4f} GOPS/DSP", kGopsPerDsp / 2.48), 0, "", "", "the conference version prints 1.60 for the same ratio"},
      kContradicts);
  rows.told({"speed_up", "Sec 6.4", "times faster than CPU, GPU", "", 23.7, "23.7, 1.3", kNone,
             fmt::format("CPU {:.2f}, GPU {:.1f} GOPS", gops / 23.7, gops / 1.3), 0, "", "", "batch 32 there, 64 here"},
            kReported);
  rows.told({"energy", "Abstract, Sec 6.4", "times less energy, or power, than CPU, GPU", "", 208, "208, 19.2", kNone,
             fmt::format("as energy {:.0f} W and {:.0f} W; as power {:.0f} W and {:.0f} W", 208 / 23.7 * gops / kGopsPerWatt,
                         19.2 / 1.3 * gops / kGopsPerWatt, 208 * gops / kGopsPerWatt, 19.2 * gops / kGopsPerWatt),
             0, "", "", "Sec 6.4 says power; only the abstract's energy is possible"},
            kContradicts);
  for (const double times : {1.60, 5.41}) {
    const double alpha = (1 - 1 / times) / (1 - 1.0 / 64);
    rows.told(
        {times < 2 ? "fig15_least" : "fig15_most", "Fig 15", "times faster than without reuse, very large layers", "", times, "", alpha,
         fmt::format("alpha {:.3f}, so Lh {:.0f} at Lx 1792", alpha, 1792 * (1 - alpha) / alpha), 0, "", "", "one free number each"},
        kNotPinned);
  }
  rows.told({"multipliers", "Sec 6.2", "multipliers, on 900 slices", "", 1024, "1,024", kNone,
             fmt::format("{} in LUTs, with the tail's", sbe_use(engine(16, 64), zynq()).fabric_multipliers), 0, "", "dsp",
             "its own equation for slices gives 1,024; \"a few multiplication units\" are built of LUTs"},
            kContradicts);
  rows.told({"accuracy", "Sec 6.1", "top-1, top-5 on UCF101", "%", 72.97, "72.97, 89.61", kNone, "-", 0, "", "",
             "not modelled: the data are not at hand"},
            kReported);
}

CurvePoint point(double x, double equations, const SbeConfig& config) {
  return {x, equations, share(config), share(config, simulated_batch_cycles(config))};
}

}  // namespace

std::vector<BbLstmRow> bb_lstm_rows() {
  RowList rows;
  add_memory(rows);
  add_batches(rows);
  add_curves(rows);
  add_boards(rows);
  return std::move(rows.rows);
}

std::vector<BbLstmCurve> bb_lstm_curves() {
  std::vector<BbLstmCurve> curves;
  BbLstmCurve fig13{"fig13", "Throughput by number of blocks, B = 64", "blocks (Nb)", {}};
  for (const int64_t blocks : {1, 2, 4, 8, 16, 32, 64, 128})
    fig13.points.push_back(point(static_cast<double>(blocks), paper_products_per_cycle(paper(blocks, 64)) / 1024, engine(blocks, 64)));
  curves.push_back(fig13);
  for (const auto& [id, title, blocks] :
       {std::tuple<std::string_view, std::string_view, int64_t>{"fig14_8", "Throughput by batch, Nb = 8", 8},
        {"fig14_16", "Throughput by batch, Nb = 16", 16},
        {"fig14_32", "Throughput by batch, Nb = 32", 32}}) {
    BbLstmCurve fig14{id, title, "steps of a batch (B)", {}};
    for (const int64_t batch : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128})
      fig14.points.push_back(point(static_cast<double>(batch), paper_products_per_cycle(paper(blocks, static_cast<double>(batch))) / 1024,
                                   engine(blocks, batch)));
    curves.push_back(fig14);
  }
  // Against loading every weight at every step, Nt products a cycle: over the inputs' share of the columns.
  BbLstmCurve fig15{"fig15", "Times faster than without reuse, Nb = 64, B = 64", "inputs' share of the columns (alpha)", {}};
  BbLstmCurve fig9{"fig9", "Roofline: share of the peak by products per word from outside, one stream", "products per word", {}};
  for (const int64_t hidden : {128, 256, 372, 512, 1024, 2048, 2912}) {
    SbeConfig config{.shape = {1792, hidden, 4}, .row_lanes = 1024, .steps = 64};
    config.row_lanes = divided_up(hidden, divided_up(hidden, 256)) * 4;
    config.block_chunks = divided_up(config.shape.columns(), 64);
    const PaperDesign design{config.shape, 1024, 16, 64, 64};
    const double alpha = 1792.0 / static_cast<double>(config.shape.columns());
    const double times = static_cast<double>(config.multipliers()) / 16;
    const CurvePoint one = point(alpha, paper_products_per_cycle(design) / 16, config);
    fig15.points.push_back({one.x, one.paper, one.model * times, one.simulated * times});
  }
  for (const int64_t blocks : {8, 16, 32})
    for (const int64_t batch : {1, 4, 16, 32, 64, 128}) {
      const SbeConfig config = engine(blocks, batch);
      const double products = static_cast<double>(kLrcn.weights() * batch) / static_cast<double>(batch_timing(config).words);
      fig9.points.push_back(point(products, std::min(1.0, products * 16 / 1024), config));
    }
  std::ranges::sort(fig9.points, {}, &CurvePoint::x);
  curves.push_back(fig15);
  curves.push_back(fig9);
  return curves;
}

std::vector<MemoryPoint> bb_lstm_memory() {
  std::vector<MemoryPoint> points;
  for (const int64_t blocks : {1, 2, 4, 8, 16, 32, 64}) {
    SbeConfig two = engine(blocks, 64);
    two.one_weight_memory = false;
    const SbeUse apart = sbe_use(two, zynq()), shared = sbe_use(engine(blocks, 64), zynq());
    points.push_back({blocks, std::ceil(paper_buffer_bits(paper(blocks, 64)) / static_cast<double>(kBram36Bits)), apart.bram36,
                      shared.bram36, apart.fits(zynq()), shared.fits(zynq())});
  }
  return points;
}

}  // namespace millrace
