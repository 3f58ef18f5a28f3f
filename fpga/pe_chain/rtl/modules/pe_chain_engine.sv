// FARNN's engine for the recurrent part of one direction of a layer: GATES units of CHAINS x PER_CHAIN elements that keep their weights, the
// gates forward and the gates back behind them (fpga/pe_chain/arithmetic computes the same in C++).
// `start` begins a pass of `steps` steps of `samples` samples that take turns. `back` says which: the same elements serve both, with other
// weights, which the host loads between passes in the order in which they are fed. in_* is a word of CHAINS units per product word: forward
// sums of W x by gate; back the layer's error, the step's record, lstm's c before. out_* likewise: forward h and the record, back errors
// of the sums, and gru's candidates. Steps come in the order in which they are made, so back in descending order.
// With PROJECTS, of lstm alone, a step is two products one behind the other, on the same elements: forward the recurrent one, whose gates give
// m, and the projection, which gives h; back the recurrent one transposed, which gives dh, and the projection transposed, whose gates give
// errors. in_* has forward words for the recurrent product alone; back those with the layer's error for the recurrent product, then those with
// the record, whose error is zero. out_* has forward words of m and the record, then of h; back of dh, then of errors. Of the projection
// unit u takes inputs u, GATES + u, 2 GATES + u and so on: those of one feed lie in one word of the state, and what the units give is added.
// An output of the last slice is divided over two neighbours of a chain where `divided` holds: the first takes inputs [0, feeds_last), the
// second the rest. A board of several makes some of a layer's outputs, from the state of all, of which a sample has `taken_words`: passes of
// one step, and, with PROJECTS, of one product, which `part` names, before which the state is written. Settings stand still while `busy`.
// With `continues` a pass goes on from the state that the one before left, or that was
// written between two: what a product takes, into both halves, and, where `state_keeps`, what units keep on the way that `back` says.
module pe_chain_engine #(
    parameter int ELEMENT = 16,
    parameter int CELL = 0,  // 0 lstm, 1 gru with the reset after the product, 2 vanilla_relu, 3 vanilla_tanh
    parameter int GATES = 4,
    parameter int BIASES = 4,
    parameter int SIGMOID = 0,
    parameter int TANH = 0,
    parameter TABLE = "sigmoid_table.hex",  // in fixed point, where a form is a table
    parameter SIGMOID_PIECES = "sigmoid_pieces.hex",
    parameter TANH_PIECES = "tangent_pieces.hex",
    parameter int CHAINS = 4,     // a power of two
    parameter int PER_CHAIN = 4,
    parameter int WORDS = 256,
    parameter int SAMPLES = 4,
    parameter int STATE_WORDS = 64,
    parameter int RECORD = (CELL == 0 && ELEMENT == 32) ? 6 : (CELL <= 1) ? 5 : 1,
    parameter int BEFORE = (CELL == 0 && ELEMENT == 16) ? 1 : 0,
    parameter int QUEUE_LOG2 = 6,
    parameter int PROJECTS = 0,  // as many chains as gates then, or more
    parameter int ULTRA = 0  // weights in UltraRAM
) (
    input  logic clock,
    input  logic reset_n,
    input  logic start,
    output logic busy,

    input logic        back,
    input logic        continues,
    input logic [15:0] steps,
    input logic [ 7:0] samples,
    input logic [ 7:0] full_slices,
    input logic        has_last,
    input logic        divided,
    input logic [15:0] feeds,        // inputs of a full slice
    input logic [15:0] feeds_last,
    input logic [ 7:0] depths_last,  // elements of a chain that have an output of the last slice
    input logic [ 7:0] words_last,   // product words of it
    input logic [15:0] words,        // of a step
    input logic [15:0] taken_words,  // of a sample's state
    input logic [ 7:0] projection_full_slices,  // the same of the projection
    input logic        projection_has_last,
    input logic        projection_divided,
    input logic [15:0] projection_feeds,
    input logic [15:0] projection_feeds_last,
    input logic [ 7:0] projection_depths_last,
    input logic [ 7:0] projection_words_last,
    input logic [15:0] projection_words,
    input logic [15:0] projection_taken_words,
    input logic [ 1:0] part,                  // of a step: 0 both products, 1 the recurrent one, 2 the projection
    input logic [15:0] projection_address,    // where its weights begin
    input logic [ 2:0] projection_units,      // that have an input at the last feed
    input logic [ 4:0] projected_shift,       // of a product without gates
    input logic [ 4:0] sum_shift,
    input logic [ 4:0] weight_shift,
    input logic [ 3:0] hidden_shift,

    input logic                                     load_write,
    input logic [                              2:0] load_unit,
    input logic [                              7:0] load_depth,
    input logic [                $clog2(WORDS)-1:0] load_address,
    input logic [               CHAINS*ELEMENT-1:0] load_data,
    input logic                                     bias_write,
    input logic [                             15:0] bias_address,
    input logic [             CHAINS*BIASES*32-1:0] bias_data,
    input logic                                     state_write,
    input logic [                             15:0] state_address,
    input logic                                     state_half,
    input logic                                     state_keeps,   // what units keep, too
    input logic [         GATES*CHAINS*ELEMENT-1:0] state_taken,   // [gate][lane]
    input logic [                    CHAINS*32-1:0] state_kept,

    input  logic                                   in_tvalid,
    output logic                                   in_tready,
    input  logic [(1+RECORD+BEFORE)*CHAINS*ELEMENT-1:0] in_tdata,
    output logic                                   out_tvalid,
    input  logic                                   out_tready,
    output logic [(1+RECORD)*CHAINS*ELEMENT-1:0] out_tdata
);
  localparam int IN_BITS = (1 + RECORD + BEFORE) * CHAINS * ELEMENT;
  localparam int OUT_BITS = (1 + RECORD) * CHAINS * ELEMENT;
  localparam int LANE_BITS = $clog2(CHAINS);
  localparam int ADDRESS_BITS = $clog2(WORDS);
  localparam int PLACE_BITS = $clog2(STATE_WORDS);
  localparam int SAMPLE_BITS = (SAMPLES > 1) ? $clog2(SAMPLES) : 1;
  localparam int QUEUE = 1 << QUEUE_LOG2;
  localparam logic [7:0] SETTLES = (ELEMENT == 16) ? 8'd0 : 8'd26;  // cycles that an element makes one sum of its lanes
  localparam int DEALT_BITS = (PROJECTS != 0) ? $clog2(GATES) : 0;
  // What gates take longer than sums without: what is fed behind them would else come out before.
  localparam logic [7:0] LONGER_FORWARD = (ELEMENT == 16) ? 8'd9 : 8'd47;
  localparam logic [7:0] LONGER_BACK = (ELEMENT == 16) ? 8'd8 : 8'd10;

  // --- Which input of which slice of which sample of which step is fed.
  logic running, phase, first_step;
  logic [15:0] step, feed, base, made[0:SAMPLES-1];
  logic [7:0] sample, slice, quiet;
  logic [ADDRESS_BITS-1:0] address;
  logic [15:0] in_reserved, out_reserved;
  logic [QUEUE_LOG2:0] in_count, out_count;

  // Which product is fed, and what it is told.
  logic projects;  // the projection
  logic begins_projected;
  assign begins_projected = (PROJECTS != 0) && part == 2'd2;
  logic [7:0] full_slices_here, depths_last_here, words_last_here;
  logic has_last_here, divided_here;
  logic [15:0] feeds_all, feeds_last_here;
  assign full_slices_here = projects ? projection_full_slices : full_slices;
  assign has_last_here = projects ? projection_has_last : has_last;
  assign divided_here = projects ? projection_divided : divided;
  assign feeds_all = projects ? projection_feeds : feeds;
  assign feeds_last_here = projects ? projection_feeds_last : feeds_last;
  assign depths_last_here = projects ? projection_depths_last : depths_last;
  assign words_last_here = projects ? projection_words_last : words_last;

  logic full, halves, is_last, ends_sample, issue, there, room, begins, takes_in;
  logic [15:0] feeds_here, second_index, needed, words_here;
  logic [7:0] depths_here;
  assign full = slice < full_slices_here;
  assign halves = !full && divided_here;
  assign feeds_here = full ? feeds_all : feeds_last_here;
  assign depths_here = full ? 8'(PER_CHAIN) : depths_last_here;
  assign words_here = full ? 16'(PER_CHAIN) : 16'(words_last_here);
  assign second_index = feed + feeds_last_here;
  assign needed = ((halves && second_index < feeds_all) ? second_index : feed) >> (projects ? LANE_BITS - DEALT_BITS : LANE_BITS);
  assign there = first_step || slice != 8'd0 || needed < made[sample[SAMPLE_BITS-1:0]];
  assign takes_in = !projects || back;
  assign room = feed != 16'd0 ||
      ((!takes_in || 16'(in_count) >= in_reserved + words_here) && out_reserved + words_here <= 16'(QUEUE));
  assign is_last = feed == feeds_here - 16'd1;
  assign issue = running && there && room && (!is_last || quiet == 8'd0);
  assign begins = issue && feed == 16'd0;
  assign ends_sample = is_last && slice == full_slices_here + 8'(has_last_here) - 8'd1;

  logic ends_product, ends_step, projects_next, write_state, pops_in, pops_out;
  logic [7:0] longer;
  assign ends_product = ends_sample && sample == samples - 8'd1;
  assign ends_step = ends_product && (PROJECTS == 0 || projects || part == 2'd1);
  assign projects_next = (PROJECTS != 0) && (ends_product ? !projects : projects);
  assign longer = (PROJECTS == 0 || !ends_product || projects != back) ? 8'd0 : back ? LONGER_BACK : LONGER_FORWARD;
  logic [7:0] write_sample;
  integer s;
  always_ff @(posedge clock) begin
    if (!reset_n) begin
      running <= 1'b0;
      phase <= 1'b0;
    end else if (start) begin
      running <= 1'b1;
      first_step <= 1'b1;
      {step, feed, base} <= '0;
      {sample, slice} <= '0;
      projects <= begins_projected;
      address <= begins_projected ? projection_address[ADDRESS_BITS-1:0] : '0;
    end else if (issue) begin
      feed <= is_last ? 16'd0 : feed + 16'd1;
      address <= !ends_sample ? address + ADDRESS_BITS'(1) : projects_next ? projection_address[ADDRESS_BITS-1:0] : '0;
      if (is_last) slice <= ends_sample ? 8'd0 : slice + 8'd1;
      if (ends_sample) begin
        sample <= ends_product ? 8'd0 : sample + 8'd1;
        base <= ends_product ? 16'd0 : base + (projects ? projection_taken_words : taken_words);
      end
      if (ends_product) begin
        phase <= !phase;
        projects <= projects_next;
        first_step <= 1'b0;
      end
      if (ends_step) begin
        step <= step + 16'd1;
        if (step == steps - 16'd1) running <= 1'b0;
      end
    end
    if (!reset_n) quiet <= '0;
    else if (issue && is_last) quiet <= (((depths_here << 1) > SETTLES) ? depths_here << 1 : SETTLES) + longer - 8'd1;
    else if (quiet != 8'd0) quiet <= quiet - 8'd1;
    // How much of a sample's state is there: what a step makes begins to count behind its first slice.
    for (s = 0; s < SAMPLES; s++)
      if (issue && is_last && slice == 8'd0 && sample == 8'(s)) made[s] <= '0;
      else if (write_state && write_sample == 8'(s)) made[s] <= made[s] + 16'd1;
    if (!reset_n) begin
      in_reserved <= '0;
      out_reserved <= '0;
    end else begin
      in_reserved <= in_reserved + ((begins && takes_in) ? words_here : 16'd0) - 16'(pops_in);
      out_reserved <= out_reserved + (begins ? words_here : 16'd0) - 16'(pops_out);
    end
  end
  assign busy = running || out_reserved != 16'd0;

  // --- The state, twice: two inputs a cycle. Its halves take turns by products.
  logic [GATES*CHAINS*ELEMENT-1:0] state_data, word_a, word_b;
  logic [15:0] write_place;
  logic write_half;
  (* ram_style = "block" *) logic [GATES*CHAINS*ELEMENT-1:0] state_a[0:(2<<PLACE_BITS)-1];
  (* ram_style = "block" *) logic [GATES*CHAINS*ELEMENT-1:0] state_b[0:(2<<PLACE_BITS)-1];
  logic [15:0] place_a, place_b;
  logic [PLACE_BITS:0] store_place;
  logic [GATES*CHAINS*ELEMENT-1:0] store_data;
  assign store_place = state_write ? {state_half, state_address[PLACE_BITS-1:0]} : {write_half, write_place[PLACE_BITS-1:0]};
  assign store_data = state_write ? state_taken : state_data;
  assign place_a = base + (feed >> (projects ? LANE_BITS - DEALT_BITS : LANE_BITS));
  assign place_b = base + (second_index >> (projects ? LANE_BITS - DEALT_BITS : LANE_BITS));
  always_ff @(posedge clock) begin
    if (write_state || state_write) begin
      state_a[store_place] <= store_data;
      state_b[store_place] <= store_data;
    end
    word_a <= state_a[{phase, place_a[PLACE_BITS-1:0]}];
    word_b <= state_b[{phase, place_b[PLACE_BITS-1:0]}];
  end
  logic unused_places;
  assign unused_places = &{1'b0, place_a, place_b, write_place, state_address, projection_address};

  // Which accumulator of an element takes the product: inputs are two halves, each in turn over eight lanes.
  logic [15:0] half_begins, in_half;
  logic second_half;
  assign half_begins = (feeds_all + 16'd1) >> 1;
  assign second_half = !halves && feed >= half_begins;
  assign in_half = second_half ? feed - half_begins : feed;
  logic [4+5+8+ADDRESS_BITS-1:0] token_1, token_2;
  logic [LANE_BITS-1:0] lane_a, lane_b;
  logic zero_1, behind_1, dealt_1, last_a, last_b;
  logic [GATES*ELEMENT-1:0] elements, seconds;
  integer g;
  always_ff @(posedge clock) begin
    token_1 <= {issue && reset_n, feed == 16'd0, is_last, halves, in_half < 16'd8, second_half, in_half[2:0], depths_here, address};
    token_2 <= token_1;
    lane_a <= LANE_BITS'(projects ? feed << DEALT_BITS : feed);
    lane_b <= LANE_BITS'(projects ? second_index << DEALT_BITS : second_index);
    zero_1 <= first_step && !continues;
    behind_1 <= second_index >= feeds_all;
    dealt_1 <= projects;
    last_a <= projects && feed == feeds_all - 16'd1;
    last_b <= projects && second_index == feeds_all - 16'd1;
    for (g = 0; g < GATES; g++) begin
      elements[g*ELEMENT+:ELEMENT] <= (zero_1 || (last_a && 3'(g) >= projection_units)) ? '0 :
          word_a[(((back && !dealt_1)?g:0)*CHAINS+32'(lane_a)+(dealt_1?g:0))*ELEMENT+:ELEMENT];
      seconds[g*ELEMENT+:ELEMENT] <= (zero_1 || behind_1 || (last_b && 3'(g) >= projection_units)) ? '0 :
          word_b[(((back && !dealt_1)?g:0)*CHAINS+32'(lane_b)+(dealt_1?g:0))*ELEMENT+:ELEMENT];
    end
  end

  // --- The units.
  logic [GATES-1:0] result_valid;
  logic [GATES*CHAINS*32-1:0] results;
  genvar n;
  for (n = 0; n < GATES; n++) begin : g_mvm
    mvm_unit #(
        .ELEMENT(ELEMENT),
        .CHAINS(CHAINS),
        .PER_CHAIN(PER_CHAIN),
        .WORDS(WORDS),
        .ULTRA(ULTRA)
    ) mvm (
        .clock,
        .load_write(load_write && load_unit == 3'(n)),
        .load_depth,
        .load_address,
        .load_data,
        .valid(token_2[ADDRESS_BITS+16]),
        .first(token_2[ADDRESS_BITS+15]),
        .last(token_2[ADDRESS_BITS+14]),
        .divided(token_2[ADDRESS_BITS+13]),
        .lane(token_2[ADDRESS_BITS+8+:5]),
        .depths(token_2[ADDRESS_BITS+:8]),
        .address(token_2[ADDRESS_BITS-1:0]),
        .element(elements[n*ELEMENT+:ELEMENT]),
        .second(seconds[n*ELEMENT+:ELEMENT]),
        .result_valid(result_valid[n]),
        .results(results[n*CHAINS*32+:CHAINS*32])
    );
  end
  logic unused_valid;
  assign unused_valid = &{1'b0, result_valid};

  // --- Results as they come back: halves of divided outputs are added.
  logic head_valid, odd, head_phase, head_first, head_divided, head_zero;
  logic head_projects, head_gated, slice_projects;  // which product has come back
  logic [15:0] head_word, head_words, head_step, head_base, slice_word;
  logic [7:0] head_sample, head_slice, slice_sample, head_full_slices, head_words_last;
  logic head_has_last;
  logic [GATES*CHAINS*32-1:0] held, head_sums;
  integer l;
  assign head_full_slices = slice_projects ? projection_full_slices : full_slices;
  assign head_has_last = slice_projects ? projection_has_last : has_last;
  assign head_words_last = slice_projects ? projection_words_last : words_last;
  assign head_words = head_projects ? projection_words : words;
  assign head_gated = PROJECTS == 0 || head_projects == back;
  assign head_divided = (slice_projects ? projection_divided : divided) && head_slice == head_full_slices;
  logic whole;
  assign whole = result_valid[0] && (!head_divided || odd) && reset_n;
  if (ELEMENT == 16) begin : g_fixed_sums
    integer w;
    always_ff @(posedge clock) begin
      head_valid <= whole;
      for (w = 0; w < GATES * CHAINS; w++)
        head_sums[w*32+:32] <= results[w*32+:32] + (head_divided ? held[w*32+:32] : 32'd0);
    end
  end else begin : g_real_sums
    genvar w;
    delayed #(.WIDTH(1), .CYCLES(4)) whole_later (.clock, .value(whole), .later(head_valid));
    for (w = 0; w < GATES * CHAINS; w++) begin : g_sum
      fp32_add halves_sum (
          .clock, .a(head_divided ? held[w*32+:32] : 32'd0), .b(results[w*32+:32]), .y(head_sums[w*32+:32])
      );
    end
  end
  always_ff @(posedge clock) begin
    for (l = 0; l < GATES * CHAINS; l++)
      if (!odd) held[l*32+:32] <= results[l*32+:32];
    if (!reset_n || start) odd <= 1'b0;
    else if (result_valid[0]) odd <= head_divided && !odd;
    if (!reset_n) begin
      head_phase <= 1'b0;
    end
    if (start) begin
      {head_word, head_step, head_base} <= '0;
      {head_sample} <= '0;
      head_projects <= begins_projected;
      head_first <= 1'b1;
    end else if (head_valid) begin
      head_word <= (head_word == head_words - 16'd1) ? 16'd0 : head_word + 16'd1;
      if (head_word == head_words - 16'd1) begin
        head_sample <= (head_sample == samples - 8'd1) ? 8'd0 : head_sample + 8'd1;
        head_base <= (head_sample == samples - 8'd1) ? 16'd0 : head_base + head_words;
        if (head_sample == samples - 8'd1) begin
          head_projects <= (PROJECTS != 0) && !head_projects;
          head_phase <= !head_phase;
          if (PROJECTS == 0 || head_projects) begin
            head_step <= head_step + 16'd1;
            head_first <= 1'b0;
          end
        end
      end
    end
    // Slices as results come.
    if (!reset_n || start) begin
      head_slice <= '0;
      slice_word <= '0;
      slice_sample <= '0;
      slice_projects <= begins_projected;
    end else if (whole) begin
      slice_word <= slice_word + 16'd1;
      if (slice_word == ((head_slice < head_full_slices) ? 16'(PER_CHAIN) : 16'(head_words_last)) - 16'd1) begin
        slice_word <= '0;
        head_slice <= (head_slice == head_full_slices + 8'(head_has_last) - 8'd1) ? 8'd0 : head_slice + 8'd1;
        if (head_slice == head_full_slices + 8'(head_has_last) - 8'd1) begin
          slice_sample <= (slice_sample == samples - 8'd1) ? 8'd0 : slice_sample + 8'd1;
          if (slice_sample == samples - 8'd1) slice_projects <= (PROJECTS != 0) && !slice_projects;
        end
      end
    end
  end
  assign head_zero = head_first && !continues;
  logic unused_step;
  assign unused_step = &{1'b0, head_step, out_count};

  // --- What comes in, and the gates.
  logic in_waits;
  logic [IN_BITS-1:0] in_word;
  assign pops_in = head_valid && (!head_projects || back);
  stream_fifo #(
      .WIDTH(IN_BITS),
      .DEPTH_LOG2(QUEUE_LOG2)
  ) in_queue (
      .clock,
      .clear(!reset_n),
      .in_valid(in_tvalid),
      .in_ready(in_tready),
      .in_data(in_tdata),
      .out_valid(in_waits),
      .out_ready(pops_in),
      .out_data(in_word),
      .count(in_count)
  );
  logic unused_waits;
  assign unused_waits = &{1'b0, in_waits};

  logic forward_made, back_made, forward_half, back_half;
  logic [15:0] forward_place, back_place;
  logic [CHAINS*ELEMENT-1:0] hidden, candidates;
  logic [RECORD*CHAINS*ELEMENT-1:0] record;
  logic [GATES*CHAINS*ELEMENT-1:0] taken, errors;
  if (ELEMENT == 16) begin : g_fixed_gates
    gates_forward #(
        .CELL(CELL), .GATES(GATES), .BIASES(BIASES), .SIGMOID(SIGMOID), .TANH(TANH), .TABLE(TABLE), .CHAINS(CHAINS), .RECORD(RECORD),
        .STATE_WORDS(STATE_WORDS)
    ) gates_of_forward (
        .clock, .reset_n, .sum_shift, .hidden_shift, .bias_write, .bias_address, .bias_data, .kept_write(state_write && state_keeps && !back),
        .kept_address(state_address), .kept_data(state_kept), .take(head_valid && head_gated && !back), .products(head_sums),
        .inputs(in_word[GATES*CHAINS*ELEMENT-1:0]), .word(head_word), .place(head_base + head_word), .half(!head_phase), .zero(head_zero),
        .made(forward_made), .made_place(forward_place), .made_half(forward_half), .hidden, .record
    );
    gates_back #(
        .CELL(CELL), .GATES(GATES), .SIGMOID(SIGMOID), .TANH(TANH), .TABLE(TABLE), .CHAINS(CHAINS), .RECORD(RECORD), .BEFORE(BEFORE),
        .STATE_WORDS(STATE_WORDS)
    ) gates_of_back (
        .clock, .reset_n, .weight_shift, .hidden_shift, .kept_write(state_write && state_keeps && back), .kept_address(state_address), .kept_data(state_kept),
        .take(head_valid && head_gated && back), .products(head_sums), .inputs(in_word),
        .place(head_base + head_word), .half(!head_phase), .zero(head_zero), .made(back_made), .made_place(back_place), .made_half(back_half),
        .taken, .errors, .candidates
    );
  end else begin : g_real_gates
    gates_forward_fp32 #(
        .CELL(CELL), .GATES(GATES), .BIASES(BIASES), .SIGMOID_PIECES(SIGMOID_PIECES), .TANH_PIECES(TANH_PIECES), .CHAINS(CHAINS),
        .RECORD(RECORD), .STATE_WORDS(STATE_WORDS)
    ) gates_of_forward (
        .clock, .reset_n, .bias_write, .bias_address, .bias_data, .kept_write(state_write && state_keeps && !back), .kept_address(state_address),
        .kept_data(state_kept), .take(head_valid && head_gated && !back), .products(head_sums), .inputs(in_word[GATES*CHAINS*ELEMENT-1:0]),
        .word(head_word), .place(head_base + head_word), .half(!head_phase), .zero(head_zero), .made(forward_made),
        .made_place(forward_place), .made_half(forward_half), .hidden, .record
    );
    gates_back_fp32 #(
        .CELL(CELL), .GATES(GATES), .CHAINS(CHAINS), .RECORD(RECORD), .STATE_WORDS(STATE_WORDS)
    ) gates_of_back (
        .clock, .reset_n, .kept_write(state_write && state_keeps && back), .kept_address(state_address), .kept_data(state_kept),
        .take(head_valid && head_gated && back), .products(head_sums), .inputs(in_word), .place(head_base + head_word), .half(!head_phase),
        .zero(head_zero), .made(back_made), .made_place(back_place), .made_half(back_half), .taken, .errors, .candidates
    );
    logic unused_shifts;
    assign unused_shifts = &{1'b0, sum_shift, weight_shift, hidden_shift};
  end

  logic projected_made, projected_half;
  logic [15:0] projected_place;
  logic [CHAINS*ELEMENT-1:0] projected;
  if (PROJECTS != 0) begin : g_projects
    logic [CHAINS*ELEMENT-1:0] given;
    assign given = back ? in_word[CHAINS*ELEMENT-1:0] : '0;
    projected_sums #(
        .ELEMENT(ELEMENT), .CHAINS(CHAINS)
    ) sums_of_projection (
        .clock, .reset_n, .shift(projected_shift), .take(head_valid && !head_gated), .products(head_sums),
        .given, .place(head_base + head_word), .half(!head_phase), .made(projected_made),
        .made_place(projected_place), .made_half(projected_half), .elements(projected)
    );
  end else begin : g_projects_not
    assign projected_made = 1'b0;
    assign projected_half = 1'b0;
    assign projected_place = '0;
    assign projected = '0;
    logic unused_projection;
    assign unused_projection = &{1'b0, projected_shift, head_gated};
  end

  // --- What is made: to the state, and out.
  logic [15:0] made_word, write_words;
  logic write_projects;
  logic [CHAINS*ELEMENT-1:0] of_state;
  assign write_state = projected_made || (back ? back_made : forward_made);
  assign write_place = projected_made ? projected_place : back ? back_place : forward_place;
  assign write_half = projected_made ? projected_half : back ? back_half : forward_half;
  assign write_words = write_projects ? projection_words : words;
  assign of_state = projected_made ? projected : hidden;
  if (GATES > 1) begin : g_wide
    assign state_data = (back && !projected_made) ? taken : {{((GATES - 1) * CHAINS * ELEMENT) {1'b0}}, of_state};
  end else begin : g_narrow
    assign state_data = back ? taken : of_state;
  end
  always_ff @(posedge clock)
    if (!reset_n || start) begin
      made_word <= '0;
      write_sample <= '0;
      write_projects <= begins_projected;
    end else if (write_state) begin
      made_word <= (made_word == write_words - 16'd1) ? 16'd0 : made_word + 16'd1;
      if (made_word == write_words - 16'd1) begin
        write_sample <= (write_sample == samples - 8'd1) ? 8'd0 : write_sample + 8'd1;
        if (write_sample == samples - 8'd1) write_projects <= (PROJECTS != 0) && !write_projects;
      end
    end
  localparam int BACK_BITS = (GATES + 1) * CHAINS * ELEMENT;
  logic [OUT_BITS-1:0] out_word;
  assign out_word = projected_made ? OUT_BITS'(projected) : back ? OUT_BITS'({candidates, errors}) : {record, hidden};
  logic out_ready;
  assign pops_out = out_tvalid && out_tready;
  stream_fifo #(
      .WIDTH(OUT_BITS),
      .DEPTH_LOG2(QUEUE_LOG2)
  ) out_queue (
      .clock,
      .clear(!reset_n),
      .in_valid(write_state),
      .in_ready(out_ready),
      .in_data(out_word),
      .out_valid(out_tvalid),
      .out_ready(out_tready),
      .out_data(out_tdata),
      .count(out_count)
  );
  logic unused_ready;
  assign unused_ready = &{1'b0, out_ready, BACK_BITS[0]};
endmodule
