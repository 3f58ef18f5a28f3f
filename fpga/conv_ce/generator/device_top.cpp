#include "fpga/conv_ce/generator/device_top.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/check.h"
#include "fpga/common/generator/text_template.h"
#include "fpga/conv_ce/generator/axi_port.h"
#include "fpga/conv_ce/generator/control_registers.h"
#include "fpga/conv_ce/generator/device_header_template.h"
#include "fpga/conv_ce/generator/device_top_adapters.h"
#include "fpga/conv_ce/generator/device_top_after_sum.h"
#include "fpga/conv_ce/generator/device_top_between.h"
#include "fpga/conv_ce/generator/device_top_finish.h"
#include "fpga/conv_ce/generator/device_top_maps.h"
#include "fpga/conv_ce/generator/device_top_streams.h"
#include "fpga/conv_ce/generator/device_top_templates.h"
#include "fpga/conv_ce/generator/device_top_waiting.h"
#include "fpga/conv_ce/registers/register_map.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

namespace {

std::string number(int64_t value) { return std::to_string(value); }

std::string in_ultra(int64_t bits) { return bits > 0 ? fmt::format("      .ULTRA_BITS({}),\n", bits) : ""; }

// The readers of the raw sum's errors: PG always, EB, and the devices before in the group. $RAW$: those of the outputs made here.
std::string raw_error_readers(const ShardDesign& shard) {
  const auto fork = [](const std::string& name, const std::string& in, const std::string& first, const std::string& second) {
    return fmt::format(
        "  stream_fork $p${} (\n      .clock(ap_clk),\n      .clear,\n      .in_tvalid({}_valid),\n      .in_tready({}_ready),\n"
        "      .first_tvalid({}_valid),\n      .first_tready({}_ready),\n      .second_tvalid({}_valid),\n      .second_tready({}_ready)\n "
        " );\n",
        name, in, in, first, first, second, second);
  };
  const bool upstream = !shard.first && !shard.outputs_divided;  // where outputs are divided, a splitter parts them
  std::string text = shard.appends_sums() ? std::string(kSumSplitter) : "";
  if (shard.sums_all_biases()) text += kBiasGradient;
  text += "\n  // Who reads the errors of the raw sum: the devices before, PG and EB.\n";
  if (upstream) {
    text += "  logic $p$raw_out_valid, $p$raw_out_ready, $p$mine_valid, $p$mine_ready;\n";
    text += fork("raw_fork", "$p$raw", "$p$mine", "$p$raw_out");
    text +=
        "  assign m_raw_error_tvalid = $p$raw_out_valid;\n  assign $p$raw_out_ready = m_raw_error_tready;\n"
        "  assign m_raw_error_tdata = $p$raw_data;\n";
  }
  const std::string mine = upstream ? "$p$mine" : "$RAW$";
  text += "  logic $p$lane_error_valid, $p$lane_error_ready;\n  logic [$OUT_LANES$*16-1:0] $p$lane_error_data;\n";
  if (shard.adapts_outputs())
    text += std::string(kErrorAdapter);
  else
    text +=
        "  assign $p$lane_error_valid = $MINE$_valid;\n  assign $MINE$_ready = $p$lane_error_ready;\n"
        "  assign $p$lane_error_data = $p$raw_data;\n";
  for (size_t at = text.find("$MINE$"); at != std::string::npos; at = text.find("$MINE$")) text.replace(at, 6, mine);
  text += "  logic $p$gradient_error_valid, $p$gradient_error_ready;\n";
  if (!shard.error_back)
    return text + "  assign $p$gradient_error_valid = $p$lane_error_valid;\n  assign $p$lane_error_ready = $p$gradient_error_ready;\n";
  text += "  logic $p$back_error_valid, $p$back_error_ready;\n";
  return text + fork("error_fork", "$p$lane_error", "$p$gradient_error", "$p$back_error");
}

// Of the unit of this number: a shard, or a tail behind all shards.
TemplateValues values_of(const DeviceDesign& design, size_t index) {
  const ShardDesign& shard = design.unit(index);
  const ConvolutionShape& s = shard.shape;
  const PoolingWindow& w = shard.window;
  const EngineMemories& m = shard.memories;
  const EngineMemories pool = pooling_memories(shard);
  const SorterMemory sorter = shard.sorter(), unpooled = shard.unpooled_sorter();
  const ErrorBackSteps steps = error_back_steps(s);
  const ErrorBackSteps pool_steps = unpooling_steps(w);
  const int64_t engine_inputs = shard.engine.groups_of_inputs(s.inputs);
  const AdapterMemory inputs = shard.input_adapter(), sums = shard.sum_adapter(), errors = shard.error_adapter();
  const Station station = shard.is_tail ? Station{StationKind::kTail, index - design.shards.size()} : Station{StationKind::kShard, index};
  const std::string above = height_of(design, design.input_of(station));
  // As infer_shape counts: a last partial window must begin on the map or its leading padding.
  std::string pooled_height = fmt::format("SHARD_{}_OUT_HEIGHT", index);
  if (shard.pooled) {
    const std::string room = fmt::format("(SHARD_{}_OUT_HEIGHT + {})", index, 2 * w.pad_h - w.kernel_h);
    const bool rounds_up = w.out_height > (w.height + 2 * w.pad_h - w.kernel_h) / w.stride_h + 1;
    pooled_height = fmt::format("{} / {} + 1", room, w.stride_h);
    if (rounds_up)
      pooled_height += fmt::format(" + (({0} % {1} != 0 && ({0} / {1} + 1) * {1} < SHARD_{2}_OUT_HEIGHT + {3}) ? 1 : 0)", room, w.stride_h,
                                   index, w.pad_h);
  }
  const int64_t memory = static_cast<int64_t>(index) * 4;
  const auto channel_bits = std::max<int64_t>(16, static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(s.inputs))));
  return {
      {"I", number(static_cast<int64_t>(index))},
      {"p", fmt::format("shard_{}_", index)},
      {"P", fmt::format("SHARD_{}_", index)},
      {"P_FILE", fmt::format("shard_{}", index)},
      {"LAYER", shard.layer},
      {"BEGIN", number(shard.inputs.begin)},
      {"END", number(shard.inputs.end)},
      {"LAYER_INPUTS", number(shard.layer_inputs)},
      {"OUTPUTS", text_of(shard.outputs)},
      {"LAYER_OUTPUTS", number(shard.layer_outputs)},
      {"K", number(s.kernel_h)},
      {"S", number(s.stride_h)},
      {"PAD", number(s.pad_h)},
      {"HEIGHT", shard.flat ? "1" : above},
      {"POOLED_HEIGHT", pooled_height},
      {"WIDTH", number(s.width)},
      {"PG_WIDTH", number(shard.gradient_shape().width)},
      {"PG_OUT_WIDTH", number(shard.gradient_shape().out_width())},
      {"PG_LINE_BITS", number(shard.gradient_memories.line_address)},
      {"PG_SAMPLES", shard.gradient_samples() == 1 ? "samples" : fmt::format("samples / 16'd{}", shard.gradient_samples())},
      {"OUT_WIDTH", number(s.out_width())},
      {"POOLED_WIDTH", number(w.out_width)},
      {"LANES", number(design.lanes)},
      {"KPW", number(shard.engine.kernels_per_word)},
      {"CHANNEL_GROUPS", shard.engine.channel_groups == 1 ? "" : fmt::format("      .CHANNEL_GROUPS({}),\n", shard.engine.channel_groups)},
      {"CHANNEL_BITS", s.inputs <= kMostChannels ? "" : fmt::format("      .CHANNEL_BITS({}),\n", channel_bits)},
      {"CHANNEL_WIDTH", number(channel_bits)},
      {"IN_LANES", number(shard.engine.input_lanes)},
      {"OUT_LANES", number(shard.engine.output_lanes)},
      {"HELD", number(s.inputs)},
      {"SUMS_MADE", number(s.outputs)},
      {"INPUT_BANKS", number(inputs.banks)},
      {"INPUT_PIXEL_BITS", number(inputs.address)},
      {"SUM_BANKS", number(sums.banks)},
      {"SUM_PIXEL_BITS", number(sums.address)},
      {"ERROR_ADAPTER_BANKS", number(errors.banks)},
      {"ERROR_PIXEL_BITS", number(errors.address)},
      {"BIAS_LANES", number(shard.bias_lanes())},
      {"HELD_GROUPS", number(shard.groups(s.inputs))},
      {"INPUT_GROUPS", number(engine_inputs)},
      {"OUTPUT_GROUPS", number(shard.engine.groups_of_outputs(s.outputs))},
      {"GROUP_STEP", number(shard.engine.input_sweeps(s.inputs) * shard.engine.load_words())},
      {"ROW_BANKS", number(m.row_banks)},
      {"COLUMN_BANKS", number(m.column_banks)},
      {"LINE_BITS", number(m.line_address)},
      {"COLUMN_BITS", number(m.column_address)},
      {"PARAMETER_BITS", number(m.parameter_address)},
      {"ERROR_ROW_BANKS", number(m.error_row_banks)},
      {"ERROR_COLUMN_BANKS", number(m.error_column_banks)},
      {"ERROR_LINE_BITS", number(m.error_line_address)},
      {"GRADIENT_ERROR_ROW_BANKS", number(m.gradient_error_row_banks)},
      {"GRADIENT_ERROR_BITS", number(shard.gradient_memories.gradient_error_address)},
      {"GROUP_BITS", number(m.group_address)},
      {"SUM_GROUPS", number(shard.groups(shard.layer_outputs))},
      {"SUM_GROUP_BITS", number(pool.group_address)},
      {"GROUPS_BEFORE", number(shard.groups(shard.outputs_before))},
      {"FIRST_OUTPUT_GROUP", number(shard.outputs.begin / design.lanes)},
      {"SUMMED_GROUPS", number(shard.groups(shard.outputs.end))},
      {"MADE", fmt::format("shard_{}_{}", index, shard.appends_sums() ? "made" : "sum")},
      {"ERROR_BLOCK", number(shard.error_block_rows())},
      {"ERROR_FIRST_BLOCK", number(shard.error_first_block_rows())},
      {"ADDS", shard.first || shard.outputs_divided ? "0" : "1"},
      {"SUM_SHIFT", number(shard.formats.sum_shift())},
      {"ERROR_SHIFT", number(shard.formats.error_shift())},
      {"ACT_RAM_BEATS", number(shard.act_ram_beats)},
      {"KEPT_BEATS", number(shard.kept_beats)},
      {"STEP_COLUMNS", number(steps.columns)},
      {"FIRST_STEP", number(steps.first)},
      {"FIRST_PHASE", number(steps.first_phase)},
      {"FIRST_BLOCK", number(s.stride_h - steps.first_phase)},
      {"SORTER_ROW_BANKS", number(sorter.row_banks)},
      {"SORTER_BITS", number(sorter.address)},
      {"PK", number(w.kernel_h)},
      {"PS", number(w.stride_h)},
      {"POOL_PAD", number(w.pad_h)},
      {"WINDOW_COLUMNS", w.is_square() ? ""
                                       : fmt::format("      .POOL_COLUMNS({}),\n      .COLUMN_STRIDE({}),\n      .COLUMN_PAD({}),\n",
                                                     w.kernel_w, w.stride_w, w.pad_w)},
      {"PLACE_BITS", number(w.place_bits())},
      {"SCALED", shard.is_tail ? "      .SCALED(0),\n" : ""},
      {"SLOPE", shard.slope == 0 ? "" : fmt::format("      .SLOPE({}),\n", shard.slope)},
      {"KEPT_BITS", number(w.place_bits() + 1)},
      {"WINNER_BITS", number(shard.winner_memory().width / shard.lanes)},
      {"PARAMETER_WORDS", number(shard.parameter_words())},
      {"ACT_RAM_ULTRA", in_ultra(shard.ultra.act_ram)},
      {"PARAMETER_ULTRA", in_ultra(shard.ultra.parameters)},
      {"GRADIENT_ULTRA", in_ultra(shard.ultra.gradients)},
      {"WINNER_ULTRA", in_ultra(shard.ultra.winners)},
      {"NORM_ULTRA", in_ultra(shard.ultra.norm)},
      {"AVERAGE", w.average ? "1" : "0"},
      {"COUNT_PADDING", w.count_padding ? "1" : "0"},
      {"SCALE_SHIFT", number(shard.scale_shift)},
      {"MASK_BEATS", number(shard.mask_beats)},
      {"UNPOOLED_ROW_BANKS", number(unpooled.row_banks)},
      {"UNPOOLED_BITS", number(unpooled.address)},
      {"UNPOOLED_FIRST_BLOCK", number(w.stride_h - pool_steps.first_phase)},
      {"RELU", shard.relu ? "1" : "0"},
      {"POOL_ROW_BANKS", number(pool.row_banks)},
      {"POOL_COLUMN_BANKS", number(pool.column_banks)},
      {"POOL_LINE_BITS", number(pool.line_address)},
      {"UNPOOL_ROW_BANKS", number(pool.error_row_banks)},
      {"UNPOOL_COLUMN_BANKS", number(pool.error_column_banks)},
      {"UNPOOL_LINE_BITS", number(pool.error_line_address)},
      {"UNPOOL_COLUMN_BITS", number(pool.column_address)},
      {"POOL_STEP_COLUMNS", number(pool_steps.columns)},
      {"POOL_FIRST_STEP", number(pool_steps.first)},
      {"POOL_FIRST_PHASE", number(pool_steps.first_phase)},
      {"LAST_OFFSET", number(shard.scale_elements() - 1)},
      {"MEMORY_0", number(memory)},
      {"MEMORY_2", number(memory + 2)},
      {"SAMPLE_BITS", number(std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(design.mini_batch - 1)))))},
      {"MEMORY_3", number(memory + 3)}};
}

