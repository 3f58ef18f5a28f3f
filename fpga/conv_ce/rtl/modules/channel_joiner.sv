// Datapath 4 of the interconnection: of every row, the errors of the channel groups held here leave first, then those that
// the next device made, from `rest_group` on. Of a group that both hold the sum leaves, saturated: a cut falls into it, and
// what a device does not compute is zero.
// Where a layer is divided by outputs it joins sums on the way forward: those of the devices before, then `rest`, the own ones.
module channel_joiner #(
    parameter int LANES = 4,
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] own_groups,
    input logic [15:0] rest_group,
    input logic [15:0] all_groups,

    input  logic                          own_tvalid,
    output logic                          own_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] own_tdata,
    input  logic                          rest_tvalid,
    output logic                          rest_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] rest_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  logic [15:0] column, group;
  logic owns, rests, leaves;
  assign owns = group < own_groups;
  assign rests = group >= rest_group;
  assign out_tvalid = (!owns || own_tvalid) && (!rests || rest_tvalid);
  assign leaves = out_tvalid && out_tready;
  assign own_tready = leaves && owns;
  assign rest_tready = leaves && rests;

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [ELEMENT_BITS-1:0] own, rest;
    assign own = owns ? own_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] : '0;
    assign rest = rests ? rest_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] : '0;
    round_to_element #(
        .VALUE_BITS(ELEMENT_BITS + 1),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) saturating (
        .value((ELEMENT_BITS + 1)'(own) + (ELEMENT_BITS + 1)'(rest)),
        .shift(5'd0),
        .element(out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS])
    );
  end

  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group  <= '0;
    end else if (leaves) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == all_groups - 16'd1) ? '0 : group + 16'd1;
    end
  end
endmodule
