// A sigmoid or a tangent of sixteen bits, twelve of them fraction, with fifteen fraction bits a cycle later (gate_function.h says the
// same in C++). FORM: 0 four lines, 1 a table of 4,096 entries, 2 and 3 hard sigmoids of slope 1/5 and 1/6. No multiplier.
module gate_function #(
    parameter int FORM = 0,
    parameter int TANGENT = 0,
    parameter TABLE = "sigmoid_table.hex"
) (
    input  logic               clock,
    input  logic signed [15:0] z,
    output logic signed [15:0] y
);
  localparam logic [16:0] ONE = 17'd32768;

  // Mirrored where z is negative, and held below one.
  function automatic logic signed [15:0] bounded(input logic [16:0] of_size, input logic negative);
    logic [16:0] value;
    if (TANGENT != 0) begin
      value = (of_size << 1) - ONE;
      if (value > 17'd32767) value = 17'd32767;
      bounded = negative ? -$signed(value[15:0]) : $signed(value[15:0]);
    end else begin
      value = negative ? ONE - of_size : of_size;
      if (value > 17'd32767) value = 17'd32767;
      bounded = $signed(value[15:0]);
    end
  endfunction

  logic negative;
  logic [16:0] size, a;
  assign negative = z[15];
  assign size = negative ? 17'd0 - 17'(z) : 17'(z);
  assign a = (TANGENT != 0) ? size << 1 : size;

  if (FORM == 0) begin : g_plan
    logic [16:0] line;
    assign line = (a >= 17'd20480) ? ONE : (a >= 17'd9728) ? (a >> 2) + 17'd27648 : (a >= 17'd4096) ? a + 17'd20480 : (a << 1) + 17'd16384;
    always_ff @(posedge clock) y <= bounded(line, negative);
  end else if (FORM == 1) begin : g_table
    (* ram_style = "block" *) logic [15:0] entries[0:4095];
    initial $readmemh(TABLE, entries);
    logic [15:0] entry;
    logic beyond, was_negative;
    always_ff @(posedge clock) begin
      entry <= entries[a[14:3]];
      beyond <= a[16:15] != 2'd0;
      was_negative <= negative;
    end
    assign y = bounded(beyond ? ONE - 17'd6 : {1'b0, entry}, was_negative);
    logic unused_fraction;
    assign unused_fraction = &{1'b0, a[2:0]};
  end else begin : g_hard
    // z times 52,429 or 43,691, by additions.
    logic signed [32:0] wide, few, more, product, around;
    assign wide = 33'(z);
    assign few = (FORM == 2) ? (wide <<< 1) + wide : (wide <<< 2) + wide;
    assign more = few + (few <<< 4);
    assign product = ((FORM == 2) ? (more + (more <<< 8)) <<< 2 : (more + (more <<< 8)) <<< 1) + wide;
    assign around = ((product + 33'sd16384) >>> 15) + 33'sd16384;
    always_ff @(posedge clock) y <= (around < 33'sd0) ? 16'sd0 : (around > 33'sd32767) ? 16'sd32767 : 16'(around);
    logic unused_size;
    assign unused_size = &{1'b0, a, negative};
  end
endmodule