void add_response_values(const ShardDesign& shard, TemplateValues& values) {
  const FixedResponseNorm& norm = *shard.response;
  values["RESPONSE"] = fmt::format(
      "      .LANES({}),\n      .HALF({}),\n      .ADDRESS_BITS({}),\n      .BASE({}),\n      .FACTOR({}),\n      .FACTOR_SHIFT({}),\n"
      "      .FIRST_OCTAVE({}),\n      .OCTAVES({}),\n      .TABLE(\"images/{}_response.hex\"),\n",
      shard.lanes, norm.half, shard.response_address(), norm.base, norm.factor, norm.factor_shift, norm.first_octave, norm.octaves,
      values["P_FILE"]);
  values["P_SHIFT"] = number(norm.p_shift);
  values["U_SHIFT"] = number(norm.u_shift);
  values["T_SHIFT"] = number(norm.t_shift);
}

void add_smooth_values(const ShardDesign& shard, TemplateValues& values) {
  values["TANGENT"] = shard.smooth->tangent ? "1" : "0";
  values["FRACTION"] = number(shard.smooth->fraction_bits);
}

// What follows the sum, then the stages of the way back, the last of which leaves as the raw sum's errors.
std::string after_sum(const DeviceDesign& design, size_t index, TemplateValues& values) {
  const ShardDesign& shard = design.unit(index);
  const bool between = shard.keeps_values();
  values["VALUES"] = filled(between ? "$p$value" : "$p$out", values);
  values["SF_KEPT"] = filled(between ? "$p$value_kept" : "$p$winners", values);
  values["VALUE_WIRES"] = between ? filled(
                                        "  logic $p$value_valid, $p$value_ready;\n  logic [BEAT-1:0] $p$value_data;\n"
                                        "  logic [$LANES$*$KEPT_BITS$-1:0] $p$value_kept;\n",
                                        values)
                                  : "";
  values["SFK"] = between ? "1" : values["PK"];
  values["SFS"] = between ? "1" : values["PS"];
  values["SF_COLUMNS"] = between ? "" : values["WINDOW_COLUMNS"];
  values["SF_AVERAGE"] = between ? "0" : values["AVERAGE"];
  values["LANES_OF_LAST"] = number(shard.layer_outputs - (shard.groups(shard.layer_outputs) - 1) * shard.lanes);
  values["SF_SUM"] = filled(shard.running ? "$p$scaling" : "$p$sum", values);
  values["SF_SHIFT"] = filled(shard.running ? "$p$scale_shift" : "5'd$SCALE_SHIFT$", values);
  values["SF_OFFSET_SHIFT"] = filled(shard.running ? "$p$scale_shift[3:0]" : "4'd$SCALE_SHIFT$", values);
  values["UNPOOL_RELU"] = between ? "0" : values["RELU"];
  if (shard.running) values["SUM_RAM"] = waiting_memory(design, index, kSumRamText, values);
  std::string text = (shard.running ? filled(kRunning, values) : "") + filled(kSpecialFunction, values);
  if (shard.response) add_response_values(shard, values);
  if (shard.smooth) add_smooth_values(shard, values);
  if (shard.response) values["NORM_RAM"] = waiting_memory(design, index, kNormRamText, values);
  if (shard.smooth) values["SMOOTH_RAM"] = waiting_memory(design, index, kSmoothRamText, values);
  if (between) text += filled(shard.smooth ? kSmooth : kResponse, values) + filled(shard.pooled ? kPoolingAlone : kNotPooled, values);
  values["WINNER_WIRES"] = shard.pooled ? "" : filled(kWinnersAlone, values);
  values["WINNERS_IN"] = filled(shard.pooled ? "$p$winners" : "$p$above_zero", values);
  values["WINNERS_OUT"] = filled(shard.pooled ? "$p$winners_kept" : "$p$above_zero_kept", values);
  if (!shard.window.average) values["WINNER_RAM"] = waiting_memory(design, index, kWinnerRamText, values);
  text += filled(shard.window.average ? kNoWinners : kWinners, values);
  if (shard.window.average) text += filled(shard.masks_errors() ? kMask : kNoMask, values);
  std::vector<std::string_view> stages = {kUnpooling};
  if (shard.sorts_unpooled()) stages.push_back(kUnpooledSorter);
  if (shard.response) stages.push_back(kResponseBack);
  if (shard.smooth) stages.push_back(kSmoothBack);
  if (shard.masks_errors()) stages.push_back(kReluGate);
  if (shard.normalised) stages.push_back(shard.running ? kRunningBack : kScaler);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const bool last = stage + 1 == stages.size();
    values["IN"] = stage == 0 ? "" : values["OUT"];
    values["OUT"] = filled(last ? "$p$raw" : fmt::format("$p$back_{}", stage), values);
    if (!last) text += filled("  logic $OUT$_valid, $OUT$_ready;\n  logic [BEAT-1:0] $OUT$_data;\n", values);
    text += filled(stages[stage], values);
  }
  return shard.dropout ? text + filled(kDropout, values) : text;
}

