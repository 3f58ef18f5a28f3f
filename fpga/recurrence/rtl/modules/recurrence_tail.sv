// What follows the multipliers: a group's sums are taken at once, then UNITS hidden units a cycle leave for their cells. Biases lie
// beside them, and what a unit keeps of the step before: lstm its cell, gru its state.
// `take` comes with the sums and with what belongs to the group: where its units begin (in words of UNITS units), how many words there
// are, its stream's places. A group may be taken every `take_beats` cycles. The state leaves eleven cycles behind `take`, with
// its place in the memory of states; words for which `emits` holds go to the output, zeros where the stream has ended.
// Between runs, `outside`, what is kept is read at `kept_address`, a cycle behind it, and written.
module recurrence_tail #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int BIASES = 4,
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex",
    parameter int LANES = 8,
    parameter int UNITS = 1,
    parameter int BIAS_DEPTH = 8,
    parameter int KEPT_DEPTH = 8
) (
    input logic       clock,
    input logic       reset_n,
    input logic [4:0] sum_shift,
    input logic [3:0] hidden_shift,

    input  logic                outside,
    input  logic                kept_write,
    input  logic [        15:0] kept_address,
    input  logic [UNITS*32-1:0] kept_data,
    output logic [UNITS*32-1:0] kept_read,

    input logic                           bias_write,
    input logic [                   15:0] bias_address,
    input logic [UNITS*BIASES*32-1:0] bias_data,

    input logic                        take,
    input logic [        LANES*32-1:0] take_sums,
    input logic [LANES/GATES*32-1:0] take_sides,
    input logic [                15:0] take_beats,
    input logic [                15:0] take_first,   // word of the unit, of its stream
    input logic [                15:0] take_kept,    // where the stream's words begin
    input logic [                15:0] take_hidden,  // the same in the memory of states
    input logic                        take_half,
    input logic                        take_valid,   // the stream has this step
    input logic                        take_zero,    // there was nothing before

    output logic                hidden_write,
    output logic [        15:0] hidden_word,    // of UNITS units, of its stream
    output logic [        15:0] hidden_place,
    output logic                hidden_half,
    output logic                emits,
    output logic [UNITS*16-1:0] hidden
);
  localparam int LATENCY = 10;
  localparam int KEPT_BITS = (CELL == 0) ? 32 : 16;
  localparam int GROUP_UNITS = LANES / GATES;
  localparam int UNIT_BITS = GATES * 32;

  // The group as it was taken: the lowest units leave first.
  logic [LANES*32-1:0] sums;
  logic [GROUP_UNITS*32-1:0] sides;
  logic [15:0] beats, first, kept_place, hidden_base;
  logic half, valid, zero;
  always_ff @(posedge clock) begin
    if (take) begin
      sums <= take_sums;
      sides <= take_sides;
      {first, kept_place, hidden_base} <= {take_first, take_kept + take_first, take_hidden};
      {half, valid, zero} <= {take_half, take_valid, take_zero};
    end else begin
      sums <= sums >> (UNITS * UNIT_BITS);
      sides <= sides >> (UNITS * 32);
      first <= first + 16'd1;
      kept_place <= kept_place + 16'd1;
    end
    if (!reset_n) beats <= '0;
    else if (take) beats <= take_beats;
    else if (beats != '0) beats <= beats - 16'd1;
  end

  // What goes along, cycle by cycle.
  logic [LATENCY:1] active_at, valid_at, zero_at, half_at;
  logic [15:0] first_at[1:LATENCY];
  logic [15:0] kept_at[1:LATENCY];
  logic [15:0] hidden_at[1:LATENCY];
  integer i;
  always_ff @(posedge clock) begin
    active_at <= reset_n ? {active_at[LATENCY-1:1], beats != '0} : '0;
    valid_at <= {valid_at[LATENCY-1:1], valid};
    zero_at <= {zero_at[LATENCY-1:1], zero};
    half_at <= {half_at[LATENCY-1:1], half};
    first_at[1] <= first;
    kept_at[1] <= kept_place;
    hidden_at[1] <= hidden_base;
    for (i = 2; i <= LATENCY; i++) begin
      first_at[i] <= first_at[i-1];
      kept_at[i] <= kept_at[i-1];
      hidden_at[i] <= hidden_at[i-1];
    end
  end

  localparam int BIAS_BITS = (BIAS_DEPTH > 1) ? $clog2(BIAS_DEPTH) : 1;
  localparam int PLACE_BITS = (KEPT_DEPTH > 1) ? $clog2(KEPT_DEPTH) : 1;
  (* ram_style = "distributed" *) logic [UNITS*BIASES*32-1:0] bias_words[0:BIAS_DEPTH-1];
  logic [UNITS*BIASES*32-1:0] biases;
  assign biases = bias_words[first[BIAS_BITS-1:0]];
  always_ff @(posedge clock) if (bias_write) bias_words[bias_address[BIAS_BITS-1:0]] <= bias_data;

  // Kept words: lstm's cell is read three cycles behind the sums and written at six, gru's state read at eight and written at ten.
  localparam int READ_AT = (CELL == 0) ? 2 : 7;
  localparam int WRITE_AT = (CELL == 0) ? 6 : 10;
  logic [UNITS*KEPT_BITS-1:0] kept_word, kept_new;
  logic [UNITS*32-1:0] cells;
  genvar k;
  if (CELL <= 1) begin : g_kept
    (* ram_style = "block" *) logic [UNITS*KEPT_BITS-1:0] kept_words[0:KEPT_DEPTH-1];
    logic [PLACE_BITS-1:0] read_place, write_place;
    logic [UNITS*KEPT_BITS-1:0] written;
    assign read_place = PLACE_BITS'(outside ? kept_address : kept_at[READ_AT]);
    assign write_place = PLACE_BITS'(outside ? kept_address : kept_at[WRITE_AT]);
    always_ff @(posedge clock) begin
      if (outside ? kept_write : active_at[WRITE_AT] && (valid_at[WRITE_AT] || zero_at[WRITE_AT])) kept_words[write_place] <= written;
      kept_word <= kept_words[read_place];
    end
    for (k = 0; k < UNITS; k++) begin : g_outside
      assign written[k*KEPT_BITS+:KEPT_BITS] = outside ? kept_data[k*32+:KEPT_BITS] : kept_new[k*KEPT_BITS+:KEPT_BITS];
      assign kept_read[k*32+:32] = 32'($signed(kept_word[k*KEPT_BITS+:KEPT_BITS]));
    end
    logic unused_data;
    assign unused_data = &{1'b0, kept_data, kept_address};
  end else begin : g_nothing_kept
    assign kept_word = '0;
    assign kept_read = '0;
    logic unused_kept;
    assign unused_kept = &{1'b0, kept_new, kept_at[READ_AT], kept_at[WRITE_AT], outside, kept_write, kept_address, kept_data};
  end
  logic unused_address, unused_cells;
  assign unused_address = &{1'b0, bias_address};
  assign unused_cells = &{1'b0, cells};

  genvar u;
  for (u = 0; u < UNITS; u++) begin : g_unit
    logic signed [31:0] kept_before;
    if (CELL == 0) begin : g_cell
      assign kept_before = zero_at[READ_AT+1] ? 32'sd0 : $signed(kept_word[u*KEPT_BITS+:KEPT_BITS]);
      assign kept_new[u*KEPT_BITS+:KEPT_BITS] = valid_at[WRITE_AT] ? cells[u*32+:32] : 32'd0;
    end else begin : g_state
      assign kept_before = zero_at[READ_AT+1] ? 32'sd0 : 32'($signed(kept_word[u*KEPT_BITS+:KEPT_BITS]));
      assign kept_new[u*KEPT_BITS+:KEPT_BITS] = hidden[u*16+:16];
    end
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
        .sums(sums[u*UNIT_BITS+:UNIT_BITS]),
        .side(sides[u*32+:32]),
        .biases(biases[u*BIASES*32+:BIASES*32]),
        .kept(kept_before),
        .cell_state(cells[u*32+:32]),
        .hidden(state)
    );
    assign hidden[u*16+:16] = valid_at[LATENCY] ? state : 16'd0;
  end

  assign hidden_write = active_at[LATENCY] && (valid_at[LATENCY] || zero_at[LATENCY]);
  assign hidden_word = first_at[LATENCY];
  assign hidden_place = hidden_at[LATENCY];
  assign hidden_half = half_at[LATENCY];
  assign emits = active_at[LATENCY];
endmodule
