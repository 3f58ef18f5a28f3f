// GFLOP/s of the products of recurrent layers (core/cpu/packed_product.h) at a few rows, beside what the machine can do at most.
//
//   build/release/bin/recurrent_products --out products.json
//   ONEDNN_MAX_CPU_ISA=AVX2 build/release/bin/recurrent_products
//
// One thread, by processor time. In every round the peak (fused multiply-adds between registers), reading the packed weights once, and
// the product run in turns; a figure is the fastest round, with the median beside it. A row multiplies each weight once: where `share of
// bound` is near 1, the weights could not be read faster. The bound is the lesser of the peak and 2 * rows operations for each weight read.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/cpu/instruction_set.h"
#include "core/cpu/packed_product.h"
#include "core/cpu/trial.h"
#include "core/cpu/vector_math.h"

namespace {

using namespace millrace::cpu;

template <int kVector>
struct VectorOf {
  typedef float Type __attribute__((vector_size(kVector * sizeof(float))));
};

// Chains of sums, enough of them that none waits for itself.
template <int kVector>
inline void add_in_registers(int64_t rounds, float* result) {
  using Vector = typename VectorOf<kVector>::Type;
  Vector a, b;
  std::memcpy(&a, result, sizeof a);
  b = 0.5f * a;
  // No two alike: equal ones would be made once.
  Vector s0 = a, s1 = s0 + b, s2 = s1 + b, s3 = s2 + b, s4 = s3 + b, s5 = s4 + b;
  Vector s6 = s5 + b, s7 = s6 + b, s8 = s7 + b, s9 = s8 + b, s10 = s9 + b, s11 = s10 + b;
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = s0 * a + b, s1 = s1 * a + b, s2 = s2 * a + b, s3 = s3 * a + b, s4 = s4 * a + b, s5 = s5 * a + b;
    s6 = s6 * a + b, s7 = s7 * a + b, s8 = s8 * a + b, s9 = s9 * a + b, s10 = s10 * a + b, s11 = s11 * a + b;
  }
  const Vector sum = s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7 + s8 + s9 + s10 + s11;
  std::memcpy(result, &sum, sizeof sum);
}
inline void add_wide(int64_t rounds, float* result) { add_in_registers<16>(rounds, result); }
inline void add_narrow(int64_t rounds, float* result) { add_in_registers<8>(rounds, result); }

// Reads every weight once.
inline void read_all(const float* from, int64_t count, float* result) {
  float sums[64] = {};
  for (int64_t i = 0; i + 64 <= count; i += 64)
    for (int64_t lane = 0; lane < 64; ++lane) sums[lane] += from[i + lane];
  for (int64_t lane = 0; lane < 64; ++lane) result[lane % 16] += sums[lane];
}

struct Figure {
  double least, median;
};
Figure figure_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {seconds.front(), seconds[seconds.size() / 2]};
}

struct Shape {
  std::string what;
  int64_t depth, columns;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measures products with packed weights at 1 to 32 rows"};
  std::string out;
  int rounds = 15;
  app.add_option("--out", out, "JSON file to write");
  app.add_option("--rounds", rounds, "rounds of each figure")->check(CLI::Range(3, 1000));
  CLI11_PARSE(app, argc, argv);

