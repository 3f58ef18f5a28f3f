// The way back through a local response norm: of the channel c, with u_j = round(e_j * x_j * q_j * 2^-U_SHIFT),
//   error = round((e_c * p_c * 2^-P_SHIFT) - (x_c * sum of u_j over the channels from c - HALF to c + HALF) * 2^-T_SHIFT), rounded once
// and with `relu`, zero where x is not above zero. x is what the norm was given, kept since; p and q are made again from it.
// Both streams come row - group - column and are waited for together; a beat per cycle. Parameters: response_factors.sv.
module response_norm_back #(
    parameter int LANES = 4,
    parameter int HALF = 2,
    parameter int ADDRESS_BITS = 6,
    parameter int BASE = 0,
    parameter int FACTOR = 0,
    parameter int FACTOR_SHIFT = 0,
    parameter int FIRST_OCTAVE = 20,
    parameter int OCTAVES = 1,
    parameter int P_SHIFT = 15,
    parameter int U_SHIFT = 15,
    parameter int T_SHIFT = 15,
    parameter int ELEMENT_BITS = 16,
    parameter TABLE = ""
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] lanes_of_last,
    input logic        relu,

    input  logic                          x_tvalid,
    output logic                          x_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] x_tdata,

    input  logic                          error_tvalid,
    output logic                          error_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] error_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int REACH = (HALF + LANES - 1) / LANES;
  localparam int LANE = 32 + 32 + ELEMENT_BITS;  // u, e * p, x
  localparam int SUM_BITS = 36;
  localparam int SHIFT = (P_SHIFT > T_SHIFT) ? P_SHIFT : T_SHIFT;
  localparam int VALUE_BITS = 64;

  logic factors_valid, factors_ready;
  logic [LANES*ELEMENT_BITS-1:0] x, p, q;
  response_factors #(
      .LANES(LANES),
      .HALF(HALF),
      .ADDRESS_BITS(ADDRESS_BITS),
      .BASE(BASE),
      .FACTOR(FACTOR),
      .FACTOR_SHIFT(FACTOR_SHIFT),
      .FIRST_OCTAVE(FIRST_OCTAVE),
      .OCTAVES(OCTAVES),
      .ELEMENT_BITS(ELEMENT_BITS),
      .TABLE(TABLE)
  ) factors (
      .clock,
      .clear,
      .width,
      .groups,
      .lanes_of_last,
      .in_tvalid(x_tvalid),
      .in_tready(x_tready),
      .in_tdata(x_tdata),
      .out_tvalid(factors_valid),
      .out_tready(factors_ready),
      .out_x(x),
      .out_p(p),
      .out_q(q)
  );

  // --- Products with the error, then u.
  logic moves, joins, product_valid, term_valid, window_ready;
  assign moves = !term_valid || window_ready;
  assign joins = factors_valid && error_tvalid && moves;
  assign factors_ready = error_tvalid && moves;
  assign error_tready = factors_valid && moves;
  always_ff @(posedge clock) begin
    if (clear) {product_valid, term_valid} <= '0;
    else if (moves) {product_valid, term_valid} <= {joins, product_valid};
  end
  logic [LANES*LANE-1:0] terms;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_term
    logic signed [ELEMENT_BITS-1:0] element, error, factor, q_1, x_1;
    logic signed [2*ELEMENT_BITS-1:0] weighed, scaled;
    logic signed [3*ELEMENT_BITS:0] wide, around, nearest;
    logic odd;
    assign element = x[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign error   = error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign factor  = p[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign wide = weighed * q_1;
    assign odd = wide[U_SHIFT];
    assign around = wide + (3 * ELEMENT_BITS + 1)'((64'd1 << (U_SHIFT - 1)) - 64'd1) + (3 * ELEMENT_BITS + 1)'({1'b0, odd});
    assign nearest = around >>> U_SHIFT;
    always_ff @(posedge clock) begin
      if (moves) begin
        weighed <= error * element;
        scaled <= error * factor;
        q_1 <= q[lane*ELEMENT_BITS+:ELEMENT_BITS];
        x_1 <= element;
        terms[lane*LANE+:LANE] <= {x_1, scaled, nearest[31:0]};
      end
    end
    logic unused_nearest;
    assign unused_nearest = &{1'b0, nearest[3*ELEMENT_BITS:32]};
  end

  logic window_valid, advance;
  logic [(2*REACH+1)*LANES*LANE-1:0] window;
  neighbour_window #(
      .WIDTH(LANES * LANE),
      .REACH(REACH),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) neighbours (
      .clock,
      .clear,
      .width,
      .groups,
      .in_tvalid(term_valid),
      .in_tready(window_ready),
      .in_tdata(terms),
      .out_tvalid(window_valid),
      .out_tready(advance),
      .out_tdata(window)
  );

  // --- Sums over channels, their product with x, and the difference.
  logic valid_1, valid_2;
  assign advance = !out_tvalid || out_tready;
  always_ff @(posedge clock) begin
    if (clear) {valid_1, valid_2, out_tvalid} <= '0;
    else if (advance) {valid_1, valid_2, out_tvalid} <= {window_valid, valid_1, valid_2};
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [SUM_BITS-1:0] total, sum;
    logic signed [ELEMENT_BITS-1:0] x_1;
    logic signed [31:0] scaled_1, scaled_2;
    logic signed [SUM_BITS+ELEMENT_BITS-1:0] product;
    logic signed [VALUE_BITS-1:0] value;
    logic above_zero, passes;
    logic [ELEMENT_BITS-1:0] rounded;
    always_comb begin
      total = '0;
      for (int n = -HALF; n <= HALF; n++) total = total + SUM_BITS'($signed(window[(REACH*LANES+lane+n)*LANE+:32]));
    end
    assign value = (VALUE_BITS'(scaled_2) <<< (SHIFT - P_SHIFT)) - (VALUE_BITS'(product) <<< (SHIFT - T_SHIFT));
    round_to_element #(
        .VALUE_BITS(VALUE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value,
        .shift(5'(SHIFT)),
        .element(rounded)
    );
    assign above_zero = x_1 > 0;
    always_ff @(posedge clock) begin
      if (advance) begin
        {x_1, scaled_1} <= window[(REACH*LANES+lane)*LANE+32+:32+ELEMENT_BITS];
        sum <= total;
        product <= sum * x_1;
        scaled_2 <= scaled_1;
        passes <= !relu || above_zero;
        out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= passes ? rounded : '0;
      end
    end
  end
  logic unused_window;
  assign unused_window = &{1'b0, window};
endmodule
