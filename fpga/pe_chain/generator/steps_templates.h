// The texts of a generated engine of chained elements: its top with settings, and its testbench. Internal to fpga/pe_chain/generator.
#pragma once

#include <string_view>

namespace millrace {

inline constexpr std::string_view kStepsTop = R"sv(// $WHAT$
module millrace_pe_chain #(
    parameter TABLE = "sigmoid_table.hex"
) (
    input  logic        clock,
    input  logic        reset_n,
    input  logic        start,
    output logic        busy,
    input  logic        back,
    input  logic        continues,
$PLACE_PORT$$PART_PORT$    input  logic [15:0] steps,
    input  logic [ 7:0] samples,

    input logic                      load_write,
    input logic [               2:0] load_unit,
    input logic [               7:0] load_depth,
    input logic [$ADDRESS_BITS$-1:0] load_address,
    input logic [   $LOAD_BITS$-1:0] load_data,
    input logic                      bias_write,
    input logic [              15:0] bias_address,
    input logic [   $BIAS_BITS$-1:0] bias_data,
    input logic                      state_write,
    input logic [              15:0] state_address,
    input logic                      state_half,
    input logic                      state_keeps,
    input logic [  $TAKEN_BITS$-1:0] state_taken,
    input logic [   $KEPT_BITS$-1:0] state_kept,

    input  logic                 in_tvalid,
    output logic                 in_tready,
    input  logic [$IN_BITS$-1:0] in_tdata,
    output logic                 out_tvalid,
    input  logic                 out_tready,
    output logic [$OUT_BITS$-1:0] out_tdata
);
  pe_chain_engine #(
$PARAMETERS$      .TABLE(TABLE)
  ) engine (
      .clock, .reset_n, .start, .busy, .back, .continues, .steps, .samples,
$SETTINGS$      .load_write, .load_unit, .load_depth, .load_address, .load_data, .bias_write, .bias_address, .bias_data,
      .state_write, .state_address, .state_half, .state_keeps, .state_taken, .state_kept,
      .in_tvalid, .in_tready, .in_tdata, .out_tvalid, .out_tready, .out_tdata
  );
endmodule
)sv";

// Of a place.
inline constexpr std::string_view kStepsWeights = R"sv(  logic [$BIAS_BITS$-1:0] $NAME$biases[0:$BIAS_WORDS$-1];
  logic [31:0] $NAME$places_forward[0:$FORWARD_BEATS$-1];
  logic [31:0] $NAME$places_back[0:$BACK_BEATS$-1];
  logic [$LOAD_BITS$-1:0] $NAME$weights_forward[0:$FORWARD_BEATS$-1];
  logic [$LOAD_BITS$-1:0] $NAME$weights_back[0:$BACK_BEATS$-1];
  initial begin
    $readmemh("images/$NAME$biases.hex", $NAME$biases);
    $readmemh("images/$NAME$places_forward.hex", $NAME$places_forward);
    $readmemh("images/$NAME$places_back.hex", $NAME$places_back);
    $readmemh("images/$NAME$weights_forward.hex", $NAME$weights_forward);
    $readmemh("images/$NAME$weights_back.hex", $NAME$weights_back);
  end
  task automatic load_$NAME$weights(input logic transposed);
    for (int beat = 0; beat < (transposed ? $BACK_BEATS$ : $FORWARD_BEATS$); beat++) begin
      @(negedge clock);
      load_write = 1'b1;
      goes = transposed ? $NAME$places_back[beat] : $NAME$places_forward[beat];
      load_data = transposed ? $NAME$weights_back[beat] : $NAME$weights_forward[beat];
    end
    @(negedge clock);
    load_write = 1'b0;
  endtask
  task automatic load_$NAME$biases;
    for (int word = 0; word < $BIAS_WORDS$; word++) begin
      @(negedge clock);
      bias_write = 1'b1;
      bias_address = word[15:0];
      bias_data = $NAME$biases[word];
    end
    @(negedge clock);
    bias_write = 1'b0;
  endtask
)sv";

