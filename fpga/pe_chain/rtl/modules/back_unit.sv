// One hidden unit's step back (unit_back.h says the same in C++): from the error of its state to those of its gates' sums.
// `total` comes with the record: the recurrent product of all gates and the layer's error. `kept` comes a cycle later: lstm dc, gru the
// direct part. Errors and what is kept leave LATENCY cycles behind `total`: lstm 9, gru 12, vanilla 5. Multipliers: lstm 16, gru 12,
// vanilla_tanh 2.
module back_unit #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex"
) (
    input  logic                       clock,
    input  logic        [         4:0] weight_shift,
    input  logic        [         3:0] hidden_shift,  // 15 less the fraction bits of h
    input  logic signed [        31:0] total,
    input  logic        [        63:0] sums,
    input  logic signed [        15:0] cell_now,
    input  logic signed [        15:0] earlier,
    input  logic signed [        15:0] kept,
    output logic        [GATES*16-1:0] errors,        // of W x
    output logic signed [        15:0] candidate,     // gru: of U h of n
    output logic signed [        15:0] kept_next
);
  localparam logic signed [17:0] ONE = 18'sd32768;
  localparam logic HARD = SIGMOID >= 2;

  // dh three cycles behind.
  logic signed [31:0] total_1, total_2;
  logic signed [15:0] nearest_error, dh;
  round_to_element #(
      .VALUE_BITS(32)
  ) error_rounding (
      .value(total_2),
      .shift(weight_shift),
      .element(nearest_error)
  );
  always_ff @(posedge clock) begin
    total_1 <= total;
    total_2 <= total_1 + ((CELL == 1) ? 32'(kept) <<< weight_shift : 32'd0);
    dh <= nearest_error;
  end

  // Slopes, two cycles behind the function: of a sigmoid y (1 - y), or a hard one's own; of a tangent 1 - y y, below one.
  function automatic logic signed [17:0] bend_of(input logic signed [15:0] square);
    bend_of = (square == 16'sd0) ? 18'sd32767 : ONE - 18'(square);
  endfunction

  if (CELL == 0) begin : g_lstm
    logic signed [15:0] y[0:4];
    genvar g;
    for (g = 0; g < 4; g++) begin : g_gate
      gate_function #(
          .FORM((g == 2) ? TANH : SIGMOID),
          .TANGENT((g == 2) ? 1 : 0),
          .TABLE(TABLE)
      ) gate (
          .clock,
          .z($signed(sums[g*16+:16])),
          .y(y[g])
      );
    end
    gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate_c (.clock, .z(cell_now), .y(y[4]));
    logic signed [17:0] slope[0:4];
    logic signed [15:0] y_3[0:4];
    for (g = 0; g < 5; g++) begin : g_slope
      logic signed [15:0] raw;
      logic signed [17:0] other;
      assign other = (g == 2 || g == 4) ? 18'(y[g]) : ONE - 18'(y[g]);
      scaled_product of_y (.clock, .a(18'(y[g])), .b(other), .addend(16'sd0), .y(raw));
      delayed #(.CYCLES(2)) same (.clock, .value(y[g]), .later(y_3[g]));
      if (g == 2 || g == 4) begin : g_bend
        assign slope[g] = bend_of(raw);
      end else begin : g_sigmoid
        assign slope[g] = !HARD ? 18'(raw) : (y_3[g] > 16'sd0 && y_3[g] < 16'sd32767) ? ((SIGMOID == 2) ? 18'sd6554 : 18'sd5461) : 18'sd0;
      end
    end
    logic signed [15:0] before_3, q_i, q_f, q_g, q_t, q_o, q_i_7, q_f_7, q_g_7, f_7, dh_5, dh_7, kept_5, dc, d_i, d_f, d_g, d_o, d_o_9;
    delayed #(.CYCLES(3)) before_later (.clock, .value(earlier), .later(before_3));
    scaled_product p_i (.clock, .a(18'(y_3[2])), .b(slope[0]), .addend(16'sd0), .y(q_i));
    scaled_product p_f (.clock, .a(18'(before_3)), .b(slope[1]), .addend(16'sd0), .y(q_f));
    scaled_product p_g (.clock, .a(18'(y_3[0])), .b(slope[2]), .addend(16'sd0), .y(q_g));
    scaled_product p_t (.clock, .a(18'(y_3[4])), .b(slope[3]), .addend(16'sd0), .y(q_t));
    scaled_product p_o (.clock, .a(18'(y_3[3])), .b(slope[4]), .addend(16'sd0), .y(q_o));
    delayed #(.WIDTH(48), .CYCLES(2)) q_later (.clock, .value({q_i, q_f, q_g}), .later({q_i_7, q_f_7, q_g_7}));
    delayed #(.CYCLES(4)) f_later (.clock, .value(y_3[1]), .later(f_7));
    delayed #(.CYCLES(2)) dh_later (.clock, .value(dh), .later(dh_5));
    delayed #(.CYCLES(4)) kept_later (.clock, .value(kept), .later(kept_5));
    scaled_product p_c (.clock, .a(18'(dh_5)), .b(18'(q_o)), .addend(kept_5), .y(dc));
    scaled_product r_o (.clock, .a(18'(dh_5)), .b(18'(q_t)), .addend(16'sd0), .y(d_o));
    scaled_product r_i (.clock, .a(18'(dc)), .b(18'(q_i_7)), .addend(16'sd0), .y(d_i));
    scaled_product #(.SHIFT(12)) r_f (.clock, .a(18'(dc)), .b(18'(q_f_7)), .addend(16'sd0), .y(d_f));
    scaled_product r_g (.clock, .a(18'(dc)), .b(18'(q_g_7)), .addend(16'sd0), .y(d_g));
    scaled_product r_c (.clock, .a(18'(dc)), .b(18'(f_7)), .addend(16'sd0), .y(kept_next));
    delayed #(.CYCLES(2)) d_later (.clock, .value(d_o), .later(d_o_9));
    assign errors = {d_o_9, d_g, d_f, d_i};
    assign candidate = '0;
    assign dh_7 = '0;
    logic unused;
    assign unused = &{1'b0, hidden_shift, dh_7};
  end else if (CELL == 1) begin : g_gru
    logic signed [15:0] r, z, q_1, x_1, argument, n, before_4, r_3, z_3, q_3, raw_r, raw_z, raw_n;
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_r (.clock, .z($signed(sums[0+:16])), .y(r));
    gate_function #(.FORM(SIGMOID), .TABLE(TABLE)) gate_z (.clock, .z($signed(sums[16+:16])), .y(z));
    delayed #(.WIDTH(32), .CYCLES(1)) sums_later (.clock, .value(sums[63:32]), .later({q_1, x_1}));
    scaled_product p_n (.clock, .a(18'(r)), .b(18'(q_1)), .addend(x_1), .y(argument));
    gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate_n (.clock, .z(argument), .y(n));
    delayed #(.CYCLES(4)) before_later (.clock, .value(earlier), .later(before_4));
    delayed #(.WIDTH(48), .CYCLES(2)) gates_later (.clock, .value({r, z, q_1}), .later({r_3, z_3, q_3}));
    scaled_product s_r (.clock, .a(18'(r)), .b(ONE - 18'(r)), .addend(16'sd0), .y(raw_r));
    scaled_product s_z (.clock, .a(18'(z)), .b(ONE - 18'(z)), .addend(16'sd0), .y(raw_z));
    scaled_product s_n (.clock, .a(18'(n)), .b(18'(n)), .addend(16'sd0), .y(raw_n));
    logic signed [17:0] slope_r, slope_z, slope_z_4, bend_n;
    assign slope_r = !HARD ? 18'(raw_r) : (r_3 > 16'sd0 && r_3 < 16'sd32767) ? ((SIGMOID == 2) ? 18'sd6554 : 18'sd5461) : 18'sd0;
    assign slope_z = !HARD ? 18'(raw_z) : (z_3 > 16'sd0 && z_3 < 16'sd32767) ? ((SIGMOID == 2) ? 18'sd6554 : 18'sd5461) : 18'sd0;
    delayed #(.WIDTH(18), .CYCLES(1)) slope_later (.clock, .value(slope_z), .later(slope_z_4));
    assign bend_n = bend_of(raw_n);
    logic signed [15:0] z_6, z_8, dh_8, q_n, q_z, q_z_8, q_r, q_r_10, r_10, dn, dz, direct;
    logic signed [17:0] difference;
    // h has fewer fraction bits than n.
    assign difference = (18'(before_4) <<< hidden_shift) - 18'(n);
    delayed #(.CYCLES(3)) z_later (.clock, .value(z_3), .later(z_6));
    delayed #(.CYCLES(2)) z_later_still (.clock, .value(z_6), .later(z_8));
    scaled_product p_q (.clock, .a(ONE - 18'(z_6)), .b(bend_n), .addend(16'sd0), .y(q_n));
    scaled_product p_z (.clock, .a(difference), .b(slope_z_4), .addend(16'sd0), .y(q_z));
    scaled_product p_r (.clock, .a(18'(q_3)), .b(slope_r), .addend(16'sd0), .y(q_r));
    delayed #(.CYCLES(2)) q_z_later (.clock, .value(q_z), .later(q_z_8));
    delayed #(.CYCLES(5)) q_r_later (.clock, .value(q_r), .later(q_r_10));
    delayed #(.CYCLES(7)) r_later (.clock, .value(r_3), .later(r_10));
    delayed #(.CYCLES(5)) dh_later (.clock, .value(dh), .later(dh_8));
    scaled_product r_n (.clock, .a(18'(dh_8)), .b(18'(q_n)), .addend(16'sd0), .y(dn));
    scaled_product r_z (.clock, .a(18'(dh_8)), .b(18'(q_z_8)), .addend(16'sd0), .y(dz));
    scaled_product r_h (.clock, .a(18'(dh_8)), .b(18'(z_8)), .addend(16'sd0), .y(direct));
    logic signed [15:0] d_r, dn_12, dz_12;
    scaled_product #(.SHIFT(12)) r_r (.clock, .a(18'(dn)), .b(18'(q_r_10)), .addend(16'sd0), .y(d_r));
    scaled_product r_u (.clock, .a(18'(dn)), .b(18'(r_10)), .addend(16'sd0), .y(candidate));
    delayed #(.WIDTH(48), .CYCLES(2)) d_later (.clock, .value({dn, dz, direct}), .later({dn_12, dz_12, kept_next}));
    assign errors = {dn_12, dz_12, d_r};
    logic unused;
    assign unused = &{1'b0, cell_now};
  end else begin : g_vanilla
    if (CELL == 2) begin : g_relu
      logic positive_3;
      delayed #(.WIDTH(1), .CYCLES(3)) sign_later (.clock, .value(!sums[15] && sums[15:0] != 16'd0), .later(positive_3));
      delayed #(.CYCLES(2)) error_later (.clock, .value(positive_3 ? dh : 16'sd0), .later(errors));
    end else begin : g_tanh
      logic signed [15:0] y, square, errors_signed;
      assign errors = errors_signed;
      gate_function #(.FORM(TANH), .TANGENT(1), .TABLE(TABLE)) gate (.clock, .z($signed(sums[15:0])), .y(y));
      scaled_product p_y (.clock, .a(18'(y)), .b(18'(y)), .addend(16'sd0), .y(square));
      scaled_product p_d (.clock, .a(18'(dh)), .b(bend_of(square)), .addend(16'sd0), .y(errors_signed));
    end
    assign candidate = '0;
    assign kept_next = '0;
    logic unused;
    assign unused = &{1'b0, hidden_shift, sums[63:16], cell_now, earlier, kept};
  end
endmodule
