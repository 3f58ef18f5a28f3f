// BB-LSTM's engine for one direction of a recurrent layer: a matrix of gates streamed in blocks of columns, each of which meets all
// vectors of a batch before it is replaced (fpga/sbe/engine_config.h; fpga/sbe/phases computes the same in C++).
// `start` begins `batches` batches; x comes as chunks in the order of the jobs, h leaves in words of UNITS units, step by step and
// stream by stream, zeros behind a stream's last step. Settings stand still while `busy`. Biases and lengths are written before.
// With SUMS, x W was multiplied elsewhere: there are no columns of x, all weights stay here, and x_tdata brings sums of 32 bits, UNITS units
// with all their gates a transfer (sum_loader.sv). With PROJECTION, h has so many features, which a second matrix makes of the units
// (unit_projection.sv); its weights, too, are written before.
// A state from outside is written while nothing is `busy`: h into both halves of the memory of states, and what the tail keeps (of lstm
// its cells, of gru h again), which can be read there, too, a cycle behind its address. `stateful` then begins with it.
// CELL: 0 lstm, 1 gru with the reset after the product, 2 vanilla_relu, 3 vanilla_tanh. LANES is a multiple of GATES, a chunk of a group
// fills whole beats, UNITS divides a group's units, and of COLUMNS and UNITS one divides the other.
module sbe_engine #(
    parameter int CELL = 0,
    parameter int GATES = 4,
    parameter int BIASES = 4,        // of a unit: its gates, and one more of gru
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex",
    parameter int LANES = 8,
    parameter int COLUMNS = 1,
    parameter int UNITS = 1,
    parameter int BEAT_WORDS = 4,
    parameter int SLOTS = 2,
    parameter int STREAMS = 4,
    parameter int WEIGHT_DEPTH = 512,
    parameter int INPUT_DEPTH = 512,
    parameter int STATE_DEPTH = 64,
    parameter int KEPT_DEPTH = 64,
    parameter int BIAS_DEPTH = 64,
    parameter int STORE_DEPTH = 64,
    parameter int STORE_BLOCK = 0,
    parameter int SUMS = 0,
    parameter int PROJECTION = 0,    // features; 0: none
    parameter int PROJECTION_DEPTH = 1,
    parameter int OUTPUT_DEPTH = 64,
    parameter int OUTSTANDING = 8,
    parameter int X_BITS = (SUMS != 0) ? UNITS * GATES * 32 : COLUMNS * 16
) (
    input  logic clock,
    input  logic reset_n,
    input  logic start,
    output logic busy,
    output logic faults,

    input logic [15:0] batches,
    input logic [15:0] streams,
    input logic [15:0] steps,
    input logic [15:0] groups,
    input logic [15:0] input_jobs,
    input logic [15:0] block_chunks,
    input logic [15:0] input_last_chunks,
    input logic [15:0] walk_parts,
    input logic [15:0] walk_last_chunks,
    input logic [15:0] lead,
    input logic        resident,
    input logic        walk_pinned,
    input logic        loads_pinned,
    input logic        stateful,
    input logic [15:0] units,
    input logic [31:0] state_units,
    input logic [15:0] group_words,
    input logic [15:0] last_group_words,
    input logic [15:0] feature_words,
    input logic [15:0] stream_words,
    input logic [15:0] stream_places,
    input logic [15:0] slot_words,
    input logic [15:0] pinned_place,
    input logic [15:0] input_slot_words,
    input logic [ 1:0] input_store_distance,
    input logic [ 1:0] walk_store_distance,
    input logic [31:0] input_job_words,
    input logic [31:0] input_last_words,
    input logic [31:0] input_walk_words,
    input logic [15:0] stream_blocks,
    input logic [15:0] stream_input_blocks,
    input logic [15:0] stream_walks,
    input logic [15:0] stream_last_chunks,
    input logic [15:0] group_beats,
    input logic [15:0] last_group_beats,
    input logic [31:0] block_beats,
    input logic [31:0] last_block_beats,
    input logic [31:0] pinned_beats,
    input logic [63:0] address,
    input logic [63:0] stride,
    input logic [63:0] pinned_address,
    input logic [ 4:0] sum_shift,
    input logic [ 3:0] hidden_shift,
    input logic [ 4:0] projection_shift,

    input logic                     projection_write,
    input logic [             15:0] projection_bank,
    input logic [             15:0] projection_place,
    input logic [BEAT_WORDS*16-1:0] projection_beat,

    input  logic                state_load,
    input  logic                state_load_half,
    input  logic [        15:0] state_load_place,
    input  logic [        15:0] state_load_word,
    input  logic [UNITS*16-1:0] state_load_units,
    input  logic                kept_write,
    input  logic [        15:0] kept_address,
    input  logic [UNITS*32-1:0] kept_data,
    output logic [UNITS*32-1:0] kept_read,

    input logic                       bias_write,
    input logic [               15:0] bias_address,
    input logic [UNITS*BIASES*32-1:0] bias_data,
    input logic                       length_write,
    input logic [               15:0] length_stream,
    input logic [               15:0] length,

    output logic                     m_axi_arvalid,
    input  logic                     m_axi_arready,
    output logic [             63:0] m_axi_araddr,
    output logic [              7:0] m_axi_arlen,
    input  logic                     m_axi_rvalid,
    output logic                     m_axi_rready,
    input  logic [BEAT_WORDS*16-1:0] m_axi_rdata,
    input  logic [              1:0] m_axi_rresp,
    input  logic                     m_axi_rlast,

    input  logic                  x_tvalid,
    output logic                  x_tready,
    input  logic [    X_BITS-1:0] x_tdata,
    output logic                  h_tvalid,
    input  logic                  h_tready,
    output logic [  UNITS*16-1:0] h_tdata
);
  localparam int BANKS = LANES * COLUMNS / BEAT_WORDS;
  localparam int GROUP_UNITS = LANES / GATES;
  localparam int SIDES = (GATES == 3) ? GROUP_UNITS : 0;
  localparam int STORE_WIDTH = (LANES + SIDES) * 32;
  localparam int STAGES = 4;  // from a chunk to its sums
  logic [STAGES:1] stores_at, leaves_at;

  logic restart;
  assign restart = start;

  // --- Weights, ahead of the walk.
  logic [15:0] released, loaded, slot_bank, slot_write_place;
  logic pinned_loaded, slot_write;
  logic [BEAT_WORDS*16-1:0] slot_beat;
  weight_streamer #(
      .BEAT_BITS(BEAT_WORDS * 16),
      .SLOTS(SLOTS),
      .OUTSTANDING(OUTSTANDING)
  ) streamer (
      .clock, .reset_n, .restart, .batches, .blocks(stream_blocks), .input_blocks(stream_input_blocks), .walks(stream_walks),
      .block_chunks, .last_chunks(stream_last_chunks), .loads_pinned, .pinned_chunks(walk_last_chunks), .address, .stride, .pinned_address,
      .groups, .group_beats, .last_group_beats, .block_beats, .last_block_beats, .pinned_beats, .slot_words, .pinned_place, .released,
      .loaded, .pinned_loaded, .faults, .m_axi_arvalid, .m_axi_arready, .m_axi_araddr, .m_axi_arlen, .m_axi_rvalid, .m_axi_rready,
      .m_axi_rdata, .m_axi_rresp, .m_axi_rlast, .write(slot_write), .write_bank(slot_bank), .write_place(slot_write_place),
      .write_beat(slot_beat)
  );
  logic pinned_is_there;
  always_ff @(posedge clock) begin
    if (!reset_n) pinned_is_there <= 1'b0;
    else if (start) pinned_is_there <= pinned_is_there && !loads_pinned;
    else if (pinned_loaded) pinned_is_there <= 1'b1;
  end

  // --- Inputs, ahead of the walk.
  logic [15:0] inputs_used, inputs_loaded, input_write_place;
  logic input_write;
  logic x_for_vectors, vectors_ready;
  logic [COLUMNS*16-1:0] input_chunk;
  logic sums_write;
  logic [15:0] sums_loaded, sums_done, sums_place;
  logic [STORE_WIDTH-1:0] sums_word;
  if (SUMS != 0) begin : g_sums
    assign x_for_vectors = 1'b0;
    assign input_chunk = '0;
    for (genvar n = LANES; n < LANES + SIDES; n++) begin : g_side_of_sums  // one by one: lint refuses a constant of over 8192 bits
      assign sums_word[n*32+:32] = '0;
    end
    sum_loader #(
        .LANES(LANES),
        .GATES(GATES),
        .UNITS(UNITS)
    ) from_elsewhere (
        .clock, .reset_n, .restart, .batches, .streams, .steps, .groups, .group_words, .last_group_words, .done(sums_done),
        .loaded(sums_loaded), .in_valid(x_tvalid), .in_ready(x_tready), .in_sums(x_tdata), .write(sums_write), .write_place(sums_place),
        .write_word(sums_word[LANES*32-1:0])
    );
    always_ff @(posedge clock) begin
      if (!reset_n || restart) sums_done <= '0;
      else if (leaves_at[STAGES]) sums_done <= sums_done + 16'd1;
    end
    logic unused_sums;
    assign unused_sums = &{1'b0, vectors_ready};
  end else begin : g_vectors
    assign x_for_vectors = x_tvalid;
    assign x_tready = vectors_ready;
    assign input_chunk = x_tdata;
    assign {sums_write, sums_loaded, sums_done, sums_place} = '0;
    for (genvar n = 0; n < STORE_WIDTH / 32; n++) begin : g_no_sum  // one by one, as above
      assign sums_word[n*32+:32] = '0;
    end
    logic unused_sums;
    assign unused_sums = &{1'b0, sums_done};
  end
  input_loader loader (
      .clock, .reset_n, .restart, .batches, .input_jobs, .job_words(input_job_words), .last_words(input_last_words),
      .walk_words(input_walk_words), .slot_words(input_slot_words), .used(inputs_used), .loaded(inputs_loaded), .in_valid(x_for_vectors),
      .in_ready(vectors_ready), .write(input_write), .write_place(input_write_place)
  );

  // --- The order.
  logic issue, takes_state, takes_zeros, state_half, first, fresh, turns, stores, leaves, tail_valid, tail_zero, running, output_leaves;
  logic [15:0] weight_place, input_place, state_place, state_chunk, store_place, tail_words, tail_first, tail_kept;
  logic [31:0] done_units;
  logic drained;
  recurrence_sequencer #(
      .SLOTS(SLOTS),
      .STREAMS(STREAMS),
      .COLUMNS(COLUMNS),
      .SUMS(SUMS),
      .PROJECTS(PROJECTION != 0 ? 1 : 0),
      .OUTPUT_DEPTH(OUTPUT_DEPTH)
  ) sequencer (
      .clock, .reset_n, .start, .batches, .streams, .steps, .groups, .input_jobs, .block_chunks, .input_last_chunks, .walk_parts,
      .walk_last_chunks, .lead, .resident, .walk_pinned, .stateful, .units, .state_units, .group_words, .last_group_words, .feature_words,
      .stream_words, .stream_places, .slot_words, .pinned_place, .input_slot_words, .input_store_distance, .walk_store_distance, .length_write,
      .length_stream, .length, .loaded, .pinned_loaded(pinned_is_there), .released, .inputs_loaded, .inputs_used, .sums_loaded, .done_units,
      .output_leaves, .running, .drained, .issue, .weight_place, .takes_state, .takes_zeros, .input_place, .state_half, .state_place,
      .state_chunk, .first, .fresh, .turns, .stores, .leaves, .store_place, .tail_words, .tail_first, .tail_kept, .tail_valid, .tail_zero
  );

  // --- What goes along with a chunk until its sums are there, four cycles later.
  localparam int NOTE_BITS = 16 * 5 + 3;
  logic first_1, fresh_1, turns_1, issue_1;
  logic [NOTE_BITS-1:0] note[1:STAGES];
  integer i;
  always_ff @(posedge clock) begin
    {issue_1, first_1, fresh_1, turns_1} <= {issue && reset_n, first, fresh, turns};
    stores_at <= reset_n ? {stores_at[STAGES-1:1], issue && stores} : '0;
    leaves_at <= reset_n ? {leaves_at[STAGES-1:1], issue && leaves} : '0;
    note[1] <= {store_place, tail_words, tail_first, tail_kept, state_place, !state_half, tail_valid, tail_zero};
    for (i = 2; i <= STAGES; i++) note[i] <= note[i-1];
  end
  logic [15:0] note_store, note_words, note_first, note_kept, note_state;
  logic note_half, note_valid, note_zero;
  assign {note_store, note_words, note_first, note_kept, note_state, note_half, note_valid, note_zero} = note[STAGES];

  // --- The memories that are read, and the products.
  logic [BANKS*BEAT_WORDS*16-1:0] weights;
  weight_slots #(
      .BANKS(BANKS),
      .BEAT_BITS(BEAT_WORDS * 16),
      .DEPTH(WEIGHT_DEPTH)
  ) slots (
      .clock, .write(slot_write), .write_bank(slot_bank), .write_place(slot_write_place), .write_beat(slot_beat),
      .read_place(weight_place), .read_word(weights)
  );
  logic state_write, state_write_half, emits;
  logic [15:0] state_write_word, state_write_place;
  logic [UNITS*16-1:0] hidden;
  logic [COLUMNS*16-1:0] vector;
  vector_memory #(
      .COLUMNS(COLUMNS),
      .UNITS(UNITS),
      .INPUT_DEPTH(INPUT_DEPTH),
      .STATE_DEPTH(STATE_DEPTH)
  ) vectors (
      .clock, .input_write, .input_write_place, .input_chunk, .input_place, .state_write(state_write || state_load),
      .state_write_half(state_load ? state_load_half : state_write_half), .state_write_place(state_load ? state_load_place : state_write_place),
      .state_write_word(state_load ? state_load_word : state_write_word), .state_units(state_load ? state_load_units : hidden), .state_half,
      .state_place, .state_chunk, .takes_state, .takes_zeros, .chunk(vector)
  );
  logic [STORE_WIDTH-1:0] stored, kept_sums;
  logic [LANES*32-1:0] sums;
  logic [GROUP_UNITS*32-1:0] sides, stored_sides;
  if (SIDES != 0) begin : g_sides
    assign stored_sides = stored[STORE_WIDTH-1-:GROUP_UNITS*32];
    assign kept_sums = {sides, sums};
  end else begin : g_no_sides
    assign stored_sides = '0;
    assign kept_sums = sums;
  end
  column_array #(
      .LANES(LANES),
      .COLUMNS(COLUMNS),
      .GATES(GATES)
  ) multipliers (
      .clock, .weights, .vector, .active(issue_1), .first(first_1), .fresh(fresh_1), .turns(turns_1), .stored_sums(stored[LANES*32-1:0]),
      .stored_sides, .sums, .sides
  );
  partial_store #(
      .WIDTH(STORE_WIDTH),
      .DEPTH(STORE_DEPTH),
      .BLOCK(STORE_BLOCK)
  ) store (
      .clock, .write((SUMS != 0) ? sums_write : stores_at[STAGES]), .write_place((SUMS != 0) ? sums_place : note_store),
      .write_word((SUMS != 0) ? sums_word : kept_sums), .read_place(note[2][NOTE_BITS-1-:16]),
      .read_word(stored)
  );

  // --- From sums to states.
  logic tail_emits, tail_writes, tail_half;
  logic [15:0] tail_word, tail_place;
  logic [UNITS*16-1:0] tail_units;
  recurrence_tail #(
      .CELL(CELL),
      .GATES(GATES),
      .BIASES(BIASES),
      .SIGMOID(SIGMOID),
      .TANH(TANH),
      .TABLE(TABLE),
      .LANES(LANES),
      .UNITS(UNITS),
      .BIAS_DEPTH(BIAS_DEPTH),
      .KEPT_DEPTH(KEPT_DEPTH)
  ) tail (
      .clock, .reset_n, .sum_shift, .hidden_shift, .outside(!busy), .kept_write, .kept_address, .kept_data, .kept_read, .bias_write,
      .bias_address, .bias_data, .take(leaves_at[STAGES]), .take_sums(sums), .take_sides(sides), .take_beats(note_words),
      .take_first(note_first), .take_kept(note_kept), .take_hidden(note_state), .take_half(note_half), .take_valid(note_valid),
      .take_zero(note_zero), .hidden_write(tail_writes), .hidden_word(tail_word), .hidden_place(tail_place), .hidden_half(tail_half),
      .emits(tail_emits), .hidden(tail_units)
  );
  if (PROJECTION != 0) begin : g_projection
    unit_projection #(
        .FEATURES(PROJECTION),
        .UNITS(UNITS),
        .BEAT_WORDS(BEAT_WORDS),
        .DEPTH(PROJECTION_DEPTH)
    ) projection (
        .clock, .reset_n, .shift(projection_shift), .unit_words(stream_words), .weight_write(projection_write),
        .weight_bank(projection_bank), .weight_place(projection_place), .weight_beat(projection_beat), .in_emits(tail_emits),
        .in_write(tail_writes), .in_word(tail_word), .in_place(tail_place), .in_half(tail_half), .in_units(tail_units), .emits,
        .state_write, .state_word(state_write_word), .state_place(state_write_place), .state_half(state_write_half), .features(hidden)
    );
  end else begin : g_units_alone
    assign {emits, state_write, state_write_half} = {tail_emits, tail_writes, tail_half};
    assign {state_write_word, state_write_place} = {tail_word, tail_place};
    assign hidden = tail_units;
    logic unused_projection;
    assign unused_projection = &{1'b0, projection_shift, projection_write, projection_bank, projection_place, projection_beat};
  end
  always_ff @(posedge clock) begin
    if (!reset_n || start) done_units <= '0;
    else if (emits) done_units <= done_units + 32'(UNITS);
  end
  logic output_ready;
  deep_fifo #(
      .WIDTH(UNITS * 16),
      .DEPTH(OUTPUT_DEPTH)
  ) outputs (
      .clock, .clear(!reset_n), .in_tvalid(emits), .in_tready(output_ready), .in_tdata(hidden), .out_tvalid(h_tvalid),
      .out_tready(h_tready), .out_tdata(h_tdata)
  );
  assign output_leaves = h_tvalid && h_tready;
  assign busy = running || !drained;
  logic unused;
  assign unused = &{1'b0, output_ready};
endmodule
