#include <fmt/format.h>

#include <algorithm>

#include "core/base/index.h"
#include "fpga/common/generator/testbench_modules.h"
#include "fpga/common/generator/text_template.h"
#include "fpga/conv_ce/generator/control_registers.h"
#include "fpga/conv_ce/generator/device_testbench_template.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/registers/register_map.h"

namespace millrace {

namespace {

constexpr uint32_t kTestRun = 7;

// Of a register among what the host writes.
size_t place_of(uint32_t offset) {
  const std::vector<xrt::RegisterWrite> writes = xrt::writes_of({});
  return to_size(std::ranges::find(writes, offset, &xrt::RegisterWrite::offset) - writes.begin());
}

}  // namespace

xrt::PhaseRegisters test_run(const DeviceDesign& design, int64_t samples) {
  const MemoryPlaces places = memory_places(design);
  xrt::PhaseRegisters registers = xrt::registers_of_mini_batch(samples, xrt::kLoads | xrt::kStores, kTestRun);
  registers.pointers[xrt::kParameters] = static_cast<uint64_t>(places.parameters);
  registers.pointers[xrt::kResult] = static_cast<uint64_t>(places.result);
  return registers;
}

PortMemory port_memory(const DeviceDesign& design, const MemoryOutside& memory, const std::string& prefix) {
  PortMemory text;
  std::vector<std::pair<std::string, int64_t>> signals = {
      {"arvalid", 1}, {"arready", 1}, {"araddr", 64}, {"arlen", 8}, {"rvalid", 1}, {"rready", 1}, {"rdata", memory.beat_bits},
      {"rlast", 1},   {"rresp", 2}};
  if (memory.writes)
    signals.insert(signals.end(), {{"awvalid", 1},
                                   {"awready", 1},
                                   {"awaddr", 64},
                                   {"awlen", 8},
                                   {"wvalid", 1},
                                   {"wready", 1},
                                   {"wdata", memory.beat_bits},
                                   {"wstrb", memory.beat_bits / 8},
                                   {"wlast", 1},
                                   {"bvalid", 1},
                                   {"bready", 1},
                                   {"bresp", 2}});
  std::string ports;
  const std::string name = prefix + memory.name;
  for (const auto& [signal, width] : signals) {
    text.module += fmt::format("  logic [{}:0] {}_{};\n", width - 1, name, signal);
    ports += fmt::format(",\n      .{0}({1}_{0})", signal, name);
    text.connections += fmt::format("      .m_axi_{1}_{0}({2}_{0}),\n", signal, memory.name, name);
  }
  for (const char* open : {"arsize", "arburst", "awsize", "awburst"})
    if (memory.writes || open[1] == 'r') text.connections += fmt::format("      .m_axi_{}_{}(),\n", memory.name, open);
  if (!memory.writes) ports += ",\n      .awvalid(1'b0),\n      .wvalid(1'b0),\n      .bready(1'b0)";
  text.module += fmt::format(
      "  streamed_memory #(\n{}      .BASE(64'd{}),\n      .BEATS({}),\n      .BEAT_BITS({}),\n{}      .SEED({})\n  ) {}_memory (\n"
      "      .clock(clock),\n      .reset_n(reset_n){}\n  );\n",
      memory.file.empty() ? "" : fmt::format("      .FILE(\"{}\"),\n", memory.file), memory_places(design).parameters + memory.place,
      memory.beats, memory.beat_bits, memory.pauses ? "" : "      .PAUSES(0),\n", memory.seed, name, ports);
  return text;
}

std::string device_testbench(const DeviceDesign& design, const DeviceVectors& vectors) {
  std::string streams, connections, checks, expected, progress;
  int64_t seed = 1;
  int64_t beats = 0;
  const int64_t width = design.lanes * 16;
  const auto wires = [&](const StreamVectors& stream) {
    streams += fmt::format("  logic {0}_tvalid, {0}_tready;\n  logic [{1}:0] {0}_tdata;\n", stream.name, width - 1);
    for (const char* part : {"tvalid", "tready", "tdata"}) connections += fmt::format("      .{0}_{1}({0}_{1}),\n", stream.name, part);
    beats += stream.count();
  };
  for (const StreamVectors& stream : vectors.inputs) {
    wires(stream);
    streams += fmt::format(
        "  stream_player #(\n      .FILE(\"vectors/{0}.hex\"),\n      .COUNT({1}),\n      .WIDTH({2}),\n      .SEED({3})\n  ) {0}_player "
        "(\n"
        "      .clock(clock),\n      .enable(enable),\n      .tvalid({0}_tvalid),\n      .tready({0}_tready),\n      .tdata({0}_tdata)\n  "
        ");\n",
        stream.name, stream.count(), width, seed++);
  }
  for (const StreamVectors& stream : vectors.outputs) {
    wires(stream);
    streams += fmt::format(
        "  int {0}_received, {0}_differences;\n  stream_checker #(\n      .FILE(\"vectors/{0}.hex\"),\n      .NAME(\"{0}\"),\n      "
        ".COUNT({1}),\n"
        "      .WIDTH({2}),\n      .SEED({3})\n  ) {0}_checker (\n      .clock(clock),\n      .tvalid({0}_tvalid),\n      "
        ".tready({0}_tready),\n"
        "      .tdata({0}_tdata),\n      .received({0}_received),\n      .differences({0}_differences)\n  );\n",
        stream.name, stream.count(), width, seed++);
    progress += fmt::format("        $display(\"  {0}: %0d of {1} beats\", {0}_received);\n", stream.name, stream.count());
    checks += fmt::format(
        "    differences = differences + {0}_differences;\n    if ({0}_received != {1}) begin\n"
        "      $display(\"{0}: %0d beats, expected {1}\", {0}_received);\n      differences = differences + 1;\n    end\n",
        stream.name, stream.count());
  }
  for (const MemoryOutside& memory : memories_outside(design)) {
    const PortMemory text = port_memory(design, memory);
    streams += text.module;
    connections += text.connections;
  }
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    const int64_t elements = shard.engine.kernels_per_word * shard.engine.taps();
    const int64_t words = static_cast<int64_t>(vectors.gradients[i].words.size()) / elements;
    const int64_t outputs = shard.biases();
    expected += fmt::format("  logic [{1}:0] shard_{0}_expected[0:{2}];\n  logic [31:0] shard_{0}_expected_bias[0:{3}];\n", i,
                            elements * 32 - 1, words - 1, outputs - 1);
    expected += fmt::format(
        "  logic [{1}:0] shard_{0}_mask[0:{2}];\n  initial begin\n    $readmemh(\"vectors/shard_{0}_gradients.hex\", shard_{0}_expected);\n"
        "    $readmemh(\"vectors/shard_{0}_gradients.hex.mask\", shard_{0}_mask);\n"
        "    $readmemh(\"vectors/shard_{0}_bias_gradients.hex\", shard_{0}_expected_bias);\n  end\n",
        i, elements * 32 - 1, words - 1);
    const std::string first_gradients = shard.streams ? std::string()
                                                      : fmt::format(
                                                            "    for (int index = 0; index < {}; index++) expect_element({}, 0, index, "
                                                            "shard_{}_expected[0][index*32+:32]);\n",
                                                            std::min<int64_t>(elements, shard.engine.taps()), i * 4 + 1, i);
    if (shard.streams)
      checks += fmt::format(
          "    for (int word = 0; word < {2}; word++)\n"
          "      for (int index = 0; index < {3}; index++)\n"
          "        if (((shard_{0}_gradient_memory.words[(word*{3}+index)/{4}][(word*{3}+index)%{4}*32+:32] ^\n"
          "              shard_{0}_expected[word][index*32+:32]) & shard_{0}_mask[word][index*32+:32]) != '0) begin\n"
          "          if (differences < 10)\n"
          "            $display(\"{1}: gradient %0d of word %0d is %h, expected %h\", index, word,\n"
          "                     shard_{0}_gradient_memory.words[(word*{3}+index)/{4}][(word*{3}+index)%{4}*32+:32],\n"
          "                     shard_{0}_expected[word][index*32+:32]);\n"
          "          differences = differences + 1;\n        end\n",
          i, shard.layer, words, elements, shard.streams->beat_bits / kAccumulatorBits);
    else
      checks += fmt::format(
          "    for (int word = 0; word < {2}; word++) begin\n"
          "      show_word({4}, word);\n"
          "      if (((device.shard_{0}_gradient_read_word ^ shard_{0}_expected[word]) & shard_{0}_mask[word]) != '0)\n"
          "        for (int index = 0; index < {3}; index++)\n"
          "          if (((device.shard_{0}_gradient_read_word[index*32+:32] ^ shard_{0}_expected[word][index*32+:32]) &\n"
          "               shard_{0}_mask[word][index*32+:32]) != '0) begin\n"
          "            if (differences < 10)\n"
          "              $display(\"{1}: gradient %0d of word %0d is %h, expected %h\", index, word,\n"
          "                       device.shard_{0}_gradient_read_word[index*32+:32], shard_{0}_expected[word][index*32+:32]);\n"
          "            differences = differences + 1;\n          end\n    end\n",
          i, shard.layer, words, elements, i * 4 + 1);
    checks += fmt::format(
        "    // As the host reads them: the first gradients on the chip, and the biases'.\n{1}"
        "    for (int channel = 0; channel < {2}; channel++)\n"
        "      expect_element({3}, channel / {4}, channel % {4}, shard_{0}_expected_bias[channel]);\n",
        i, first_gradients, std::min<int64_t>(outputs, 64), i * 4 + 2, shard.bias_lanes());
  }
  int64_t work = 0;
  for (const ShardDesign& shard : design.shards)
    work += shard.engine.groups_of_inputs(shard.shape.inputs) * shard.engine.groups_of_outputs(shard.shape.outputs) *
            (shard.shape.out_width() + shard.engine.load_words() + 8);
  const MemoryPlaces places = memory_places(design);
  const int64_t moved = 8 * (all_elements(loaded_regions(design)) + all_elements(stored_regions(design)));
  int64_t streamed = 0;  // beats, with their pauses
  for (const ShardDesign& shard : design.shards)
    if (shard.streams)
      streamed += 8 * vectors.samples * (shard.shape.height + 1) *
                  (4 * streamed_beats(shard.engine, shard.shape, kAccumulatorBits, shard.streams->beat_bits) + 1000);
  for (const OutsideFifo& fifo : outside_fifos(design))
    streamed += 8 * vectors.samples * (2 * fifo.cycles_of(fifo.rows * fifo.row_words) + 1000);
  const int64_t limit = 100'000 + streamed + moved + 20 * (beats + work * vectors.rows * vectors.samples);
  TemplateValues values = register_values();
  values.merge(TemplateValues{{"MODULE", design.module_name()},
                              {"MODULES", std::string(kTestbenchModules)},
                              {"SAMPLES", std::to_string(vectors.samples)},
                              {"ROWS", std::to_string(vectors.rows)},
                              {"STREAMS", streams},
                              {"CONNECTIONS", connections},
                              {"EXPECTED", expected},
                              {"PROGRESS", progress},
                              {"LIMIT", std::to_string(limit)},
                              {"MEMORY_WORDS", std::to_string(places.words)},
                              {"RUN_WRITE", std::to_string(place_of(xrt::scalar_offset(xrt::kRun)))},
                              {"RESULT_WRITE", std::to_string(place_of(xrt::pointer_offset(xrt::kResult)))},
                              {"START_WRITES", std::to_string(xrt::writes_of({}).size())},
                              {"GRADIENT_WORDS", std::to_string((all_elements(stored_regions(design)) + 1) / 2)},
                              {"test", "$test$"},  // of $test$plusargs
                              {"CHECKS", checks}});
  return filled(kTestbench, values);
}

}  // namespace millrace
