// The adapters between the ring's streams and a shard's engines in a device's top level, as device_top_templates.h has the rest.
//
//   text += filled(shard.adapts_inputs() ? kInputAdapter : kInputLanes, values);
//
// Internal to device_top.cpp, which puts one where an engine has other lanes than the streams.
#pragma once

#include <string_view>

namespace millrace {

// Where the engine's lanes are the stream's.
inline constexpr std::string_view kInputLanes = R"sv(  logic $p$lanes_valid, $p$lanes_ready;
  logic [$IN_LANES$*16-1:0] $p$lanes_data;
  assign $p$lanes_valid = $p$in_valid;
  assign $p$in_ready = $p$lanes_ready;
  assign $p$lanes_data = $p$in_data;
)sv";

// What comes in, for FP and the Act-RAM.
inline constexpr std::string_view kInputAdapter = R"sv(  logic $p$lanes_valid, $p$lanes_ready;
  logic [$IN_LANES$*16-1:0] $p$lanes_data;
  lane_adapter #(
      .IN_LANES($LANES$),
      .OUT_LANES($IN_LANES$),
$CHANNEL_BITS$      .BANKS_LOG2($INPUT_BANKS$),
      .ADDRESS_BITS($INPUT_PIXEL_BITS$)
  ) $p$input_adapter (
      .clock(ap_clk),
      .clear,
      .channels($CHANNEL_WIDTH$'d$HELD$),
      .height(16'($P$HEIGHT)),
      .width(16'd$WIDTH$),
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .in_tvalid($p$in_valid),
      .in_tready($p$in_ready),
      .in_tdata($p$in_data),
      .out_tvalid($p$lanes_valid),
      .out_tready($p$lanes_ready),
      .out_tdata($p$lanes_data)
  );
)sv";

// Partial sums of the devices before.
inline constexpr std::string_view kPartialAdapter = R"sv(  lane_adapter #(
      .IN_LANES($LANES$),
      .OUT_LANES($OUT_LANES$),
      .BANKS_LOG2($SUM_BANKS$),
      .ADDRESS_BITS($SUM_PIXEL_BITS$)
  ) $p$partial_adapter (
      .clock(ap_clk),
      .clear,
      .channels(16'd$SUMS_MADE$),
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .in_tvalid(s_partial_valid),
      .in_tready(s_partial_ready),
      .in_tdata(s_partial_tdata),
      .out_tvalid($p$partial_valid),
      .out_tready($p$partial_ready),
      .out_tdata($p$partial_data)
  );
)sv";

// What FP makes.
inline constexpr std::string_view kSumAdapter = R"sv(  lane_adapter #(
      .IN_LANES($OUT_LANES$),
      .OUT_LANES($LANES$),
      .BANKS_LOG2($SUM_BANKS$),
      .ADDRESS_BITS($SUM_PIXEL_BITS$)
  ) $p$sum_adapter (
      .clock(ap_clk),
      .clear,
      .channels(16'd$SUMS_MADE$),
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .in_tvalid($p$lane_sum_valid),
      .in_tready($p$lane_sum_ready),
      .in_tdata($p$lane_sum_data),
      .out_tvalid($MADE$_valid),
      .out_tready($MADE$_ready),
      .out_tdata($MADE$_data)
  );
)sv";

// Errors of the raw sum, for PG and EB. $MINE$: those of the outputs made here.
inline constexpr std::string_view kErrorAdapter = R"sv(  lane_adapter #(
      .IN_LANES($LANES$),
      .OUT_LANES($OUT_LANES$),
      .BANKS_LOG2($ERROR_ADAPTER_BANKS$),
      .ADDRESS_BITS($ERROR_PIXEL_BITS$)
  ) $p$error_adapter (
      .clock(ap_clk),
      .clear,
      .channels(16'd$SUMS_MADE$),
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .first_block_rows(16'd$ERROR_FIRST_BLOCK$),
      .block_rows(16'd$ERROR_BLOCK$),
      .in_tvalid($MINE$_valid),
      .in_tready($MINE$_ready),
      .in_tdata($p$raw_data),
      .out_tvalid($p$lane_error_valid),
      .out_tready($p$lane_error_ready),
      .out_tdata($p$lane_error_data)
  );
)sv";

// What EB makes.
inline constexpr std::string_view kInputErrorAdapter = R"sv(  lane_adapter #(
      .IN_LANES($IN_LANES$),
      .OUT_LANES($LANES$),
$CHANNEL_BITS$      .BANKS_LOG2($INPUT_BANKS$),
      .ADDRESS_BITS($INPUT_PIXEL_BITS$)
  ) $p$input_error_adapter (
      .clock(ap_clk),
      .clear,
      .channels($CHANNEL_WIDTH$'d$HELD$),
      .height(16'($P$HEIGHT)),
      .width(16'd$WIDTH$),
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .in_tvalid($p$lane_input_error_valid),
      .in_tready($p$lane_input_error_ready),
      .in_tdata($p$lane_input_error_data),
      .out_tvalid($p$own_error_valid),
      .out_tready($p$own_error_ready),
      .out_tdata($p$own_error_data)
  );
)sv";

}  // namespace millrace
