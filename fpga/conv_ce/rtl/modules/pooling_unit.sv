// Maximum or average over windows, which may overlap and reach over the edge; one window per cycle. Large ones are left to
// tiled_pooling.sv, or to overlapped_pooling.sv where they overlap, which hold no window.
// See special_function_unit.sv for the arithmetic and the streams.
module pooling_unit #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 2,                // rows of the window
    parameter int POOL_STRIDE = 2,
    parameter int POOL_COLUMNS = POOL_KERNEL,
    parameter int COLUMN_STRIDE = POOL_STRIDE,
    parameter int COLUMN_PAD = -1,                // as `pad`, unless given
    parameter int AVERAGE = 0,
    parameter int ROW_BANKS_LOG2 = 2,
    parameter int COLUMN_BANKS_LOG2 = 1,
    parameter int LINE_ADDRESS_BITS = 6,
    parameter int PLACE_BITS = 4,
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] pad,
    input logic        count_padding,

    input  logic                          in_tvalid,
    output logic                          in_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] in_tdata,

    output logic                            out_tvalid,
    input  logic                            out_tready,
    output logic [  LANES*ELEMENT_BITS-1:0] out_tdata,
    output logic [LANES*(PLACE_BITS+1)-1:0] kept_tdata
);
  localparam int WINDOW = POOL_KERNEL * POOL_COLUMNS;
  localparam int COUNT_BITS = $clog2(WINDOW + 1);
  localparam int RECIPROCAL_BITS = 17;
  localparam int SUM_BITS = ELEMENT_BITS + COUNT_BITS;
  localparam int PRODUCT_BITS = SUM_BITS + RECIPROCAL_BITS + 2;
  localparam int BEAT_WIDTH = LANES * ELEMENT_BITS;
  localparam int KEPT_WIDTH = LANES * (PLACE_BITS + 1);
  localparam int FIFO_LOG2 = 3;

  localparam bit LARGE = WINDOW > 64 || POOL_KERNEL > 16 || POOL_COLUMNS > 16;  // as after_sum.h has it
  localparam bit TILED = LARGE && POOL_STRIDE >= POOL_KERNEL && COLUMN_STRIDE >= POOL_COLUMNS;

  logic [15:0] column_pad;
  assign column_pad = (COLUMN_PAD < 0) ? pad : 16'(COLUMN_PAD);

  if (TILED) begin : g_tiled
    tiled_pooling #(
        .LANES(LANES),
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_STRIDE(POOL_STRIDE),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COLUMN_STRIDE(COLUMN_STRIDE),
        .AVERAGE(AVERAGE),
        .ADDRESS_BITS(LINE_ADDRESS_BITS),
        .PLACE_BITS(PLACE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS)
    ) pooling (
        .clock,
        .clear,
        .height,
        .width,
        .groups,
        .out_height,
        .out_width,
        .pad,
        .column_pad,
        .count_padding,
        .in_tvalid,
        .in_tready,
        .in_tdata,
        .out_tvalid,
        .out_tready,
        .out_tdata,
        .kept_tdata
    );
  end else if (LARGE) begin : g_overlapped
    overlapped_pooling #(
        .LANES(LANES),
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_STRIDE(POOL_STRIDE),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COLUMN_STRIDE(COLUMN_STRIDE),
        .AVERAGE(AVERAGE),
        .ADDRESS_BITS(LINE_ADDRESS_BITS),
        .PLACE_BITS(PLACE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS)
    ) pooling (
        .clock,
        .clear,
        .height,
        .width,
        .groups,
        .out_height,
        .out_width,
        .pad,
        .column_pad,
        .count_padding,
        .in_tvalid,
        .in_tready,
        .in_tdata,
        .out_tvalid,
        .out_tready,
        .out_tdata,
        .kept_tdata
    );
  end else begin : g_windows
    logic line_write, row_ready, room_ready, issue;
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
        .height,
        .width,
        .groups,
        .first_block_rows(16'd1),
        .block_rows(16'd1),
        .valid(in_tvalid),
        .ready(in_tready),
        .rows_released,
        .rows_written,
        .write_enable(line_write),
        .write_row(line_write_row),
        .write_column(line_write_column),
        .write_address(line_write_address)
    );

    assign columns_per_bank = LINE_ADDRESS_BITS'((width + 16'((1 << COLUMN_BANKS_LOG2) - 1)) >> COLUMN_BANKS_LOG2);
    assign issue = row_ready && room_ready;
    sweep_sequencer #(
        .WINDOW_ROWS (POOL_KERNEL),
        .ADDRESS_BITS(LINE_ADDRESS_BITS),
        .COLUMN_STRIDE(COLUMN_STRIDE)
    ) sequencer (
        .clock,
        .clear,
        .height,
        .rows(out_height),
        .columns(out_width),
        .outer_groups(16'd1),
        .class_groups(16'd1),
        .inner_groups(groups),
        .stride(16'(POOL_STRIDE)),
        .first_top(16'd0 - pad),
        .first_left(16'd0 - column_pad),
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

    logic [WINDOW*BEAT_WIDTH-1:0] window;
    logic [WINDOW-1:0] in_map;
    window_memory #(
        .WORD_BITS(BEAT_WIDTH),
        .WINDOW_ROWS(POOL_KERNEL),
        .WINDOW_COLUMNS(POOL_COLUMNS),
        .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
        .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
        .ADDRESS_BITS(LINE_ADDRESS_BITS)
    ) lines (
        .clock,
        .write_enable(line_write),
        .write_row(line_write_row),
        .write_column(line_write_column),
        .write_address(line_write_address),
        .write_word(in_tdata),
        .height,
        .width,
        .first_row_bank(sample_first_row[ROW_BANKS_LOG2-1:0]),
        .top,
        .left,
        .group_address(inner_address),
        .window,
        .in_map
    );

    logic issued_1, issued_2, issued_3, issued_4;
    always_ff @(posedge clock)
      {issued_1, issued_2, issued_3, issued_4} <= clear ? '0 : {issue, issued_1, issued_2, issued_3};

    // --- Maximum and sum at stage 3, the average at stage 4.
    // An average counts the elements on the map, or those on map and padding: the last window may reach past it. In step with
    // window_memory's two cycles.
    logic [15:0] margin, column_margin, counted_height, counted_width;
    assign margin = count_padding ? pad : 16'd0;
    assign column_margin = count_padding ? column_pad : 16'd0;
    assign counted_height = height + margin + margin;
    assign counted_width = width + column_margin + column_margin;
    logic [POOL_KERNEL-1:0] row_counts;
    logic [POOL_COLUMNS-1:0] column_counts;
    logic [WINDOW-1:0] counts;
    for (genvar n = 0; n < POOL_KERNEL; n++) begin : g_row_counts
      always_ff @(posedge clock) begin
        row_counts[n] <= (top + margin + 16'(n)) < counted_height;
        counts[n*POOL_COLUMNS+:POOL_COLUMNS] <= row_counts[n] ? column_counts : '0;
      end
    end
    for (genvar n = 0; n < POOL_COLUMNS; n++) begin : g_column_counts
      always_ff @(posedge clock) column_counts[n] <= (left + column_margin + 16'(n)) < counted_width;
    end
    logic [COUNT_BITS-1:0] count, counted;
    always_comb begin
      counted = '0;
      for (int place = 0; place < WINDOW; place++) counted = counted + COUNT_BITS'(counts[place]);
    end
    always_ff @(posedge clock) count <= counted;

    logic [BEAT_WIDTH-1:0] results;
    logic [KEPT_WIDTH-1:0] kept;
    if (AVERAGE != 0) begin : g_average
      logic [RECIPROCAL_BITS:0] reciprocal;
      logic signed [RECIPROCAL_BITS+1:0] factor;
      assign factor = {1'b0, reciprocal};
      reciprocal_of #(
          .WINDOW(WINDOW),
          .RECIPROCAL_BITS(RECIPROCAL_BITS)
      ) dividing (
          .count,
          .reciprocal
      );
      for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
        logic signed [SUM_BITS-1:0] total, sum;
        logic signed [PRODUCT_BITS-1:0] product;
        logic [ELEMENT_BITS-1:0] rounded;
        always_comb begin
          total = '0;
          for (int place = 0; place < WINDOW; place++)  // what lies outside is zero
            total = total + SUM_BITS'($signed(window[(place*LANES+lane)*ELEMENT_BITS+:ELEMENT_BITS]));
        end
        always_ff @(posedge clock) sum <= total;
        assign product = sum * factor;
        round_to_element #(
            .VALUE_BITS(PRODUCT_BITS),
            .ELEMENT_BITS(ELEMENT_BITS),
            .OUTPUT_BITS(ELEMENT_BITS)
        ) rounding (
            .value(product),
            .shift(5'(RECIPROCAL_BITS)),
            .element(rounded)
        );
        always_ff @(posedge clock) results[lane*ELEMENT_BITS+:ELEMENT_BITS] <= rounded;
      end
      assign kept = '0;
      logic unused_in_map;
      assign unused_in_map = &{1'b0, in_map};
    end else begin : g_maximum
      for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
        logic signed [ELEMENT_BITS-1:0] best, best_3;
        logic [PLACE_BITS-1:0] winner, winner_3;
        always_comb begin
          best   = {1'b1, (ELEMENT_BITS - 1)'(0)};
          winner = '0;
          // From the last place to the first, so that the first of equals wins; the smallest number wins where it is alone.
          for (int place = WINDOW - 1; place >= 0; place--)
            if (in_map[place] && $signed(window[(place*LANES+lane)*ELEMENT_BITS+:ELEMENT_BITS]) >= best) begin
              best   = window[(place*LANES+lane)*ELEMENT_BITS+:ELEMENT_BITS];
              winner = PLACE_BITS'(place);
            end
        end
        always_ff @(posedge clock) begin
          best_3 <= best;
          winner_3 <= winner;
          results[lane*ELEMENT_BITS+:ELEMENT_BITS] <= best_3;
          kept[lane*(PLACE_BITS+1)+:PLACE_BITS+1] <= {winner_3, best_3 > 0};
        end
      end
      logic unused_count;
      assign unused_count = &{1'b0, count};
    end

    // --- Out, with room reserved when a window is issued.
    logic [FIFO_LOG2:0] waiting, promised;
    logic fifo_ready, leave;
    stream_fifo #(
        .WIDTH(BEAT_WIDTH + KEPT_WIDTH),
        .DEPTH_LOG2(FIFO_LOG2)
    ) out_buffer (
        .clock,
        .clear,
        .in_valid (issued_4),
        .in_ready (fifo_ready),
        .in_data  ({kept, results}),
        .out_valid(out_tvalid),
        .out_ready(out_tready),
        .out_data ({kept_tdata, out_tdata}),
        .count    (waiting)
    );
    assign leave = out_tvalid && out_tready;
    assign room_ready = !promised[FIFO_LOG2];
    always_ff @(posedge clock) begin
      if (clear) promised <= '0;
      else if (issue && !leave) promised <= promised + (FIFO_LOG2 + 1)'(1);
      else if (leave && !issue) promised <= promised - (FIFO_LOG2 + 1)'(1);
    end

    logic unused;
    assign unused = &{1'b0, fifo_ready, waiting, sample_first_row, row, column, outer, first_inner, last_inner, first_column,
                      last_column, last_sweep_of_row, last_row};
  end
endmodule
