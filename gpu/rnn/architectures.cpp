#include "gpu/rnn/architectures.h"

#include <cstdio>

namespace millrace::rnn {
namespace {

// A multiply-add takes four cycles on all of them: latencies of L2 in cycles, there and back, are eight times the model's.
constexpr Constant l2_latency(double cycles, Basis basis, const char* note) {
  return {&Gpu::l2_latency, "l2_latency", cycles / 8, basis, note};
}

#define MILLRACE_QUOTED "Luo et al. (2024), quoted without the paper at hand: "
// With twice Titan V's lanes per multiprocessor the multipliers saturate at twice the load, with the same slowdown there: what three
// doublings made of it takes four.
#define MILLRACE_LANES "128 fp32 lanes of a multiprocessor (CUDA programming guide), 64 on Titan V"
#define MILLRACE_LINE \
  { &Gpu::l2_line_cycles, "l2_line_cycles", 2, Basis::kDerived, "lines of 128 bytes, slices of 64 a cycle (A100 whitepaper)" }
#define MILLRACE_CLUSTERS(basis, note)                                                                                                    \
  {&Gpu::cluster_latency, "cluster_latency", 180.0 / 8, basis, note "180 cycles from block to block and back on an H100"}, {              \
    &Gpu::cluster_bytes_per_cycle, "cluster_bytes_per_cycle", 13, basis, note "2.65 TB/s of an H100's 114 multiprocessors, clusters of 4" \
  }
#define MILLRACE_TWICE_THE_LANES                                                                        \
  {&Gpu::products_saturate, "products_saturate", 16, Basis::kDerived, MILLRACE_LANES},                  \
      {&Gpu::warp_slowdown, "warp_slowdown", 1.4226, Basis::kDerived, "1.6 to the power 3/4: lanes"}, { \
    &Gpu::reuse_slowdown, "reuse_slowdown", 1.2385, Basis::kDerived, "1.33 to the power 3/4: lanes"     \
  }

constexpr Constant kAmpere[] = {MILLRACE_LINE, l2_latency(200, Basis::kQuoted, MILLRACE_QUOTED "200 cycles on an A100")};
constexpr Constant kAmpereConsumer[] = {MILLRACE_LINE, MILLRACE_TWICE_THE_LANES,
                                        l2_latency(273, Basis::kAssumed, "as compute capability 8.9")};
constexpr Constant kAda[] = {MILLRACE_LINE, MILLRACE_TWICE_THE_LANES,
                             l2_latency(273, Basis::kQuoted, MILLRACE_QUOTED "273 cycles on an RTX 4090")};
constexpr Constant kHopper[] = {MILLRACE_LINE, MILLRACE_CLUSTERS(Basis::kQuoted, MILLRACE_QUOTED), MILLRACE_TWICE_THE_LANES,
                                l2_latency(263, Basis::kQuoted, MILLRACE_QUOTED "263 cycles on an H100")};
constexpr Constant kBlackwell[] = {MILLRACE_LINE, MILLRACE_CLUSTERS(Basis::kAssumed, "as compute capability 9.0: "),
                                   MILLRACE_TWICE_THE_LANES, l2_latency(263, Basis::kAssumed, "as compute capability 9.0")};
constexpr Constant kBlackwellConsumer[] = {MILLRACE_LINE, MILLRACE_CLUSTERS(Basis::kAssumed, "as compute capability 9.0: "),
                                           MILLRACE_TWICE_THE_LANES, l2_latency(273, Basis::kAssumed, "as compute capability 8.9")};

constexpr Architecture kArchitectures[] = {{80, kAmpere}, {86, kAmpereConsumer}, {89, kAda},
                                           {90, kHopper}, {100, kBlackwell},     {120, kBlackwellConsumer}};

#undef MILLRACE_QUOTED
#undef MILLRACE_LANES
#undef MILLRACE_LINE
#undef MILLRACE_CLUSTERS
#undef MILLRACE_TWICE_THE_LANES

}  // namespace

std::string_view name_of(Basis basis) {
  switch (basis) {
    case Basis::kQuoted: return "quoted";
    case Basis::kDerived: return "derived";
    case Basis::kAssumed: return "assumed";
    case Basis::kFitted: return "fitted";
  }
  return "";
}

std::span<const Architecture> architectures() { return kArchitectures; }

std::span<const Constant> constants_beside_titan_v(int capability) {
  std::span<const Constant> found;
  for (const Architecture& one : kArchitectures)
    if (one.capability <= capability) found = one.constants;
  return found;
}

Gpu constants_of(int capability, int multiprocessors) {
  Gpu gpu = titan_v();
  gpu.multiprocessors = multiprocessors;
  for (const Constant& one : constants_beside_titan_v(capability)) gpu.*one.member = one.value;
  return gpu;
}

std::string rows_of(const Gpu& fitted, const std::string& gpu) {
  struct Row {
    double Gpu::*member;
    const char* name;
  };
  constexpr Row kRows[] = {{&Gpu::multiply_add_latency, "multiply_add_latency"},
                           {&Gpu::l2_bytes_per_cycle, "l2_bytes_per_cycle"},
                           {&Gpu::l2_latency, "l2_latency"},
                           {&Gpu::shuffle, "shuffle"},
                           {&Gpu::warp_slowdown, "warp_slowdown"},
                           {&Gpu::reuse_slowdown, "reuse_slowdown"},
                           {&Gpu::products_saturate, "products_saturate"},
                           {&Gpu::saturated_slowdown, "saturated_slowdown"},
                           {&Gpu::reduction_slowdown, "reduction_slowdown"}};
  std::string rows;
  for (const Row& row : kRows) {
    char text[256];
    std::snprintf(text, sizeof(text), "{&Gpu::%s, \"%s\", %.6g, Basis::kFitted, \"%s\"},\n", row.name, row.name, fitted.*row.member,
                  gpu.c_str());
    rows += text;
  }
  return rows;
}

}  // namespace millrace::rnn
