// The engine of blocked columns through Yosys: DSP slices and half blocks exactly as built_resources() says, for two families of parts.
// Each run of the long ones leaves a line in synthesis.json beside its working folder.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/base/files.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "fpga/sbe/resources.h"
#include "fpga/sbe/rtl/module_resources.h"

namespace millrace {
namespace {

struct Part {
  SbeConfig config;
  CellKind cell;
  GateForms forms;
  std::string family;
};
// What the test is called.
void PrintTo(const Part& part, std::ostream* out) {
  const SbeConfig& config = part.config;
  *out << fmt::format("cell{}_{}x{}_{}rows_{}columns_{}units_{}streams_{}", static_cast<int>(part.cell), config.shape.inputs,
                      config.shape.hidden, config.row_lanes, config.columns, config.tail_units, config.streams, part.family);
}

Part part(int64_t inputs, int64_t hidden, CellKind cell, int64_t groups, int64_t columns, int64_t units, int64_t beat, int64_t blocks,
          Pinned pinned, int64_t streams, int64_t steps, const std::string& family, GateForms forms = {}, int64_t projection = 0) {
  const int64_t gates = gates_of(cell);
  SbeConfig config{.shape = {inputs, hidden, gates, projection},
                   .row_lanes = hidden / groups * gates,
                   .columns = columns,
                   .tail_units = units,
                   .latency = kBuiltLatency,
                   .pinned = pinned,
                   .words_per_cycle = beat,
                   .inputs_share_bus = false,
                   .streams = streams,
                   .steps = steps};
  const int64_t chunks = config.input_chunks() + (pinned == Pinned::kNone ? config.hidden_chunks() : 0);
  config.block_chunks = pinned == Pinned::kAll ? 0 : divided_up(chunks, blocks);
  return {config, cell, forms, family};
}

// Cells whose name begins with `prefix`.
int64_t cells_of(const std::string& statistics, const std::string& prefix) {
  int64_t count = 0;
  for (size_t at = 0; (at = statistics.find(" " + prefix, at)) != std::string::npos; ++at) {
    const size_t number = statistics.find(' ', at + 1);
    if (number != std::string::npos && number < statistics.find('\n', at)) count += std::strtoll(statistics.c_str() + number, nullptr, 10);
  }
  return count;
}

class SbeSynthesis : public testing::TestWithParam<Part> {
 protected:
  void takes_what_is_modelled();
};
class SbeSynthesisLong : public SbeSynthesis {};

TEST_P(SbeSynthesis, TakesTheSlicesAndBlocksThatAreModelled) { takes_what_is_modelled(); }
TEST_P(SbeSynthesisLong, TakesTheSlicesAndBlocksThatAreModelled) { takes_what_is_modelled(); }

void SbeSynthesis::takes_what_is_modelled() {
  if (std::system("yosys -V > /dev/null 2>&1") != 0) GTEST_SKIP() << "yosys is not installed";
  const Part& one = GetParam();
  const SbeHardware hardware = hardware_of(one.config, one.cell, one.forms);
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  std::string name = fmt::format("{}_{}", test.test_suite_name(), test.name());
  for (char& c : name)
    if (c == '/') c = '_';
  const std::string folder = testing::TempDir() + "synthesis_" + name;
  make_folders(folder);
  std::string script;
  std::vector<RtlModule> modules = sbe_rtl_modules();
  modules.insert(modules.end(), recurrence_rtl_modules().begin(), recurrence_rtl_modules().end());
  for (const RtlModule& module : with_common_modules(modules)) {
    if (module.file == "parameter_memory.sv") continue;  // it needs an image
    write_atomically(folder + "/" + std::string(module.file), module.text);
    script += fmt::format("read_verilog -sv {}\n", module.file);
  }
  write_atomically(folder + "/" + std::string(kGateTableFile), std::string_view(gate_table_text()));
  script += "chparam";
  for (const auto& [parameter, value] : parameters_of(hardware)) script += fmt::format(" -set {} {}", parameter, value);
  script += fmt::format(" sbe_engine\nsynth_xilinx -family {} -flatten -top sbe_engine -run begin:fine\ntee -o statistics.txt stat\n",
                        one.family);
  write_atomically(folder + "/script.ys", std::string_view(script));
  ASSERT_EQ(std::system(fmt::format("cd '{}' && yosys -q script.ys > log.txt 2>&1", folder).c_str()), 0) << read_text(folder + "/log.txt");
  const std::string statistics = read_text(folder + "/statistics.txt");
  const int64_t dsp = cells_of(statistics, "DSP48E"), bram18 = cells_of(statistics, "RAMB18E") + 2 * cells_of(statistics, "RAMB36E");
  const BuiltResources built = built_resources(hardware);
  std::ofstream(testing::TempDir() + "sbe_synthesis.json", std::ios::app) << fmt::format(
      "{{\"cell\": {}, \"multipliers\": {}, \"columns\": {}, \"units\": {}, \"family\": \"{}\", \"dsp\": [{}, {}], \"bram18\": [{}, "
      "{}]}}\n",
      static_cast<int>(one.cell), one.config.multipliers(), one.config.columns, one.config.tail_units, one.family, dsp, built.dsp, bram18,
      built.bram18);
  EXPECT_EQ(dsp, built.dsp);
  EXPECT_EQ(bram18, built.bram18) << fmt::format("weights {}, inputs {}, hidden {}, kept {}, outputs {}, sums {}, tables {}", built.weights,
                                                 built.inputs, built.hidden, built.kept, built.outputs, built.sums, built.tables);
}

constexpr CellKind kLstm = CellKind::kLstm, kGru = CellKind::kGru;
constexpr Pinned kNone = Pinned::kNone, kHidden = Pinned::kHidden, kAll = Pinned::kAll;

// Outputs are 2,560 words deep: three half blocks, where a power of two would take four.
INSTANTIATE_TEST_SUITE_P(Small, SbeSynthesis, testing::Values(part(12, 8, CellKind::kVanillaTanh, 2, 1, 1, 4, 4, kNone, 1, 160, "xc7")));

// The last two project. The fifth has 64 multipliers and two slots of eight columns: 8 Kbit in 32 half blocks, because 1,024 bits are read
// a cycle.
INSTANTIATE_TEST_SUITE_P(
    Engines, SbeSynthesisLong,
    testing::Values(part(48, 8, kLstm, 2, 1, 1, 4, 4, kNone, 1, 16, "xc7"), part(48, 8, kLstm, 2, 1, 1, 4, 4, kNone, 1, 16, "xcup"),
                    part(64, 8, kLstm, 1, 1, 2, 8, 4, kNone, 2, 16, "xc7"), part(64, 16, kLstm, 2, 2, 2, 16, 6, kNone, 1, 64, "xcup"),
                    part(48, 16, kLstm, 1, 1, 4, 16, 16, kNone, 1, 16, "xc7"), part(96, 16, kGru, 2, 2, 2, 16, 4, kHidden, 2, 16, "xc7"),
                    part(32, 8, kGru, 1, 1, 1, 8, 3, kNone, 1, 32, "xcup"),
                    part(40, 16, CellKind::kVanillaRelu, 1, 2, 2, 8, 5, kNone, 4, 8, "xcup"),
                    part(40, 32, CellKind::kVanillaTanh, 2, 1, 4, 16, 2, kAll, 2, 12, "xc7"),
                    part(200, 8, kLstm, 1, 1, 1, 16, 2, kHidden, 4, 8, "xc7", {SigmoidForm::kHardFifth, TanhForm::kPlan}),
                    part(24, 8, kLstm, 2, 1, 1, 4, 2, kNone, 1, 8, "xcup", {SigmoidForm::kTable, TanhForm::kTable}),
                    part(24, 12, kLstm, 1, 1, 4, 16, 4, kNone, 2, 40, "xcup", {SigmoidForm::kHardSixth, TanhForm::kTable}),
                    part(32, 16, kLstm, 2, 1, 2, 8, 4, kNone, 1, 16, "xc7", {}, 8),
                    part(24, 32, kLstm, 4, 2, 1, 16, 3, kHidden, 2, 8, "xcup", {}, 16)));

}  // namespace

// What planners count as blocks of weights, inputs, states, outputs and sums is what is built.
TEST(BuiltResources, ArePlannedOnes) {
  for (const Part& one :
       {part(48, 8, kLstm, 2, 1, 1, 4, 4, kNone, 1, 16, ""), part(64, 16, kLstm, 2, 2, 2, 16, 6, kNone, 1, 64, ""),
        part(1792, 256, kLstm, 1, 1, 4, 16, 16, kNone, 1, 64, ""), part(96, 16, kLstm, 2, 2, 2, 16, 4, kHidden, 2, 16, "")}) {
    const SbeBoard board{.name = "zc706",
                         .dsp = 900,
                         .lut = 218600,
                         .lutram_lut = 70400,
                         .bram36 = 545,
                         .bytes_per_second = 1e10,
                         .clock_hz = 125e6,
                         .bus_bits = 256};
    const SbeUse planned = sbe_use(one.config, board);
    const BuiltResources built = built_resources(hardware_of(one.config, one.cell, one.forms));
    EXPECT_EQ(planned.weights, static_cast<double>(built.weights));
    EXPECT_EQ(planned.inputs, static_cast<double>(built.inputs));
    EXPECT_GE(planned.hidden, static_cast<double>(built.hidden));  // both halves are one memory, which takes no more
    EXPECT_EQ(planned.cells, static_cast<double>(built.kept));
    EXPECT_EQ(planned.outputs, static_cast<double>(built.outputs));
    EXPECT_EQ(planned.sums, static_cast<double>(built.sums));
    EXPECT_EQ(planned.dsp + static_cast<double>(planned.fabric_multipliers), static_cast<double>(built.dsp));
  }
}

}  // namespace millrace
