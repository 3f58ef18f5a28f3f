// Datapath 1 of the interconnection: of every row, the channel groups held here go to the engine, those from `rest_group` on
// to the next device. A group that both hold, because a cut falls into it, goes both ways and leaves when both took it.
// Where a layer is divided by outputs it parts the errors of the raw sum: `kept` for the devices before, `rest` the own ones.
module channel_splitter (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] kept_groups,
    input logic [15:0] rest_group,
    input logic [15:0] all_groups,

    input  logic in_tvalid,
    output logic in_tready,

    output logic kept_tvalid,
    input  logic kept_tready,
    output logic rest_tvalid,
    input  logic rest_tready
);
  logic [15:0] column, group;
  logic keeps, passes, kept_taken, rest_taken;  // *_taken: by one of two, while the other still waits
  assign keeps = group < kept_groups;
  assign passes = group >= rest_group;
  assign kept_tvalid = in_tvalid && keeps && !kept_taken;
  assign rest_tvalid = in_tvalid && passes && !rest_taken;
  assign in_tready = (!keeps || kept_taken || kept_tready) && (!passes || rest_taken || rest_tready);
  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group <= '0;
      kept_taken <= 1'b0;
      rest_taken <= 1'b0;
    end else if (in_tvalid && in_tready) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == all_groups - 16'd1) ? '0 : group + 16'd1;
      kept_taken <= 1'b0;
      rest_taken <= 1'b0;
    end else begin
      if (kept_tvalid && kept_tready) kept_taken <= 1'b1;
      if (rest_tvalid && rest_tready) rest_taken <= 1'b1;
    end
  end
endmodule
