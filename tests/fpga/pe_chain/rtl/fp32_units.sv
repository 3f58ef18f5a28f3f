// The units of single precision side by side, for fp32_units_cosimulation.cpp.
module fp32_units (
    input  logic        clock,
    input  logic [31:0] a,
    input  logic [31:0] b,
    output logic [31:0] sum,
    output logic [31:0] product,
    output logic [31:0] sigmoid,
    output logic [31:0] tangent
);
  fp32_add add (.clock, .a, .b, .y(sum));
  fp32_multiply multiply (.clock, .a, .b, .y(product));
  fp32_gate #(.TABLE("sigmoid_pieces.hex")) of_sigmoid (.clock, .z(a), .y(sigmoid));
  fp32_gate #(.TANGENT(1), .TABLE("tangent_pieces.hex")) of_tangent (.clock, .z(a), .y(tangent));
endmodule
