// The second matrix of an lstm that projects: FEATURES elements of h out of all units of a vector. Units come as the tail gives them, UNITS
// a cycle, and meet their columns at once; when a vector's last unit has come, its features leave UNITS a cycle, the first of them six
// cycles behind it. A vector has no more features than units, so that nothing waits. The weights stay: for every word of units a word of
// FEATURES x UNITS, written a beat at a time.
module unit_projection #(
    parameter int FEATURES = 4,
    parameter int UNITS = 1,
    parameter int BEAT_WORDS = 4,
    parameter int DEPTH = 8
) (
    input logic        clock,
    input logic        reset_n,
    input logic [ 4:0] shift,
    input logic [15:0] unit_words,  // of a vector

    input logic                     weight_write,
    input logic [             15:0] weight_bank,
    input logic [             15:0] weight_place,
    input logic [BEAT_WORDS*16-1:0] weight_beat,

    input logic                in_emits,
    input logic                in_write,
    input logic [        15:0] in_word,
    input logic [        15:0] in_place,
    input logic                in_half,
    input logic [UNITS*16-1:0] in_units,

    output logic                emits,
    output logic                state_write,
    output logic [        15:0] state_word,
    output logic [        15:0] state_place,
    output logic                state_half,
    output logic [UNITS*16-1:0] features
);
  localparam int STAGES = 4;  // from a word of units to its sums
  localparam logic [15:0] WORDS = 16'(FEATURES / UNITS);

  logic active_1, first_1;
  logic [UNITS*16-1:0] units_1;
  logic [STAGES:1] ends_at;
  logic [17:0] note[1:STAGES];
  integer i;
  always_ff @(posedge clock) begin
    active_1 <= in_emits && reset_n;
    first_1 <= in_word == 16'd0;
    units_1 <= in_units;
    ends_at <= reset_n ? {ends_at[STAGES-1:1], in_emits && in_word + 16'd1 == unit_words} : '0;
    note[1] <= {in_write, in_half, in_place};
    for (i = 2; i <= STAGES; i++) note[i] <= note[i-1];
  end

  logic [FEATURES*UNITS*16-1:0] weights;
  weight_slots #(
      .BANKS(FEATURES * UNITS / BEAT_WORDS),
      .BEAT_BITS(BEAT_WORDS * 16),
      .DEPTH(DEPTH)
  ) matrix (
      .clock, .write(weight_write), .write_bank(weight_bank), .write_place(weight_place), .write_beat(weight_beat), .read_place(in_word),
      .read_word(weights)
  );
  logic [FEATURES*32-1:0] sums, sides;
  column_array #(
      .LANES(FEATURES),
      .COLUMNS(UNITS),
      .GATES(1)
  ) multipliers (
      .clock, .weights, .vector(units_1), .active(active_1), .first(first_1), .fresh(1'b1), .turns(1'b0), .stored_sums('0),
      .stored_sides('0), .sums, .sides
  );
  logic unused_sides;
  assign unused_sides = &{1'b0, sides};

  // The vector as it was summed: the lowest features leave first.
  logic [FEATURES*32-1:0] leaving;
  logic [15:0] left, word, place;
  logic writes, half;
  logic [UNITS*16-1:0] rounded;
  genvar u;
  for (u = 0; u < UNITS; u++) begin : g_unit
    round_to_element #(
        .VALUE_BITS(32)
    ) rounding (
        .value($signed(leaving[u*32+:32])),
        .shift,
        .element(rounded[u*16+:16])
    );
  end
  always_ff @(posedge clock) begin
    if (ends_at[STAGES]) begin
      leaving <= sums;
      word <= '0;
      {writes, half, place} <= note[STAGES];
    end else begin
      leaving <= leaving >> (UNITS * 32);
      word <= word + 16'd1;
    end
    if (!reset_n) left <= '0;
    else if (ends_at[STAGES]) left <= WORDS;
    else if (left != '0) left <= left - 16'd1;
    emits <= reset_n && left != '0;
    state_write <= reset_n && left != '0 && writes;
    {state_word, state_place, state_half} <= {word, place, half};
    features <= rounded;
  end
endmodule
