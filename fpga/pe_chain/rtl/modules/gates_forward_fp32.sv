// What follows the chains forward in single precision: CHAINS units a cycle, from their products and the sums that came in to h, and the
// record of the step for the way back (real_steps.h says the same in C++): lstm i f g o, tanh c, c before; gru r z n, U h + b of n, h before;
// vanilla h. All leave LATENCY cycles behind `take`: lstm 59, gru 63, vanilla_relu 10, vanilla_tanh 29. Names of places: cycles behind it.
module gates_forward_fp32 #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int BIASES = 4,
    parameter SIGMOID_PIECES = "sigmoid_pieces.hex",
    parameter TANH_PIECES = "tangent_pieces.hex",
    parameter int CHAINS = 4,
    parameter int RECORD = 6,
    parameter int STATE_WORDS = 64
) (
    input  logic                         clock,
    input  logic                         reset_n,
    input  logic                         bias_write,
    input  logic [                 15:0] bias_address,
    input  logic [ CHAINS*BIASES*32-1:0] bias_data,
    input  logic                         kept_write,    // between passes
    input  logic [                 15:0] kept_address,
    input  logic [        CHAINS*32-1:0] kept_data,
    input  logic                         take,
    input  logic [  GATES*CHAINS*32-1:0] products,      // [gate][lane]
    input  logic [  GATES*CHAINS*32-1:0] inputs,        // [gate][lane]
    input  logic [                 15:0] word,          // of its sample
    input  logic [                 15:0] place,         // of the state
    input  logic                         half,
    input  logic                         zero,          // there was nothing before
    output logic                         made,
    output logic [                 15:0] made_place,
    output logic                         made_half,
    output logic [        CHAINS*32-1:0] hidden,
    output logic [ RECORD*CHAINS*32-1:0] record
);
  localparam int LATENCY = (CELL == 0) ? 59 : (CELL == 1) ? 63 : (CELL == 2) ? 10 : 29;
  localparam int PLACE_BITS = (STATE_WORDS > 1) ? $clog2(STATE_WORDS) : 1;
  // When what a unit keeps is there, and when it is new.
  localparam int KEPT_AT = (CELL == 0) ? 29 : (CELL == 1) ? 56 : 2;
  localparam int NEW_AT = (CELL == 0) ? 36 : LATENCY;

  logic [LATENCY:1] active_at, zero_at, half_at;
  logic [LATENCY*16-1:0] place_at;  // of cycle k from (k - 1) 16 on
  always_ff @(posedge clock) begin
    active_at <= reset_n ? {active_at[LATENCY-1:1], take} : '0;
    zero_at <= {zero_at[LATENCY-1:1], zero};
    half_at <= {half_at[LATENCY-1:1], half};
    place_at <= {place_at[(LATENCY-1)*16-1:0], place};
  end
  assign made = active_at[LATENCY];
  assign made_place = place_at[(LATENCY-1)*16+:16];
  assign made_half = half_at[LATENCY];

  (* ram_style = "distributed" *) logic [CHAINS*BIASES*32-1:0] bias_words[0:STATE_WORDS-1];
  logic [CHAINS*BIASES*32-1:0] biases_1;
  logic [GATES*CHAINS*32-1:0] inputs_1;
  always_ff @(posedge clock) begin
    if (bias_write) bias_words[bias_address[PLACE_BITS-1:0]] <= bias_data;
    biases_1 <= bias_words[word[PLACE_BITS-1:0]];
    inputs_1 <= inputs;
  end
  logic unused_bits;
  assign unused_bits = &{1'b0, bias_address, word, kept_address, kept_data, kept_write, zero_at, place_at, active_at};

  logic [CHAINS*32-1:0] kept_word, kept_new;
  if (CELL <= 1) begin : g_kept
    (* ram_style = "block" *) logic [CHAINS*32-1:0] kept_words[0:STATE_WORDS-1];
    logic [PLACE_BITS-1:0] kept_place;
    assign kept_place = kept_write ? kept_address[PLACE_BITS-1:0] : place_at[(NEW_AT-1)*16+:PLACE_BITS];
    always_ff @(posedge clock) begin
      if (active_at[NEW_AT] || kept_write) kept_words[kept_place] <= kept_write ? kept_data : kept_new;
      kept_word <= kept_words[place_at[(KEPT_AT-2)*16+:PLACE_BITS]];
    end
  end else begin : g_nothing_kept
    assign kept_word = '0;
    logic unused_kept;
    assign unused_kept = &{1'b0, kept_new};
  end

  genvar u, g;
  for (u = 0; u < CHAINS; u++) begin : g_unit
    logic [31:0] kept;
    assign kept = zero_at[KEPT_AT] ? 32'd0 : kept_word[u*32+:32];
    logic [31:0] sum_9[0:GATES-1];
    logic [31:0] of_input_5[0:GATES-1];
    for (g = 0; g < GATES; g++) begin : g_sum
      logic [31:0] product_5;
      fp32_add biased (.clock, .a(inputs_1[(g*CHAINS+u)*32+:32]), .b(biases_1[(u*BIASES+g)*32+:32]), .y(of_input_5[g]));
      delayed #(.WIDTH(32), .CYCLES(5)) product_later (.clock, .value(products[(g*CHAINS+u)*32+:32]), .later(product_5));
      fp32_add summed (.clock, .a(of_input_5[g]), .b(product_5), .y(sum_9[g]));
    end
    logic [31:0] h;
    assign hidden[u*32+:32] = h;
    if (CELL == 0) begin : g_lstm
      logic [31:0] y_29[0:3];
      for (g = 0; g < 4; g++) begin : g_gate
        fp32_gate #(.TANGENT(g == 2), .TABLE((g == 2) ? TANH_PIECES : SIGMOID_PIECES)) gate (.clock, .z(sum_9[g]), .y(y_29[g]));
        delayed #(.WIDTH(32), .CYCLES(30)) to_record (.clock, .value(y_29[g]), .later(record[(g*CHAINS+u)*32+:32]));
      end
      logic [31:0] of_before, of_now, c_36, bound_56, o_56;
      fp32_multiply p_f (.clock, .a(y_29[1]), .b(kept), .y(of_before));
      fp32_multiply p_i (.clock, .a(y_29[0]), .b(y_29[2]), .y(of_now));
      fp32_add new_c (.clock, .a(of_before), .b(of_now), .y(c_36));
      fp32_gate #(.TANGENT(1), .TABLE(TANH_PIECES)) gate_c (.clock, .z(c_36), .y(bound_56));
      delayed #(.WIDTH(32), .CYCLES(27)) o_later (.clock, .value(y_29[3]), .later(o_56));
      fp32_multiply new_h (.clock, .a(o_56), .b(bound_56), .y(h));
      assign kept_new[u*32+:32] = c_36;
      delayed #(.WIDTH(32), .CYCLES(3)) bound_later (.clock, .value(bound_56), .later(record[(4*CHAINS+u)*32+:32]));
      delayed #(.WIDTH(32), .CYCLES(30)) before_later (.clock, .value(kept), .later(record[(5*CHAINS+u)*32+:32]));
    end else if (CELL == 1) begin : g_gru
      logic [31:0] r_29, z_29, of_state_5, of_state_29, x_32, scaled_32, argument_36, n_56, z_56, less_33, less_56, part_n, part_h;
      logic [31:0] product_1, sum_n;
      assign sum_n = sum_9[2];
      fp32_gate #(.TABLE(SIGMOID_PIECES)) gate_r (.clock, .z(sum_9[0]), .y(r_29));
      fp32_gate #(.TABLE(SIGMOID_PIECES)) gate_z (.clock, .z(sum_9[1]), .y(z_29));
      delayed #(.WIDTH(32), .CYCLES(1)) product_later (.clock, .value(products[(2*CHAINS+u)*32+:32]), .later(product_1));
      fp32_add of_state (.clock, .a(product_1), .b(biases_1[(u*BIASES+3)*32+:32]), .y(of_state_5));
      delayed #(.WIDTH(32), .CYCLES(24)) state_later (.clock, .value(of_state_5), .later(of_state_29));
      fp32_multiply p_r (.clock, .a(r_29), .b(of_state_29), .y(scaled_32));
      delayed #(.WIDTH(32), .CYCLES(27)) x_later (.clock, .value(of_input_5[2]), .later(x_32));
      fp32_add argument (.clock, .a(x_32), .b(scaled_32), .y(argument_36));
      fp32_gate #(.TANGENT(1), .TABLE(TANH_PIECES)) gate_n (.clock, .z(argument_36), .y(n_56));
      fp32_add less (.clock, .a(32'h3f800000), .b({!z_29[31], z_29[30:0]}), .y(less_33));
      delayed #(.WIDTH(32), .CYCLES(23)) less_later (.clock, .value(less_33), .later(less_56));
      delayed #(.WIDTH(32), .CYCLES(27)) z_later (.clock, .value(z_29), .later(z_56));
      fp32_multiply p_n (.clock, .a(less_56), .b(n_56), .y(part_n));
      fp32_multiply p_h (.clock, .a(z_56), .b(kept), .y(part_h));
      fp32_add new_h (.clock, .a(part_n), .b(part_h), .y(h));
      assign kept_new[u*32+:32] = h;
      delayed #(.WIDTH(64), .CYCLES(34)) gates_later (
          .clock, .value({z_29, r_29}), .later({record[(CHAINS+u)*32+:32], record[u*32+:32]})
      );
      delayed #(.WIDTH(64), .CYCLES(7)) n_later (
          .clock, .value({kept, n_56}), .later({record[(4*CHAINS+u)*32+:32], record[(2*CHAINS+u)*32+:32]})
      );
      delayed #(.WIDTH(32), .CYCLES(34)) state_to_record (.clock, .value(of_state_29), .later(record[(3*CHAINS+u)*32+:32]));
      logic unused_sum;
      assign unused_sum = &{1'b0, sum_n};
    end else begin : g_vanilla
      if (CELL == 2) begin : g_relu
        // No number stays none.
        always_ff @(posedge clock) h <= (sum_9[0][31] && sum_9[0][30:0] <= 31'h7f800000) ? 32'd0 : sum_9[0];
      end else begin : g_tanh
        fp32_gate #(.TANGENT(1), .TABLE(TANH_PIECES)) gate (.clock, .z(sum_9[0]), .y(h));
      end
      assign record[u*32+:32] = h;
      assign kept_new[u*32+:32] = 32'd0;
      logic unused_kept;
      assign unused_kept = &{1'b0, kept};
    end
  end
endmodule
