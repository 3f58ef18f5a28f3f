// The same pixel of the groups around: words come row - group - column, and leave in that order, each with those of REACH groups before
// and behind it; zero where there is no such group.
//
// Word n of `window` (n from 0 to 2 REACH) is that of group g - REACH + n. A word leaves when the last group that it needs is there; a
// word per cycle both ways. 2^ADDRESS_BITS words must hold 2 REACH + 2 rows of a group.
module neighbour_window #(
    parameter int WIDTH = 64,
    parameter int REACH = 1,
    parameter int ADDRESS_BITS = 6
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,

    input  logic             in_tvalid,
    output logic             in_tready,
    input  logic [WIDTH-1:0] in_tdata,

    output logic                         out_tvalid,
    input  logic                         out_tready,
    output logic [(2*REACH+1)*WIDTH-1:0] out_tdata
);
  localparam int COUNT_BITS = 24;
  localparam int WORDS = 2 * REACH + 1;
  logic [COUNT_BITS-1:0] written, taken, ahead, behind;
  logic [15:0] column, group, groups_ahead, reached;
  logic writes, issue, last_column, last_group;
  // How far the window reaches, within the row; not as "below REACH", which lint refuses where that is 0.
  assign groups_ahead = groups - 16'd1 - group;
  assign reached = (groups_ahead > 16'(REACH)) ? 16'(REACH) : groups_ahead;
  assign ahead = COUNT_BITS'(reached) * COUNT_BITS'(width);
  assign behind = written - taken;
  assign in_tready = !clear && (written - taken + COUNT_BITS'(REACH) * COUNT_BITS'(width)) < COUNT_BITS'(1 << ADDRESS_BITS);
  assign writes = in_tvalid && in_tready;
  assign issue = !clear && behind > ahead && (!out_tvalid || out_tready);
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  always_ff @(posedge clock) begin
    if (clear) begin
      {written, taken} <= '0;
      {column, group} <= '0;
      out_tvalid <= 1'b0;
    end else begin
      if (writes) written <= written + COUNT_BITS'(1);
      if (issue) begin
        taken  <= taken + COUNT_BITS'(1);
        column <= last_column ? '0 : column + 16'd1;
        if (last_column) group <= last_group ? '0 : group + 16'd1;
      end
      if (issue) out_tvalid <= 1'b1;
      else if (out_tready) out_tvalid <= 1'b0;
    end
  end
  // A copy per word of the window: each has one port to read.
  for (genvar n = 0; n < WORDS; n++) begin : g_word
    logic [WIDTH-1:0] words[0:(1<<ADDRESS_BITS)-1];
    logic [ADDRESS_BITS-1:0] place;
    logic [15:0] neighbour;
    logic there, was_there;
    logic [WIDTH-1:0] word;
    assign neighbour = group + 16'(n) - 16'(REACH);
    assign there = neighbour < groups;  // below the first one it is a large number
    assign place = ADDRESS_BITS'(taken) + ADDRESS_BITS'(n) * ADDRESS_BITS'(width) - ADDRESS_BITS'(REACH) * ADDRESS_BITS'(width);
    always_ff @(posedge clock) begin
      if (writes) words[ADDRESS_BITS'(written)] <= in_tdata;
      if (issue) begin
        word <= words[place];
        was_there <= there;
      end
    end
    assign out_tdata[n*WIDTH+:WIDTH] = was_there ? word : '0;
  end
endmodule
