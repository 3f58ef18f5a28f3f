// The SystemVerilog that a device's shards are put together from, with the places that differ named between dollar signs
// ($LANES$; $p$ is the shard's prefix). Internal to device_top.cpp, which says what goes where.
//
//   text += filled(kShard, values);
//
// Constants alone. Signals of one shard share a prefix, so a shard's parts can be read one after the other. What follows a
// sum is in device_top_after_sum.h.
#pragma once

#include <string_view>

namespace millrace {

inline constexpr std::string_view kKernelMemory = R"sv(  // Kernels, for FP and EB.
  localparam int $P$WORD = $KPW$ * $K$ * $K$;
  logic [$PARAMETER_BITS$-1:0] $p$forward_address, $p$back_address;
  logic [$P$WORD*16-1:0] $p$forward_word, $p$back_word;
  logic $p$forward_there, $p$forward_read, $p$back_there, $p$back_read;
  assign $p$forward_there = 1'b1;
  assign $p$back_there = 1'b1;
  parameter_memory #(
      .ELEMENTS($P$WORD),
      .ADDRESS_BITS($PARAMETER_BITS$),
      .WORDS($PARAMETER_WORDS$),
$PARAMETER_ULTRA$      .IMAGE("images/$P_FILE$_parameters.hex")
  ) $p$parameters (
      .clock(ap_clk),
      .forward_address(running ? $p$forward_address : $PARAMETER_BITS$'(address)),
      .forward_word($p$forward_word),
      .back_address($p$back_address),
      .back_word($p$back_word),
      .write_enable(data_write && memory == 16'd$MEMORY_0$),
      .write_address($PARAMETER_BITS$'(address)),
      .write_element(element),
      .write_data(data_written[15:0])
  );

)sv";

inline constexpr std::string_view kShard = R"sv(
  // ===== Shard $I$: $LAYER$, input channels [$BEGIN$, $END$) of $LAYER_INPUTS$, outputs $OUTPUTS$ of $LAYER_OUTPUTS$, kernel $K$ x $K$, stride $S$.
  localparam int $P$HEIGHT = $HEIGHT$;
  localparam int $P$OUT_HEIGHT = ($P$HEIGHT + 2 * $PAD$ - $K$) / $S$ + 1;

  // Activations: to FP at once, and into the Act-RAM until their errors come back.
  logic $p$in_valid, $p$in_ready;
  logic [BEAT-1:0] $p$in_data;
$SOURCE$
  logic $p$forward_valid, $p$forward_ready, $p$keep_valid, $p$keep_ready;
  stream_fork $p$input_fork (
      .clock(ap_clk),
      .clear,
      .in_tvalid($p$lanes_valid),
      .in_tready($p$lanes_ready),
      .first_tvalid($p$forward_valid),
      .first_tready($p$forward_ready),
      .second_tvalid($p$keep_valid),
      .second_tready($p$keep_ready)
  );
  logic $p$kept_valid, $p$kept_ready;
  logic [$IN_LANES$*16-1:0] $p$kept_data;
$ACT_RAM$
$KERNELS$  // FP.
  logic $p$sum_valid, $p$sum_ready;
  logic [BEAT-1:0] $p$sum_data;
$PARTIAL$$SUM_WIRES$  forward_engine #(
      .KERNEL($K$),
      .STRIDE($S$),
      .INPUT_LANES($IN_LANES$),
      .OUTPUT_LANES($OUT_LANES$),
$CHANNEL_GROUPS$$CHANNEL_BITS$      .KERNELS_PER_WORD($KPW$),
      .ROW_BANKS_LOG2($ROW_BANKS$),
      .COLUMN_BANKS_LOG2($COLUMN_BANKS$),
      .LINE_ADDRESS_BITS($LINE_BITS$),
      .COLUMN_ADDRESS_BITS($COLUMN_BITS$),
      .PARAMETER_ADDRESS_BITS($PARAMETER_BITS$)
  ) $p$forward (
      .clock(ap_clk),
      .clear,
      .height(16'($P$HEIGHT)),
      .width(16'd$WIDTH$),
      .out_height(16'($P$OUT_HEIGHT)),
      .out_width(16'd$OUT_WIDTH$),
      .pad(16'd$PAD$),
      .input_groups($CHANNEL_WIDTH$'d$INPUT_GROUPS$),
      .output_groups(16'd$OUTPUT_GROUPS$),
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .output_group_step($PARAMETER_BITS$'($GROUP_STEP$)),
      .adds_partial(1'b$ADDS$),
      .partial_shift(5'd$SUM_SHIFT$),
      .sum_shift(5'd$SUM_SHIFT$),
      .activation_tvalid($p$forward_valid),
      .activation_tready($p$forward_ready),
      .activation_tdata($p$lanes_data),
      .partial_tvalid($p$partial_valid),
      .partial_tready($p$partial_ready),
      .partial_tdata($p$partial_data),
      .sum_tvalid($SUMS$_valid),
      .sum_tready($SUMS$_ready),
      .sum_tdata($SUMS$_data),
      .parameter_ready($p$forward_there),
      .parameter_read($p$forward_read),
      .parameter_address($p$forward_address),
      .parameter_word($p$forward_word)
  );
)sv";

inline constexpr std::string_view kGradientMemory = R"sv(  gradient_memory #(
      .ELEMENTS($P$WORD),
      .ADDRESS_BITS($PARAMETER_BITS$),
$GRADIENT_ULTRA$      .WORDS($PARAMETER_WORDS$)
  ) $p$gradients (
      .clock(ap_clk),
      .read_address(running ? $p$gradient_read_address : $PARAMETER_BITS$'(address)),
      .read_word($p$gradient_read_word),
      .write_enable($p$gradient_write),
      .write_address($p$gradient_write_address),
      .write_word($p$gradient_write_word)
  );
  assign $p$gradient_there = 1'b1;
)sv";

inline constexpr std::string_view kGradient = R"sv(
  // PG, and the gradient buffer that the host reads while the device rests.
  logic [$PARAMETER_BITS$-1:0] $p$gradient_read_address, $p$gradient_write_address;
  logic [$P$WORD*32-1:0] $p$gradient_read_word, $p$gradient_write_word;
  logic $p$gradient_write, $p$gradient_there, $p$gradient_claim, $p$gradient_read;
  logic [$OUT_LANES$*32-1:0] $p$bias_word;
  logic [15:0] $p$rows_done;
$SIDE_BY_SIDE$$GRADIENTS$  gradient_engine #(
      .KERNEL($K$),
      .STRIDE($S$),
      .INPUT_LANES($IN_LANES$),
      .OUTPUT_LANES($OUT_LANES$),
$CHANNEL_GROUPS$$CHANNEL_BITS$      .KERNELS_PER_WORD($KPW$),
      .ROW_BANKS_LOG2($ROW_BANKS$),
      .COLUMN_BANKS_LOG2($COLUMN_BANKS$),
      .LINE_ADDRESS_BITS($PG_LINE_BITS$),
      .ERROR_ROW_BANKS_LOG2($GRADIENT_ERROR_ROW_BANKS$),
      .ERROR_ADDRESS_BITS($GRADIENT_ERROR_BITS$),
      .GRADIENT_ADDRESS_BITS($PARAMETER_BITS$),
      .GROUP_ADDRESS_BITS($GROUP_BITS$)
  ) $p$gradient (
      .clock(ap_clk),
      .clear,
      .height(16'($P$HEIGHT)),
      .width(16'd$PG_WIDTH$),
      .out_height(16'($P$OUT_HEIGHT)),
      .out_width(16'd$PG_OUT_WIDTH$),
      .pad(16'd$PAD$),
      .input_groups($CHANNEL_WIDTH$'d$INPUT_GROUPS$),
      .output_groups(16'd$OUTPUT_GROUPS$),
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .error_first_block_rows(16'd$ERROR_FIRST_BLOCK$),
      .error_block_rows(16'd$ERROR_BLOCK$),
      .samples_per_update($PG_SAMPLES$),
      .activation_tvalid($PG_ACTIVATIONS$_valid),
      .activation_tready($PG_ACTIVATIONS$_ready),
      .activation_tdata($PG_ACTIVATIONS$_data),
      .error_tvalid($PG_ERRORS$_valid),
      .error_tready($PG_ERRORS$_ready),
      .error_tdata($PG_ERROR_DATA$_data),
      .gradient_ready($p$gradient_there),
      .gradient_claim($p$gradient_claim),
      .gradient_read($p$gradient_read),
      .gradient_read_address($p$gradient_read_address),
      .gradient_read_word($p$gradient_read_word),
      .gradient_write_enable($p$gradient_write),
      .gradient_write_address($p$gradient_write_address),
      .gradient_write_word($p$gradient_write_word),
      .bias_read_address($GROUP_BITS$'(address)),
      .bias_read_word($p$bias_word),
      .rows_done($p$rows_done)
  );
)sv";

inline constexpr std::string_view kErrorBack = R"sv(
  // EB.
  logic $p$own_error_valid, $p$own_error_ready;
  logic [BEAT-1:0] $p$own_error_data;
$BLOCK_WIRES$  error_back_engine #(
      .KERNEL($K$),
      .STRIDE($S$),
      .INPUT_LANES($IN_LANES$),
      .OUTPUT_LANES($OUT_LANES$),
$CHANNEL_GROUPS$$CHANNEL_BITS$      .KERNELS_PER_WORD($KPW$),
      .ROW_BANKS_LOG2($ERROR_ROW_BANKS$),
      .COLUMN_BANKS_LOG2($ERROR_COLUMN_BANKS$),
      .LINE_ADDRESS_BITS($ERROR_LINE_BITS$),
      .COLUMN_ADDRESS_BITS($COLUMN_BITS$),
      .PARAMETER_ADDRESS_BITS($PARAMETER_BITS$)
  ) $p$error_back (
      .clock(ap_clk),
      .clear,
      .width(16'd$WIDTH$),
      .out_height(16'($P$OUT_HEIGHT)),
      .out_width(16'd$OUT_WIDTH$),
      .step_rows(16'(($P$HEIGHT - 1 + $PAD$) / $S$ - $PAD$ / $S$ + 1)),
      .step_columns(16'd$STEP_COLUMNS$),
      .first_step(16'd$FIRST_STEP$),
      .first_phase(16'd$FIRST_PHASE$),
      .last_phase(16'(($P$HEIGHT - 1 + $PAD$) % $S$)),
      .input_groups($CHANNEL_WIDTH$'d$INPUT_GROUPS$),
      .output_groups(16'd$OUTPUT_GROUPS$),
      .first_block_rows(16'd$ERROR_FIRST_BLOCK$),
      .block_rows(16'd$ERROR_BLOCK$),
      .output_group_step($PARAMETER_BITS$'($GROUP_STEP$)),
      .sum_shift(5'd$ERROR_SHIFT$),
      .error_tvalid($p$back_error_valid),
      .error_tready($p$back_error_ready),
      .error_tdata($p$lane_error_data),
      .input_error_tvalid($BLOCKS$_valid),
      .input_error_tready($BLOCKS$_ready),
      .input_error_tdata($BLOCKS$_data),
      .parameter_ready($p$back_there),
      .parameter_read($p$back_read),
      .parameter_address($p$back_address),
      .parameter_word($p$back_word)
  );
)sv";

// Behind EB through a stride.
inline constexpr std::string_view kErrorSorter = R"sv(  // EB makes $S$ rows at once; whoever reads them takes rows one by one.
  row_sorter #(
      .WIDTH($IN_LANES$ * 16),
      .ROW_BANKS_LOG2($SORTER_ROW_BANKS$),
      .ADDRESS_BITS($SORTER_BITS$)
  ) $p$error_sorter (
      .clock(ap_clk),
      .clear,
      .height(16'($P$HEIGHT)),
      .width(16'd$WIDTH$),
      .groups(16'd$INPUT_GROUPS$),
      .first_block_rows(16'd$FIRST_BLOCK$),
      .block_rows(16'd$S$),
      .in_tvalid($BLOCKS$_valid),
      .in_tready($BLOCKS$_ready),
      .in_tdata($BLOCKS$_data),
      .out_tvalid($ROWS$_valid),
      .out_tready($ROWS$_ready),
      .out_tdata($ROWS$_data)
  );
)sv";

}  // namespace millrace
