// value * 2^-shift to the nearest integer, ties to even, saturated to OUTPUT_BITS and extended to an element again:
// the one rounding of the engine (fixed_point.h says the same in C++).
module round_to_element #(
    parameter int VALUE_BITS = 32,
    parameter int ELEMENT_BITS = 16,
    parameter int OUTPUT_BITS = 16
) (
    input  logic signed [  VALUE_BITS-1:0] value,
    input  logic        [             4:0] shift,
    output logic signed [ELEMENT_BITS-1:0] element
);
  localparam logic signed [VALUE_BITS:0] LARGEST = (VALUE_BITS + 1)'((1 << (OUTPUT_BITS - 1)) - 1);
  localparam logic signed [VALUE_BITS:0] SMALLEST = ~LARGEST;

  logic signed [VALUE_BITS:0] wide, below_half, nearest, clipped;
  assign wide = (VALUE_BITS + 1)'(value);
  logic odd;
  assign odd = 1'(wide >>> shift);
  // Half a step less one, and one more where the integer below is odd.
  assign below_half = ((VALUE_BITS + 1)'(1) << shift >> 1) - (VALUE_BITS + 1)'(1) + (VALUE_BITS + 1)'({1'b0, odd});
  assign nearest = (shift == 5'd0) ? wide : ((wide + below_half) >>> shift);
  assign clipped = (nearest > LARGEST) ? LARGEST : (nearest < SMALLEST) ? SMALLEST : nearest;
  assign element = clipped[ELEMENT_BITS-1:0];

  // The bits that saturation made copies of the sign.
  logic unused_sign_bits;
  assign unused_sign_bits = &{1'b0, clipped[VALUE_BITS:ELEMENT_BITS]};
endmodule
