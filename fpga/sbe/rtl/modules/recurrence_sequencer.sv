// The order of everything: which chunk of which block meets which vector and group of rows, a chunk a cycle where nothing has to wait.
// Jobs of a batch: each block of x alone with all vectors; then the walk over the steps with the blocks of h, all of them at once
// where they are resident, else each of them in turn for every step.
// A chunk waits for its block and its vector's slot, for the state that it multiplies, for sums that are still on their way into the
// store (`store_distance` visits lie between a sum's store and its return), for the tail to be free and for room in the output.
// Places are running sums; nothing is multiplied.
module recurrence_sequencer #(
    parameter int SLOTS = 2,
    parameter int STREAMS = 4,   // at most
    parameter int COLUMNS = 1,
    parameter int SUMS = 0,      // of x, made elsewhere, are there before a visit
    parameter int PROJECTS = 0,  // a vector's words leave when all its groups are done
    parameter int OUTPUT_DEPTH = 64
) (
    input logic clock,
    input logic reset_n,
    input logic start,

    input logic [15:0] batches,
    input logic [15:0] streams,
    input logic [15:0] steps,
    input logic [15:0] groups,
    input logic [15:0] input_jobs,
    input logic [15:0] block_chunks,
    input logic [15:0] input_last_chunks,  // of the last block of x alone
    input logic [15:0] walk_parts,         // blocks with columns of h, or one that is pinned
    input logic [15:0] walk_last_chunks,   // of the last of them
    input logic [15:0] lead,               // chunks of x in the first of them
    input logic        resident,
    input logic        walk_pinned,
    input logic        stateful,           // the state from before is there; else every batch begins with zeros
    input logic [15:0] units,              // of the state
    input logic [31:0] state_units,        // of all streams
    input logic [15:0] group_words,        // of UNITS units
    input logic [15:0] last_group_words,
    input logic [15:0] feature_words,      // of a vector that is projected
    input logic [15:0] stream_words,       // of UNITS units
    input logic [15:0] stream_places,      // of a stream in the memory of states
    input logic [15:0] slot_words,
    input logic [15:0] pinned_place,
    input logic [15:0] input_slot_words,
    input logic [ 1:0] input_store_distance,  // 3: three and more
    input logic [ 1:0] walk_store_distance,

    input logic        length_write,
    input logic [15:0] length_stream,
    input logic [15:0] length,

    input  logic [15:0] loaded,
    input  logic        pinned_loaded,
    output logic [15:0] released,
    input  logic [15:0] inputs_loaded,
    output logic [15:0] inputs_used,
    input  logic [15:0] sums_loaded,
    input  logic [31:0] done_units,
    input  logic        output_leaves,
    output logic        running,
    output logic        drained,  // all that was computed has left

    // A chunk, and where all it needs is.
    output logic        issue,
    output logic [15:0] weight_place,
    output logic        takes_state,
    output logic        takes_zeros,
    output logic [15:0] input_place,
    output logic        state_half,
    output logic [15:0] state_place,
    output logic [15:0] state_chunk,
    output logic        first,
    output logic        fresh,
    output logic        turns,
    output logic        stores,   // the visit's last chunk: its sums go to the store,
    output logic        leaves,   // or to the tail
    output logic [15:0] store_place,
    output logic [15:0] tail_words,
    output logic [15:0] tail_first,
    output logic [15:0] tail_kept,
    output logic        tail_valid,
    output logic        tail_zero
);
  localparam int STREAM_BITS = (STREAMS > 1) ? $clog2(STREAMS) : 1;
  localparam int PART_BITS = $clog2(SLOTS);

  logic in_walk;
  logic [15:0] batch, job, first_part, part, step, stream, group, chunk;
  logic [15:0] ring;
  logic [15:0] weights_at[0:SLOTS-1];
  logic [15:0] inputs_at, vector_inputs_at;
  logic second_slot;
  logic [15:0] visit, step_visit;
  logic signed [31:0] need, step_need;
  logic [15:0] hidden_chunk, job_hidden_chunk;
  logic [15:0] stream_place, kept_place, group_first;
  logic [STREAMS-1:0] half;
  logic [15:0] lengths[0:STREAMS-1];
  logic stored_1, stored_2;
  logic [15:0] tail_wait;
  logic [15:0] room, leaving_words;

  logic [15:0] parts, chunks, valid_steps;
  logic [STREAM_BITS-1:0] stream_bits;
  logic [PART_BITS-1:0] part_bits;
  logic ends_part, ends_visit, ends_vector, ends_round, ends_job, ends_walk, ends_batch, reaches_tail, uses_inputs, releases_inputs;
  assign stream_bits = STREAM_BITS'(stream);
  assign part_bits = PART_BITS'(part - first_part);
  assign parts = (in_walk && resident) ? walk_parts : 16'd1;
  assign chunks = !in_walk ? ((job + 16'd1 == input_jobs) ? input_last_chunks : block_chunks)
                           : ((part + 16'd1 == walk_parts) ? walk_last_chunks : block_chunks);
  assign takes_state = in_walk && (part != 16'd0 || chunk >= lead);
  assign uses_inputs = !in_walk || (first_part == 16'd0 && lead != 16'd0);
  assign first = part == first_part && chunk == 16'd0;
  assign fresh = (SUMS != 0) ? 1'b0 : !in_walk ? job == 16'd0 : (first_part == 16'd0 && input_jobs == 16'd0);
  assign ends_part = chunk + 16'd1 == chunks;
  assign ends_visit = ends_part && part + 16'd1 == first_part + parts;
  assign reaches_tail = in_walk && first_part + parts == walk_parts;
  assign ends_vector = ends_visit && group + 16'd1 == groups;
  assign ends_round = ends_vector && stream + 16'd1 == streams;
  assign ends_job = ends_round && ((in_walk && !resident) || step + 16'd1 == steps);
  assign ends_walk = in_walk && ends_job && part + 16'd1 == walk_parts;
  assign ends_batch = ends_walk && step + 16'd1 == steps;
  assign releases_inputs = (!in_walk && ends_job) || (ends_batch && lead != 16'd0);

  // --- May it go?
  logic weights_there, inputs_there, state_there, sums_there, tail_there, room_there, sums_came;
  logic [15:0] sums_taken;
  assign sums_came = SUMS == 0 || !first || sums_loaded != sums_taken;
  logic [1:0] distance;
  assign distance = in_walk ? walk_store_distance : input_store_distance;
  assign weights_there = (in_walk && walk_pinned) ? pinned_loaded : 16'(loaded - released) >= parts;
  assign inputs_there = !uses_inputs || inputs_loaded != inputs_used;
  assign state_there = !takes_state || $signed(done_units) >= need + $signed(32'(COLUMNS) * (32'(hidden_chunk) + 32'd1));
  assign sums_there = !first || fresh || !((distance == 2'd1 && (stored_1 || stored_2)) || (distance == 2'd2 && stored_1 && stored_2));
  assign tail_there = !leaves || tail_wait == 16'd0;
  assign leaving_words = (PROJECTS == 0) ? tail_words : (group + 16'd1 == groups) ? feature_words : 16'd0;
  assign room_there = !(first && reaches_tail) || room >= leaving_words;
  assign issue = running && weights_there && inputs_there && state_there && sums_there && tail_there && room_there && sums_came;

  assign weight_place = weights_at[part_bits];
  assign takes_zeros = tail_zero;
  assign input_place = inputs_at;
  assign state_half = half[stream_bits];
  assign state_place = stream_place;
  assign state_chunk = hidden_chunk;
  assign turns = takes_state && hidden_chunk == 16'd0;
  assign stores = ends_visit && !reaches_tail;
  assign leaves = ends_visit && reaches_tail;
  assign store_place = visit;
  assign tail_words = (group + 16'd1 == groups) ? last_group_words : group_words;
  assign tail_first = group_first;
  assign tail_kept = kept_place;
  assign valid_steps = lengths[stream_bits];
  assign tail_valid = step < valid_steps;
  assign tail_zero = !stateful && step == 16'd0;
  logic unused_stream;
  assign unused_stream = &{1'b0, length_stream};
  always_ff @(posedge clock) if (length_write) lengths[STREAM_BITS'(length_stream)] <= length;

  // --- Where slots begin.
  logic [15:0] slot_begin[0:SLOTS-1];
  logic [15:0] ring_after;
  logic next_pinned;
  logic [15:0] place_of_slot;
  always_comb begin
    place_of_slot = '0;
    for (int slot = 0; slot < SLOTS; slot++) begin
      slot_begin[slot] = place_of_slot;
      place_of_slot = place_of_slot + slot_words;
    end
  end
  logic [15:0] ring_sum;
  assign ring_sum = ring + parts;
  assign ring_after = (!ends_job || (in_walk && walk_pinned)) ? ring : (ring_sum >= 16'(SLOTS)) ? ring_sum - 16'(SLOTS) : ring_sum;
  // Of the job that follows this chunk.
  assign next_pinned = walk_pinned &&
      (ends_batch ? input_jobs == 16'd0 : in_walk || (ends_job && job + 16'd1 == input_jobs));

  logic [15:0] inputs_after;
  assign inputs_after = takes_state ? inputs_at : inputs_at + 16'd1;
  logic [15:0] begin_after[0:SLOTS-1];
  genvar s;
  for (s = 0; s < SLOTS; s++) begin : g_begin
    logic [15:0] place, slot;
    assign place = ring_after + 16'(s);
    assign slot = (place >= 16'(SLOTS)) ? place - 16'(SLOTS) : place;
    assign begin_after[s] = slot_begin[slot[PART_BITS-1:0]];
    logic unused_slot;
    assign unused_slot = &{1'b0, slot};
  end
  integer i;
  always_ff @(posedge clock) begin
    if (!reset_n) begin
      running <= 1'b0;
      half <= '0;
    end else if (start) begin
      running <= 1'b1;
      in_walk <= input_jobs == 16'd0;
      {batch, job, first_part, part, step, stream, group, chunk} <= '0;
      ring <= '0;
      for (i = 0; i < SLOTS; i++) weights_at[i] <= slot_begin[i];
      if (input_jobs == 16'd0 && walk_pinned) weights_at[0] <= pinned_place;
      {inputs_at, vector_inputs_at} <= '0;
      second_slot <= 1'b0;
      {visit, step_visit} <= '0;
      need <= -$signed(state_units);
      step_need <= -$signed(state_units);
      {hidden_chunk, job_hidden_chunk} <= '0;
      {stream_place, kept_place, group_first} <= '0;
      {stored_1, stored_2} <= '0;
      tail_wait <= '0;
      {released, inputs_used, sums_taken} <= '0;
    end else begin
      stored_1 <= issue && stores;
      stored_2 <= stored_1;
      if (issue && leaves) tail_wait <= tail_words - 16'd1;
      else if (tail_wait != 16'd0) tail_wait <= tail_wait - 16'd1;
      if (issue) begin
        weights_at[part_bits] <= weights_at[part_bits] + 16'd1;
        inputs_at <= inputs_after;
        if (first) sums_taken <= sums_taken + 16'd1;
        if (takes_state) hidden_chunk <= hidden_chunk + 16'd1;
        chunk <= ends_part ? 16'd0 : chunk + 16'd1;
        if (ends_part) part <= part + 16'd1;
        if (ends_visit) begin
          part <= first_part;
          hidden_chunk <= job_hidden_chunk;
          visit <= visit + 16'd1;
          group <= group + 16'd1;
          group_first <= group_first + group_words;
          if (!ends_vector) inputs_at <= vector_inputs_at;
        end
        if (ends_vector) begin
          group <= '0;
          group_first <= '0;
          vector_inputs_at <= inputs_after;
          for (i = 0; i < SLOTS; i++) weights_at[i] <= begin_after[i];
          if (next_pinned) weights_at[0] <= pinned_place;
          if (in_walk) need <= need + 32'(units);
          if (leaves && (tail_valid || tail_zero)) half[stream_bits] <= !half[stream_bits];
          stream <= stream + 16'd1;
          stream_place <= stream_place + stream_places;
          kept_place <= kept_place + stream_words;
        end
        if (ends_round) begin
          stream <= '0;
          stream_place <= '0;
          kept_place <= '0;
          step <= step + 16'd1;
        end
        if (ends_job) begin
          ring <= ring_after;
          if (!(in_walk && walk_pinned)) released <= released + parts;
          if (!in_walk) begin
            step <= '0;
            visit <= '0;
            job <= job + 16'd1;
            in_walk <= job + 16'd1 == input_jobs;
          end else if (!ends_walk) begin  // the next block of h, with the same step
            first_part <= first_part + 16'd1;
            part <= first_part + 16'd1;
            step <= step;
            visit <= step_visit;
            need <= step_need;
            hidden_chunk <= hidden_chunk + 16'd1;
            job_hidden_chunk <= hidden_chunk + 16'd1;
          end else begin
            first_part <= '0;
            part <= '0;
            {hidden_chunk, job_hidden_chunk} <= '0;
            step_visit <= visit + 16'd1;
            step_need <= need + 32'(units);
          end
        end
        if (releases_inputs) begin
          inputs_used <= inputs_used + 16'd1;
          second_slot <= !second_slot;
          inputs_at <= second_slot ? 16'd0 : input_slot_words;
          vector_inputs_at <= second_slot ? 16'd0 : input_slot_words;
        end
        if (ends_batch) begin
          {step, job, visit, step_visit} <= '0;
          in_walk <= input_jobs == 16'd0;
          batch <= batch + 16'd1;
          if (batch + 16'd1 == batches) running <= 1'b0;
        end
      end
    end
  end

  // Words that the output can still take, those on their way counted.
  assign drained = room == 16'(OUTPUT_DEPTH);
  always_ff @(posedge clock) begin
    if (!reset_n) room <= 16'(OUTPUT_DEPTH);
    else room <= room - ((issue && first && reaches_tail) ? leaving_words : 16'd0) + 16'(output_leaves);
  end
  logic unused_words;
  assign unused_words = &{1'b0, feature_words};
endmodule
