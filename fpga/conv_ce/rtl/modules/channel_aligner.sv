// Channels of a map to another lane: those of an operand to where they lie in a concatenation (OUT_OFFSET: the lane of the first), or
// errors of a concatenation to the lanes of the operand (IN_OFFSET). Other lanes leave as zero, those beyond the last channel too.
// Beats come and leave row - group - column; a beat per cycle, and where the last group is a rest alone, a row of it without input.
module channel_aligner #(
    parameter int LANES = 4,
    parameter int CHANNELS = 4,
    parameter int IN_OFFSET = 0,
    parameter int OUT_OFFSET = 0,
    parameter int COLUMN_BITS = 4,  // of a column's number
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,

    input  logic                          in_tvalid,
    output logic                          in_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] in_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int SKIP = (OUT_OFFSET < IN_OFFSET) ? 1 : 0;  // the first group is kept until the second comes
  localparam int SHIFT = OUT_OFFSET - IN_OFFSET + SKIP * LANES;
  localparam int IN_GROUPS = (IN_OFFSET + CHANNELS + LANES - 1) / LANES;
  localparam int OUT_GROUPS = (OUT_OFFSET + CHANNELS + LANES - 1) / LANES;
  localparam int STEPS = (IN_GROUPS < OUT_GROUPS + SKIP) ? OUT_GROUPS + SKIP : IN_GROUPS;

  logic [15:0] column, step, first;  // `first`: number of the leaving group's first lane
  logic takes, emits, moves, last_column, last_step;
  assign last_column = column == width - 16'd1;
  assign last_step = step == 16'(STEPS - 1);
  assign takes = STEPS == IN_GROUPS || !last_step;
  assign emits = SKIP == 0 || step != 16'd0;
  assign in_tready = takes && (!emits || out_tready) && !clear;
  assign out_tvalid = emits && (!takes || in_tvalid) && !clear;
  assign moves = (!takes || in_tvalid) && (!emits || out_tready);
  assign first = (step - 16'(SKIP)) * 16'(LANES);

  logic [LANES*ELEMENT_BITS-1:0] kept_word, shifted;
  if (SHIFT == 0) begin : g_in_place
    assign kept_word  = '0;
    assign shifted = in_tdata;
    logic unused;
    assign unused = &{1'b0, kept_word};
  end else begin : g_shifted
    logic [LANES*ELEMENT_BITS-1:0] rest[0:(1<<COLUMN_BITS)-1];  // the group before, of every column
    assign kept_word  = rest[COLUMN_BITS'(column)];
    assign shifted = {in_tdata[(LANES-SHIFT)*ELEMENT_BITS-1:0], kept_word[LANES*ELEMENT_BITS-1-:SHIFT*ELEMENT_BITS]};
    always_ff @(posedge clock) if (moves && takes) rest[COLUMN_BITS'(column)] <= in_tdata;
    logic unused;
    assign unused = &{1'b0, kept_word};
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic [15:0] channel;
    assign channel = first + 16'(lane) - 16'(OUT_OFFSET);
    assign out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] = (channel < 16'(CHANNELS)) ? shifted[lane*ELEMENT_BITS+:ELEMENT_BITS] : '0;
  end

  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      step   <= '0;
    end else if (moves) begin
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) step <= last_step ? '0 : step + 16'd1;
    end
  end
endmodule
