// The way back through a sigmoid, or with TANGENT a hyperbolic tangent, from its output y, kept since, of FRACTION fraction bits:
//   error = round(e * slope * 2^-15), slope = round((y - y^2) * 2^15), with TANGENT round((1 - y^2) * 2^15)
// Both streams come in the same order and are waited for together; a beat per cycle.
module smooth_activation_back #(
    parameter int LANES = 4,
    parameter int TANGENT = 0,
    parameter int FRACTION = 11,
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input  logic                          y_tvalid,
    output logic                          y_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] y_tdata,

    input  logic                          error_tvalid,
    output logic                          error_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] error_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int SHIFT = 2 * FRACTION - 15;
  localparam int WIDE_BITS = 2 * ELEMENT_BITS + 1 + ((SHIFT < 0) ? -SHIFT : 0);
  localparam int SLOPE_BITS = 17;

  // --- Steps that stand still together: the square, the slope, the product.
  logic valid_1, valid_2, advance;
  assign advance = !out_tvalid || out_tready;
  assign y_tready = advance && error_tvalid && !clear;
  assign error_tready = advance && y_tvalid && !clear;
  always_ff @(posedge clock) begin
    if (clear) {valid_1, valid_2, out_tvalid} <= '0;
    else if (advance) {valid_1, valid_2, out_tvalid} <= {y_tvalid && error_tvalid, valid_1, valid_2};
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [ELEMENT_BITS-1:0] y, y_1, error_1, error_2;
    logic signed [2*ELEMENT_BITS-1:0] square;
    logic signed [WIDE_BITS-1:0] above, wide, nearest;
    logic signed [SLOPE_BITS-1:0] slope;
    logic signed [SLOPE_BITS+ELEMENT_BITS-1:0] product;
    logic [ELEMENT_BITS-1:0] rounded;
    assign y = y_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign above = (TANGENT != 0) ? WIDE_BITS'(1) <<< (2 * FRACTION) : WIDE_BITS'(y_1) <<< FRACTION;
    assign wide = above - WIDE_BITS'(square);
    if (SHIFT > 0) begin : g_narrower
      assign nearest = (wide + WIDE_BITS'((64'd1 << (SHIFT - 1)) - 64'd1) + WIDE_BITS'({1'b0, wide[SHIFT]})) >>> SHIFT;
    end else begin : g_wider
      assign nearest = wide <<< -SHIFT;
    end
    assign product = error_2 * slope;
    round_to_element #(
        .VALUE_BITS(SLOPE_BITS + ELEMENT_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value(product),
        .shift(5'd15),
        .element(rounded)
    );
    always_ff @(posedge clock) begin
      if (advance) begin
        square <= y * y;
        {y_1, error_1} <= {y, error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS]};
        slope <= nearest[SLOPE_BITS-1:0];
        error_2 <= error_1;
        out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= rounded;
      end
    end
    logic unused;
    assign unused = &{1'b0, nearest[WIDE_BITS-1:SLOPE_BITS]};
  end
endmodule
