// a b in single precision, three cycles behind; rounding, zeros and no numbers as fp32_add has them.
module fp32_multiply (
    input  logic        clock,
    input  logic [31:0] a,
    input  logic [31:0] b,
    output logic [31:0] y
);
  logic [23:0] a_1, b_1;
  logic [47:0] product_2;
  logic sign_1, none_1, endless_1, zero_1, sign_2, none_2, endless_2, zero_2;
  logic signed [9:0] exponent_1, exponent_2;
  logic a_zero, b_zero, a_endless, b_endless;
  assign a_zero = a[30:23] == 8'd0;
  assign b_zero = b[30:23] == 8'd0;
  assign a_endless = a[30:0] == 31'h7f800000;
  assign b_endless = b[30:0] == 31'h7f800000;
  always_ff @(posedge clock) begin
    a_1 <= {1'b1, a[22:0]};
    b_1 <= {1'b1, b[22:0]};
    sign_1 <= a[31] != b[31];
    exponent_1 <= $signed({2'b0, a[30:23]}) + $signed({2'b0, b[30:23]}) - 10'sd127;
    zero_1 <= a_zero || b_zero;
    endless_1 <= a_endless || b_endless;
    none_1 <= a[30:0] > 31'h7f800000 || b[30:0] > 31'h7f800000 || (a_endless && b_zero) || (b_endless && a_zero);
    product_2 <= 48'(a_1) * 48'(b_1);
    {sign_2, exponent_2, zero_2, endless_2, none_2} <= {sign_1, exponent_1, zero_1, endless_1, none_1};
  end

  logic [23:0] front;
  logic half, rest, up;
  logic signed [9:0] exponent, exponent_3;
  logic [24:0] rounded;
  assign {front, half} = product_2[47] ? product_2[47:23] : product_2[46:22];
  assign rest = product_2[47] ? product_2[22:0] != 23'd0 : product_2[21:0] != 22'd0;
  assign exponent = exponent_2 + $signed({9'd0, product_2[47]});
  // Right below the smallest number bits are a place wider: what has all of them rounds up to it.
  assign up = (exponent == 10'sd0 && front == 24'hffffff) || (half && (rest || front[0]));
  assign rounded = {1'b0, front} + 25'(up);
  assign exponent_3 = exponent + $signed({9'd0, rounded[24]});
  always_ff @(posedge clock)
    if (none_2) y <= 32'h7fc00000;
    else if (endless_2 || (!zero_2 && exponent_3 > 10'sd254)) y <= {sign_2, 31'h7f800000};
    else if (zero_2 || exponent_3 < 10'sd1) y <= 32'd0;
    else y <= {sign_2, exponent_3[7:0], rounded[22:0]};
  logic unused;
  assign unused = &{1'b0, rounded[23]};
endmodule
