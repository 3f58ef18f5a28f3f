// What of a shard differs where its weights lie in the memory outside: streamers in place of memories, and samples put side by side.
// Templates as in device_top_templates.h. Internal to device_top_streams.cpp.
//
//   values["KERNELS"] = filled(kKernelStreams, values);
//
// Constants alone.
#pragma once

#include <string_view>

namespace millrace {

inline constexpr std::string_view kKernelStreams = R"sv(  // Kernels, for FP and EB, from the memory outside.
  localparam int $P$WORD = $KPW$ * $K$ * $K$;
  logic [$PARAMETER_BITS$-1:0] $p$forward_address, $p$back_address;
  logic [$P$WORD*16-1:0] $p$forward_word, $p$back_word;
  logic $p$forward_there, $p$forward_read, $p$back_there, $p$back_read;
  logic [2:0] $p$streaming, $p$stream_faults;
$FORWARD_STREAM$$BACK_STREAM$)sv";

// For $WHO$, forward or back, on $PORT$.
inline constexpr std::string_view kKernelStream = R"sv($CONSTANTS$  parameter_streamer #(
      .ELEMENTS($P$WORD),
      .BEAT_BITS($BEAT_BITS$)
  ) $p$$WHO$_kernels (
      .clock(ap_clk),
      .clear,
      .address(parameters_address + 64'd$PLACE$),
      .words(32'd$STREAM_WORDS$),
      .beats(32'd$KERNEL_BEATS$),
      .passes(32'(samples) / 32'd$SHARING$ * 32'($PASSES$)),
      .busy($p$streaming[$STREAM$]),
      .fault($p$stream_faults[$STREAM$]),
      .parameter_ready($p$$WHO$_there),
      .parameter_read($p$$WHO$_read),
      .parameter_word($p$$WHO$_word),
$CONNECTIONS$
  );
)sv";

inline constexpr std::string_view kGradientStream = R"sv($CONSTANTS$  gradient_streamer #(
      .ELEMENTS($P$WORD),
      .LOAD_WORDS($LOAD_WORDS$),
      .BEAT_BITS($BEAT_BITS$)
  ) $p$gradients (
      .clock(ap_clk),
      .clear,
      .address(parameters_address + 64'd$PLACE$),
      .words(32'd$STREAM_WORDS$),
      .beats(32'd$GRADIENT_BEATS$),
      .passes(32'(samples) / 32'd$SHARING$ * 32'($PASSES$)),
      .busy($p$streaming[2]),
      .fault($p$stream_faults[2]),
      .gradient_ready($p$gradient_there),
      .gradient_claim($p$gradient_claim),
      .gradient_read($p$gradient_read),
      .gradient_read_word($p$gradient_read_word),
      .gradient_write_enable($p$gradient_write),
      .gradient_write_word($p$gradient_write_word),
$CONNECTIONS$
  );
)sv";

// Answers that were errors, until the next run.
inline constexpr std::string_view kStreamFaults = R"sv(  logic was_running;
  always_ff @(posedge ap_clk) begin
    was_running <= running && ap_rst_n;
    if (!ap_rst_n || (running && !was_running)) stream_faults <= '0;
    else if (running) stream_faults <= stream_faults | ($FAULTS$);
  end
)sv";

// Stretches of $IN$ become $OUT$ in another order; the counts are those of what leaves, the innermost first.
inline constexpr std::string_view kPermuter = R"sv(  logic $OUT_WIRES$_valid, $OUT_WIRES$_ready;
  logic [$PERMUTED$*16-1:0] $OUT_WIRES$_data;
  permuting_buffer #(
      .WIDTH($PERMUTED$ * 16),
$ORDER$  ) $NAME$ (
      .clock(ap_clk),
      .clear,
      .in_tvalid($IN_VALID$_valid),
      .in_tready($IN_VALID$_ready),
      .in_tdata($IN_DATA$_data),
      .out_tvalid($OUT_VALID$_valid),
      .out_tready($OUT_VALID$_ready),
      .out_tdata($OUT_VALID$_data)
  );
)sv";

}  // namespace millrace
