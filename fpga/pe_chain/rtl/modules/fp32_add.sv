// a + b in single precision, four cycles behind: rounded to nearest, ties to even. A result too small for a normalised number is zero, and
// zero has no sign (flushed() of chain_sum.h); so is a number that comes in without its leading one. No number is 7fc00000.
module fp32_add (
    input  logic        clock,
    input  logic [31:0] a,
    input  logic [31:0] b,
    output logic [31:0] y
);
  // The larger first.
  logic [31:0] greater, lesser;
  assign {greater, lesser} = (a[30:0] < b[30:0]) ? {b, a} : {a, b};
  logic sign_1, less_1, none_1, endless_1;
  logic [7:0] exponent_1, distance_1;
  logic [23:0] greater_1, lesser_1;
  always_ff @(posedge clock) begin
    sign_1 <= greater[31];
    less_1 <= a[31] != b[31];
    exponent_1 <= greater[30:23];
    distance_1 <= greater[30:23] - lesser[30:23];
    greater_1 <= (greater[30:23] == 8'd0) ? 24'd0 : {1'b1, greater[22:0]};
    lesser_1 <= (lesser[30:23] == 8'd0) ? 24'd0 : {1'b1, lesser[22:0]};
    endless_1 <= greater[30:23] == 8'd255;
    none_1 <= greater[30:0] > 31'h7f800000 || (lesser[30:0] == 31'h7f800000 && a[31] != b[31]);
  end

  // The smaller moves to the place of the larger: two more bits, and one for all that goes.
  logic [49:0] moved;
  logic [26:0] aligned;
  assign moved = {lesser_1, 26'd0} >> ((distance_1 > 8'd26) ? 5'd26 : distance_1[4:0]);
  assign aligned = {moved[49:24], |moved[23:0]};
  logic sign_2, none_2, endless_2;
  logic [7:0] exponent_2;
  logic [27:0] sum_2;
  always_ff @(posedge clock) begin
    {sign_2, none_2, endless_2, exponent_2} <= {sign_1, none_1, endless_1, exponent_1};
    sum_2 <= less_1 ? {1'b0, greater_1, 3'b0} - {1'b0, aligned} : {1'b0, greater_1, 3'b0} + {1'b0, aligned};
  end

  // The leading one to the front.
  logic [4:0] zeros;
  integer i;
  always_comb begin
    zeros = 5'd28;
    for (i = 0; i < 28; i++) if (sum_2[i]) zeros = 5'(27 - i);
  end
  logic sign_3, none_3, endless_3;
  logic signed [9:0] exponent_3;
  logic [27:0] sum_3;
  always_ff @(posedge clock) begin
    {sign_3, none_3, endless_3} <= {sign_2, none_2, endless_2};
    exponent_3 <= $signed({2'b0, exponent_2}) + 10'sd1 - $signed({5'd0, zeros});
    sum_3 <= sum_2 << zeros;
  end

  logic [24:0] rounded;
  logic signed [9:0] exponent_4;
  assign rounded = {1'b0, sum_3[27:4]} + 25'(sum_3[3] && (sum_3[4] || sum_3[2:0] != 3'd0));
  assign exponent_4 = exponent_3 + $signed({9'd0, rounded[24]});
  always_ff @(posedge clock)
    if (none_3) y <= 32'h7fc00000;
    else if (endless_3 || (sum_3[27] && exponent_4 > 10'sd254)) y <= {sign_3, 31'h7f800000};
    else if (!sum_3[27] || exponent_4 < 10'sd1) y <= 32'd0;
    else y <= {sign_3, exponent_4[7:0], rounded[22:0]};
  logic unused;
  assign unused = &{1'b0, rounded[23], lesser[31]};
endmodule
