// y = sigmoid(x), or with TANGENT tanh(x), both of FRACTION fraction bits, 4 to 15, saturated. TABLE has, for 512 steps of |x|, how far it is
// to the next entry above f where the step begins, in hexadecimal, of fifteen fraction bits; smooth_activation.h says the same in C++.
// Streams: one pixel of LANES channels per beat, row - group - column order; a beat per cycle. Lanes beyond the last channel leave as zero:
// `lanes_of_last` of the last group count.
module smooth_activation #(
    parameter int LANES = 4,
    parameter int TANGENT = 0,
    parameter int FRACTION = 11,
    parameter int ELEMENT_BITS = 16,
    parameter TABLE = ""
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
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int PART_BITS = (TANGENT != 0) ? 9 : 10;
  localparam int SIZE_BITS = 9 + PART_BITS;  // up to the table's end
  localparam int WIDE_BITS = ELEMENT_BITS + 15 - FRACTION;
  localparam int PRODUCT_BITS = 10 + PART_BITS;
  localparam int VALUE_BITS = ELEMENT_BITS + 2;

  // --- Lanes that are no channel.
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

  // --- Steps that stand still together: the entry, the product, rounding.
  logic valid_1, valid_2, advance;
  logic [LANES-1:0] absent_1, absent_2;
  assign advance = !out_tvalid || out_tready;
  assign in_tready = advance && !clear;
  always_ff @(posedge clock) begin
    if (clear) {valid_1, valid_2, out_tvalid} <= '0;
    else if (advance) {valid_1, valid_2, out_tvalid} <= {in_tvalid, valid_1, valid_2};
    if (advance) absent_2 <= absent_1;
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [ELEMENT_BITS-1:0] x;
    logic [ELEMENT_BITS-1:0] distance;
    logic [WIDE_BITS-1:0] wide;
    logic [SIZE_BITS-1:0] size;
    assign x = in_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign distance = x[ELEMENT_BITS-1] ? ELEMENT_BITS'(0) - x : x;
    assign wide = WIDE_BITS'(distance) << (15 - FRACTION);
    if (WIDE_BITS > SIZE_BITS) begin : g_beyond
      assign size = (wide[WIDE_BITS-1:SIZE_BITS] != '0) ? '1 : wide[SIZE_BITS-1:0];
    end else begin : g_within
      assign size = SIZE_BITS'(wide);
    end
    (* ram_style = "block" *) logic [31:0] entries[0:511];
    if (TABLE != "") begin : g_table
      initial $readmemh(TABLE, entries);
    end
    logic [31:0] entry;
    logic [PART_BITS-1:0] part;
    logic [PRODUCT_BITS-1:0] product;
    logic [ELEMENT_BITS-1:0] base;
    logic negative_1, negative_2;
    logic signed [VALUE_BITS-1:0] distant, value;
    logic [ELEMENT_BITS-1:0] rounded;
    assign distant = VALUE_BITS'(base) + VALUE_BITS'((product + PRODUCT_BITS'(1 << (PART_BITS - 1))) >> PART_BITS);
    assign value = !negative_2 ? distant : (TANGENT != 0) ? -distant : VALUE_BITS'(32768) - distant;
    round_to_element #(
        .VALUE_BITS(VALUE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value,
        .shift(5'(15 - FRACTION)),
        .element(rounded)
    );
    always_ff @(posedge clock) begin
      if (advance) begin
        entry <= entries[size[SIZE_BITS-1-:9]];
        part <= size[PART_BITS-1:0];
        {negative_1, negative_2} <= {x[ELEMENT_BITS-1], negative_1};
        absent_1[lane] <= last_group && 16'(lane) >= lanes_of_last;
        product <= PRODUCT_BITS'(entry[25:16]) * PRODUCT_BITS'(part);
        base <= entry[15:0];
        out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= absent_2[lane] ? '0 : rounded;
      end
    end
    logic unused;
    assign unused = &{1'b0, entry[31:26]};
  end
endmodule
