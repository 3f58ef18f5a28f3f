// What a rectifier leaves of a number below zero, or of an error behind one: round(x * SLOPE * 2^-15); nothing with a slope of zero.
module leaky_part #(
    parameter int SLOPE = 0,  // of 15 fraction bits, below one
    parameter int ELEMENT_BITS = 16
) (
    input  logic signed [ELEMENT_BITS-1:0] element,
    output logic signed [ELEMENT_BITS-1:0] part
);
  if (SLOPE == 0) begin : g_nothing
    assign part = '0;
    logic unused;
    assign unused = &{1'b0, element};
  end else begin : g_part
    localparam logic signed [ELEMENT_BITS-1:0] FACTOR = ELEMENT_BITS'(SLOPE);
    logic signed [2*ELEMENT_BITS-1:0] product;
    assign product = element * FACTOR;
    round_to_element #(
        .VALUE_BITS(2 * ELEMENT_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value(product),
        .shift(5'd15),
        .element(part)
    );
  end
endmodule
