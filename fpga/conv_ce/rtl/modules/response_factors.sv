// What a local response norm multiplies a pixel of channels by: of each element x of channel c, with s = k + a * (sum of the squares of
// the channels from c - HALF to c + HALF),
//   p   s to the power -beta, for the value;   q   2 a beta times s to the power -(beta + 1), for the way back
// s = BASE + (sum * FACTOR >> FACTOR_SHIFT), of as many fraction bits as fixed_response_norm.h says. Both come from a table of
// 512 entries per octave of s, from 2^FIRST_OCTAVE on; beyond it they are those of its end.
// Lanes beyond the last channel must be zero where they come in, since they are neighbours: `lanes_of_last` of the last group count.
module response_factors #(
    parameter int LANES = 4,
    parameter int HALF = 2,
    parameter int ADDRESS_BITS = 6,  // neighbour_window.sv
    parameter int BASE = 0,
    parameter int FACTOR = 0,
    parameter int FACTOR_SHIFT = 0,
    parameter int FIRST_OCTAVE = 20,
    parameter int OCTAVES = 1,
    parameter int ELEMENT_BITS = 16,
    parameter TABLE = ""             // q above p, in hexadecimal
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] lanes_of_last,

    input  logic                          in_tvalid,
    output logic                          in_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] in_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_x,
    output logic [LANES*ELEMENT_BITS-1:0] out_p,
    output logic [LANES*ELEMENT_BITS-1:0] out_q
);
  localparam int REACH = (HALF + LANES - 1) / LANES;
  localparam int WORD = LANES * ELEMENT_BITS;
  localparam int SQUARES_BITS = 2 * ELEMENT_BITS + 4;
  localparam int PRODUCT_BITS = SQUARES_BITS + 16;
  localparam int ENTRIES = OCTAVES * 512;
  localparam int PLACE_BITS = $clog2(ENTRIES);

  // --- Lanes that are no channel are zero.
  logic [15:0] column, group;
  logic last_group;
  assign last_group = group == groups - 16'd1;
  always_ff @(posedge clock) begin
    if (clear) {column, group} <= '0;
    else if (in_tvalid && in_tready) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= last_group ? '0 : group + 16'd1;
    end
  end
  logic [WORD-1:0] cleaned;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_clean
    assign cleaned[lane*ELEMENT_BITS+:ELEMENT_BITS] =
        (last_group && 16'(lane) >= lanes_of_last) ? '0 : in_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
  end
  logic window_valid, advance;
  logic [(2*REACH+1)*WORD-1:0] window;
  neighbour_window #(
      .WIDTH(WORD),
      .REACH(REACH),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) neighbours (
      .clock,
      .clear,
      .width,
      .groups,
      .in_tvalid,
      .in_tready,
      .in_tdata(cleaned),
      .out_tvalid(window_valid),
      .out_tready(advance),
      .out_tdata(window)
  );

  // --- Steps that stand still together: squares, their sums, the product, s, the entry.
  logic valid_1, valid_2, valid_3, valid_4;
  logic [WORD-1:0] x_1, x_2, x_3, x_4;
  assign advance = !out_tvalid || out_tready;
  always_ff @(posedge clock) begin
    if (clear) {valid_1, valid_2, valid_3, valid_4, out_tvalid} <= '0;
    else if (advance) {valid_1, valid_2, valid_3, valid_4, out_tvalid} <= {window_valid, valid_1, valid_2, valid_3, valid_4};
    if (advance) {x_1, x_2, x_3, x_4, out_x} <= {window[REACH*WORD+:WORD], x_1, x_2, x_3, x_4};
  end
  logic [(LANES+2*HALF)*2*ELEMENT_BITS-1:0] squares;
  for (genvar at = 0; at < LANES + 2 * HALF; at++) begin : g_square
    logic signed [ELEMENT_BITS-1:0] element;
    assign element = window[(REACH*LANES-HALF+at)*ELEMENT_BITS+:ELEMENT_BITS];
    always_ff @(posedge clock) if (advance) squares[at*2*ELEMENT_BITS+:2*ELEMENT_BITS] <= element * element;
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic [SQUARES_BITS-1:0] total, sum;
    logic [PRODUCT_BITS-1:0] product;
    logic [31:0] s;
    always_comb begin
      total = '0;
      for (int n = 0; n <= 2 * HALF; n++) total = total + SQUARES_BITS'(squares[(lane+n)*2*ELEMENT_BITS+:2*ELEMENT_BITS]);
    end
    logic [PLACE_BITS-1:0] place;  // of the entry
    logic [31:0] normal;
    always_comb begin
      place  = '0;
      normal = s;
      for (int octave = 0; octave < OCTAVES; octave++)
        if (s >= (32'd1 << (FIRST_OCTAVE + octave))) begin
          normal = s >> (FIRST_OCTAVE + octave - 9);
          place  = PLACE_BITS'({7'(octave), normal[8:0]});
        end
      if ((s >> (FIRST_OCTAVE + OCTAVES)) != 32'd0) place = PLACE_BITS'(ENTRIES - 1);
    end
    logic [31:0] entries[0:ENTRIES-1];
    if (TABLE != "") begin : g_table
      initial $readmemh(TABLE, entries);
    end
    logic [31:0] entry;
    always_ff @(posedge clock) begin
      if (advance) begin
        sum <= total;
        product <= PRODUCT_BITS'(sum) * PRODUCT_BITS'(FACTOR);
        s <= 32'(BASE) + 32'(product >> FACTOR_SHIFT);
        entry <= entries[place];
      end
    end
    assign {out_q[lane*ELEMENT_BITS+:ELEMENT_BITS], out_p[lane*ELEMENT_BITS+:ELEMENT_BITS]} = entry;
    logic unused;
    assign unused = &{1'b0, normal[31:9]};
  end
  logic unused_window;
  assign unused_window = &{1'b0, window};
endmodule
