// Two maps, or the errors of two readers of one, beat by beat: their sum, saturated. Each has a range of the channel groups of what leaves,
// A from A_BEGIN to A_END; where only one has a group it leaves as it is, and where none has one zero does.
// Of a sum of several maps the elements of A, the sum so far, and those that leave may be wider: it is saturated where it is complete.
// Beats come row - group - column.
module map_adder #(
    parameter int LANES = 4,
    parameter int A_BEGIN = 0,
    parameter int A_END = 1,
    parameter int B_BEGIN = 0,
    parameter int B_END = 1,
    parameter int ELEMENT_BITS = 16,
    parameter int A_BITS = ELEMENT_BITS,
    parameter int OUT_BITS = ELEMENT_BITS  // at most one more than A_BITS
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,

    input  logic                          a_tvalid,
    output logic                          a_tready,
    input  logic [      LANES*A_BITS-1:0] a_tdata,
    input  logic                          b_tvalid,
    output logic                          b_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] b_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [    LANES*OUT_BITS-1:0] out_tdata
);
  logic [15:0] column, group;
  logic has_a, has_b, leaves;
  assign has_a = group - 16'(A_BEGIN) < 16'(A_END - A_BEGIN);
  assign has_b = group - 16'(B_BEGIN) < 16'(B_END - B_BEGIN);
  assign out_tvalid = (!has_a || a_tvalid) && (!has_b || b_tvalid) && !clear;
  assign leaves = out_tvalid && out_tready;
  assign a_tready = leaves && has_a;
  assign b_tready = leaves && has_b;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [A_BITS-1:0] a;
    logic signed [ELEMENT_BITS-1:0] b;
    assign a = has_a ? a_tdata[lane*A_BITS+:A_BITS] : '0;
    assign b = has_b ? b_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] : '0;
    round_to_element #(
        .VALUE_BITS(A_BITS + 1),
        .ELEMENT_BITS(OUT_BITS),
        .OUTPUT_BITS(OUT_BITS)
    ) saturating (
        .value((A_BITS + 1)'(a) + (A_BITS + 1)'(b)),
        .shift(5'd0),
        .element(out_tdata[lane*OUT_BITS+:OUT_BITS])
    );
  end

  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group  <= '0;
    end else if (leaves) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == groups - 16'd1) ? '0 : group + 16'd1;
    end
  end
endmodule
