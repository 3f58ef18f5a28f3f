#include <fmt/format.h>

#include "fpga/pe_chain/paper_rows.h"

namespace millrace {

const std::vector<FarnnReading>& farnn_readings() {
  static const std::vector<FarnnReading> readings = [] {
    const FarnnMachine four{
        .elements = 256, .load_bytes_per_second = 7.5e9, .pass_seconds = 5e-4, .forward_exposed = kActivationCycles, .back_exposed = 0};
    const FarnnMachine wide{
        .elements = 416, .load_bytes_per_second = 12e9, .pass_seconds = 1e-4, .forward_exposed = {}, .back_exposed = {}};
    FarnnReading first{.name = "four",
                       .vu9p = four,
                       .vu13p = four,
                       .gru_vu9p = 432,
                       .gru_vu13p = 640,
                       .rnnt_vu9p = 192,
                       .rnnt_vu13p = 288,
                       .half_lanes_bytes_per_second = 5.5e9};
    FarnnReading second{.name = "wide",
                        .vu9p = wide,
                        .vu13p = wide,
                        .gru_vu9p = 544,
                        .gru_vu13p = 672,
                        .rnnt_vu9p = 192,
                        .rnnt_vu13p = 320,
                        .half_lanes_bytes_per_second = 6e9};
    first.vu13p.elements = 368;
    second.vu13p.elements = 512;
    return std::vector<FarnnReading>{first, second};
  }();
  return readings;
}

std::vector<Constant> farnn_constants() {
  std::vector<Constant> constants = {{"clock_MHz", 400, "paper 5.1.2"},
                                     {"chains", static_cast<double>(kPortChains), "paper 5.1.2"},
                                     {"activation_cycles", static_cast<double>(kActivationCycles), "paper 5.1.3"},
                                     {"most_parts", 2, "paper 5.1.3"},
                                     {"adder_cycles", static_cast<double>(kAdderCycles), "chosen"},
                                     {"relay_cycles", static_cast<double>(kRelayCycles), "chosen"},
                                     {"gpu_TFLOPS", kGpuPeakFlops / 1e12, "paper 4.1"},
                                     {"gpu_share", kGpuShare, "fitted"},
                                     {"gpu_GBs", 732, "catalogue"},
                                     {"gpu_dram_share", kGpuDramShare, "projected"},
                                     {"update_bytes", kUpdateBytes, "chosen"},
                                     {"chunks", 16, "chosen"},
                                     {"uram", 960, "catalogue"},
                                     {"bram36", 2160, "catalogue"}};
  for (const FarnnReading& r : farnn_readings()) {
    const auto add = [&](std::string_view name, double value, const char* origin) {
      constants.push_back({fmt::format("{}: {}", r.name, name), value, origin});
    };
    add("elements, LSTM, VU9P", static_cast<double>(r.vu9p.elements), "inferred");
    add("elements, LSTM, VU13P", static_cast<double>(r.vu13p.elements), "inferred");
    add("elements, GRU, VU9P", static_cast<double>(r.gru_vu9p), "inferred");
    add("elements, GRU, VU13P", static_cast<double>(r.gru_vu13p), "inferred");
    add("elements of 8,192 weights, VU9P", static_cast<double>(r.rnnt_vu9p), "paper 6.1: 768 by 4");
    add("elements of 8,192 weights, VU13P", static_cast<double>(r.rnnt_vu13p), "inferred");
    add("load_GBs", r.vu9p.load_bytes_per_second / 1e9, "fitted");
    add("pass_ms", 1e3 * r.vu9p.pass_seconds, "fitted");
    add("half_lanes_GBs", r.half_lanes_bytes_per_second / 1e9, "chosen");
    if (r.vu9p.forward_exposed) {
      add("forward_exposed", static_cast<double>(*r.vu9p.forward_exposed), "paper 5.1.3; that it is exposed is fitted");
      add("back_exposed", static_cast<double>(*r.vu9p.back_exposed), "fitted");
    }
  }
  return constants;
}

}  // namespace millrace
