// Local response norm: y = round(x * p * 2^-P_SHIFT), saturated, with p of response_factors.sv, which says the parameters.
// Streams: one pixel of LANES channels per beat, row - group - column order; a beat per cycle. A row leaves when all of it that its
// windows need is in.
module response_norm #(
    parameter int LANES = 4,
    parameter int HALF = 2,
    parameter int ADDRESS_BITS = 6,
    parameter int BASE = 0,
    parameter int FACTOR = 0,
    parameter int FACTOR_SHIFT = 0,
    parameter int FIRST_OCTAVE = 20,
    parameter int OCTAVES = 1,
    parameter int P_SHIFT = 15,
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
  logic factors_valid, advance;
  logic [LANES*ELEMENT_BITS-1:0] x, p, q;
  response_factors #(
      .LANES(LANES),
      .HALF(HALF),
      .ADDRESS_BITS(ADDRESS_BITS),
      .BASE(BASE),
      .FACTOR(FACTOR),
      .FACTOR_SHIFT(FACTOR_SHIFT),
      .FIRST_OCTAVE(FIRST_OCTAVE),
      .OCTAVES(OCTAVES),
      .ELEMENT_BITS(ELEMENT_BITS),
      .TABLE(TABLE)
  ) factors (
      .clock,
      .clear,
      .width,
      .groups,
      .lanes_of_last,
      .in_tvalid,
      .in_tready,
      .in_tdata,
      .out_tvalid(factors_valid),
      .out_tready(advance),
      .out_x(x),
      .out_p(p),
      .out_q(q)
  );
  logic product_valid;
  assign advance = !out_tvalid || out_tready;
  always_ff @(posedge clock) begin
    if (clear) {product_valid, out_tvalid} <= '0;
    else if (advance) {product_valid, out_tvalid} <= {factors_valid, product_valid};
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [ELEMENT_BITS-1:0] element, factor;
    logic signed [2*ELEMENT_BITS-1:0] product;
    logic [ELEMENT_BITS-1:0] rounded;
    assign element = x[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign factor  = p[lane*ELEMENT_BITS+:ELEMENT_BITS];
    round_to_element #(
        .VALUE_BITS(2 * ELEMENT_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value(product),
        .shift(5'(P_SHIFT)),
        .element(rounded)
    );
    always_ff @(posedge clock) begin
      if (advance) begin
        product <= element * factor;
        out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= rounded;
      end
    end
  end
  logic unused;
  assign unused = &{1'b0, q};
endmodule