// What leaves a unit for the map that it makes, and the errors that come back from there, without _valid, _ready and _data.
std::string hand_over(const ShardDesign& unit, size_t index, const StationStreams& streams) {
  const std::string prefix = fmt::format("shard_{}_", index);
  const std::string beats = prefix + (unit.dropout ? "dropped" : "out_first"), data = prefix + (unit.dropout ? "dropped" : "out");
  return fmt::format("  assign {0}_valid = {1}_valid;\n  assign {1}_ready = {0}_ready;\n  assign {0}_data = {2}_data;\n", streams.out,
                     beats, data) +
         connected(prefix + (unit.dropout ? "drop_error" : "error"), streams.out_error);
}

// What follows a join: no engine, and what is done to a sum.
std::string tail_text(const DeviceDesign& design, size_t tail) {
  const size_t index = design.shards.size() + tail;
  const ShardDesign& unit = design.unit(index);
  TemplateValues values = values_of(design, index);
  const StationStreams streams = streams_of(design, {StationKind::kTail, tail});
  std::string text = filled(
      "\n  // ===== $LAYER$: what follows a map of $LAYER_OUTPUTS$ channels.\n  localparam int $P$OUT_HEIGHT = $HEIGHT$;\n"
      "  logic $p$sum_valid, $p$sum_ready;\n  logic [BEAT-1:0] $p$sum_data;\n"
      "  logic $p$raw_valid, $p$raw_ready;\n  logic [BEAT-1:0] $p$raw_data;\n",
      values);
  text += connected(filled("$p$sum", values), streams.in) + after_sum(design, index, values) + hand_over(unit, index, streams);
  return text + connected(streams.in_error, filled("$p$raw", values));
}

