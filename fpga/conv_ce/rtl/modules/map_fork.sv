// A map to all its readers on this device and behind it: every beat goes to the readers whose channel groups it belongs to, and is taken
// when all of them have it, whichever is first. Beats come row - group - column; reader n wants the groups from BEGINS[n] to ENDS[n].
module map_fork #(
    parameter int READERS = 2,
    parameter logic [READERS*16-1:0] BEGINS = '0,
    parameter logic [READERS*16-1:0] ENDS = '1
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,

    input  logic               in_tvalid,
    output logic               in_tready,
    output logic [READERS-1:0] out_tvalid,
    input  logic [READERS-1:0] out_tready
);
  logic [15:0] column, group;
  logic [READERS-1:0] wanted, taken;  // `taken`: by some, while others still wait
  for (genvar n = 0; n < READERS; n++) begin : g_reader
    localparam logic [15:0] BEGIN = BEGINS[n*16+:16];
    localparam logic [15:0] COUNT = ENDS[n*16+:16] - BEGIN;
    assign wanted[n] = group - BEGIN < COUNT;
  end
  assign out_tvalid = wanted & ~taken & {READERS{in_tvalid}};
  assign in_tready  = &(~wanted | taken | out_tready);
  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group  <= '0;
      taken  <= '0;
    end else if (in_tvalid && in_tready) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == groups - 16'd1) ? '0 : group + 16'd1;
      taken <= '0;
    end else begin
      taken <= taken | (out_tvalid & out_tready);
    end
  end
endmodule
