// What follows the chains forward: CHAINS units a cycle, from their products and the sums that came in to h, and the record of the step
// for the way back: sums as they were rounded, lstm's c as tanh took it, gru's h before. All leave ten cycles behind `take`.
// Cells, what a unit keeps and its places: as fpga/recurrence/rtl's tail_unit has them.
module gates_forward #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int BIASES = 4,
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex",
    parameter int CHAINS = 4,
    parameter int RECORD = 5,
    parameter int STATE_WORDS = 64
) (
    input  logic                              clock,
    input  logic                              reset_n,
    input  logic [                       4:0] sum_shift,
    input  logic [                       3:0] hidden_shift,
    input  logic                              bias_write,
    input  logic [                      15:0] bias_address,
    input  logic [      CHAINS*BIASES*32-1:0] bias_data,
    input  logic                              kept_write,  // between passes
    input  logic [                      15:0] kept_address,
    input  logic [             CHAINS*32-1:0] kept_data,
    input  logic                              take,
    input  logic [       GATES*CHAINS*32-1:0] products,  // [gate][lane]
    input  logic [       GATES*CHAINS*16-1:0] inputs,    // [gate][lane]
    input  logic [                      15:0] word,      // of its sample
    input  logic [                      15:0] place,     // of the state
    input  logic                              half,
    input  logic                              zero,      // there was nothing before
    output logic                              made,
    output logic [                      15:0] made_place,
    output logic                              made_half,
    output logic [             CHAINS*16-1:0] hidden,
    output logic [      RECORD*CHAINS*16-1:0] record
);
  localparam int LATENCY = 10;
  localparam int PLACE_BITS = (STATE_WORDS > 1) ? $clog2(STATE_WORDS) : 1;
  localparam int KEPT_BITS = (CELL == 0) ? 32 : 16;
  localparam int READ_AT = (CELL == 0) ? 2 : 7;
  localparam int WRITE_AT = (CELL == 0) ? 6 : 10;

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

  (* ram_style = "distributed" *) logic [CHAINS*BIASES*32-1:0] bias_words[0:STATE_WORDS-1];
  logic [CHAINS*BIASES*32-1:0] biases;
  always_ff @(posedge clock) begin
    if (bias_write) bias_words[bias_address[PLACE_BITS-1:0]] <= bias_data;
    biases <= bias_words[word[PLACE_BITS-1:0]];
  end

  logic unused_bits;
  assign unused_bits = &{1'b0, bias_address, word, kept_address, kept_data, kept_write};

  logic [CHAINS*KEPT_BITS-1:0] kept_word, kept_new;
  if (CELL <= 1) begin : g_kept
    (* ram_style = "block" *) logic [CHAINS*KEPT_BITS-1:0] kept_words[0:STATE_WORDS-1];
    logic [PLACE_BITS-1:0] kept_place;
    logic [CHAINS*KEPT_BITS-1:0] kept_given;
    assign kept_place = kept_write ? kept_address[PLACE_BITS-1:0] : place_at[WRITE_AT*16+:PLACE_BITS];
    genvar k;
    for (k = 0; k < CHAINS; k++) begin : g_given
      assign kept_given[k*KEPT_BITS+:KEPT_BITS] = kept_data[k*32+:KEPT_BITS];
    end
    always_ff @(posedge clock) begin
      if (active_at[WRITE_AT] || kept_write) kept_words[kept_place] <= kept_write ? kept_given : kept_new;
      kept_word <= kept_words[place_at[READ_AT*16+:PLACE_BITS]];
    end
  end else begin : g_nothing_kept
    assign kept_word = '0;
    logic unused_kept;
    assign unused_kept = &{1'b0, kept_new, zero_at};
  end

  genvar u, g;
  for (u = 0; u < CHAINS; u++) begin : g_unit
    logic [GATES*32-1:0] sums;
    logic [31:0] side;
    for (g = 0; g < GATES; g++) begin : g_sum
      logic signed [31:0] given, product;
      assign given = 32'($signed(inputs[(g*CHAINS+u)*16+:16])) <<< sum_shift;
      assign product = $signed(products[(g*CHAINS+u)*32+:32]);
      if (CELL == 1 && g == 2) begin : g_apart
        always_ff @(posedge clock) begin
          side <= given;
          sums[g*32+:32] <= product;
        end
      end else begin : g_together
        always_ff @(posedge clock) sums[g*32+:32] <= product + given;
      end
    end
    if (CELL != 1) begin : g_no_side
      assign side = '0;
    end
    logic signed [31:0] kept, cell_state;
    assign kept = zero_at[READ_AT+1] ? 32'sd0 : 32'($signed(kept_word[u*KEPT_BITS+:KEPT_BITS]));
    logic signed [15:0] state;
    tail_unit #(
        .CELL(CELL),
        .GATES(GATES),
        .BIASES(BIASES),
        .SIGMOID(SIGMOID),
        .TANH(TANH),
        .TABLE(TABLE)
    ) tail (
        .clock,
        .sum_shift,
        .hidden_shift,
        .sums,
        .side,
        .biases(biases[u*BIASES*32+:BIASES*32]),
        .kept,
        .cell_state,
        .hidden(state)
    );
    assign hidden[u*16+:16] = state;
    if (CELL == 0) begin : g_cell
      assign kept_new[u*32+:32] = cell_state;
      logic signed [15:0] nearest, argument;
      round_to_element #(
          .VALUE_BITS(32)
      ) argument_rounding (
          .value(cell_state),
          .shift(5'd12),
          .element(nearest)
      );
      assign argument = nearest;
      delayed #(.CYCLES(4)) argument_later (.clock, .value(argument), .later(record[(4*CHAINS+u)*16+:16]));
    end else if (CELL == 1) begin : g_state
      assign kept_new[u*16+:16] = state;
      delayed #(.CYCLES(2)) before_later (.clock, .value(kept[15:0]), .later(record[(4*CHAINS+u)*16+:16]));
      logic unused_cell;
      assign unused_cell = &{1'b0, cell_state};
    end else begin : g_plain
      assign kept_new[u*16+:16] = state;
      logic unused_cell;
      assign unused_cell = &{1'b0, cell_state};
    end
    // Sums once more, for the record: with biases a cycle behind, rounded two.
    for (g = 0; g < BIASES; g++) begin : g_record
      logic signed [31:0] sum, biased;
      logic signed [15:0] nearest;
      if (CELL == 1 && g == 2) begin : g_input
        assign sum = $signed(side);
      end else if (CELL == 1 && g == 3) begin : g_hidden
        assign sum = $signed(sums[2*32+:32]);
      end else begin : g_gate
        assign sum = $signed(sums[g*32+:32]);
      end
      always_ff @(posedge clock) biased <= sum + $signed(biases[(u*BIASES+g)*32+:32]);
      round_to_element #(
          .VALUE_BITS(32)
      ) rounding (
          .value(biased),
          .shift(sum_shift),
          .element(nearest)
      );
      delayed #(.CYCLES(9)) sum_later (.clock, .value(nearest), .later(record[(g*CHAINS+u)*16+:16]));
    end
  end
endmodule