std::string shard_text(const DeviceDesign& design, size_t index) {
  const ShardDesign& shard = design.shards[index];
  TemplateValues values = values_of(design, index);
  const StationStreams streams = streams_of(design, {StationKind::kShard, index});
  values["SOURCE"] = connected(filled("$p$in", values), streams.in) + filled(shard.adapts_inputs() ? kInputAdapter : kInputLanes, values);
  const std::string partial_wires = "  logic $p$partial_valid, $p$partial_ready;\n  logic [$OUT_LANES$*16-1:0] $p$partial_data;\n";
  values["SUM_WIRES"] =
      shard.adapts_outputs()
          ? filled("  logic $p$lane_sum_valid, $p$lane_sum_ready;\n  logic [$OUT_LANES$*16-1:0] $p$lane_sum_data;\n", values)
          : "";
  values["SUMS"] = filled(shard.adapts_outputs() ? "$p$lane_sum" : "$MADE$", values);
  values["PARTIAL"] =
      filled(shard.first || shard.outputs_divided ? partial_wires + "  assign $p$partial_valid = 1'b0;\n  assign $p$partial_data = '0;\n"
             : shard.adapts_outputs()             ? partial_wires + std::string(kPartialAdapter)
                                                  : partial_wires +
                                            "  assign $p$partial_valid = s_partial_valid;\n  assign s_partial_ready = $p$partial_ready;\n"
                                            "  assign $p$partial_data = s_partial_tdata;\n",
             values);
  if (shard.appends_sums()) values["PARTIAL"] += filled("  logic $MADE$_valid, $MADE$_ready;\n  logic [BEAT-1:0] $MADE$_data;\n", values);
  add_weights(design, index, values);
  values["ACT_RAM"] = waiting_memory(design, index, kActRamText, values);
  std::string text = filled(kShard, values);
  if (shard.adapts_outputs()) text += filled(kSumAdapter, values);
  if (shard.appends_sums()) text += filled(kSumJoiner, values);
  text += filled("\n  logic $p$raw_valid, $p$raw_ready;\n  logic [BEAT-1:0] $p$raw_data;\n", values);
  if (shard.owner) {
    text += after_sum(design, index, values) + hand_over(shard, index, streams);
  } else {
    text += filled(
        "\n  // Partial sums go to the next device, which sends the errors of the raw sum.\n"
        "  assign m_partial_tvalid = $p$sum_valid;\n  assign $p$sum_ready = m_partial_tready;\n  assign m_partial_tdata = $p$sum_data;\n"
        "  assign $p$raw_valid = s_error_valid;\n  assign s_error_ready = $p$raw_ready;\n  assign $p$raw_data = s_error_tdata;\n",
        values);
  }
  values["RAW"] = filled(shard.appends_sums() ? "$p$own_raw" : "$p$raw", values);
  text += filled(raw_error_readers(shard), values);
  text += filled(kGradient, values);
  if (!shard.error_back) return text + filled("  assign $p$back_address = '0;\n  assign $p$back_read = 1'b0;\n", values);
  const bool sorts = shard.sorts_errors();
  values["ROWS"] = filled(shard.adapts_inputs() ? "$p$lane_input_error" : "$p$own_error", values);
  values["BLOCKS"] = filled(sorts ? "$p$block_error" : "$ROWS$", values);
  constexpr std::string_view kWires = "  logic $W$_valid, $W$_ready;\n  logic [$IN_LANES$*16-1:0] $W$_data;\n";
  std::string& wires = values["BLOCK_WIRES"];
  for (const auto& [needed, name] : {std::pair(sorts, "BLOCKS"), std::pair(shard.adapts_inputs(), "ROWS")}) {
    if (!needed) continue;
    values["W"] = values[name];
    wires += filled(kWires, values);
  }
  text += filled(kErrorBack, values);
  if (sorts) text += filled(kErrorSorter, values);
  if (shard.adapts_inputs()) text += filled(kInputErrorAdapter, values);
  return text + connected(streams.in_error, filled("$p$own_error", values));
}

