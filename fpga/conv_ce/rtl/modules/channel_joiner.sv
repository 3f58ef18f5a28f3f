// Datapath 4 of the interconnection: of every row, the errors of the channel groups held here leave first, then those that
// the next device made.
module channel_joiner #(
    parameter int WIDTH = 64
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] own_groups,
    input logic [15:0] all_groups,

    input  logic             own_tvalid,
    output logic             own_tready,
    input  logic [WIDTH-1:0] own_tdata,
    input  logic             rest_tvalid,
    output logic             rest_tready,
    input  logic [WIDTH-1:0] rest_tdata,

    output logic             out_tvalid,
    input  logic             out_tready,
    output logic [WIDTH-1:0] out_tdata
);
  logic [15:0] column, group;
  logic owns;
  assign owns = group < own_groups;
  assign out_tvalid = owns ? own_tvalid : rest_tvalid;
  assign out_tdata = owns ? own_tdata : rest_tdata;
  assign own_tready = out_tready && owns;
  assign rest_tready = out_tready && !owns;
  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group  <= '0;
    end else if (out_tvalid && out_tready) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == all_groups - 16'd1) ? '0 : group + 16'd1;
    end
  end
endmodule
