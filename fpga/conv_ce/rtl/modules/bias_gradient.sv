// The gradients of biases where PG sees only a part of the errors: in a layer that is divided by outputs the last device adds
// the bias to all of them, while its PG takes the errors of its own. Per channel the sum of the raw sum's errors, modulo 2^SUM_BITS.
//
// It watches a stream that others read: `error_taken` in the cycle in which a beat of `error_tdata` is taken, row by row, in a row
// group by group. The first row behind `clear` replaces what is there. A group's sums are there a cycle after its last beat.
module bias_gradient #(
    parameter int LANES = 4,
    parameter int GROUP_ADDRESS_BITS = 4,
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,

    input logic                          error_taken,
    input logic [LANES*ELEMENT_BITS-1:0] error_tdata,

    input  logic [GROUP_ADDRESS_BITS-1:0] read_address,
    output logic [    LANES*SUM_BITS-1:0] read_word  // one cycle later
);
  logic [15:0] column, group;
  logic last_column, last_group, first_row;  // `first_row`: behind `clear`
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  always_ff @(posedge clock) begin
    if (clear) begin
      {column, group} <= '0;
      first_row <= 1'b1;
    end else if (error_taken) begin
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) group <= last_group ? '0 : group + 16'd1;
      if (last_column && last_group) first_row <= 1'b0;
    end
  end

  logic [LANES*SUM_BITS-1:0] sums[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [LANES*SUM_BITS-1:0] sum_before, sum_after;
  assign sum_before = (first_row && column == 16'd0) ? '0 : sums[GROUP_ADDRESS_BITS'(group)];
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [ELEMENT_BITS-1:0] error;
    assign error = error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign sum_after[lane*SUM_BITS+:SUM_BITS] = sum_before[lane*SUM_BITS+:SUM_BITS] + SUM_BITS'(error);
  end
  always_ff @(posedge clock) begin
    if (error_taken) sums[GROUP_ADDRESS_BITS'(group)] <= sum_after;
    read_word <= sums[read_address];
  end
endmodule
