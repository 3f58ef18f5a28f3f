// What stands between a shard's special-function unit and the pooling behind it, forward and back, as device_top_after_sum.h has the rest:
// a response norm or a smooth activation.
//
//   text += filled(kResponse, values) + filled(kPoolingAlone, values);
//
// Internal to device_top.cpp.
#pragma once

#include <string_view>

namespace millrace {

// A response norm between the special-function unit, which then does not pool, and the pooling; what it was given waits for its errors.
// $RESPONSE$: the parameters that both ways have.
inline constexpr std::string_view kResponse = R"sv(
  // The local response norm; what it is given waits for its errors.
  logic $p$into_norm_valid, $p$into_norm_ready, $p$keeps_x_valid, $p$keeps_x_ready;
  stream_fork $p$norm_fork (
      .clock(ap_clk),
      .clear,
      .in_tvalid($p$value_valid),
      .in_tready($p$value_ready),
      .first_tvalid($p$into_norm_valid),
      .first_tready($p$into_norm_ready),
      .second_tvalid($p$keeps_x_valid),
      .second_tready($p$keeps_x_ready)
  );
  logic $p$norm_x_valid, $p$norm_x_ready;
  logic [BEAT-1:0] $p$norm_x_data;
$NORM_RAM$  logic $p$normed_valid, $p$normed_ready;
  logic [BEAT-1:0] $p$normed_data;
  response_norm #(
$RESPONSE$      .P_SHIFT($P_SHIFT$)
  ) $p$norm (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .lanes_of_last(16'd$LANES_OF_LAST$),
      .in_tvalid($p$into_norm_valid),
      .in_tready($p$into_norm_ready),
      .in_tdata($p$value_data),
      .out_tvalid($p$normed_valid),
      .out_tready($p$normed_ready),
      .out_tdata($p$normed_data)
  );
)sv";

// Likewise a sigmoid or a tangent; what it gives waits for its errors.
inline constexpr std::string_view kSmooth = R"sv(
  // A smooth activation; what it gives waits for its errors.
  logic $p$smoothed_valid, $p$smoothed_ready;
  logic [BEAT-1:0] $p$smoothed_data;
  smooth_activation #(
      .LANES($LANES$),
      .TANGENT($TANGENT$),
      .FRACTION($FRACTION$),
      .TABLE("images/$P_FILE$_activation.hex")
  ) $p$smooth (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .lanes_of_last(16'd$LANES_OF_LAST$),
      .in_tvalid($p$value_valid),
      .in_tready($p$value_ready),
      .in_tdata($p$value_data),
      .out_tvalid($p$smoothed_valid),
      .out_tready($p$smoothed_ready),
      .out_tdata($p$smoothed_data)
  );
  logic $p$normed_valid, $p$normed_ready, $p$keeps_y_valid, $p$keeps_y_ready;
  logic [BEAT-1:0] $p$normed_data;
  assign $p$normed_data = $p$smoothed_data;
  stream_fork $p$smooth_fork (
      .clock(ap_clk),
      .clear,
      .in_tvalid($p$smoothed_valid),
      .in_tready($p$smoothed_ready),
      .first_tvalid($p$normed_valid),
      .first_tready($p$normed_ready),
      .second_tvalid($p$keeps_y_valid),
      .second_tready($p$keeps_y_ready)
  );
  logic $p$y_valid, $p$y_ready;
  logic [BEAT-1:0] $p$y_data;
$SMOOTH_RAM$)sv";

inline constexpr std::string_view kSmoothBack = R"sv(  smooth_activation_back #(
      .LANES($LANES$),
      .TANGENT($TANGENT$),
      .FRACTION($FRACTION$)
  ) $p$smooth_back (
      .clock(ap_clk),
      .clear,
      .y_tvalid($p$y_valid),
      .y_tready($p$y_ready),
      .y_tdata($p$y_data),
      .error_tvalid($IN$_valid),
      .error_tready($IN$_ready),
      .error_tdata($IN$_data),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT$_data)
  );
)sv";

inline constexpr std::string_view kPoolingAlone = R"sv(  pooling_unit #(
      .LANES($LANES$),
      .POOL_KERNEL($PK$),
      .POOL_STRIDE($PS$),
$WINDOW_COLUMNS$      .AVERAGE($AVERAGE$),
      .PLACE_BITS($PLACE_BITS$),
      .ROW_BANKS_LOG2($POOL_ROW_BANKS$),
      .COLUMN_BANKS_LOG2($POOL_COLUMN_BANKS$),
      .LINE_ADDRESS_BITS($POOL_LINE_BITS$)
  ) $p$pooling (
      .clock(ap_clk),
      .clear,
      .height(16'($P$OUT_HEIGHT)),
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .out_height(16'($P$POOLED_HEIGHT)),
      .out_width(16'd$POOLED_WIDTH$),
      .pad(16'd$POOL_PAD$),
      .count_padding(1'b$COUNT_PADDING$),
      .in_tvalid($p$normed_valid),
      .in_tready($p$normed_ready),
      .in_tdata($p$normed_data),
      .out_tvalid($p$out_valid),
      .out_tready($p$out_ready),
      .out_tdata($p$out_data),
      .kept_tdata($p$winners)
  );
)sv";

inline constexpr std::string_view kNotPooled = R"sv(  assign $p$out_valid = $p$normed_valid;
  assign $p$normed_ready = $p$out_ready;
  assign $p$out_data = $p$normed_data;
  assign $p$winners = '0;
)sv";

inline constexpr std::string_view kResponseBack = R"sv(  response_norm_back #(
$RESPONSE$      .P_SHIFT($P_SHIFT$),
      .U_SHIFT($U_SHIFT$),
      .T_SHIFT($T_SHIFT$)
  ) $p$norm_back (
      .clock(ap_clk),
      .clear,
      .width(16'd$OUT_WIDTH$),
      .groups(16'd$SUM_GROUPS$),
      .lanes_of_last(16'd$LANES_OF_LAST$),
      .relu(1'b$RELU$),
      .x_tvalid($p$norm_x_valid),
      .x_tready($p$norm_x_ready),
      .x_tdata($p$norm_x_data),
      .error_tvalid($IN$_valid),
      .error_tready($IN$_ready),
      .error_tdata($IN$_data),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT$_data)
  );
)sv";

}  // namespace millrace
