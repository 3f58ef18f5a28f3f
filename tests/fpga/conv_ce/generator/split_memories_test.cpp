// Memories that lie in block RAM and in UltraRAM, some bits of a word in each: alone beside whole ones, and in devices that are generated
// with them, against the functional model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/files.h"
#include "core/graph/model_builder.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/rtl/rtl_modules.h"
#include "tests/fpga/conv_ce/generator/device_checks.h"

namespace millrace {
namespace {

// The same words in memories of 160 bits with none, some and all of them in UltraRAM: as the image has them, and as the host writes them.
constexpr std::string_view kBench = R"sv(module bench;
  logic clock = 0;
  always #10 clock = ~clock;
  logic [3:0] forward_address = 0, back_address = 0, write_address = 0;
  logic write_enable = 0;
  logic [15:0] write_element = 0, write_data = 0;
  logic [159:0] forward_word[0:3], back_word[0:3], column_word[0:3];
  integer wrong = 0, round, word, element, memory;
  for (genvar m = 0; m < 4; m++) begin : g_memory
    localparam int ULTRA_BITS = m == 3 ? 160 : 72 * m;
    parameter_memory #(.ELEMENTS(10), .ADDRESS_BITS(4), .WORDS(12), .ULTRA_BITS(ULTRA_BITS), .IMAGE("image.hex")) parameters (
        .clock, .forward_address, .forward_word(forward_word[m]), .back_address, .back_word(back_word[m]),
        .write_enable, .write_address, .write_element, .write_data);
    column_memory #(.WIDTH(160), .DEPTH(12), .ADDRESS_BITS(4), .ULTRA_BITS(ULTRA_BITS)) columns (
        .clock, .read_address(back_address), .read_word(column_word[m]),
        .write_enable(write_enable), .write_address, .write_word({10{write_data}}));
  end
  initial begin
    repeat (2) @(posedge clock);
    for (round = 0; round < 2; round = round + 1) begin
      for (word = 0; word < 12; word = word + 1) begin
        forward_address = 4'(word);
        back_address = 4'(11 - word);
        @(posedge clock) #1;
        for (memory = 1; memory < 4; memory = memory + 1)
          if (forward_word[memory] !== forward_word[0] || back_word[memory] !== back_word[0] || column_word[memory] !== column_word[0])
            wrong = wrong + 1;
        if ((^forward_word[0]) === 1'bx || (round == 1 && (^column_word[0]) === 1'bx)) wrong = wrong + 1;
      end
      for (word = 0; word < 12; word = word + 1)
        for (element = 0; element < 10; element = element + 1) begin
          write_enable = 1;
          write_address = 4'(word);
          write_element = 16'(element);
          write_data = 16'($random);
          @(posedge clock) #1;
        end
      write_enable = 0;
      repeat (2) @(posedge clock);
      #1;
    end
    if (wrong == 0 && forward_word[0] !== back_word[0]) $display("PASS");
    $finish;
  end
endmodule
)sv";

class SplitMemories : public DeviceChecks {
 protected:
  // 160 words of kernels of 144 bits, and as many of gradients of 288.
  static Model wide_model() {
    ModelBuilder net("wide", {4, 3, 3});
    net.conv("conv1", 8, {.kernel = 1});
    net.relu("relu1");
    net.conv("conv2", 20, {.kernel = 3, .pad = 1});
    net.relu("relu2");
    net.max_pool("pool2", {.kernel = 3, .stride = 3});
    net.flatten("flat");
    net.dense("fc", 3);
    return net.finish();
  }
  static bool is_split(const MemoryShape& memory, int64_t bits) { return bits > 0 && bits < memory.width; }
};

TEST_F(SplitMemories, HoldWhatWholeOnesHold) {
  if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
  write_atomically(folder_.path() / "bench.sv", kBench);
  std::string image;
  for (int64_t word = 0; word < 12; ++word)
    for (int64_t element = 0; element < 10; ++element)
      image += fmt::format("{:04x}{}", (word * 10 + element) * 40503 % 65536, element == 9 ? "\n" : "");
  write_atomically(folder_.path() / "image.hex", std::string_view(image));
  for (const RtlModule& module : rtl_modules())
    if (module.file == "parameter_memory.sv" || module.file == "column_memory.sv")
      write_atomically(folder_.path() / std::string(module.file), module.text);
  EXPECT_TRUE(succeeds(fmt::format("cd {} && iverilog -g2012 -o bench *.sv && vvp bench | grep PASS", folder_.path().string())));
}

// Of a board that has the blocks only if a memory is cut, and what is written for it.
TEST_F(SplitMemories, PassUnderIcarusWhereABoardNeedsThem) {
  const Graph graph(wide_model());
  DeviceDesign design = device_design(cut_plan(graph, {}, /*tiles=*/2), graph, 0, some_weights);
  const BoardAmounts whole = built_amounts(hardware_use(design));
  EXPECT_EQ(whole.urams, 0);
  share_out_memories({.bram36 = whole.bram36 - 5, .urams = 5}, design);
  const BoardAmounts shared = built_amounts(hardware_use(design));
  EXPECT_EQ(shared.urams, 5);
  EXPECT_LE(shared.bram36, whole.bram36 - 5);
  int64_t split = 0;
  for (const ShardDesign& shard : design.shards)
    split += (is_split(shard.parameter_memory(), shard.ultra.parameters) ? 1 : 0) +
             (is_split(shard.gradient_memory(), shard.ultra.gradients) ? 1 : 0);
  EXPECT_GT(split, 0);
  // With the memories of kernels and of what waits cut, too.
  ShardDesign& conv2 = design.shards[1];
  conv2.ultra = {.act_ram = std::min<int64_t>(conv2.act_ram_memory().width, 72),
                 .parameters = 72,
                 .gradients = 144,
                 .winners = conv2.winner_memory().width,
                 .norm = 0};
  ASSERT_TRUE(is_split(conv2.parameter_memory(), 72) && is_split(conv2.gradient_memory(), 144));
  write_device(design, folder_.path() / "device", {.test_samples = 1});
  const std::string top = read_text(folder_.path() / "device" / "rtl" / "millrace_device_0.sv");
  for (const char* bits : {".ULTRA_BITS(72)", ".ULTRA_BITS(144)"}) EXPECT_NE(top.find(bits), std::string::npos) << bits;
  if (succeeds("iverilog -V")) {
    EXPECT_TRUE(succeeds("make -C " + (folder_.path() / "device").string() + " icarus"));
  }
  if (!succeeds("verilator --version")) return;
  const std::string lint = fmt::format("make -C {0}/device lint > {0}/lint.log 2>&1", folder_.path().string());
  EXPECT_EQ(std::system(lint.c_str()), 0) << read_text(folder_.path() / "lint.log");
}

}  // namespace
}  // namespace millrace
