// The RTL of one engine, or of what follows a sum, put through Yosys, and what the resource model says of it.
//
//   const EngineCase one = engine_case("forward_engine", {3, 1, 1, 2, 1}, /*address_bits=*/10);
//   const EngineCase pooling = pooling_case("unpooling_unit", {3, 2, 2, 2, 1}, /*address_bits=*/9, /*average=*/true);
//   const SynthesisResult found = synthesized(one, "xc7", folder);
//   if (found.log.empty()) EXPECT_EQ(found.use.dsp, one.modelled.dsp);
//
// Families: xc7 (7 series) and xcup (UltraScale+). Yosys maps and counts; it places nothing, so of LUTs and flip-flops it says
// only roughly what a vendor's tools would. Synthesis of 50 multipliers takes some ten seconds.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/files.h"
#include "fpga/common/cost/shared_out.h"
#include "fpga/conv_ce/rtl/module_resources.h"
#include "fpga/conv_ce/rtl/rtl_modules.h"

namespace millrace {

struct EngineCase {
  std::string top;
  EngineParallelism engine;
  int address_bits = 0;
  EngineResources modelled;
  std::string parameters;  // as `chparam` takes them
  int64_t ultra_bits = 0;  // of a memory's words
};

struct SynthesisResult {
  EngineResources use;
  int64_t luts = 0, flip_flops = 0, lutram = 0, uram = 0;
  std::string log;  // of a synthesis that failed; empty: none did
};

inline EngineCase engine_case(const std::string& top, EngineParallelism engine, int address_bits) {
  EngineCase made{.top = top, .engine = engine, .address_bits = address_bits, .modelled = {}, .parameters = {}};
  EngineMemories m = engine_memories(engine, {.inputs = 1,
                                              .outputs = 1,
                                              .height = 16,
                                              .width = 16,
                                              .kernel_h = engine.kernel,
                                              .kernel_w = engine.kernel,
                                              .stride_h = engine.stride,
                                              .stride_w = engine.stride});
  m.column_address = 6;
  m.group_address = 6;
  m.line_address = m.error_line_address = m.gradient_error_address = address_bits;
  made.parameters = fmt::format(
      "-set KERNEL {} -set STRIDE {} -set INPUT_LANES {} -set OUTPUT_LANES {} -set KERNELS_PER_WORD {} "
      "-set LINE_ADDRESS_BITS {} ",
      engine.kernel, engine.stride, engine.input_lanes, engine.output_lanes, engine.kernels_per_word, address_bits);
  if (top == "forward_engine") {
    made.modelled = forward_resources(engine, m);
    made.parameters += fmt::format("-set ROW_BANKS_LOG2 {} -set COLUMN_BANKS_LOG2 {}", m.row_banks, m.column_banks);
  } else if (top == "error_back_engine") {
    made.modelled = error_back_resources(engine, m);
    made.parameters += fmt::format("-set ROW_BANKS_LOG2 {} -set COLUMN_BANKS_LOG2 {}", m.error_row_banks, m.error_column_banks);
  } else {
    made.modelled = gradient_resources(engine, m);
    made.parameters += fmt::format("-set ROW_BANKS_LOG2 {} -set COLUMN_BANKS_LOG2 {} -set ERROR_ADDRESS_BITS {}", m.row_banks,
                                   m.column_banks, address_bits);
  }
  return made;
}

// Kernel, stride and lanes of `window` are those of pooling_parallelism().
inline EngineCase pooling_case(const std::string& top, EngineParallelism window, int address_bits, bool average) {
  EngineCase made{.top = top, .engine = window, .address_bits = address_bits, .modelled = {}, .parameters = {}};
  EngineMemories m = engine_memories(window, {.inputs = 1,
                                              .outputs = 1,
                                              .height = 16,
                                              .width = 16,
                                              .kernel_h = window.kernel,
                                              .kernel_w = window.kernel,
                                              .stride_h = window.stride,
                                              .stride_w = window.stride});
  m.column_address = 6;
  m.line_address = m.error_line_address = address_bits;
  const bool forward = top == "pooling_unit";
  const PoolingWindow places{
      .kernel_h = window.kernel, .kernel_w = window.kernel, .stride_h = window.stride, .stride_w = window.stride, .average = average};
  if (places.is_large()) m = gathered_memories(places, int64_t{1} << address_bits);
  made.modelled = forward ? pooling_resources(window, m, places) : unpooling_resources(window, m, places);
  made.parameters = fmt::format(
      "-set LANES {} -set POOL_KERNEL {} -set POOL_STRIDE {} -set AVERAGE {} -set LINE_ADDRESS_BITS {} -set ROW_BANKS_LOG2 {} "
      "-set COLUMN_BANKS_LOG2 {} -set PLACE_BITS {}",
      window.input_lanes, window.kernel, window.stride, average ? 1 : 0, address_bits, forward ? m.row_banks : m.error_row_banks,
      forward ? m.column_banks : m.error_column_banks, places.place_bits());
  return made;
}

// A memory alone, which is DEPTH or WORDS deep.
inline EngineCase memory_case(const std::string& top, const MemoryShape& memory, const std::string& parameters, int64_t ultra_bits = 0) {
  return {.top = top,
          .engine = {},
          .address_bits = 0,
          .modelled = {.bram18 = static_cast<int64_t>(2 * blocks_of(memory, ultra_bits).bram36)},
          .parameters = parameters + (ultra_bits == 0 ? "" : fmt::format(" -set ULTRA_BITS {}", ultra_bits)),
          .ultra_bits = ultra_bits};
}

inline EngineCase sorter_case(int64_t lanes, const SorterMemory& memory) {
  return {.top = "row_sorter",
          .engine = {.input_lanes = lanes},
          .address_bits = memory.address,
          .modelled = sorter_resources(lanes, memory),
          .parameters = fmt::format("-set WIDTH {} -set ROW_BANKS_LOG2 {} -set ADDRESS_BITS {}", lanes * kElementBits, memory.row_banks,
                                    memory.address)};
}

// Of a sum of several maps: the sum so far has `wider_bits` more than an element; that which leaves has one more yet, or is complete.
inline EngineCase adder_case(int64_t lanes, int64_t wider_bits, bool complete) {
  const int64_t bits = kElementBits + wider_bits;
  return {.top = "map_adder",
          .engine = {.input_lanes = lanes},
          .address_bits = 0,
          .modelled = {},
          .parameters = fmt::format("-set LANES {} -set A_END 8 -set B_END 8 -set A_BITS {} -set OUT_BITS {}", lanes, bits,
                                    complete ? kElementBits : bits + 1)};
}

// Cells whose name begins with `prefix`.
inline int64_t cells_of(const std::string& statistics, const std::string& prefix) {
  int64_t count = 0;
  for (size_t at = 0; (at = statistics.find(" " + prefix, at)) != std::string::npos; ++at) {
    const size_t number = statistics.find(' ', at + 1);
    if (number != std::string::npos && number < statistics.find('\n', at)) count += std::strtoll(statistics.c_str() + number, nullptr, 10);
  }
  return count;
}

inline bool yosys_is_here() { return std::system("yosys -V > /dev/null 2>&1") == 0; }

// Slices and blocks are there before logic is mapped, which takes as long again and is left out where LUTs and flip-flops are not asked
// for.
enum class SynthesisEnd { kBlocks, kAll };

inline SynthesisResult synthesized(const EngineCase& one, const std::string& family, const std::string& folder,
                                   SynthesisEnd end = SynthesisEnd::kAll) {
  make_folders(folder);
  std::string script;
  for (const RtlModule& module : rtl_modules()) {
    write_atomically(folder + "/" + std::string(module.file), module.text);
    // Memories with images are for devices, and need one.
    if (module.file != "parameter_memory.sv" || one.top == "parameter_memory")
      script += fmt::format("read_verilog -sv {}/{}\n", folder, module.file);
  }
  script +=
      fmt::format("chparam {} {}\nsynth_xilinx -family {}{} -flatten -top {}{}\ntee -o {}/statistics.txt stat\n", one.parameters, one.top,
                  family, one.ultra_bits > 0 ? " -uram" : "", one.top, end == SynthesisEnd::kBlocks ? " -run begin:fine" : "", folder);
  SynthesisResult result;
  // The same sources and parameters again: what came out is still there.
  std::string sources = script;
  for (const RtlModule& module : rtl_modules()) sources += module.text;
  const bool done = std::filesystem::exists(folder + "/statistics.txt") && std::filesystem::exists(folder + "/sources.txt") &&
                    read_text(folder + "/sources.txt") == sources;
  write_atomically(folder + "/script.ys", std::string_view(script));
  if (!done && std::system(fmt::format("yosys -q {}/script.ys > {}/log.txt 2>&1", folder, folder).c_str()) != 0) {
    result.log = "yosys failed:\n" + read_text(folder + "/log.txt");
    return result;
  }
  write_atomically(folder + "/sources.txt", std::string_view(sources));
  const std::string statistics = read_text(folder + "/statistics.txt");
  result.use = {.dsp = cells_of(statistics, "DSP48E"), .bram18 = cells_of(statistics, "RAMB18E") + 2 * cells_of(statistics, "RAMB36E")};
  result.uram = cells_of(statistics, "URAM");
  result.flip_flops = cells_of(statistics, "FD");
  for (const char* lut : {"LUT1", "LUT2", "LUT3", "LUT4", "LUT5", "LUT6"}) result.luts += cells_of(statistics, lut);
  for (const char* memory : {"RAM32", "RAM64", "RAM128", "RAM256"}) result.lutram += cells_of(statistics, memory);
  return result;
}

}  // namespace millrace
