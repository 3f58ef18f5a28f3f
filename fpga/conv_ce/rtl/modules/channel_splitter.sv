// Datapath 1 of the interconnection: of every row, the channel groups held here go to the engine, those after them on to
// the next device.
module channel_splitter (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] kept_groups,
    input logic [15:0] all_groups,

    input  logic in_tvalid,
    output logic in_tready,

    output logic kept_tvalid,
    input  logic kept_tready,
    output logic rest_tvalid,
    input  logic rest_tready
);
  logic [15:0] column, group;
  logic keeps;
  assign keeps = group < kept_groups;
  assign kept_tvalid = in_tvalid && keeps;
  assign rest_tvalid = in_tvalid && !keeps;
  assign in_tready = keeps ? kept_tready : rest_tready;
  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group  <= '0;
    end else if (in_tvalid && in_tready) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == all_groups - 16'd1) ? '0 : group + 16'd1;
    end
  end
endmodule
