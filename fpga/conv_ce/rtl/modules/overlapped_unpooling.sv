// The way back through large windows that overlap: every element of the map before gets the errors of all windows that it lies in, or of
// those whose winner it is, added and rounded once. See unpooling_unit.sv, which makes the words.
//
//   maximum   a word has per lane the place that won and its error
//   average   a word has per lane the product of the error with the reciprocal
//
// Words come row - group - column, and wait in a window_memory for the rows of the map that their windows lie in. A row of the map leaves
// group by group, at an element per cycle: in every row the windows over its first pixel are taken first, a cycle each but the last one's,
// then one whenever a window begins. Those that a pixel may lie in are at hand: their words above each other are read at once, and of a
// maximum those whose winner lies in another row are left out; of an average there is only their sum.
module overlapped_unpooling #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 9,
    parameter int POOL_STRIDE = 2,
    parameter int POOL_COLUMNS = 9,
    parameter int COLUMN_STRIDE = 2,
    parameter int AVERAGE = 0,
    parameter int ROW_BANKS_LOG2 = 3,     // more than the windows that a pixel lies in from top to bottom
    parameter int COLUMN_BANKS_LOG2 = 1,
    parameter int ADDRESS_BITS = 6,
    parameter int PLACE_BITS = 7,
    parameter int ELEMENT_BITS = 16,
    parameter int LANE_BITS = 23
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] groups,
    input logic [15:0] first_step,   // pad / POOL_STRIDE
    input logic [15:0] first_phase,  // pad mod POOL_STRIDE
    input logic [15:0] column_pad,

    input  logic                       word_valid,
    output logic                       word_ready,
    input  logic [LANES*LANE_BITS-1:0] word,

    output logic                          raw_error_tvalid,
    input  logic                          raw_error_tready,
    output logic [LANES*ELEMENT_BITS-1:0] raw_error_tdata
);
  localparam int SPAN = (POOL_KERNEL + POOL_STRIDE - 1) / POOL_STRIDE;  // windows that a pixel lies in
  localparam int COLUMN_SPAN = (POOL_COLUMNS + COLUMN_STRIDE - 1) / COLUMN_STRIDE;
  localparam int COLUMN_BITS = (POOL_COLUMNS > 1) ? $clog2(POOL_COLUMNS) : 1;
  localparam int TERM_BITS = (AVERAGE != 0) ? LANE_BITS : ELEMENT_BITS;
  localparam int COLUMN_SUM_BITS = TERM_BITS + $clog2(SPAN) + 1;
  localparam int SUM_BITS = COLUMN_SUM_BITS + $clog2(COLUMN_SPAN) + 1;
  // What is at hand of a window's word in a lane: its error, where in the row its winner lies, and whether it does. Or their sum.
  localparam int TAKEN_BITS = ELEMENT_BITS + COLUMN_BITS + 1;
  localparam int HELD_BITS = (AVERAGE != 0) ? COLUMN_SUM_BITS : SPAN * TAKEN_BITS;
  localparam int FIFO_LOG2 = 3;

  // --- Words come in.
  logic line_write;
  logic [ROW_BANKS_LOG2-1:0] line_write_row;
  logic [COLUMN_BANKS_LOG2-1:0] line_write_column;
  logic [ADDRESS_BITS-1:0] line_write_address, group_address, columns_per_bank;
  logic [15:0] rows_written, rows_released;
  row_writer #(
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) writer (
      .clock,
      .clear,
      .height(out_height),
      .width(out_width),
      .groups,
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .valid(word_valid),
      .ready(word_ready),
      .rows_released,
      .rows_written,
      .write_enable(line_write),
      .write_row(line_write_row),
      .write_column(line_write_column),
      .write_address(line_write_address)
  );

  // --- A step: a row of windows is taken from above each other, an element leaves, or both.
  logic room_ready, row_ready, advance, before_row, begins, starts, last_column, last_group, last_row, last_of_stride;
  logic [15:0] sample_first_row, row, column, group, row_phase, newest, top, rows_needed, next_window, next_left, newest_left, column_phase;
  logic [PLACE_BITS-1:0] row_place, first_place;  // row_phase x POOL_COLUMNS
  always_comb begin  // first_phase x POOL_COLUMNS, without a multiplier
    first_place = '0;
    for (int bit_of_phase = 0; bit_of_phase < PLACE_BITS && bit_of_phase < 16; bit_of_phase++)
      if (first_phase[bit_of_phase]) first_place = first_place + (PLACE_BITS'(POOL_COLUMNS) << bit_of_phase);
  end
  assign columns_per_bank = ADDRESS_BITS'((out_width + 16'((1 << COLUMN_BANKS_LOG2) - 1)) >> COLUMN_BANKS_LOG2);
  assign top = newest - 16'(SPAN - 1);
  assign rows_needed = (newest < out_height) ? newest + 16'd1 : out_height;
  assign row_ready = !clear && (rows_written - (sample_first_row + rows_needed)) < 16'h8000;
  assign rows_released = sample_first_row + (top[15] ? 16'd0 : (top < out_height) ? top : out_height);
  assign advance = row_ready && room_ready;
  assign before_row = $signed(next_left) <= -$signed(16'(COLUMN_STRIDE));  // the window after it begins no later than the row
  assign begins = $signed(next_left) <= $signed(column);
  assign starts = next_window == 16'd0;
  assign newest_left = begins ? next_left : next_left - 16'(COLUMN_STRIDE);
  assign column_phase = column - newest_left;
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  assign last_row = row == height - 16'd1;
  assign last_of_stride = row_phase == 16'(POOL_STRIDE - 1);
  always_ff @(posedge clock) begin
    if (clear) begin
      {sample_first_row, row, column, group, next_window, group_address} <= '0;
      row_phase <= first_phase;
      row_place <= first_place;
      newest <= first_step;
      next_left <= 16'd0 - column_pad;
    end else if (advance) begin
      if (begins) begin
        next_window <= next_window + 16'd1;
        next_left <= next_left + 16'(COLUMN_STRIDE);
      end
      if (!before_row) begin
        column <= column + 16'd1;
        if (last_column) begin
          {column, next_window} <= '0;
          next_left <= 16'd0 - column_pad;
          group <= last_group ? '0 : group + 16'd1;
          group_address <= last_group ? '0 : group_address + columns_per_bank;
          if (last_group) begin
            row <= last_row ? '0 : row + 16'd1;
            row_phase <= last_row ? first_phase : last_of_stride ? '0 : row_phase + 16'd1;
            row_place <= last_row ? first_place : last_of_stride ? '0 : row_place + PLACE_BITS'(POOL_COLUMNS);
            if (last_row) newest <= first_step;
            else if (last_of_stride) newest <= newest + 16'd1;
            if (last_row) sample_first_row <= sample_first_row + out_height;
          end
        end
      end
    end
  end

  // The word above all others first, two cycles later.
  localparam int WORD_BITS = 1 << $clog2(LANES * LANE_BITS);  // no multiplier tells where a bank's word begins; the rest is never read
  logic [SPAN*WORD_BITS-1:0] words;
  logic [SPAN-1:0] in_map;
  window_memory #(
      .WORD_BITS(WORD_BITS),
      .WINDOW_ROWS(SPAN),
      .WINDOW_COLUMNS(1),
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) lines (
      .clock,
      .write_enable(line_write),
      .write_row(line_write_row),
      .write_column(line_write_column),
      .write_address(line_write_address),
      .write_word(WORD_BITS'(word)),
      .height(out_height),
      .width(out_width),
      .first_row_bank(sample_first_row[ROW_BANKS_LOG2-1:0]),
      .top,
      .left(next_window),
      .group_address,
      .window(words),
      .in_map
  );
  logic emits, emits_1, emits_2, emits_3, emits_4, emits_5, begins_1, begins_2, starts_1, starts_2;
  logic [15:0] row_phase_1, row_phase_2, column_phase_1, column_phase_2, column_phase_3;
  logic [PLACE_BITS-1:0] row_place_1, row_place_2;
  assign emits = advance && !before_row;
  always_ff @(posedge clock) begin
    {emits_1, emits_2, emits_3, emits_4, emits_5} <= clear ? '0 : {emits, emits_1, emits_2, emits_3, emits_4};
    {begins_1, begins_2} <= clear ? '0 : {advance && begins, begins_1};
    {starts_1, starts_2} <= {starts, starts_1};
    {row_phase_1, row_phase_2} <= {row_phase, row_phase_1};
    {row_place_1, row_place_2} <= {row_place, row_place_1};
    {column_phase_1, column_phase_2, column_phase_3} <= {column_phase, column_phase_1, column_phase_2};
  end

  // --- At hand at stage 3: the newest window first. A new row has nothing of the one before.
  logic [SPAN-1:0] over_row;  // that the row lies in
  for (genvar age = 0; age < SPAN; age++) begin : g_age
    assign over_row[age] = in_map[SPAN-1-age] && row_phase_2 + 16'(age * POOL_STRIDE) < 16'(POOL_KERNEL);
  end
  logic [COLUMN_SPAN-1:0] column_held;
  logic [LANES*ELEMENT_BITS-1:0] results;
  always_ff @(posedge clock) begin
    if (begins_2) begin
      column_held[0] <= 1'b1;
      for (int age = 1; age < COLUMN_SPAN; age++) column_held[age] <= column_held[age-1] && !starts_2;
    end
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic [HELD_BITS-1:0] taken;
    logic [COLUMN_SPAN*HELD_BITS-1:0] held;
    always_ff @(posedge clock) if (begins_2) held <= (COLUMN_SPAN * HELD_BITS)'({held, taken});
    logic signed [COLUMN_SUM_BITS-1:0] column_sums[COLUMN_SPAN];
    if (AVERAGE != 0) begin : g_sum
      always_comb begin
        taken = '0;
        for (int age = 0; age < SPAN; age++)
          if (over_row[age]) taken = taken + COLUMN_SUM_BITS'($signed(words[(SPAN-1-age)*WORD_BITS+lane*LANE_BITS+:LANE_BITS]));
      end
      for (genvar age = 0; age < COLUMN_SPAN; age++) begin : g_column
        always_ff @(posedge clock)
          column_sums[age] <= (column_held[age] && column_phase_3 + 16'(age * COLUMN_STRIDE) < 16'(POOL_COLUMNS))
              ? held[age*HELD_BITS+:HELD_BITS] : '0;
      end
    end else begin : g_won
      for (genvar age = 0; age < SPAN; age++) begin : g_age
        logic [PLACE_BITS-1:0] place, of_row;
        logic [ELEMENT_BITS-1:0] error;
        assign {place, error} = words[(SPAN-1-age)*WORD_BITS+lane*LANE_BITS+:LANE_BITS];
        assign of_row = place - row_place_2 - PLACE_BITS'(age * POOL_STRIDE * POOL_COLUMNS);
        assign taken[age*TAKEN_BITS+:TAKEN_BITS] =
            {over_row[age] && {1'b0, of_row} < (PLACE_BITS + 1)'(POOL_COLUMNS), of_row[COLUMN_BITS-1:0], error};
      end
      for (genvar age = 0; age < COLUMN_SPAN; age++) begin : g_column
        logic signed [COLUMN_SUM_BITS-1:0] total;
        logic [15:0] place_in_row;
        assign place_in_row = column_phase_3 + 16'(age * COLUMN_STRIDE);
        always_comb begin
          total = '0;
          for (int row_age = 0; row_age < SPAN; row_age++)
            if (held[age*HELD_BITS+row_age*TAKEN_BITS+ELEMENT_BITS+:COLUMN_BITS+1] == {1'b1, place_in_row[COLUMN_BITS-1:0]})
              total = total + COLUMN_SUM_BITS'($signed(held[age*HELD_BITS+row_age*TAKEN_BITS+:ELEMENT_BITS]));
        end
        always_ff @(posedge clock)
          column_sums[age] <= (column_held[age] && place_in_row < 16'(POOL_COLUMNS)) ? total : '0;
      end
    end

    // --- Windows side by side at stage 4, the element at stage 5.
    logic signed [SUM_BITS-1:0] sum;
    logic [ELEMENT_BITS-1:0] element;
    always_comb begin
      sum = '0;
      for (int age = 0; age < COLUMN_SPAN; age++) sum = sum + SUM_BITS'(column_sums[age]);
    end
    round_to_element #(
        .VALUE_BITS(SUM_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value(sum),
        .shift((AVERAGE != 0) ? 5'd17 : 5'd0),
        .element
    );
    always_ff @(posedge clock) results[lane*ELEMENT_BITS+:ELEMENT_BITS] <= element;
  end

  // --- Out, with room reserved when an element is asked for.
  logic [FIFO_LOG2:0] waiting, promised;
  logic fifo_ready, leave;
  stream_fifo #(
      .WIDTH(LANES * ELEMENT_BITS),
      .DEPTH_LOG2(FIFO_LOG2)
  ) out_buffer (
      .clock,
      .clear,
      .in_valid (emits_5),
      .in_ready (fifo_ready),
      .in_data  (results),
      .out_valid(raw_error_tvalid),
      .out_ready(raw_error_tready),
      .out_data (raw_error_tdata),
      .count    (waiting)
  );
  assign leave = raw_error_tvalid && raw_error_tready;
  assign room_ready = !promised[FIFO_LOG2];
  always_ff @(posedge clock) begin
    if (clear) promised <= '0;
    else if (emits && !leave) promised <= promised + (FIFO_LOG2 + 1)'(1);
    else if (leave && !emits) promised <= promised - (FIFO_LOG2 + 1)'(1);
  end

  logic unused;
  assign unused = &{1'b0, fifo_ready, waiting, row_place_2, words};
endmodule
