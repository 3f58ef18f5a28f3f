// (addend 2^SHIFT + a b) 2^-SHIFT as an element, rounded once to nearest, ties to even: two cycles behind its factors.
module scaled_product #(
    parameter int SHIFT = 15
) (
    input  logic               clock,
    input  logic signed [17:0] a,
    input  logic signed [17:0] b,
    input  logic signed [15:0] addend,
    output logic signed [15:0] y
);
  logic signed [39:0] product;
  logic signed [15:0] nearest;
  round_to_element #(
      .VALUE_BITS(40)
  ) rounding (
      .value(product),
      .shift(5'(SHIFT)),
      .element(nearest)
  );
  always_ff @(posedge clock) begin
    product <= 40'(a) * 40'(b) + (40'(addend) <<< SHIFT);
    y <= nearest;
  end
endmodule