  const bool wide = instruction_set() == InstructionSet::kAvx512;
  const int64_t lanes = wide ? 16 : 8;
  const std::vector<Shape> shapes{{"lstm 256, forward", 256, 1024},   {"lstm 256, back", 1024, 256},   {"gru 512, forward", 512, 1024},
                                  {"lstm 1024, forward", 1024, 4096}, {"lstm 1024, back", 4096, 1024}, {"vanilla 256", 256, 256}};
  nlohmann::json rows_out = nlohmann::json::array();
  double loads[3] = {};
  getloadavg(loads, 3);
  fmt::print("{}, one thread, load {:.1f}; GFLOP/s of the fastest round (median)\n", name_of(loop_instruction_set()), loads[0]);
  fmt::print("{:20} {:>4} {:>16} {:>8} {:>14} {:>10} {:>14}\n", "product", "rows", "GFLOP/s", "peak", "share of peak", "read GB/s",
             "share of bound");
  alignas(64) float sink[16];
  for (const Shape& shape : shapes) {
    PackedMatrix weights(shape.depth, {{shape.columns, 0}}, lanes);
    std::vector<float> source(static_cast<size_t>(shape.depth * shape.columns), 1e-3f);
    weights.pack(source.data(), shape.depth, 1);
    const int64_t count = weights.bytes() / static_cast<int64_t>(sizeof(float));
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 32}) {
      std::vector<float> a(static_cast<size_t>(rows * shape.depth), 0.25f), c(static_cast<size_t>(rows * shape.columns), 0.0f);
      const double operations = 2.0 * static_cast<double>(rows * shape.depth * shape.columns);
      const auto calls = std::max<int64_t>(1, static_cast<int64_t>(2e8 / operations));
      constexpr int64_t kPeakRounds = 300000;
      const double peak_operations = 2.0 * 12 * static_cast<double>(lanes * kPeakRounds);
      std::vector<double> product_seconds, peak_seconds, read_seconds;
      const auto time = [](std::vector<double>& into, const std::function<void()>& work) {
        const double begin = read_clock(clock_for(1));
        work();
        into.push_back(read_clock(clock_for(1)) - begin);
      };
      for (int round = -1; round < rounds; ++round) {
        if (round == 0) product_seconds.clear(), peak_seconds.clear(), read_seconds.clear();
        std::ranges::fill(sink, 0.5f);
        time(peak_seconds, [&] { wide ? vectorised<add_wide>(kPeakRounds, sink) : vectorised<add_narrow>(kPeakRounds, sink); });
        time(read_seconds, [&] {
          for (int64_t call = 0; call < calls; ++call) vectorised<read_all>(weights.data(0), count, sink);
        });
        time(product_seconds, [&] {
          for (int64_t call = 0; call < calls; ++call)
            multiply_packed({a.data(), RowSteps::plain(shape.depth)}, rows, weights, weights.all(),
                            {c.data(), RowSteps::plain(shape.columns)}, Into::kAdd);
        });
      }
      const Figure product = figure_of(product_seconds), peak = figure_of(peak_seconds), read = figure_of(read_seconds);
      const double rate = operations * static_cast<double>(calls) / product.least,
                   median = operations * static_cast<double>(calls) / product.median;
      const double most = peak_operations / peak.least, read_rate = static_cast<double>(weights.bytes() * calls) / read.least;
      const double bound = std::min(most, 2.0 * static_cast<double>(rows) * read_rate / sizeof(float));
      fmt::print("{:20} {:>4} {:>8.1f} ({:>5.1f}) {:>8.1f} {:>13.0f}% {:>10.1f} {:>13.0f}%\n", shape.what, rows, 1e-9 * rate, 1e-9 * median,
                 1e-9 * most, 100 * rate / most, 1e-9 * read_rate, 100 * rate / bound);
      std::fflush(stdout);
      rows_out.push_back({{"product", shape.what},
                          {"depth", shape.depth},
                          {"columns", shape.columns},
                          {"rows", rows},
                          {"gflops", 1e-9 * rate},
                          {"gflops_median", 1e-9 * median},
                          {"peak_gflops", 1e-9 * most},
                          {"share_of_peak", rate / most},
                          {"read_gbytes_per_second", 1e-9 * read_rate},
                          {"share_of_bound", rate / bound}});
    }
  }
  if (out.empty()) return sink[0] == 12345.0f ? 1 : 0;
  nlohmann::json document{{"origin", "measured"},
                          {"benchmark", "tests/benchmarks/recurrent_products.cpp"},
                          {"instruction_set", name_of(loop_instruction_set())},
                          {"threads", 1},
                          {"clock", "processor time of the thread"},
                          {"rounds", rounds},
                          {"load_before", loads[0]}};
  getloadavg(loads, 3);
  document["load_after"] = loads[0];
  document["rows"] = std::move(rows_out);
  std::ofstream(out) << document.dump(1) << "\n";
  return sink[0] == 12345.0f ? 1 : 0;
}
