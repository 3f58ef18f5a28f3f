// Sigmoid or tangent in single precision by quadratic pieces, twenty cycles behind (real_functions.h says the same in C++): a piece's
// constant, slope and bend are a line of TABLE, 512 of them over [0, 16).
module fp32_gate #(
    parameter bit TANGENT = 0,
    parameter TABLE = "sigmoid_pieces.hex"
) (
    input  logic        clock,
    input  logic [31:0] z,
    output logic [31:0] y
);
  // In pieces: 32 |z|. Its whole part says which, the rest where offset.
  logic small_z, beyond;
  logic [7:0] places;
  logic [31:0] moved;
  assign small_z = z[30:23] < 8'd122;
  assign beyond = z[30:23] > 8'd130;
  assign places = z[30:23] - 8'd122;
  assign moved = {8'd0, 1'b1, z[22:0]} << places[3:0];
  logic small_1, held_1, none_1, sign_1;
  logic [8:0] index_1;
  logic [22:0] rest_1;
  logic [31:0] place_1;
  always_ff @(posedge clock) begin
    small_1 <= small_z;
    held_1 <= beyond;
    none_1 <= z[30:0] > 31'h7f800000;
    sign_1 <= z[31];
    index_1 <= (small_z || beyond) ? 9'd0 : moved[31:23];
    rest_1 <= moved[22:0];
    place_1 <= (z[30:23] == 8'd0) ? 32'd0 : {1'b0, z[30:23] + 8'd5, z[22:0]};
  end

  (* rom_style = "block" *) logic [95:0] pieces[0:511];
  initial $readmemh(TABLE, pieces);
  logic [4:0] zeros;
  integer i;
  always_comb begin
    zeros = 5'd23;
    for (i = 0; i < 23; i++) if (rest_1[i]) zeros = 5'(22 - i);
  end
  logic [22:0] rest_moved;
  assign rest_moved = rest_1 << (zeros + 5'd1);
  logic [95:0] piece;
  logic [31:0] offset;
  always_ff @(posedge clock) begin
    piece <= pieces[index_1];
    offset <= small_1 ? place_1 : (rest_1 == 23'd0) ? 32'd0 : {1'b0, 8'd126 - {3'd0, zeros}, rest_moved};
  end

  logic [31:0] bent, slope_5, inner, offset_9, risen, constant_12, curve;
  fp32_multiply of_bend (.clock, .a(piece[31:0]), .b(offset), .y(bent));
  delayed #(.WIDTH(32), .CYCLES(3)) slope_later (.clock, .value(piece[63:32]), .later(slope_5));
  fp32_add of_slope (.clock, .a(slope_5), .b(bent), .y(inner));
  delayed #(.WIDTH(32), .CYCLES(7)) offset_later (.clock, .value(offset), .later(offset_9));
  fp32_multiply of_inner (.clock, .a(offset_9), .b(inner), .y(risen));
  delayed #(.WIDTH(32), .CYCLES(10)) constant_later (.clock, .value(piece[95:64]), .later(constant_12));
  fp32_add of_constant (.clock, .a(constant_12), .b(risen), .y(curve));

  // Held beyond the last piece; the other side by its symmetry.
  logic held_16, none_16, sign_16, none_20;
  delayed #(.WIDTH(3), .CYCLES(15)) kind_later (.clock, .value({held_1, none_1, sign_1}), .later({held_16, none_16, sign_16}));
  delayed #(.WIDTH(1), .CYCLES(4)) none_later (.clock, .value(none_16), .later(none_20));
  logic [31:0] size, mirrored;
  assign size = held_16 ? 32'h3f800000 : curve;
  if (TANGENT) begin : g_tangent
    delayed #(.WIDTH(32), .CYCLES(4)) size_later (.clock, .value({sign_16 && size != 32'd0, size[30:0]}), .later(mirrored));
  end else begin : g_sigmoid
    fp32_add of_one (.clock, .a(sign_16 ? 32'h3f800000 : 32'd0), .b({sign_16, size[30:0]}), .y(mirrored));
  end
  assign y = none_20 ? 32'h7fc00000 : mirrored;
  logic unused;
  assign unused = &{1'b0, places[7:4], size[31]};
endmodule
