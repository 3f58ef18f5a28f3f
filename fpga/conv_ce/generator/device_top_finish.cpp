#include "fpga/conv_ce/generator/device_top_finish.h"

#include <fmt/format.h>

#include "fpga/conv_ce/generator/device_ports.h"
#include "fpga/conv_ce/generator/device_top_maps.h"
#include "fpga/conv_ce/generator/device_top_streams.h"
#include "fpga/conv_ce/generator/device_top_waiting.h"

namespace millrace {
namespace {

// Beats of one sample that leave by a port, as an expression over the top level's parameters.
std::string beats_expression(const DeviceDesign& design, const std::string& port) {
  const ShardDesign& head = design.shards.front();
  const ShardDesign& last = design.shards.back();
  const auto product = [](const std::string& height, int64_t factor) { return fmt::format("{} * {}", height, factor); };
  if (port == "m_partial")
    return product(fmt::format("SHARD_{}_OUT_HEIGHT", design.shards.size() - 1), last.shape.out_width() * last.groups(last.outputs.end));
  if (port == "m_raw_error") return product("SHARD_0_OUT_HEIGHT", head.shape.out_width() * head.groups(head.sums_before()));
  const PortOfMap found = port_of_map(design, port);
  return product(height_of(design, *found.map), found.map->width * head.groups(found.channels.size()));
}

}  // namespace

std::string finish_text(const DeviceDesign& design) {
  std::string text = "\n  // Done when every row's gradients are in and every beat has left.\n";
  std::string conditions;
  for (const std::string& port : output_streams(design)) {
    text += fmt::format(
        "  logic [31:0] {0}_sent;\n  always_ff @(posedge ap_clk) begin\n    if (clear) {0}_sent <= '0;\n"
        "    else if ({0}_tvalid && {0}_tready) {0}_sent <= {0}_sent + 32'd1;\n  end\n",
        port);
    conditions +=
        fmt::format("{}{}_sent == 32'(samples) * 32'({})", conditions.empty() ? "" : " &&\n      ", port, beats_expression(design, port));
  }
  std::string reads;
  for (size_t i = 0; i < design.shards.size(); ++i) {
    conditions += fmt::format(" &&\n      shard_{0}_rows_done == 16'((samples / 16'd{1}) * 16'(SHARD_{0}_OUT_HEIGHT))", i,
                              design.shards[i].gradient_samples());
    if (design.shards[i].streams)
      conditions += fmt::format(" && shard_{}_streaming == 3'd0", i);
    else
      reads += fmt::format(
          "      16'd{0}: data_read <= {{16'd0, shard_{1}_forward_word[16'(element)*16+:16]}};\n"
          "      16'd{2}: data_read <= shard_{1}_gradient_read_word[16'(element)*32+:32];\n",
          i * 4, i, i * 4 + 1);
    reads += fmt::format("      16'd{0}: data_read <= shard_{1}_{2}_word[16'(element)*32+:32];\n", i * 4 + 2, i,
                         design.shards[i].sums_all_biases() ? "all_biases" : "bias");
    if (design.shards[i].owner && design.shards[i].running)
      reads += fmt::format("      16'd{0}: data_read <= shard_{1}_gathered_word[16'(element)*32+:32];\n", i * 4 + 3, i);
  }
  if (const std::string busy = outside_busy(design); !busy.empty()) conditions += fmt::format(" &&\n      !({})", busy);
  text += fmt::format("  assign computed = running && {};\n", conditions);
  text += stream_faults(design);
  std::string unused =
      "address, element, data_write, data_written, m_axi_gmem_rlast";  // and what a first shard, or one without EB, leaves open
  for (size_t i = 0; i < design.shards.size(); ++i) {
    if (design.shards[i].streams) {
      unused += fmt::format(
          ", shard_{0}_forward_address, shard_{0}_back_address, shard_{0}_gradient_read_address, shard_{0}_gradient_write_address", i);
      if (!design.shards[i].error_back) unused += fmt::format(", shard_{0}_back_read", i);
    } else {
      unused += fmt::format(", shard_{0}_forward_read, shard_{0}_back_read, shard_{0}_gradient_claim, shard_{0}_gradient_read", i);
    }
    if (design.shards[i].first || design.shards[i].outputs_divided) unused += fmt::format(", shard_{}_partial_ready", i);
    if (!design.shards[i].error_back) unused += fmt::format(", shard_{0}_back_word, shard_{0}_back_there", i);
    if (design.shards[i].sums_all_biases()) unused += fmt::format(", shard_{}_bias_word", i);
  }
  for (size_t i = 0; i < design.units(); ++i) {
    const ShardDesign& unit = design.unit(i);
    if (!unit.owner) continue;
    if (unit.keeps_values()) unused += fmt::format(", shard_{0}_value_kept", i);
    if (unit.window.average) unused += fmt::format(", shard_{0}_winners, shard_{0}_winners_ready", i);
    if (!unit.masks_errors()) unused += fmt::format(", shard_{0}_mask_valid, shard_{0}_mask_ready, shard_{0}_mask", i);
  }
  text += fmt::format(
      "\n  // The host's window into the memories.\n  always_ff @(posedge ap_clk) begin\n    case (memory)\n{}      default: data_read <= "
      "'0;\n"
      "    endcase\n  end\n\n  logic unused;\n  assign unused = &{{1'b0, {}}};\nendmodule\n",
      reads, unused);
  return text;
}

}  // namespace millrace
