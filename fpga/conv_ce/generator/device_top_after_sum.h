// What follows a shard's sum in a device's top level, and the way back through it, as device_top_templates.h has the rest:
// special-function unit, what it keeps, and the stages between the errors of the output and those of the raw sum.
//
//   text += filled(kSpecialFunction, values) + filled(kWinners, values);
//   text += filled(kUnpooling, values);       // of a stage, $OUT$ is the stream that leaves, $IN$ the one before
//
// Internal to device_top.cpp, which strings the stages together.
#pragma once

#include <string_view>

namespace millrace {

inline constexpr std::string_view kSpecialFunction = R"sv(
  // What follows the sum, and what the way back needs of it.
  localparam int $P$POOLED_HEIGHT = $POOLED_HEIGHT$;
  logic $p$out_valid, $p$out_ready, $p$out_first_valid, $p$out_first_ready;
  logic $p$mask_valid, $p$mask_ready;
  logic [BEAT-1:0] $p$out_data;
$VALUE_WIRES$  logic [$LANES$*$KEPT_BITS$-1:0] $p$winners;
  logic [$LANES$-1:0] $p$mask;
  logic [BEAT-1:0] $p$scales, $p$offsets;
  logic $p$scales_write;
  logic [$SUM_GROUP_BITS$-1:0] $p$scales_group;
  special_function_unit #(
      .LANES($LANES$),
      .POOL_KERNEL($SFK$),
      .POOL_STRIDE($SFS$),
$SF_COLUMNS$      .PLACE_BITS($PLACE_BITS$),
$SCALED$$SLOPE$      .AVERAGE($SF_AVERAGE$),
      .ROW_BANKS_LOG2($POOL_ROW_BANKS$),
      .COLUMN_BANKS_LOG2($POOL_COLUMN_BANKS$),
      .LINE_ADDRESS_BITS($POOL_LINE_BITS$),
      .GROUP_ADDRESS_BITS($SUM_GROUP_BITS$),
      .SCALES_IMAGE("images/$P_FILE$_scales.hex"),
      .OFFSETS_IMAGE("images/$P_FILE$_offsets.hex")
  ) $p$special_function (
      .clock(ap_clk),
      .clear,
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .out_height(16'($P$POOLED_HEIGHT)),
      .out_width(16'd$POOLED_WIDTH$),
      .pool_pad(16'd$POOL_PAD$),
      .relu(1'b$RELU$),
      .count_padding(1'b$COUNT_PADDING$),
      .offset_shift($SF_OFFSET_SHIFT$),
      .shift($SF_SHIFT$),
      .parameter_write_enable($p$scales_write),
      .parameter_write_address($p$scales_group),
      .parameter_write_scales($p$scales),
      .parameter_write_offsets($p$offsets),
      .sum_tvalid($SF_SUM$_valid),
      .sum_tready($SF_SUM$_ready),
      .sum_tdata($p$sum_data),
      .out_tvalid($VALUES$_valid),
      .out_tready($VALUES$_ready),
      .out_tdata($VALUES$_data),
      .kept_tdata($SF_KEPT$),
      .mask_tvalid($p$mask_valid),
      .mask_tready($p$mask_ready),
      .mask_tdata($p$mask)
  );
  // A word of scales and offsets is complete with its last element.
  always_ff @(posedge ap_clk) begin
    $p$scales_write <= data_write && memory == 16'd$MEMORY_3$ && element == 16'd$LAST_OFFSET$;
    $p$scales_group <= $SUM_GROUP_BITS$'(address);
    for (int lane = 0; lane < $LANES$; lane++) begin
      if (data_write && element == 16'(lane)) $p$scales[lane*16+:16] <= data_written[15:0];
      if (data_write && element == 16'(lane + $LANES$)) $p$offsets[lane*16+:16] <= data_written[15:0];
    end
  end
)sv";

// Before it where a batch norm is trained with running statistics: the sum waits for its errors, and with scales and offsets come the
// constants of its way back. Both shifts are of the last word, and of all.
inline constexpr std::string_view kRunning = R"sv(
  // The sums that a running batch norm normalises wait for their errors. Its constants come with scales and offsets.
  logic $p$scaling_valid, $p$scaling_ready, $p$keeps_sum_valid, $p$keeps_sum_ready;
  stream_fork $p$running_fork (
      .clock(ap_clk),
      .clear,
      .in_tvalid($p$sum_valid),
      .in_tready($p$sum_ready),
      .first_tvalid($p$scaling_valid),
      .first_tready($p$scaling_ready),
      .second_tvalid($p$keeps_sum_valid),
      .second_tready($p$keeps_sum_ready)
  );
  logic $p$x_valid, $p$x_ready;
  logic [BEAT-1:0] $p$x_data;
$SUM_RAM$  logic [4:0] $p$scale_shift, $p$slope_shift;
  logic [BEAT-1:0] $p$centres, $p$slopes;
  logic [2*BEAT-1:0] $p$levels;
  logic [$LANES$*256-1:0] $p$gathered_word;
  always_ff @(posedge ap_clk) begin
    for (int lane = 0; lane < $LANES$; lane++) begin
      if (data_write && element == 16'(lane + 2 * $LANES$)) $p$centres[lane*16+:16] <= data_written[15:0];
      if (data_write && element == 16'(lane + 3 * $LANES$)) $p$slopes[lane*16+:16] <= data_written[15:0];
    end
    for (int half = 0; half < 2 * $LANES$; half++)
      if (data_write && element == 16'(half + 4 * $LANES$)) $p$levels[half*16+:16] <= data_written[15:0];
    if (data_write && memory == 16'd$MEMORY_3$ && element == 16'd$LAST_OFFSET$)
      {$p$slope_shift, $p$scale_shift} <= {data_written[12:8], data_written[4:0]};
  end
)sv";

// Behind a maximum, or without pooling: what won, and what the ReLU let pass, until the error of the same output comes back.
inline constexpr std::string_view kWinners = R"sv(  assign $p$mask_ready = 1'b1;
  logic $p$remember_valid, $p$remember_ready;
  stream_fork $p$output_fork (
      .clock(ap_clk),
      .clear,
      .in_tvalid($p$out_valid),
      .in_tready($p$out_ready),
      .first_tvalid($p$out_first_valid),
      .first_tready($p$out_first_ready),
      .second_tvalid($p$remember_valid),
      .second_tready($p$remember_ready)
  );
  logic $p$winners_valid, $p$winners_ready;
  logic [$LANES$*$KEPT_BITS$-1:0] $p$winners_kept;
$WINNER_WIRES$$WINNER_RAM$)sv";

// Without a window only whether a value is above zero is kept.
inline constexpr std::string_view kWinnersAlone = R"sv(  logic [$LANES$-1:0] $p$above_zero, $p$above_zero_kept;
  logic $p$winners_unused;
  assign $p$winners_unused = &{1'b0, $p$winners};
  for (genvar lane = 0; lane < $LANES$; lane++) begin : g_$p$winner
    assign $p$above_zero[lane] = $p$winners[lane*$KEPT_BITS$];
    assign $p$winners_kept[lane*$KEPT_BITS$+:$KEPT_BITS$] = $KEPT_BITS$'($p$above_zero_kept[lane]);
  end
)sv";

// Behind an average nothing of the output is kept.
inline constexpr std::string_view kNoWinners = R"sv(  assign $p$out_first_valid = $p$out_valid;
  assign $p$out_ready = $p$out_first_ready;
  logic $p$winners_valid, $p$winners_ready;
  logic [$LANES$*$KEPT_BITS$-1:0] $p$winners_kept;
  assign $p$winners_valid = 1'b1;
  assign $p$winners_kept = '0;
)sv";

inline constexpr std::string_view kNoMask = R"sv(  assign $p$mask_ready = 1'b1;
)sv";

// Where a ReLU before an average let pass.
inline constexpr std::string_view kMask = R"sv(  logic $p$mask_kept_valid, $p$mask_kept_ready;
  logic [$LANES$-1:0] $p$mask_kept;
  deep_fifo #(
      .WIDTH($LANES$),
      .DEPTH($MASK_BEATS$)
  ) $p$mask_ram (
      .clock(ap_clk),
      .clear,
      .in_tvalid($p$mask_valid),
      .in_tready($p$mask_ready),
      .in_tdata($p$mask),
      .out_tvalid($p$mask_kept_valid),
      .out_tready($p$mask_kept_ready),
      .out_tdata($p$mask_kept)
  );
)sv";

// Last on the way forward and first on the way back: the same draws twice.
inline constexpr std::string_view kDropout = R"sv(
  // Dropout, forward and back. A word of what it draws from is complete with its last element.
  logic $p$draws_write;
  logic [23:0] $p$draws_address;
  logic [63:0] $p$draws_word;
  always_ff @(posedge ap_clk) begin
    $p$draws_write <= data_write && memory == 16'd$MEMORY_2$ && element == 16'd3;
    $p$draws_address <= address;
    for (int part = 0; part < 4; part++)
      if (data_write && element == 16'(part)) $p$draws_word[part*16+:16] <= data_written[15:0];
  end
  logic $p$dropped_valid, $p$dropped_ready;
  logic [BEAT-1:0] $p$dropped_data;
  dropout_unit #(
      .LANES($LANES$),
      .SAMPLE_BITS($SAMPLE_BITS$)
  ) $p$dropout (
      .clock(ap_clk),
      .clear,
      .height(16'($P$POOLED_HEIGHT)),
      .width(16'd$POOLED_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .plane(32'($P$POOLED_HEIGHT * $POOLED_WIDTH$)),
      .group_step(32'($LANES$ * $P$POOLED_HEIGHT * $POOLED_WIDTH$)),
      .write_enable($p$draws_write),
      .write_address($p$draws_address),
      .write_word($p$draws_word),
      .in_tvalid($p$out_first_valid),
      .in_tready($p$out_first_ready),
      .in_tdata($p$out_data),
      .out_tvalid($p$dropped_valid),
      .out_tready($p$dropped_ready),
      .out_tdata($p$dropped_data)
  );
  logic $p$drop_error_valid, $p$drop_error_ready;
  logic [BEAT-1:0] $p$drop_error_data;
  dropout_unit #(
      .LANES($LANES$),
      .SAMPLE_BITS($SAMPLE_BITS$)
  ) $p$dropout_back (
      .clock(ap_clk),
      .clear,
      .height(16'($P$POOLED_HEIGHT)),
      .width(16'd$POOLED_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .plane(32'($P$POOLED_HEIGHT * $POOLED_WIDTH$)),
      .group_step(32'($LANES$ * $P$POOLED_HEIGHT * $POOLED_WIDTH$)),
      .write_enable($p$draws_write),
      .write_address($p$draws_address),
      .write_word($p$draws_word),
      .in_tvalid($p$drop_error_valid),
      .in_tready($p$drop_error_ready),
      .in_tdata($p$drop_error_data),
      .out_tvalid($p$error_valid),
      .out_tready($p$error_ready),
      .out_tdata($p$error_data)
  );
)sv";

inline constexpr std::string_view kUnpooling = R"sv(
  // Errors of the output become errors of the raw sum.
  logic $p$error_valid, $p$error_ready, $p$unpool_ready;
  logic [BEAT-1:0] $p$error_data;
  assign $p$error_ready = $p$unpool_ready && $p$winners_valid;
  assign $p$winners_ready = $p$unpool_ready && $p$error_valid;
  unpooling_unit #(
      .LANES($LANES$),
      .POOL_KERNEL($PK$),
      .POOL_STRIDE($PS$),
$WINDOW_COLUMNS$      .PLACE_BITS($PLACE_BITS$),
$SLOPE$      .AVERAGE($AVERAGE$),
      .ROW_BANKS_LOG2($UNPOOL_ROW_BANKS$),
      .COLUMN_BANKS_LOG2($UNPOOL_COLUMN_BANKS$),
      .LINE_ADDRESS_BITS($UNPOOL_LINE_BITS$),
      .COLUMN_ADDRESS_BITS($UNPOOL_COLUMN_BITS$)
  ) $p$unpooling (
      .clock(ap_clk),
      .clear,
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .out_height(16'($P$POOLED_HEIGHT)),
      .out_width(16'd$POOLED_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .pad(16'd$POOL_PAD$),
      .step_rows(16'(($P$OUT_HEIGHT - 1 + $POOL_PAD$) / $PS$ - $POOL_PAD$ / $PS$ + 1)),
      .step_columns(16'd$POOL_STEP_COLUMNS$),
      .first_step(16'd$POOL_FIRST_STEP$),
      .first_phase(16'd$POOL_FIRST_PHASE$),
      .last_phase(16'(($P$OUT_HEIGHT - 1 + $POOL_PAD$) % $PS$)),
      .relu(1'b$UNPOOL_RELU$),
      .count_padding(1'b$COUNT_PADDING$),
      .error_tvalid($p$error_valid && $p$winners_valid),
      .error_tready($p$unpool_ready),
      .error_tdata($p$error_data),
      .kept_tdata($p$winners_kept),
      .raw_error_tvalid($OUT$_valid),
      .raw_error_tready($OUT$_ready),
      .raw_error_tdata($OUT$_data)
  );
)sv";

inline constexpr std::string_view kUnpooledSorter = R"sv(  // Readers from here on take rows one by one.
  row_sorter #(
      .WIDTH(BEAT),
      .ROW_BANKS_LOG2($UNPOOLED_ROW_BANKS$),
      .ADDRESS_BITS($UNPOOLED_BITS$)
  ) $p$unpooled_sorter (
      .clock(ap_clk),
      .clear,
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .first_block_rows(16'd$UNPOOLED_FIRST_BLOCK$),
      .block_rows(16'd$PS$),
      .in_tvalid($IN$_valid),
      .in_tready($IN$_ready),
      .in_tdata($IN$_data),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT$_data)
  );
)sv";

inline constexpr std::string_view kReluGate = R"sv(  relu_gate #(
$SLOPE$      .LANES($LANES$)
  ) $p$gate (
      .error_tvalid($IN$_valid),
      .error_tready($IN$_ready),
      .error_tdata($IN$_data),
      .mask_tvalid($p$mask_kept_valid),
      .mask_tready($p$mask_kept_ready),
      .mask_tdata($p$mask_kept),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT$_data)
  );
)sv";

// Behind the way back through everything else: the scale of a folded batch norm.
inline constexpr std::string_view kScaler = R"sv(  error_scaler #(
      .LANES($LANES$),
      .GROUP_ADDRESS_BITS($SUM_GROUP_BITS$),
      .SCALES_IMAGE("images/$P_FILE$_scales.hex")
  ) $p$scaler (
      .clock(ap_clk),
      .clear,
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .first_block_rows(16'd$ERROR_FIRST_BLOCK$),
      .block_rows(16'd$ERROR_BLOCK$),
      .shift(5'd$SCALE_SHIFT$),
      .parameter_write_enable($p$scales_write),
      .parameter_write_address($p$scales_group),
      .parameter_write_scales($p$scales),
      .error_tvalid($IN$_valid),
      .error_tready($IN$_ready),
      .error_tdata($IN$_data),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT$_data)
  );
)sv";

// Behind everything else: a running batch norm, and what it gathers.
inline constexpr std::string_view kRunningBack = R"sv(  running_norm_back #(
      .LANES($LANES$),
      .GROUP_ADDRESS_BITS($SUM_GROUP_BITS$)
  ) $p$running (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .shift($p$scale_shift),
      .slope_shift($p$slope_shift),
      .parameter_write_enable($p$scales_write),
      .parameter_write_address($p$scales_group),
      .parameter_write_scales($p$scales),
      .parameter_write_centres($p$centres),
      .parameter_write_slopes($p$slopes),
      .parameter_write_levels($p$levels),
      .x_tvalid($p$x_valid),
      .x_tready($p$x_ready),
      .x_tdata($p$x_data),
      .error_tvalid($IN$_valid),
      .error_tready($IN$_ready),
      .error_tdata($IN$_data),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT$_data),
      .read_address($SUM_GROUP_BITS$'(address)),
      .read_word($p$gathered_word)
  );
)sv";

// A layer divided by outputs: the sums of the devices before, then those made here, in every row.
inline constexpr std::string_view kSumJoiner = R"sv(  channel_joiner #(
      .LANES($LANES$)
  ) $p$sum_joiner (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .own_groups(16'd$GROUPS_BEFORE$),
      .rest_group(16'd$FIRST_OUTPUT_GROUP$),
      .all_groups(16'd$SUMMED_GROUPS$),
      .own_tvalid(s_partial_valid),
      .own_tready(s_partial_ready),
      .own_tdata(s_partial_tdata),
      .rest_tvalid($p$made_valid),
      .rest_tready($p$made_ready),
      .rest_tdata($p$made_data),
      .out_tvalid($p$sum_valid),
      .out_tready($p$sum_ready),
      .out_tdata($p$sum_data)
  );
)sv";

// Its way back: errors of the sums that the devices before made go to them.
inline constexpr std::string_view kSumSplitter = R"sv(
  // Errors of the sums that the devices before made, and of those made here.
  logic $p$own_raw_valid, $p$own_raw_ready;
  channel_splitter $p$sum_splitter (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .kept_groups(16'd$GROUPS_BEFORE$),
      .rest_group(16'd$FIRST_OUTPUT_GROUP$),
      .all_groups(16'd$SUMMED_GROUPS$),
      .in_tvalid($p$raw_valid),
      .in_tready($p$raw_ready),
      .kept_tvalid(m_raw_error_tvalid),
      .kept_tready(m_raw_error_tready),
      .rest_tvalid($p$own_raw_valid),
      .rest_tready($p$own_raw_ready)
  );
  assign m_raw_error_tdata = $p$raw_data;
)sv";

// Its last device, for PG of which only a part of the errors is.
inline constexpr std::string_view kBiasGradient = R"sv(
  // The gradients of the biases, which are added here to all sums.
  logic [$LANES$*32-1:0] $p$all_biases_word;
  bias_gradient #(
      .LANES($LANES$),
      .GROUP_ADDRESS_BITS($SUM_GROUP_BITS$)
  ) $p$bias_gradient (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .error_taken($p$raw_valid && $p$raw_ready),
      .error_tdata($p$raw_data),
      .read_address($SUM_GROUP_BITS$'(address)),
      .read_word($p$all_biases_word)
  );
)sv";

}  // namespace millrace
