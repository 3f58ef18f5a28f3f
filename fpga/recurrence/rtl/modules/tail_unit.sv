// One hidden unit a cycle: from the sums of its gates to its state (cell_arithmetic.h says the same in C++).
// CELL: 0 lstm, 1 gru with the reset after the product, 2 vanilla_relu, 3 vanilla_tanh.
// Sums, the other sum of gru's n (`side`: W x; its own lane has U h) and biases come together. What was kept comes later, as memories
// give it: the cell of lstm three cycles behind the sums, the state of gru eight. The new cell leaves six cycles behind the sums, the
// new state ten. Multipliers: lstm 4, the cell's 32 bits taking two; gru 3.
module tail_unit #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int BIASES = 4,
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex"
) (
    input  logic                        clock,
    input  logic        [          4:0] sum_shift,
    input  logic        [          3:0] hidden_shift,  // 15 less the fraction bits of h
    input  logic        [ GATES*32-1:0] sums,
    input  logic        [         31:0] side,
    input  logic        [BIASES*32-1:0] biases,
    input  logic signed [         31:0] kept,
    output logic signed [         31:0] cell_state,
    output logic signed [         15:0] hidden
);
  // Sums with biases, then rounded: one and two cycles behind.
  logic signed [31:0] biased[0:BIASES-1];
  logic signed [15:0] rounded[0:BIASES-1];
  logic signed [15:0] z[0:BIASES-1];
  genvar b;
  for (b = 0; b < BIASES; b++) begin : g_sum
    logic signed [31:0] sum;
    if (CELL == 1 && b == 2) begin : g_input
      assign sum = $signed(side);
    end else if (CELL == 1 && b == 3) begin : g_state
      assign sum = $signed(sums[(GATES-1)*32+:32]);
    end else begin : g_gate
      assign sum = $signed(sums[b*32+:32]);
    end
    always_ff @(posedge clock) biased[b] <= sum + $signed(biases[b*32+:32]);
    round_to_element #(
        .VALUE_BITS(32)
    ) rounding (
        .value(biased[b]),
        .shift(sum_shift),
        .element(rounded[b])
    );
    always_ff @(posedge clock) z[b] <= rounded[b];
  end
  logic [4:0] output_shift;
  assign output_shift = 5'd15 + 5'(hidden_shift);

  if (CELL == 0) begin : g_lstm
    logic signed [15:0] i, f, g, o;
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_i (.clock, .z(z[0]), .y(i));
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_f (.clock, .z(z[1]), .y(f));
    gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate_g (.clock, .z(z[2]), .y(g));
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_o (.clock, .z(z[3]), .y(o));
    logic signed [47:0] forgotten, both;
    logic signed [31:0] entered;
    logic signed [31:0] nearest_cell;
    logic signed [15:0] nearest_argument, argument, bounded_cell, nearest_hidden;
    logic signed [31:0] product;
    logic signed [15:0] o_4, o_5, o_6, o_7, o_8;
    round_to_element #(.VALUE_BITS(48), .ELEMENT_BITS(32), .OUTPUT_BITS(32)) cell_rounding (.value(both), .shift(5'd15), .element(nearest_cell));
    round_to_element #(.VALUE_BITS(32)) argument_rounding (.value(cell_state), .shift(5'd12), .element(nearest_argument));
    gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate_c (.clock, .z(argument), .y(bounded_cell));
    round_to_element #(.VALUE_BITS(32)) hidden_rounding (.value(product), .shift(output_shift), .element(nearest_hidden));
    always_ff @(posedge clock) begin
      forgotten <= 48'(f) * 48'(kept);
      entered <= 32'(i) * 32'(g);
      both <= forgotten + (48'(entered) <<< 9);
      cell_state <= nearest_cell;
      argument <= nearest_argument;
      {o_4, o_5, o_6, o_7, o_8} <= {o, o_4, o_5, o_6, o_7};
      product <= 32'(o_8) * 32'(bounded_cell);
      hidden <= nearest_hidden;
    end
  end else if (CELL == 1) begin : g_gru
    logic signed [15:0] r, u, x_3, s_3, x_4, nearest_argument, argument, argument_7, n, nearest_hidden;
    logic signed [15:0] u_4, u_5, u_6, u_7, u_8;
    logic signed [31:0] reset_product;
    logic signed [32:0] candidate;
    logic signed [16:0] rest;
    logic signed [32:0] fresh;
    logic signed [31:0] carried;
    logic signed [47:0] mixed;
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_r (.clock, .z(z[0]), .y(r));
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_z (.clock, .z(z[1]), .y(u));
    round_to_element #(.VALUE_BITS(33)) argument_rounding (.value(candidate), .shift(5'd15), .element(nearest_argument));
    gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate_n (.clock, .z(argument_7), .y(n));
    assign rest = 17'sd32768 - 17'(u_8);
    assign mixed = 48'(fresh) + (48'(carried) <<< hidden_shift);
    round_to_element #(.VALUE_BITS(48)) hidden_rounding (.value(mixed), .shift(output_shift), .element(nearest_hidden));
    assign cell_state = '0;
    always_ff @(posedge clock) begin
      {x_3, s_3, x_4} <= {z[2], z[BIASES-1], x_3};
      reset_product <= 32'(r) * 32'(s_3);
      candidate <= (33'(x_4) <<< 15) + 33'(reset_product);
      argument <= nearest_argument;
      argument_7 <= argument;
      {u_4, u_5, u_6, u_7, u_8} <= {u, u_4, u_5, u_6, u_7};
      fresh <= 33'(n) * 33'(rest);
      carried <= 32'(u_8) * 32'($signed(kept[15:0]));
      hidden <= nearest_hidden;
    end
    logic unused_kept;
    assign unused_kept = &{1'b0, kept[31:16]};
  end else begin : g_vanilla
    logic signed [15:0] value, nearest_hidden;
    logic [16*6-1:0] later;
    if (CELL == 2) begin : g_relu
      always_ff @(posedge clock) value <= z[0][15] ? 16'sd0 : z[0];
      assign nearest_hidden = $signed(later[16*6-1-:16]);
    end else begin : g_tanh
      gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate (.clock, .z(z[0]), .y(value));
      round_to_element #(.VALUE_BITS(16)) hidden_rounding (
          .value($signed(later[16*6-1-:16])), .shift(5'(hidden_shift)), .element(nearest_hidden));
    end
    assign cell_state = '0;
    always_ff @(posedge clock) begin
      later  <= {later[16*5-1:0], value};
      hidden <= nearest_hidden;
    end
    logic unused;
    assign unused = &{1'b0, kept, output_shift};
  end
  if (CELL != 1) begin : g_no_side
    logic unused_side;
    assign unused_side = &{1'b0, side};
  end
endmodule
