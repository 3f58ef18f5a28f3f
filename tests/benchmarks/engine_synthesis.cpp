// The resource model of the engines against Yosys, over seven sizes of each and two families: DSP slices and block RAM.
//
//   build/release/bin/engine_synthesis --folder build/synthesis --out tests/benchmarks/results/engine_synthesis.json
//
// Prints every deviation by name; LUTs and flip-flops are Yosys's alone. A synthesis whose files are in the folder is not
// repeated, so that a run that was stopped goes on; the results so far are always written. Ends with 1 when a deviation has no explanation.
#include "tests/fpga/conv_ce/synthesis/engine_synthesis.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace {

using namespace millrace;

struct Size {
  EngineParallelism engine;
  int address_bits;
};

// Kernels and strides of the zoo, lanes that are no powers of two, memories shallower and deeper than a block.
constexpr Size kSizes[] = {{{3, 1, 1, 2, 1}, 10}, {{3, 1, 2, 2, 4}, 9}, {{3, 1, 4, 1, 2}, 8}, {{1, 2, 2, 3, 2}, 7},
                           {{1, 1, 4, 4, 4}, 10}, {{3, 2, 1, 2, 1}, 9}, {{5, 1, 1, 1, 1}, 9}};

// Why the model and Yosys may differ; empty: there is no reason known.
std::string explanation(const EngineCase& one, const SynthesisResult& found) {
  if (found.use.dsp != one.modelled.dsp) return "";
  if (found.use.bram18 < one.modelled.bram18 && found.lutram > 0)
    return "Yosys builds a shallow memory of LUTs that is modelled as block RAM";
  return "";
}

// Sums of two to five maps, adder by adder.
nlohmann::ordered_json map_adders(const std::string& folder) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const int64_t lanes : {1, 4, 16})
    for (int64_t maps = 2; maps <= 5; ++maps)
      for (const char* family : {"xc7", "xcup"}) {
        int64_t luts = 0, flip_flops = 0;
        double modelled = 0;
        for (int64_t operand = 1; operand < maps; ++operand) {
          const auto wider = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(operand - 1)));
          const bool grows = operand + 1 < maps;  // by a bit at most: four operands are as wide as three
          EngineCase one = adder_case(lanes, wider, !grows);
          if (grows && std::bit_width(static_cast<uint64_t>(operand)) == std::bit_width(static_cast<uint64_t>(operand - 1)))
            one.parameters += fmt::format(" -set OUT_BITS {}", kElementBits + wider);
          const SynthesisResult found =
              synthesized(one, family, fmt::format("{}/map_adder_{}_{}_{}_{}", folder, lanes, wider, grows, family));
          if (!found.log.empty()) fail(ErrorCode::kUnavailable, "map_adder: {}", found.log);
          luts += found.luts;
          flip_flops += found.flip_flops;
          modelled += map_adder_luts(lanes, wider);
        }
        fmt::print("sum of {} maps, {} lanes, {}: LUT {} modelled {}   FF {}\n", maps, lanes, family, luts, modelled, flip_flops);
        rows.push_back(
            {{"maps", maps}, {"lanes", lanes}, {"family", family}, {"lut", luts}, {"lut_modelled", modelled}, {"ff", flip_flops}});
      }
  return rows;
}

int measure(const std::string& folder, const std::string& out) {
  if (!yosys_is_here()) fail(ErrorCode::kUnavailable, "yosys is not installed; install it (Debian: yosys)");
  const nlohmann::ordered_json adders = map_adders(folder);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  int64_t exact = 0, explained = 0, unexplained = 0;
  for (const Size& size : kSizes)
    for (const char* top : {"forward_engine", "error_back_engine", "gradient_engine"})
      for (const char* family : {"xc7", "xcup"}) {
        const EngineCase one = engine_case(top, size.engine, size.address_bits);
        const EngineParallelism& e = size.engine;
        const std::string name = fmt::format("{}_k{}s{}_{}x{}_{}_a{}_{}", top, e.kernel, e.stride, e.input_lanes, e.output_lanes,
                                             e.kernels_per_word, size.address_bits, family);
        const SynthesisResult found = synthesized(one, family, folder + "/" + name);
        if (!found.log.empty()) fail(ErrorCode::kUnavailable, "{}: {}", name, found.log);
        const bool same = found.use == one.modelled;
        const std::string reason = same ? "" : explanation(one, found);
        (same ? exact : reason.empty() ? unexplained : explained) += 1;
        fmt::print("{:<52} DSP {:>4} modelled {:>4}   BRAM18 {:>4} modelled {:>4}   LUT {:>6} FF {:>6}   {}\n", name, found.use.dsp,
                   one.modelled.dsp, found.use.bram18, one.modelled.bram18, found.luts, found.flip_flops,
                   same             ? "exact"
                   : reason.empty() ? "NOT EXPLAINED"
                                    : reason);
        std::fflush(stdout);
        rows.push_back({{"engine", top},
                        {"family", family},
                        {"kernel", e.kernel},
                        {"stride", e.stride},
                        {"input_lanes", e.input_lanes},
                        {"output_lanes", e.output_lanes},
                        {"line_address_bits", size.address_bits},
                        {"dsp", found.use.dsp},
                        {"dsp_modelled", one.modelled.dsp},
                        {"bram18", found.use.bram18},
                        {"bram18_modelled", one.modelled.bram18},
                        {"lut", found.luts},
                        {"ff", found.flip_flops},
                        {"lutram_cells", found.lutram},
                        {"exact", same},
                        {"explanation", reason}});
        const nlohmann::ordered_json result = {
            {"what", "resources of the engines' RTL: Yosys synth_xilinx -flatten beside the resource model"},
            {"command", "engine_synthesis"},
            {"exact", exact},
            {"explained", explained},
            {"not_explained", unexplained},
            {"syntheses", rows},
            {"map_adders", adders}};
        if (!out.empty()) write_atomically(out, result.dump(1) + "\n");
      }
  fmt::print("{} exact, {} explained, {} not explained\n", exact, explained, unexplained);
  return unexplained == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("the engines' resource model against Yosys");
  std::string folder = "build/synthesis", out;
  app.add_option("--folder", folder, "for scripts and statistics [build/synthesis]");
  app.add_option("--out", out, "JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    return measure(folder, out);
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