std::string station_text(const DeviceDesign& design, const Station& station) {
  switch (station.kind) {
    case StationKind::kShard: return shard_text(design, station.index);
    case StationKind::kTail: return tail_text(design, station.index);
    case StationKind::kJoin: break;
  }
  return join_text(design, station.index);
}

}  // namespace

EngineParallelism pooling_parallelism(const ShardDesign& shard) {
  return {.kernel = shard.window.kernel_h, .stride = shard.window.stride_h, .input_lanes = shard.lanes, .output_lanes = shard.lanes};
}

// One stride more, for a last partial window.
EngineMemories pooling_memories(const ShardDesign& shard) {
  const PoolingWindow& w = shard.window;
  if (w.is_large()) return gathered_memories(w, shard.groups(shard.layer_outputs));
  const ConvolutionShape shape{.inputs = shard.layer_outputs,
                               .outputs = shard.layer_outputs,
                               .height = w.height + w.stride_h,
                               .width = w.width + w.stride_w,
                               .kernel_h = w.kernel_h,
                               .kernel_w = w.kernel_w,
                               .stride_h = w.stride_h,
                               .stride_w = w.stride_w,
                               .pad_h = w.pad_h,
                               .pad_w = w.pad_w};
  EngineParallelism window = pooling_parallelism(shard);
  EngineMemories memories = engine_memories(window, shape);
  window.kernel = w.kernel_w;
  window.stride = w.stride_w;
  const EngineMemories columns = engine_memories(window, shape);
  memories.column_banks = columns.column_banks;
  memories.line_address = columns.line_address;
  memories.error_column_banks = columns.error_column_banks;
  memories.error_line_address = columns.error_line_address;
  memories.column_address = columns.column_address;
  return memories;
}

