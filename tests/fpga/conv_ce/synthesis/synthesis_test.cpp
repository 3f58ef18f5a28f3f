// The resource model of the generated engines against Yosys: DSP slices and block RAM of small sizes, for 7-series parts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/base/files.h"
#include "fpga/conv_ce/rtl/module_resources.h"
#include "fpga/conv_ce/rtl/rtl_modules.h"

namespace millrace {
namespace {

int64_t cells_of(const std::string& statistics, const std::string& cell) {
  int64_t count = 0;
  for (size_t at = 0; (at = statistics.find(" " + cell + " ", at)) != std::string::npos; ++at)
    count += std::strtoll(statistics.c_str() + at + cell.size() + 2, nullptr, 10);
  return count;
}

struct Case {
  std::string top;
  EngineParallelism engine;
  EngineMemories memories;
  EngineResources modelled;
  std::string parameters;
};

Case engine_case(const std::string& top, EngineParallelism engine, int address_bits) {
  Case made{.top = top, .engine = engine, .memories = {}, .modelled = {}, .parameters = {}};
  made.memories = engine_memories(engine, {.inputs = 1,
                                           .outputs = 1,
                                           .height = 16,
                                           .width = 16,
                                           .kernel_h = engine.kernel,
                                           .kernel_w = engine.kernel,
                                           .stride_h = engine.stride,
                                           .stride_w = engine.stride});
  made.memories.column_address = 6;
  made.memories.group_address = 6;
  made.memories.line_address = made.memories.error_line_address = made.memories.gradient_error_address = address_bits;
  const auto& m = made.memories;
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

class Synthesis : public testing::TestWithParam<Case> {};

TEST_P(Synthesis, TakesTheSlicesAndBlocksThatAreModelled) {
  if (std::system("yosys -V > /dev/null 2>&1") != 0) GTEST_SKIP() << "yosys is not installed";
  const Case& size = GetParam();
  const std::string folder = testing::TempDir() + "synthesis_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  make_folders(folder);
  std::string script;
  for (const RtlModule& module : rtl_modules()) {
    write_atomically(folder + "/" + std::string(module.file), module.text);
    // Memories with images are for devices, and need one.
    if (module.file != "parameter_memory.sv") script += fmt::format("read_verilog -sv {}/{}\n", folder, module.file);
  }
  script += fmt::format("chparam {} {}\nsynth_xilinx -family xc7 -flatten -top {}\ntee -o {}/statistics.txt stat\n", size.parameters,
                        size.top, size.top, folder);
  write_atomically(folder + "/script.ys", std::string_view(script));
  ASSERT_EQ(std::system(fmt::format("yosys -q {}/script.ys > {}/log.txt 2>&1", folder, folder).c_str()), 0)
      << read_text(folder + "/log.txt");
  const std::string statistics = read_text(folder + "/statistics.txt");
  EXPECT_EQ(cells_of(statistics, "DSP48E1"), size.modelled.dsp);
  EXPECT_EQ(cells_of(statistics, "RAMB18E1") + 2 * cells_of(statistics, "RAMB36E1"), size.modelled.bram18);
}

INSTANTIATE_TEST_SUITE_P(Small, Synthesis,
                         testing::Values(engine_case("forward_engine", {3, 1, 1, 2, 1}, 10),
                                         engine_case("error_back_engine", {3, 1, 2, 1, 2}, 10),
                                         engine_case("gradient_engine", {3, 1, 1, 1, 1}, 10)));

}  // namespace
}  // namespace millrace
