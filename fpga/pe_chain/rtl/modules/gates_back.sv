// What follows the chains on the way back: CHAINS units a cycle, from their products of all gates, the layer's errors and the record of the
// step to the errors of their sums. What a unit keeps for the step before lies here: lstm dc, gru the direct part of dh.
module gates_back #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex",
    parameter int CHAINS = 4,
    parameter int RECORD = 5,
    parameter int BEFORE = 1,
    parameter int STATE_WORDS = 64
) (
    input  logic                                     clock,
    input  logic                                     reset_n,
    input  logic [                              4:0] weight_shift,
    input  logic [                              3:0] hidden_shift,
    input  logic                                     kept_write,  // between passes
    input  logic [                             15:0] kept_address,
    input  logic [                    CHAINS*32-1:0] kept_data,
    input  logic                                     take,
    input  logic [              GATES*CHAINS*32-1:0] products,  // [gate][lane]
    input  logic [(1+RECORD+BEFORE)*CHAINS*16-1:0] inputs,    // the error, the record, lstm's c before
    input  logic [                             15:0] place,
    input  logic                                     half,
    input  logic                                     zero,
    output logic                                     made,
    output logic [                             15:0] made_place,
    output logic                                     made_half,
    output logic [              GATES*CHAINS*16-1:0] taken,     // [gate][lane]: what the recurrent product takes
    output logic [              GATES*CHAINS*16-1:0] errors,    // [gate][lane]
    output logic [                    CHAINS*16-1:0] candidates
);
  localparam int LATENCY = (CELL == 0) ? 9 : (CELL == 1) ? 12 : 5;
  localparam int PLACE_BITS = (STATE_WORDS > 1) ? $clog2(STATE_WORDS) : 1;
  logic [LATENCY:0] active_at, zero_at, half_at;
  // A vector, for Icarus loses what a loop moves from word to word of an array.
  logic [(LATENCY+1)*16-1:0] place_at;
  always_ff @(posedge clock) begin
    active_at <= reset_n ? {active_at[LATENCY-1:0], take} : '0;
    zero_at <= {zero_at[LATENCY-1:0], zero};
    half_at <= {half_at[LATENCY-1:0], half};
    place_at <= {place_at[LATENCY*16-1:0], place};
  end
  assign made = active_at[LATENCY];
  assign made_place = place_at[LATENCY*16+:16];
  assign made_half = half_at[LATENCY];

  logic [CHAINS*16-1:0] kept_word, kept_new;
  if (CELL <= 1) begin : g_kept
    (* ram_style = "block" *) logic [CHAINS*16-1:0] kept_words[0:STATE_WORDS-1];
    logic [PLACE_BITS-1:0] kept_place;
    logic [CHAINS*16-1:0] kept_given;
    assign kept_place = kept_write ? kept_address[PLACE_BITS-1:0] : place_at[LATENCY*16+:PLACE_BITS];
    genvar k;
    for (k = 0; k < CHAINS; k++) begin : g_given
      assign kept_given[k*16+:16] = kept_data[k*32+:16];
    end
    always_ff @(posedge clock) begin
      if (active_at[LATENCY] || kept_write) kept_words[kept_place] <= kept_write ? kept_given : kept_new;
      kept_word <= kept_words[place_at[0+:PLACE_BITS]];
    end
  end else begin : g_nothing_kept
    assign kept_word = '0;
    logic unused_kept;
    assign unused_kept = &{1'b0, kept_new};
  end
  logic unused_zero;
  assign unused_zero = &{1'b0, zero_at, kept_write, kept_address, kept_data};

  genvar u, g;
  for (u = 0; u < CHAINS; u++) begin : g_unit
    logic signed [31:0] total, sum;
    logic [63:0] sums;
    logic signed [15:0] cell_now, earlier;
    if (GATES == 4) begin : g_four
      assign sum = ($signed(products[u*32+:32]) + $signed(products[(CHAINS+u)*32+:32])) +
          ($signed(products[(2*CHAINS+u)*32+:32]) + $signed(products[(3*CHAINS+u)*32+:32]));
    end else if (GATES == 3) begin : g_three
      assign sum = ($signed(products[u*32+:32]) + $signed(products[(CHAINS+u)*32+:32])) + $signed(products[(2*CHAINS+u)*32+:32]);
    end else begin : g_one
      assign sum = $signed(products[u*32+:32]);
    end
    always_ff @(posedge clock) total <= sum + (32'($signed(inputs[u*16+:16])) <<< weight_shift);
    if (CELL <= 1) begin : g_record
      always_ff @(posedge clock) begin
        sums <= {
          inputs[(4*CHAINS+u)*16+:16], inputs[(3*CHAINS+u)*16+:16], inputs[(2*CHAINS+u)*16+:16], inputs[(CHAINS+u)*16+:16]
        };
        cell_now <= $signed(inputs[(5*CHAINS+u)*16+:16]);
        earlier <= $signed(inputs[((CELL==0?6:5)*CHAINS+u)*16+:16]);
      end
    end else begin : g_short_record
      always_ff @(posedge clock) sums <= {48'd0, inputs[(CHAINS+u)*16+:16]};
      assign cell_now = '0;
      assign earlier = '0;
    end
    logic [GATES*16-1:0] errors_here;
    logic signed [15:0] candidate, kept_here;
    assign kept_new[u*16+:16] = kept_here;
    back_unit #(
        .CELL(CELL),
        .GATES(GATES),
        .SIGMOID(SIGMOID),
        .TANH(TANH),
        .TABLE(TABLE)
    ) unit (
        .clock,
        .weight_shift,
        .hidden_shift,
        .total,
        .sums,
        .cell_now,
        .earlier,
        .kept(zero_at[1] ? 16'sd0 : $signed(kept_word[u*16+:16])),
        .errors(errors_here),
        .candidate,
        .kept_next(kept_here)
    );
    for (g = 0; g < GATES; g++) begin : g_out
      assign errors[(g*CHAINS+u)*16+:16] = errors_here[g*16+:16];
      assign taken[(g*CHAINS+u)*16+:16] = (CELL == 1 && g == 2) ? candidate : errors_here[g*16+:16];
    end
    assign candidates[u*16+:16] = candidate;
  end
endmodule
