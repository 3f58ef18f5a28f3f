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
    input  logic [15:0] steps,
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
      .state_write, .state_address, .state_half, .state_taken, .state_kept,
      .in_tvalid, .in_tready, .in_tdata, .out_tvalid, .out_tready, .out_tdata
  );
endmodule
)sv";

inline constexpr std::string_view kStepsTestbenchText = R"sv(`timescale 1ns / 1ps
// A pass forward and a pass back over $STEPS$ steps of $SAMPLES$ samples, each behind its load of weights; every word that leaves is compared
// with the functional model's. Both streams pause.
$MODULES$
module testbench;
  logic clock = 1'b0;
  logic reset_n = 1'b0;
  logic start = 1'b0;
  logic back = 1'b0;
  logic forward_on = 1'b0;
  logic back_on = 1'b0;
  logic load_write = 1'b0;
  logic bias_write = 1'b0;
  logic busy;
  always #4 clock = !clock;

  logic [15:0] bias_address = 16'd0;
  logic [$BIAS_BITS$-1:0] bias_data = '0;
  logic [$LOAD_BITS$-1:0] load_data = '0;
  logic [31:0] place = '0;  // unit, depth, address
  logic [$BIAS_BITS$-1:0] biases[0:$BIAS_WORDS$-1];
  logic [31:0] places_forward[0:$FORWARD_BEATS$-1];
  logic [31:0] places_back[0:$BACK_BEATS$-1];
  logic [$LOAD_BITS$-1:0] weights_forward[0:$FORWARD_BEATS$-1];
  logic [$LOAD_BITS$-1:0] weights_back[0:$BACK_BEATS$-1];

  logic in_tvalid, in_tready, out_tvalid, out_tready, forward_valid, back_valid, forward_ready, back_ready;
  logic [$IN_BITS$-1:0] forward_data, back_data;
  logic [$OUT_BITS$-1:0] out_tdata;
  assign in_tvalid = back ? back_valid : forward_valid;
  assign out_tready = back ? back_ready : forward_ready;
  stream_player #(.FILE("vectors/forward_in.hex"), .COUNT($FORWARD_IN$), .WIDTH($IN_BITS$), .SEED($SEED$)) forward_player (
      .clock, .enable(forward_on), .tvalid(forward_valid), .tready(in_tready && !back), .tdata(forward_data)
  );
  stream_player #(.FILE("vectors/back_in.hex"), .COUNT($BACK_IN$), .WIDTH($IN_BITS$), .SEED($SEED$ + 1)) back_player (
      .clock, .enable(back_on), .tvalid(back_valid), .tready(in_tready && back), .tdata(back_data)
  );
  int forward_received, forward_differences, back_received, back_differences;
  stream_checker #(
      .FILE("vectors/forward_out.hex"), .NAME("forward"), .COUNT($FORWARD_OUT$), .WIDTH($OUT_BITS$), .SEED($SEED$ + 2)
  ) forward_checker (
      .clock, .tvalid(out_tvalid && !back), .tready(forward_ready), .tdata(out_tdata), .received(forward_received),
      .differences(forward_differences)
  );
  stream_checker #(
      .FILE("vectors/back_out.hex"), .NAME("back"), .COUNT($BACK_OUT$), .WIDTH($OUT_BITS$), .SEED($SEED$ + 3)
  ) back_checker (
      .clock, .tvalid(out_tvalid && back), .tready(back_ready), .tdata(out_tdata), .received(back_received), .differences(back_differences)
  );

  millrace_pe_chain #(
      .TABLE("images/sigmoid_table.hex")
  ) engine (
      .clock, .reset_n, .start, .busy, .back, .continues(1'b0), .steps(16'd$STEPS$), .samples(8'd$SAMPLES$),
      .load_write, .load_unit(place[26:24]), .load_depth(place[23:16]), .load_address(place[$ADDRESS_BITS$-1:0]), .load_data,
      .bias_write, .bias_address, .bias_data,
      .state_write(1'b0), .state_address(16'd0), .state_half(1'b0), .state_taken({$TAKEN_BITS${1'b0}}), .state_kept({$KEPT_BITS${1'b0}}),
      .in_tvalid, .in_tready, .in_tdata(back ? back_data : forward_data), .out_tvalid, .out_tready,
      .out_tdata
  );

  task automatic load(input logic transposed);
    for (int beat = 0; beat < (transposed ? $BACK_BEATS$ : $FORWARD_BEATS$); beat++) begin
      @(negedge clock);
      load_write = 1'b1;
      place = transposed ? places_back[beat] : places_forward[beat];
      load_data = transposed ? weights_back[beat] : weights_forward[beat];
    end
    @(negedge clock);
    load_write = 1'b0;
  endtask
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
    $readmemh("images/biases.hex", biases);
    $readmemh("images/places_forward.hex", places_forward);
    $readmemh("images/places_back.hex", places_back);
    $readmemh("images/weights_forward.hex", weights_forward);
    $readmemh("images/weights_back.hex", weights_back);
    repeat ($RESET_CYCLES$) @(negedge clock);  // until nothing unknown is left in the chains
    reset_n = 1'b1;
    for (int word = 0; word < $BIAS_WORDS$; word++) begin
      @(negedge clock);
      bias_write = 1'b1;
      bias_address = word[15:0];
      bias_data = biases[word];
    end
    @(negedge clock);
    bias_write = 1'b0;
    load(1'b0);
    forward_on = 1'b1;
    pass();
    back = 1'b1;
    load(1'b1);
    back_on = 1'b1;
    pass();
    if (forward_received != $FORWARD_OUT$ || back_received != $BACK_OUT$)
      $display("FAIL: %0d of $FORWARD_OUT$ and %0d of $BACK_OUT$ words", forward_received, back_received);
    else if (forward_differences + back_differences != 0)
      $display("FAIL: %0d words differ forward, %0d back", forward_differences, back_differences);
    else $display("PASS: %0d words forward, %0d back", forward_received, back_received);
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
