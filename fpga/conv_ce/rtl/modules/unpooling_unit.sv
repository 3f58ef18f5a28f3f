// The way back through pooling: errors of the pooled map become errors of the map before, and behind a maximum, those of what
// the ReLU got.
//
//   maximum   with every pooled error comes what the special-function unit kept: which element of the window won, and whether
//             it was above zero; below or at zero the ReLU let nothing pass. Errors that meet in one element are added
//   average   every element of a window gets error * reciprocal * 2^-17 with the reciprocal that FP took (reciprocal_of.sv).
//             A multiplier per lane gives the products as errors come in; those that meet in one element are added
// and the sum is rounded and saturated once. The ReLU before an average is relu_gate.sv's.
// The structure is that of EB without its multipliers: one step gives POOL_STRIDE x COLUMN_STRIDE elements.
//
// Streams: error with kept, LANES per beat, row - group - column order; raw_error in blocks of POOL_STRIDE rows, the first
// of POOL_STRIDE - pad mod POOL_STRIDE rows. Large windows are left to tiled_unpooling.sv, or to overlapped_unpooling.sv where
// they overlap, whose rows leave one by one.
module unpooling_unit #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 2,          // rows of the window
    parameter int POOL_STRIDE = 2,
    parameter int POOL_COLUMNS = POOL_KERNEL,
    parameter int COLUMN_STRIDE = POOL_STRIDE,
    parameter int COLUMN_PAD = -1,          // as `pad`, unless given
    parameter int AVERAGE = 0,
    parameter int ROW_BANKS_LOG2 = 1,      // at least POOL_KERNEL / POOL_STRIDE rounded up, and one
    parameter int COLUMN_BANKS_LOG2 = 1,
    parameter int LINE_ADDRESS_BITS = 6,
    parameter int COLUMN_ADDRESS_BITS = 6,
    parameter int PLACE_BITS = 4,
    parameter int SLOPE = 0,                // of a leaky ReLU, of 15 fraction bits
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,       // of the raw sum
    input logic [15:0] width,
    input logic [15:0] out_height,   // of the pooled map
    input logic [15:0] out_width,
    input logic [15:0] groups,
    input logic [15:0] pad,
    input logic [15:0] step_rows,
    input logic [15:0] step_columns,
    input logic [15:0] first_step,   // pad / POOL_STRIDE
    input logic [15:0] first_phase,  // pad mod POOL_STRIDE
    input logic [15:0] last_phase,   // (height - 1 + pad) mod POOL_STRIDE
    input logic        relu,           // of a maximum
    input logic        count_padding,  // of an average

    input  logic                            error_tvalid,
    output logic                            error_tready,
    input  logic [  LANES*ELEMENT_BITS-1:0] error_tdata,
    input  logic [LANES*(PLACE_BITS+1)-1:0] kept_tdata,

    output logic                          raw_error_tvalid,
    input  logic                          raw_error_tready,
    output logic [LANES*ELEMENT_BITS-1:0] raw_error_tdata
);
  localparam int SPAN = (POOL_KERNEL + POOL_STRIDE - 1) / POOL_STRIDE;
  localparam int COLUMN_SPAN = (POOL_COLUMNS + COLUMN_STRIDE - 1) / COLUMN_STRIDE;
  localparam int PHASES = POOL_STRIDE * COLUMN_STRIDE;
  localparam int WINDOW = POOL_KERNEL * POOL_COLUMNS;
  localparam int COUNT_BITS = $clog2(WINDOW + 1);
  localparam int RECIPROCAL_BITS = 17;
  // A lane in the line buffer: an error's product, or the place that won with the error.
  localparam int TERM_BITS = (AVERAGE != 0) ? ELEMENT_BITS + RECIPROCAL_BITS : ELEMENT_BITS;
  localparam int LANE_BITS = (AVERAGE != 0) ? TERM_BITS : PLACE_BITS + ELEMENT_BITS;
  localparam int SUM_BITS = TERM_BITS + $clog2(SPAN * COLUMN_SPAN) + 1;

  localparam bit LARGE = WINDOW > 64 || POOL_KERNEL > 16 || POOL_COLUMNS > 16;  // as after_sum.h has it
  localparam bit TILED = LARGE && POOL_STRIDE >= POOL_KERNEL && COLUMN_STRIDE >= POOL_COLUMNS;

  logic [15:0] column_pad, first_column_step;
  assign column_pad = (COLUMN_PAD < 0) ? pad : 16'(COLUMN_PAD);
  assign first_column_step = (COLUMN_PAD < 0) ? first_step : 16'(COLUMN_PAD / COLUMN_STRIDE);

  logic line_valid, line_ready;
  logic [LANES*LANE_BITS-1:0] line_word;
  if (AVERAGE != 0) begin : g_divided
    // --- Which window an error belongs to, and how many of its elements count.
    logic [15:0] window_row, window_column, window_group, window_top, window_left;
    logic accepts, advance, counted_valid, product_valid;
    logic [COUNT_BITS-1:0] windows_count;
    window_count #(
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COUNT_BITS(COUNT_BITS)
    ) counting (
        .height,
        .width,
        .top(window_top),
        .left(window_left),
        .pad,
        .column_pad,
        .count_padding,
        .count(windows_count)
    );

    // Two steps that stand still together: the count, then the product.
    assign advance = !product_valid || line_ready;
    assign error_tready = advance && !clear;
    assign accepts = error_tvalid && error_tready;
    assign line_valid = product_valid;
    logic last_window, last_group, last_window_row;
    assign last_window = window_column == out_width - 16'd1;
    assign last_group = window_group == groups - 16'd1;
    assign last_window_row = window_row == out_height - 16'd1;
    always_ff @(posedge clock) begin
      if (clear) begin
        {counted_valid, product_valid} <= '0;
        {window_row, window_column, window_group} <= '0;
        window_top  <= 16'd0 - pad;
        window_left <= 16'd0 - column_pad;
      end else begin
        if (advance) {counted_valid, product_valid} <= {accepts, counted_valid};
        if (accepts) begin
          window_column <= last_window ? '0 : window_column + 16'd1;
          window_left   <= last_window ? 16'd0 - column_pad : window_left + 16'(COLUMN_STRIDE);
          if (last_window) begin
            window_group <= last_group ? '0 : window_group + 16'd1;
            if (last_group) begin
              window_row <= last_window_row ? '0 : window_row + 16'd1;
              window_top <= last_window_row ? 16'd0 - pad : window_top + 16'(POOL_STRIDE);
            end
          end
        end
      end
    end
    logic [COUNT_BITS-1:0] count;
    logic [RECIPROCAL_BITS:0] reciprocal;
    logic signed [RECIPROCAL_BITS+1:0] factor;
    assign factor = {1'b0, reciprocal};
    logic [LANES*ELEMENT_BITS-1:0] counted;
    reciprocal_of #(
        .WINDOW(WINDOW),
        .RECIPROCAL_BITS(RECIPROCAL_BITS)
    ) dividing (
        .count,
        .reciprocal
    );
    always_ff @(posedge clock)
      if (advance) begin
        count <= windows_count;
        counted <= error_tdata;
      end
    for (genvar lane = 0; lane < LANES; lane++) begin : g_product
      logic signed [ELEMENT_BITS-1:0] error;
      logic signed [TERM_BITS-1:0] product;
      assign error = counted[lane*ELEMENT_BITS+:ELEMENT_BITS];
      assign product = error * factor;
      always_ff @(posedge clock) if (advance) line_word[lane*LANE_BITS+:LANE_BITS] <= product;
    end
    logic unused_kept;
    assign unused_kept = &{1'b0, relu, kept_tdata};
  end else begin : g_won
    assign line_valid = error_tvalid;
    assign error_tready = line_ready;
    // Where the ReLU was shut the error is zero, or what the slope leaves.
    for (genvar lane = 0; lane < LANES; lane++) begin : g_line_word
      logic above_zero;
      logic [PLACE_BITS-1:0] place;
      assign {place, above_zero} = kept_tdata[lane*(PLACE_BITS+1)+:PLACE_BITS+1];
      logic [ELEMENT_BITS-1:0] below;
      leaky_part #(
          .SLOPE(SLOPE),
          .ELEMENT_BITS(ELEMENT_BITS)
      ) leak (
          .element(error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS]),
          .part(below)
      );
      assign line_word[lane*LANE_BITS+:LANE_BITS] =
          {place, (relu && !above_zero) ? below : error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS]};
    end
    logic unused_count;
    assign unused_count = &{1'b0, height, column_pad, count_padding};
  end

  if (TILED) begin : g_tiled
    tiled_unpooling #(
        .LANES(LANES),
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_STRIDE(POOL_STRIDE),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COLUMN_STRIDE(COLUMN_STRIDE),
        .AVERAGE(AVERAGE),
        .ADDRESS_BITS(LINE_ADDRESS_BITS),
        .PLACE_BITS(PLACE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .LANE_BITS(LANE_BITS)
    ) unpooling (
        .clock,
        .clear,
        .height,
        .width,
        .out_height,
        .out_width,
        .groups,
        .pad,
        .column_pad,
        .word_valid(line_valid),
        .word_ready(line_ready),
        .word(line_word),
        .raw_error_tvalid,
        .raw_error_tready,
        .raw_error_tdata
    );
    logic unused_steps;
    assign unused_steps = &{1'b0, step_rows, step_columns, first_step, first_column_step, first_phase, last_phase};
  end else if (LARGE) begin : g_overlapped
    overlapped_unpooling #(
        .LANES(LANES),
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_STRIDE(POOL_STRIDE),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COLUMN_STRIDE(COLUMN_STRIDE),
        .AVERAGE(AVERAGE),
        .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
        .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
        .ADDRESS_BITS(LINE_ADDRESS_BITS),
        .PLACE_BITS(PLACE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .LANE_BITS(LANE_BITS)
    ) unpooling (
        .clock,
        .clear,
        .height,
        .width,
        .out_height,
        .out_width,
        .groups,
        .first_step,
        .first_phase,
        .column_pad,
        .word_valid(line_valid),
        .word_ready(line_ready),
        .word(line_word),
        .raw_error_tvalid,
        .raw_error_tready,
        .raw_error_tdata
    );
    logic unused_steps;
    assign unused_steps = &{1'b0, step_rows, step_columns, first_column_step, last_phase};
  end else begin : g_windows
    logic line_write, row_ready, room, issue;
    logic [ROW_BANKS_LOG2-1:0] line_write_row;
    logic [COLUMN_BANKS_LOG2-1:0] line_write_column;
    logic [LINE_ADDRESS_BITS-1:0] line_write_address, inner_address, columns_per_bank;
    logic [15:0] rows_written, rows_released, sample_first_row, top, left, row, column, outer;
    logic first_inner, last_inner, first_column, last_column, last_sweep_of_row, last_row;

    row_writer #(
        .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
        .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
        .ADDRESS_BITS(LINE_ADDRESS_BITS)
    ) writer (
        .clock,
        .clear,
        .height(out_height),
        .width(out_width),
        .groups,
        .first_block_rows(16'd1),
        .block_rows(16'd1),
        .valid(line_valid),
        .ready(line_ready),
        .rows_released,
        .rows_written,
        .write_enable(line_write),
        .write_row(line_write_row),
        .write_column(line_write_column),
        .write_address(line_write_address)
    );

    assign columns_per_bank = LINE_ADDRESS_BITS'((out_width + 16'((1 << COLUMN_BANKS_LOG2) - 1)) >> COLUMN_BANKS_LOG2);
    assign issue = row_ready && (!first_column || room);
    sweep_sequencer #(
        .WINDOW_ROWS (SPAN),
        .ADDRESS_BITS(LINE_ADDRESS_BITS)
    ) sequencer (
        .clock,
        .clear,
        .height(out_height),
        .rows(step_rows),
        .columns(step_columns),
        .outer_groups(16'd1),
        .class_groups(16'd1),
        .inner_groups(groups),
        .stride(16'd1),
        .first_top(first_step - 16'(SPAN - 1)),
        .first_left(first_column_step - 16'(COLUMN_SPAN - 1)),
        .group_step(columns_per_bank),
        .advance(issue),
        .rows_written,
        .rows_released,
        .row_ready,
        .sample_first_row,
        .top,
        .left,
        .row,
        .column,
        .outer,
        .inner_address,
        .first_inner,
        .last_inner,
        .first_column,
        .last_column,
        .last_sweep_of_row,
        .last_row
    );

    logic [SPAN*COLUMN_SPAN*LANES*LANE_BITS-1:0] window;
    logic [SPAN*COLUMN_SPAN-1:0] in_map;
    window_memory #(
        .WORD_BITS(LANES * LANE_BITS),
        .WINDOW_ROWS(SPAN),
        .WINDOW_COLUMNS(COLUMN_SPAN),
        .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
        .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
        .ADDRESS_BITS(LINE_ADDRESS_BITS)
    ) lines (
        .clock,
        .write_enable(line_write),
        .write_row(line_write_row),
        .write_column(line_write_column),
        .write_address(line_write_address),
        .write_word(line_word),
        .height(out_height),
        .width(out_width),
        .first_row_bank(sample_first_row[ROW_BANKS_LOG2-1:0]),
        .top,
        .left,
        .group_address(inner_address),
        .window,
        .in_map
    );

    // --- Element (a, b) of a step: terms of the windows it lies in, or errors of those whose winner it is. Windows at stage 2, elements at stage 3.
    logic issued_1, issued_2, ends_1, ends_2;
    logic [1:0] block_1, block_2, block_3;
    logic [COLUMN_ADDRESS_BITS-1:0] column_1, column_2, column_3;
    logic finished, sweep_done;
    logic [PHASES*LANES*ELEMENT_BITS-1:0] elements;
    always_ff @(posedge clock) begin
      {issued_1, issued_2, finished} <= clear ? '0 : {issue, issued_1, issued_2};
      {ends_1, ends_2} <= {last_column, ends_1};
      sweep_done <= issued_2 && ends_2 && !clear;
      {block_1, block_2, block_3} <= {row == 16'd0, last_row, block_1, block_2};
      {column_1, column_2, column_3} <= {COLUMN_ADDRESS_BITS'(column), column_1, column_2};
    end
    for (genvar phase = 0; phase < PHASES; phase++) begin : g_phase
      localparam int ROW_PHASE = phase / COLUMN_STRIDE;
      localparam int COLUMN_PHASE = phase % COLUMN_STRIDE;
      for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
        logic signed [SUM_BITS-1:0] total;
        logic [ELEMENT_BITS-1:0] element;
        always_comb begin
          total = '0;
          for (int tap_row = ROW_PHASE; tap_row < POOL_KERNEL; tap_row += POOL_STRIDE)
            for (int tap_column = COLUMN_PHASE; tap_column < POOL_COLUMNS; tap_column += COLUMN_STRIDE)
              if (AVERAGE != 0 ||
                  window[(((SPAN-1-tap_row/POOL_STRIDE)*COLUMN_SPAN+COLUMN_SPAN-1-tap_column/COLUMN_STRIDE)*LANES+lane+1)*LANE_BITS-1-:PLACE_BITS]
                  == PLACE_BITS'(tap_row * POOL_COLUMNS + tap_column))
                total = total + SUM_BITS'($signed(
                    window[(((SPAN-1-tap_row/POOL_STRIDE)*COLUMN_SPAN+COLUMN_SPAN-1-tap_column/COLUMN_STRIDE)*LANES+lane)*LANE_BITS+:TERM_BITS]));
        end
        round_to_element #(
            .VALUE_BITS(SUM_BITS),
            .ELEMENT_BITS(ELEMENT_BITS),
            .OUTPUT_BITS(ELEMENT_BITS)
        ) rounding (
            .value(total),
            .shift((AVERAGE != 0) ? 5'(RECIPROCAL_BITS) : 5'd0),
            .element
        );
        always_ff @(posedge clock) elements[(phase*LANES+lane)*ELEMENT_BITS+:ELEMENT_BITS] <= element;
      end
    end

    error_buffer #(
        .STRIDE(POOL_STRIDE),
        .COLUMN_STRIDE(COLUMN_STRIDE),
        .COLUMN_FIRST_PHASE((COLUMN_PAD < 0) ? -1 : COLUMN_PAD % COLUMN_STRIDE),
        .WORD_BITS(LANES * ELEMENT_BITS),
        .COLUMN_ADDRESS_BITS(COLUMN_ADDRESS_BITS)
    ) buffer (
        .clock,
        .clear,
        .width,
        .first_phase,
        .last_phase,
        .room,
        .reserve(issue && first_column),
        .write_enable(finished),
        .write_place(column_3),
        .write_words(elements),
        .sweep_done,
        .first_block(block_3[1]),
        .last_block(block_3[0]),
        .out_tvalid(raw_error_tvalid),
        .out_tready(raw_error_tready),
        .out_tdata(raw_error_tdata)
    );

    logic unused;
    assign unused = &{1'b0, in_map, sample_first_row, column, outer, first_inner, last_inner, last_sweep_of_row};
  end
endmodule
