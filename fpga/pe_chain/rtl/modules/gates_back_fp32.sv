// What follows the chains on the way back in single precision: CHAINS units a cycle, from their products of all gates, the layer's errors and
// the record of the step to the errors of their sums (real_steps.h says the same in C++). All leave LATENCY cycles behind `take`: lstm 22,
// gru 18, vanilla 15. What a unit keeps for the step before lies here: lstm dc, gru the direct part of dh.
module gates_back_fp32 #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int CHAINS = 4,
    parameter int RECORD = 6,
    parameter int STATE_WORDS = 64
) (
    input  logic                             clock,
    input  logic                             reset_n,
    input  logic                             kept_write,    // between passes
    input  logic [                     15:0] kept_address,
    input  logic [            CHAINS*32-1:0] kept_data,
    input  logic                             take,
    input  logic [      GATES*CHAINS*32-1:0] products,      // [gate][lane]
    input  logic [ (1+RECORD)*CHAINS*32-1:0] inputs,        // the error, the record
    input  logic [                     15:0] place,
    input  logic                             half,
    input  logic                             zero,
    output logic                             made,
    output logic [                     15:0] made_place,
    output logic                             made_half,
    output logic [      GATES*CHAINS*32-1:0] taken,         // [gate][lane]: what the recurrent product takes
    output logic [      GATES*CHAINS*32-1:0] errors,        // [gate][lane]
    output logic [            CHAINS*32-1:0] candidates
);
  localparam int LATENCY = (CELL == 0) ? 22 : (CELL == 1) ? 18 : 15;
  localparam int PLACE_BITS = (STATE_WORDS > 1) ? $clog2(STATE_WORDS) : 1;
  localparam int KEPT_AT = (CELL == 0) ? 15 : 2;
  localparam logic [31:0] ONE = 32'h3f800000;

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

  logic [CHAINS*32-1:0] kept_word, kept_new;
  if (CELL <= 1) begin : g_kept
    (* ram_style = "block" *) logic [CHAINS*32-1:0] kept_words[0:STATE_WORDS-1];
    logic [PLACE_BITS-1:0] kept_place;
    assign kept_place = kept_write ? kept_address[PLACE_BITS-1:0] : made_place[PLACE_BITS-1:0];
    always_ff @(posedge clock) begin
      if (made || kept_write) kept_words[kept_place] <= kept_write ? kept_data : kept_new;
      kept_word <= kept_words[place_at[(KEPT_AT-2)*16+:PLACE_BITS]];
    end
  end else begin : g_nothing_kept
    assign kept_word = '0;
    logic unused_kept;
    assign unused_kept = &{1'b0, kept_new};
  end
  logic unused_bits;
  assign unused_bits = &{1'b0, zero_at, place_at, kept_write, kept_address, kept_data};

  genvar u, g;
  for (u = 0; u < CHAINS; u++) begin : g_unit
    logic [31:0] kept, product_8, direct_8, dh_12;
    assign kept = zero_at[KEPT_AT] ? 32'd0 : kept_word[u*32+:32];
    logic [31:0] part[0:GATES-1];
    logic [31:0] from[0:RECORD-1];
    for (g = 0; g < GATES; g++) assign part[g] = products[(g*CHAINS+u)*32+:32];
    for (g = 0; g < RECORD; g++) assign from[g] = inputs[((1+g)*CHAINS+u)*32+:32];
    if (GATES == 1) begin : g_one
      delayed #(.WIDTH(32), .CYCLES(8)) product_later (.clock, .value(part[0]), .later(product_8));
    end else begin : g_some
      logic [31:0] first_4, second_4;
      fp32_add first_two (.clock, .a(part[0]), .b(part[1]), .y(first_4));
      if (GATES == 3) begin : g_three
        delayed #(.WIDTH(32), .CYCLES(4)) second_later (.clock, .value(part[2]), .later(second_4));
      end else begin : g_four
        fp32_add second_two (.clock, .a(part[2]), .b(part[3]), .y(second_4));
      end
      fp32_add all (.clock, .a(first_4), .b(second_4), .y(product_8));
    end
    if (CELL == 1) begin : g_direct
      logic [31:0] given_2, direct_6;
      delayed #(.WIDTH(32), .CYCLES(2)) given_later (.clock, .value(inputs[u*32+:32]), .later(given_2));
      fp32_add direct (.clock, .a(given_2), .b(kept), .y(direct_6));
      delayed #(.WIDTH(32), .CYCLES(2)) direct_later (.clock, .value(direct_6), .later(direct_8));
    end else begin : g_given
      delayed #(.WIDTH(32), .CYCLES(8)) given_later (.clock, .value(inputs[u*32+:32]), .later(direct_8));
    end
    fp32_add error (.clock, .a(direct_8), .b(product_8), .y(dh_12));

    logic [31:0] error_here[0:GATES-1];
    logic [31:0] candidate, kept_here;
    assign kept_new[u*32+:32] = kept_here;
    // y (1 - y), or 1 - y y: seven cycles behind the record.
    logic [31:0] slope_7[0:4];
    for (g = 0; g < 5; g++) begin : g_slope
      if (g < RECORD && ((CELL == 0) || (CELL == 1 && g < 3) || (CELL == 3 && g == 0))) begin : g_of
        logic [31:0] less, square, y_4;
        if ((CELL == 0 && (g == 2 || g == 4)) || (CELL == 1 && g == 2) || CELL == 3) begin : g_bend
          fp32_multiply squared (.clock, .a(from[g]), .b(from[g]), .y(square));
          fp32_add bend (.clock, .a(ONE), .b({!square[31], square[30:0]}), .y(slope_7[g]));
          assign less = '0;
          assign y_4 = '0;
        end else begin : g_slant
          fp32_add rest (.clock, .a(ONE), .b({!from[g][31], from[g][30:0]}), .y(less));
          delayed #(.WIDTH(32), .CYCLES(4)) y_later (.clock, .value(from[g]), .later(y_4));
          fp32_multiply slant (.clock, .a(y_4), .b(less), .y(slope_7[g]));
          assign square = '0;
        end
        logic unused_slope;
        assign unused_slope = &{1'b0, less, y_4, square};
      end else begin : g_none
        assign slope_7[g] = '0;
      end
    end
    if (CELL == 0) begin : g_lstm
      logic [31:0] from_7[0:5], factor_10[0:4], factor_12[0:4], factor_19[0:2], of_bound_15, dc_19, f_19, d_o_15;
      for (g = 0; g < 6; g++) delayed #(.WIDTH(32), .CYCLES(7)) record_later (.clock, .value(from[g]), .later(from_7[g]));
      fp32_multiply p_i (.clock, .a(from_7[2]), .b(slope_7[0]), .y(factor_10[0]));
      fp32_multiply p_f (.clock, .a(from_7[5]), .b(slope_7[1]), .y(factor_10[1]));
      fp32_multiply p_g (.clock, .a(from_7[0]), .b(slope_7[2]), .y(factor_10[2]));
      fp32_multiply p_o (.clock, .a(from_7[4]), .b(slope_7[3]), .y(factor_10[3]));
      fp32_multiply p_c (.clock, .a(from_7[3]), .b(slope_7[4]), .y(factor_10[4]));
      for (g = 0; g < 5; g++) delayed #(.WIDTH(32), .CYCLES(2)) factor_later (.clock, .value(factor_10[g]), .later(factor_12[g]));
      fp32_multiply r_c (.clock, .a(dh_12), .b(factor_12[4]), .y(of_bound_15));
      fp32_add new_c (.clock, .a(kept), .b(of_bound_15), .y(dc_19));
      fp32_multiply r_o (.clock, .a(dh_12), .b(factor_12[3]), .y(d_o_15));
      delayed #(.WIDTH(32), .CYCLES(7)) d_o_later (.clock, .value(d_o_15), .later(error_here[3]));
      for (g = 0; g < 3; g++) begin : g_error
        delayed #(.WIDTH(32), .CYCLES(7)) factor_later (.clock, .value(factor_12[g]), .later(factor_19[g]));
        fp32_multiply r (.clock, .a(dc_19), .b(factor_19[g]), .y(error_here[g]));
      end
      delayed #(.WIDTH(32), .CYCLES(12)) f_later (.clock, .value(from_7[1]), .later(f_19));
      fp32_multiply r_f (.clock, .a(dc_19), .b(f_19), .y(kept_here));
      assign candidate = '0;
    end else if (CELL == 1) begin : g_gru
      logic [31:0] less_4, less_7, apart_4, apart_7, state_7, r_15, z_12, n_10, z_10, r_10, n_12, zz_12, rr_15, dn_15, dz_15, direct_15;
      fp32_add less (.clock, .a(ONE), .b({!from[1][31], from[1][30:0]}), .y(less_4));
      fp32_add apart (.clock, .a(from[4]), .b({!from[2][31], from[2][30:0]}), .y(apart_4));
      delayed #(.WIDTH(64), .CYCLES(3)) parts_later (.clock, .value({less_4, apart_4}), .later({less_7, apart_7}));
      delayed #(.WIDTH(32), .CYCLES(7)) state_later (.clock, .value(from[3]), .later(state_7));
      fp32_multiply p_n (.clock, .a(less_7), .b(slope_7[2]), .y(n_10));
      fp32_multiply p_z (.clock, .a(apart_7), .b(slope_7[1]), .y(z_10));
      fp32_multiply p_r (.clock, .a(state_7), .b(slope_7[0]), .y(r_10));
      delayed #(.WIDTH(64), .CYCLES(2)) factors_later (.clock, .value({n_10, z_10}), .later({n_12, zz_12}));
      delayed #(.WIDTH(32), .CYCLES(5)) factor_r_later (.clock, .value(r_10), .later(rr_15));
      delayed #(.WIDTH(32), .CYCLES(12)) z_later (.clock, .value(from[1]), .later(z_12));
      delayed #(.WIDTH(32), .CYCLES(15)) r_later (.clock, .value(from[0]), .later(r_15));
      fp32_multiply r_n (.clock, .a(dh_12), .b(n_12), .y(dn_15));
      fp32_multiply r_z (.clock, .a(dh_12), .b(zz_12), .y(dz_15));
      fp32_multiply r_h (.clock, .a(dh_12), .b(z_12), .y(direct_15));
      fp32_multiply r_r (.clock, .a(dn_15), .b(rr_15), .y(error_here[0]));
      fp32_multiply r_u (.clock, .a(dn_15), .b(r_15), .y(candidate));
      delayed #(.WIDTH(96), .CYCLES(3)) errors_later (
          .clock, .value({dn_15, dz_15, direct_15}), .later({error_here[2], error_here[1], kept_here})
      );
    end else begin : g_vanilla
      if (CELL == 2) begin : g_relu
        logic positive_12;
        delayed #(.WIDTH(1), .CYCLES(12)) sign_later (
            .clock, .value(!from[0][31] && from[0] != 32'd0 && from[0] <= 32'h7f800000), .later(positive_12)
        );
        delayed #(.WIDTH(32), .CYCLES(3)) error_later (.clock, .value(positive_12 ? dh_12 : 32'd0), .later(error_here[0]));
        logic unused_slope;
        assign unused_slope = &{1'b0, slope_7[0]};
      end else begin : g_tanh
        logic [31:0] bend_12;
        delayed #(.WIDTH(32), .CYCLES(5)) bend_later (.clock, .value(slope_7[0]), .later(bend_12));
        fp32_multiply r (.clock, .a(dh_12), .b(bend_12), .y(error_here[0]));
      end
      assign candidate = '0;
      assign kept_here = '0;
    end
    for (g = 0; g < GATES; g++) begin : g_out
      assign errors[(g*CHAINS+u)*32+:32] = error_here[g];
      assign taken[(g*CHAINS+u)*32+:32] = (CELL == 1 && g == 2) ? candidate : error_here[g];
    end
    assign candidates[u*32+:32] = candidate;
    logic unused_here;
    assign unused_here = &{1'b0, kept};
  end
endmodule
