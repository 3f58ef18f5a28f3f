#include "fpga/cosim/convolution_library.h"

#include <fmt/format.h>

#include "fpga/conv_ce/rtl/rtl_modules.h"
#include "fpga/conv_ce/rtl/weight_streams.h"

namespace millrace {

namespace {

std::vector<std::pair<std::string_view, int64_t>> parameters_of(const EngineHardware& hardware) {
  const EngineParallelism& e = hardware.engine;
  const EngineMemories& m = hardware.memories;
  return {{"KERNEL", e.kernel},
          {"STRIDE", e.stride},
          {"INPUT_LANES", e.input_lanes},
          {"OUTPUT_LANES", e.output_lanes},
          {"CHANNEL_GROUPS", e.channel_groups},
          {"KERNELS_PER_WORD", e.kernels_per_word},
          {"ROW_BANKS_LOG2", m.row_banks},
          {"COLUMN_BANKS_LOG2", m.column_banks},
          {"LINE_ADDRESS_BITS", m.line_address},
          {"ERROR_ROW_BANKS_LOG2", m.error_row_banks},
          {"ERROR_COLUMN_BANKS_LOG2", m.error_column_banks},
          {"ERROR_LINE_ADDRESS_BITS", m.error_line_address},
          {"GRADIENT_ERROR_ROW_BANKS_LOG2", m.gradient_error_row_banks},
          {"GRADIENT_ERROR_ADDRESS_BITS", m.gradient_error_address},
          {"COLUMN_ADDRESS_BITS", m.column_address},
          {"PARAMETER_ADDRESS_BITS", m.parameter_address},
          {"GROUP_ADDRESS_BITS", m.group_address},
          {"STREAMED", hardware.beat_bits > 0 ? 1 : 0},
          {"BEAT_BITS", hardware.beat_bits > 0 ? hardware.beat_bits : kLeastBeatBits}};  // of a port that nothing uses: any
}

}  // namespace

EngineLibrary library_of(const EngineHardware& hardware) {
  const EngineParallelism& e = hardware.engine;
  return {.name = text_of(e),
          .top = "engine_harness",
          .parameters = parameters_of(hardware),
          .defines = {{"MILLRACE_ENGINE_INPUT_LANES", e.input_lanes},
                      {"MILLRACE_ENGINE_OUTPUT_LANES", e.output_lanes},
                      {"MILLRACE_ENGINE_WORD", e.kernels_per_word * e.taps()},
                      {"MILLRACE_ENGINE_BEAT_BITS", hardware.beat_bits}},
          .modules = rtl_modules(),
          .harness = harness_sources()};
}

std::string text_of(const EngineParallelism& engine) {
  const std::string groups = engine.channel_groups == 1 ? "" : fmt::format(", {} groups", engine.channel_groups);
  return fmt::format("{0}x{0}, stride {1}, {2} x {3} tiles{4}", engine.kernel, engine.stride, engine.input_lanes, engine.output_lanes,
                     groups);
}

}  // namespace millrace
