// LANES rows times COLUMNS columns a cycle. A word of weights and a word of the vector come with what to do with their products; sums
// are there three cycles later.
// Of a visit to a group of rows: `first` comes with its first chunk, where sums begin with `stored` (two cycles behind), or at 0 where
// `fresh`. A gru's third gate has two sums, of x and of h: with `turns` (the first chunk of h) its sum of x moves aside and the other
// begins at 0. Sums are 32 bits and wrap.
module column_array #(
    parameter int LANES = 8,
    parameter int COLUMNS = 1,
    parameter int GATES = 4
) (
    input logic clock,

    input logic [LANES*COLUMNS*16-1:0] weights,
    input logic [      COLUMNS*16-1:0] vector,
    input logic                        active,
    input logic                        first,
    input logic                        fresh,
    input logic                        turns,

    input logic [      LANES*32-1:0] stored_sums,
    input logic [LANES/GATES*32-1:0] stored_sides,

    output logic [      LANES*32-1:0] sums,
    output logic [LANES/GATES*32-1:0] sides
);
  logic [COLUMNS*16-1:0] vector_2;
  logic [2:1] active_at, first_at, fresh_at, turns_at;
  always_ff @(posedge clock) begin
    vector_2 <= vector;
    active_at <= {active_at[1], active};
    first_at <= {first_at[1], first};
    fresh_at <= {fresh_at[1], fresh};
    turns_at <= {turns_at[1], turns};
  end

  genvar l, c;
  for (l = 0; l < LANES; l++) begin : g_lane
    logic signed [31:0] products[0:COLUMNS-1];
    for (c = 0; c < COLUMNS; c++) begin : g_column
      logic signed [15:0] weight;
      always_ff @(posedge clock) begin
        weight <= $signed(weights[(l*COLUMNS+c)*16+:16]);
        products[c] <= 32'(weight) * 32'($signed(vector_2[c*16+:16]));
      end
    end
    logic signed [31:0] total;
    always_comb begin
      total = products[0];
      for (int i = 1; i < COLUMNS; i++) total = total + products[i];
    end
    logic signed [31:0] sum, base;
    assign base = !first_at[2] ? sum : fresh_at[2] ? 32'sd0 : $signed(stored_sums[l*32+:32]);
    assign sums[l*32+:32] = sum;
    if (GATES == 3 && l % 3 == 2) begin : g_two_sums
      logic signed [31:0] side, side_before;
      assign side_before = !first_at[2] ? side : fresh_at[2] ? 32'sd0 : $signed(stored_sides[l/3*32+:32]);
      always_ff @(posedge clock)
        if (active_at[2]) begin
          sum  <= (turns_at[2] ? 32'sd0 : base) + total;
          side <= turns_at[2] ? base : side_before;
        end
      assign sides[l/3*32+:32] = side;
    end else begin : g_one_sum
      always_ff @(posedge clock) if (active_at[2]) sum <= base + total;
    end
  end
  if (GATES != 3) begin : g_no_sides
    assign sides = '0;
    logic unused;
    assign unused = &{1'b0, stored_sides, turns_at};
  end
endmodule