// Of a pass.
inline constexpr std::string_view kStepsPlayer = R"sv(  logic $NAME$_valid, $NAME$_ready;
  logic [$IN_BITS$-1:0] $NAME$_data;
  stream_player #(.FILE("vectors/$NAME$_in.hex"), .COUNT($IN$), .WIDTH($IN_BITS$), .SEED($IN_SEED$)) $NAME$_player (
      .clock, .enable(on && now == $PASS$), .tvalid($NAME$_valid), .tready(in_tready && now == $PASS$), .tdata($NAME$_data)
  );
)sv";
inline constexpr std::string_view kStepsNoPlayer = R"sv(  logic $NAME$_valid, $NAME$_ready;
  logic [$IN_BITS$-1:0] $NAME$_data;
  assign $NAME$_valid = 1'b0;
  assign $NAME$_data = '0;
)sv";
inline constexpr std::string_view kStepsChecker = R"sv(  int $NAME$_received, $NAME$_differences;
  stream_checker #(
      .FILE("vectors/$NAME$_out.hex"), .NAME("$NAME$"), .COUNT($OUT$), .WIDTH($OUT_BITS$), .SEED($OUT_SEED$)
  ) $NAME$_checker (
      .clock, .tvalid(out_tvalid && now == $PASS$), .tready($NAME$_ready), .tdata(out_tdata), .received($NAME$_received),
      .differences($NAME$_differences)
  );
)sv";
inline constexpr std::string_view kStepsState = R"sv(  logic [$TAKEN_BITS$-1:0] $NAME$_taken[0:$STATE$-1];
  logic [$KEPT_BITS$-1:0] $NAME$_kept[0:$STATE$-1];
  initial begin
    $readmemh("vectors/$NAME$_taken.hex", $NAME$_taken);
    $readmemh("vectors/$NAME$_kept.hex", $NAME$_kept);
  end
  task automatic load_$NAME$_state;
    for (int word = 0; word < 2 * $STATE$; word++) begin
      @(negedge clock);
      state_write = 1'b1;
      state_address = 16'(word / 2);
      state_half = word % 2 == 1;
      state_taken = $NAME$_taken[word / 2];
      state_keeps = 1'b$KEEPS$;
      state_kept = $NAME$_kept[word / 2];
    end
    @(negedge clock);
    state_write = 1'b0;
  endtask
)sv";

inline constexpr std::string_view kStepsTestbenchText = R"sv(`timescale 1ns / 1ps
// $PASSES$ of $SAMPLES$ samples, each way behind its load of weights$STATES$; every word that leaves is compared
// with the functional model's. All streams pause.
$MODULES$
module testbench;
  logic clock = 1'b0;
  logic reset_n = 1'b0;
  logic start = 1'b0;
  logic back = 1'b0;
  logic [1:0] part = 2'd0;
  logic [7:0] place = 8'd0;
  logic continues = 1'b0;
  logic [15:0] steps = 16'd1;
  logic on = 1'b0;
  int now = 0;  // the pass
  logic load_write = 1'b0;
  logic bias_write = 1'b0;
  logic state_write = 1'b0;
  logic state_half = 1'b0;
  logic state_keeps = 1'b0;
  logic [15:0] state_address = 16'd0;
  logic [$TAKEN_BITS$-1:0] state_taken = '0;
  logic [$KEPT_BITS$-1:0] state_kept = '0;
  logic busy;
  always #4 clock = !clock;

  logic [15:0] bias_address = 16'd0;
  logic [$BIAS_BITS$-1:0] bias_data = '0;
  logic [$LOAD_BITS$-1:0] load_data = '0;
  logic [31:0] goes = '0;  // unit, depth, address
$WEIGHTS$
  logic in_tvalid, in_tready, out_tvalid, out_tready;
  logic [$IN_BITS$-1:0] in_tdata;
  logic [$OUT_BITS$-1:0] out_tdata;
$STREAMS$
  millrace_pe_chain #(
      .TABLE("images/sigmoid_table.hex")
  ) engine (
      .clock, .reset_n, .start, .busy, .back, .continues, $PORTS$.steps, .samples(8'd$SAMPLES$),
      .load_write, .load_unit(goes[26:24]), .load_depth(goes[23:16]), .load_address(goes[$ADDRESS_BITS$-1:0]), .load_data,
      .bias_write, .bias_address, .bias_data,
      .state_write, .state_address, .state_half, .state_keeps, .state_taken, .state_kept,
      .in_tvalid, .in_tready, .in_tdata, .out_tvalid, .out_tready, .out_tdata
  );

  task automatic pass;
    @(negedge clock);
    start = 1'b1;
    @(negedge clock);
    start = 1'b0;
    @(negedge clock);
    while (busy) @(negedge clock);
    repeat (4) @(negedge clock);
  endtask

  initial begin
    repeat ($RESET_CYCLES$) @(negedge clock);  // until nothing unknown is left in the chains
    reset_n = 1'b1;
$SEQUENCE$    if ($FORWARD_RECEIVED$ != $FORWARD_OUT$ || $BACK_RECEIVED$ != $BACK_OUT$)
      $display("FAIL: %0d of $FORWARD_OUT$ and %0d of $BACK_OUT$ words", $FORWARD_RECEIVED$, $BACK_RECEIVED$);
    else if ($FORWARD_DIFFERENCES$ + $BACK_DIFFERENCES$ != 0)
      $display("FAIL: %0d words differ forward, %0d back", $FORWARD_DIFFERENCES$, $BACK_DIFFERENCES$);
    else $display("PASS: %0d words forward, %0d back", $FORWARD_RECEIVED$, $BACK_RECEIVED$);
    $finish;
  end
  initial begin
    repeat ($MOST_CYCLES$) @(posedge clock);
    $display("FAIL: does not end in $MOST_CYCLES$ cycles");
    $finish;
  end
endmodule
)sv";

}  // namespace millrace