namespace {

// As region_walker.sv takes it: the first region lowest.
std::string table_of(const std::vector<MemoryRegion>& regions) {
  if (regions.empty()) return "'0";
  std::string table;
  for (size_t i = regions.size(); i-- > 0;)
    table += fmt::format("16'd{}, 24'd{}, 16'd{}{}", regions[i].number(), regions[i].words, regions[i].elements, i == 0 ? "" : ", ");
  return "{" + table + "}";
}

}  // namespace

MemoryPlaces memory_places(const DeviceDesign& design) {
  constexpr int64_t kPage = xrt::kPageBytes, kHeaderBytes = sizeof(xrt::ResultHeader);
  MemoryPlaces places;
  places.result = kPage;  // what is streamed lies behind all else
  places.parameters = places.result + rounded_up(kHeaderBytes + 4 * all_elements(stored_regions(design)), kPage);
  // A page for none, so that the place of the parameters is one of the memory.
  places.words = (places.parameters + std::max(kPage, rounded_up(2 * all_elements(loaded_regions(design)), kPage))) / 8;
  return places;
}

// Of the port that parameters come and gradients leave by.
constexpr int64_t kMemoryBits = 64;

std::string device_top(const DeviceDesign& design) {
  const std::vector<MemoryRegion> loads = loaded_regions(design), stores = stored_regions(design);
  std::string shards;
  for (const ShardDesign& shard : design.shards)
    shards += fmt::format("//   {}: input channels {} of {}, outputs {} of {}, {} tiles of {} multipliers for each of FP{} and PG\n",
                          shard.layer, text_of(shard.inputs), shard.layer_inputs, text_of(shard.outputs), shard.layer_outputs,
                          shard.engine.tiles(), shard.engine.taps(), shard.error_back ? ", EB" : "");
  std::string ports;
  for (const std::string& port : input_streams(design))
    ports += fmt::format("    input  logic {0}_tvalid,\n    output logic {0}_tready,\n    input  logic [{1}:0] {0}_tdata,\n\n", port,
                         design.lanes * 16 - 1);
  for (const std::string& port : output_streams(design))
    ports += fmt::format("    output logic {0}_tvalid,\n    input  logic {0}_tready,\n    output logic [{1}:0] {0}_tdata,\n\n", port,
                         design.lanes * 16 - 1);
  ports.pop_back();
  ports += stream_ports(design) + outside_ports(design);
  std::string memory = axi_port("m_axi_gmem", kMemoryBits, AxiUse::kReadsAndWrites);
  memory.erase(memory.rfind(','));  // the last port
  TemplateValues values = register_values();
  values.merge(TemplateValues{
      {"GMEM_PORT", memory},
      {"MODULE", design.module_name()},
      {"INDEX", number(design.index)},
      {"BOARD", design.board},
      {"MODEL", design.model},
      {"SHARDS", shards},
      {"LANES", number(design.lanes)},
      {"ROWS", number(design.maps.front().height)},
      {"PORTS", ports},
      {"REFUSAL", design.sample_multiple() == 1 ? "refusal"
                                                : fmt::format("(refusal == 32'd0 && samples % 16'd{} != 16'd0) ? {} : refusal",
                                                              design.sample_multiple(), values.at("STATUS_BAD_SHAPE"))},
      {"LOADS", number(static_cast<int64_t>(loads.size()))},
      {"LOAD_TABLE", table_of(loads)},
      {"LOAD_ELEMENTS", number(all_elements(loads))},
      {"STORES", number(static_cast<int64_t>(stores.size()))},
      {"STORE_TABLE", table_of(stores)},
      {"STORE_ELEMENTS", number(all_elements(stores))}});
  std::string text = filled(kHeader, values);
  text += "\n  // Nothing comes in before parameters are in place and the engines run.\n";
  for (const std::string& port : input_streams(design))
    text += fmt::format(
        "  logic {0}_valid, {0}_ready;\n  assign {0}_valid = {0}_tvalid && running;\n  assign {0}_tready = {0}_ready && running;\n", port);
  text += map_wires(design);
  for (const Station& station : design.stations) text += station_text(design, station);
  return text + map_text(design) + finish_text(design);
}

}  // namespace millrace
