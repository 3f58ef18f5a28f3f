// FP: the convolution of the input channels held here, for all output channels, added to the partial sums that came in.
//
// INPUT_LANES x OUTPUT_LANES tiles do one kernel each per cycle. Row by row, for every group of OUTPUT_LANES outputs and
// every group of INPUT_LANES inputs, one sweep goes over the row's columns; sums of several input groups meet in a row of
// accumulators. In the steady state no cycle is lost:
//   cycles of a row = output groups x input groups / CHANNEL_GROUPS x max(output columns, LOAD_WORDS + 1)
// as long as input, partial sums and output keep up.
//
// Streams (AXI4-Stream handshakes, one pixel of a channel group per beat, row - group - column order):
//   activation   INPUT_LANES elements; in blocks of rows where the producer makes several at once
//   partial      OUTPUT_LANES elements, only when adds_partial
//   sum          OUTPUT_LANES elements, rounded and saturated to WIRE_BITS
// Geometry inputs are constant while `clear` is low; `clear` forgets all state.
// Lanes beyond the layer's last channel carry anything: their kernels are zero, and their sums mean nothing.
module forward_engine #(
    parameter int KERNEL = 3,
    parameter int STRIDE = 1,
    parameter int INPUT_LANES = 4,
    parameter int OUTPUT_LANES = 4,
    parameter int CHANNEL_GROUPS = 1,           // that do not mix; lanes divide the channels of each
    parameter int CHANNEL_BITS = 16,            // of what counts input channels and groups of them
    parameter int KERNELS_PER_WORD = 4,         // of the parameter memory
    parameter int ROW_BANKS_LOG2 = 2,           // at least KERNEL + STRIDE rows
    parameter int COLUMN_BANKS_LOG2 = 2,        // at least KERNEL columns
    parameter int LINE_ADDRESS_BITS = 6,        // of one bank of the line buffer
    parameter int COLUMN_ADDRESS_BITS = 6,      // of the accumulators: the most output columns
    parameter int PARAMETER_ADDRESS_BITS = 10,
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32,
    parameter int WIRE_BITS = 16
) (
    input logic clock,
    input logic clear,

    // Geometry, constant while running.
    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] pad,
    input logic [CHANNEL_BITS-1:0] input_groups,
    input logic [15:0] output_groups,
    input logic [15:0] first_block_rows,
    input logic [15:0] block_rows,
    input logic [PARAMETER_ADDRESS_BITS-1:0] output_group_step,  // words of the parameter memory: input groups / CHANNEL_GROUPS x LOAD_WORDS
    input logic        adds_partial,
    input logic [ 4:0] partial_shift,  // raises a partial sum to the accumulator's fraction bits
    input logic [ 4:0] sum_shift,      // lowers an accumulator to the wire's

    input  logic                                activation_tvalid,
    output logic                                activation_tready,
    input  logic [INPUT_LANES*ELEMENT_BITS-1:0] activation_tdata,

    input  logic                                 partial_tvalid,
    output logic                                 partial_tready,
    input  logic [OUTPUT_LANES*ELEMENT_BITS-1:0] partial_tdata,

    output logic                                 sum_tvalid,
    input  logic                                 sum_tready,
    output logic [OUTPUT_LANES*ELEMENT_BITS-1:0] sum_tdata,

    // The parameter memory: a word one cycle after it is read at its address; none is read while it is not ready.
    input  logic                                                   parameter_ready,
    output logic                                                   parameter_read,
    output logic [                    PARAMETER_ADDRESS_BITS-1:0] parameter_address,
    input  logic [KERNELS_PER_WORD*KERNEL*KERNEL*ELEMENT_BITS-1:0] parameter_word
);
  localparam int TAPS = KERNEL * KERNEL;
  localparam int TILES = INPUT_LANES * OUTPUT_LANES;
  localparam int LOAD_WORDS = (TILES + KERNELS_PER_WORD - 1) / KERNELS_PER_WORD;
  localparam int FIFO_LOG2 = 4;
  localparam int SUMS_WIDTH = OUTPUT_LANES * SUM_BITS;
  localparam int BEAT_WIDTH = OUTPUT_LANES * ELEMENT_BITS;

  // --- The line buffer and who fills it.
  logic line_write;
  logic [ROW_BANKS_LOG2-1:0] line_write_row;
  logic [COLUMN_BANKS_LOG2-1:0] line_write_column;
  logic [LINE_ADDRESS_BITS-1:0] line_write_address;
  logic [15:0] rows_written, rows_released;

  row_writer #(
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .ADDRESS_BITS(LINE_ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) writer (
      .clock,
      .clear,
      .height,
      .width,
      .groups(input_groups),
      .first_block_rows,
      .block_rows,
      .valid(activation_tvalid),
      .ready(activation_tready),
      .rows_released,
      .rows_written,
      .write_enable(line_write),
      .write_row(line_write_row),
      .write_column(line_write_column),
      .write_address(line_write_address)
  );

  // --- Which step comes next, and whether it can be taken.
  logic issue, row_ready, kernels_ready, partial_ready, room_ready;
  logic [15:0] sample_first_row, top, left, row, column;
  logic [CHANNEL_BITS-1:0] outer;
  logic [LINE_ADDRESS_BITS-1:0] inner_address;
  logic first_inner, last_inner, first_column, last_column, last_sweep_of_row, last_row;
  logic [LINE_ADDRESS_BITS-1:0] columns_per_bank;
  assign columns_per_bank = LINE_ADDRESS_BITS'((width + 16'((1 << COLUMN_BANKS_LOG2) - 1)) >> COLUMN_BANKS_LOG2);

  sweep_sequencer #(
      .WINDOW_ROWS (KERNEL),
      .ADDRESS_BITS(LINE_ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) sequencer (
      .clock,
      .clear,
      .height,
      .rows(out_height),
      .columns(out_width),
      .outer_groups(CHANNEL_BITS'(output_groups)),
      .class_groups(CHANNEL_BITS'(output_groups) / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .inner_groups(input_groups / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .stride(16'(STRIDE)),
      .first_top(16'd0 - pad),
      .first_left(16'd0 - pad),
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

  assign issue = row_ready && (!first_column || kernels_ready) && (!first_inner || !adds_partial || partial_ready) &&
      (!last_inner || room_ready);

  logic [INPUT_LANES*TAPS*ELEMENT_BITS-1:0] window;
  logic [TAPS-1:0] in_map;
  window_memory #(
      .WORD_BITS(INPUT_LANES * ELEMENT_BITS),
      .WINDOW_ROWS(KERNEL),
      .WINDOW_COLUMNS(KERNEL),
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .ADDRESS_BITS(LINE_ADDRESS_BITS)
  ) line_buffer (
      .clock,
      .write_enable(line_write),
      .write_row(line_write_row),
      .write_column(line_write_column),
      .write_address(line_write_address),
      .write_word(activation_tdata),
      .height,
      .width,
      .first_row_bank(sample_first_row[ROW_BANKS_LOG2-1:0]),
      .top,
      .left,
      .group_address(inner_address),
      .window,
      .in_map
  );

  // --- Kernels on their way into the tiles.
  logic load_enable;
  logic [15:0] load_index;
  weight_loader #(
      .LOAD_WORDS  (LOAD_WORDS),
      .ADDRESS_BITS(PARAMETER_ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) loader (
      .clock,
      .clear,
      .inner_sweeps(input_groups / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .outer_sweeps(CHANNEL_BITS'(output_groups)),
      .class_sweeps(CHANNEL_BITS'(output_groups)),
      .inner_step(PARAMETER_ADDRESS_BITS'(LOAD_WORDS)),
      .outer_step(output_group_step),
      .take(issue && first_column),
      .kernels_ready,
      .word_ready(parameter_ready),
      .read_enable(parameter_read),
      .read_address(parameter_address),
      .load_enable,
      .load_index
  );

  // --- What travels beside the data: stage n is n cycles after the issue.
  logic issued_1, issued_2, issued_3, issued_4, issued_5;
  logic first_1, first_2, first_3, first_4, first_5;
  logic last_1, last_2, last_3, last_4, last_5;
  logic take_1;
  logic [COLUMN_ADDRESS_BITS-1:0] column_1, column_2, column_3, column_4, column_5;
  always_ff @(posedge clock) begin
    {issued_1, issued_2, issued_3, issued_4, issued_5} <= clear ? '0 : {issue, issued_1, issued_2, issued_3, issued_4};
    {first_1, first_2, first_3, first_4, first_5} <= {first_inner, first_1, first_2, first_3, first_4};
    {last_1, last_2, last_3, last_4, last_5} <= {last_inner, last_1, last_2, last_3, last_4};
    {column_1, column_2, column_3, column_4, column_5} <=
        {COLUMN_ADDRESS_BITS'(column), column_1, column_2, column_3, column_4};
    take_1 <= issue && first_column;
  end

  // --- The tiles: tile output_lane * INPUT_LANES + input_lane. Windows at stage 2, their sums at stage 4.
  logic [TILES*SUM_BITS-1:0] tile_sums;
  for (genvar output_lane = 0; output_lane < OUTPUT_LANES; output_lane++) begin : g_output
    for (genvar input_lane = 0; input_lane < INPUT_LANES; input_lane++) begin : g_input
      localparam int TILE = output_lane * INPUT_LANES + input_lane;
      localparam int WORD = TILE / KERNELS_PER_WORD;
      localparam int PLACE = TILE % KERNELS_PER_WORD;
      logic [TAPS*ELEMENT_BITS-1:0] tile_window;
      for (genvar tap = 0; tap < TAPS; tap++) begin : g_tap
        assign tile_window[tap*ELEMENT_BITS+:ELEMENT_BITS] = window[(tap*INPUT_LANES+input_lane)*ELEMENT_BITS+:ELEMENT_BITS];
      end
      forward_tile #(
          .TAPS(TAPS),
          .ELEMENT_BITS(ELEMENT_BITS),
          .SUM_BITS(SUM_BITS)
      ) tile (
          .clock,
          .load_enable(load_enable && load_index == 16'(WORD)),
          .load_kernel(parameter_word[PLACE*TAPS*ELEMENT_BITS+:TAPS*ELEMENT_BITS]),
          .take_kernel(take_1),
          .window(tile_window),
          .sum(tile_sums[TILE*SUM_BITS+:SUM_BITS])
      );
    end
  end

  // --- The sums over input lanes, at stage 5.
  logic [SUMS_WIDTH-1:0] lane_sums;
  for (genvar output_lane = 0; output_lane < OUTPUT_LANES; output_lane++) begin : g_lane_sum
    logic [SUM_BITS-1:0] total;
    always_comb begin
      total = '0;
      for (int input_lane = 0; input_lane < INPUT_LANES; input_lane++)
        total = total + tile_sums[(output_lane*INPUT_LANES+input_lane)*SUM_BITS+:SUM_BITS];
    end
    always_ff @(posedge clock) lane_sums[output_lane*SUM_BITS+:SUM_BITS] <= total;
  end

  // --- Partial sums that came in wait here until their pixel's first sum arrives.
  logic partial_valid, partial_taken;
  logic [BEAT_WIDTH-1:0] partial;
  logic [FIFO_LOG2:0] partials_waiting, partials_promised;
  stream_fifo #(
      .WIDTH(BEAT_WIDTH),
      .DEPTH_LOG2(FIFO_LOG2)
  ) partial_buffer (
      .clock,
      .clear,
      .in_valid (partial_tvalid),
      .in_ready (partial_tready),
      .in_data  (partial_tdata),
      .out_valid(partial_valid),
      .out_ready(partial_taken),
      .out_data (partial),
      .count    (partials_waiting)
  );
  assign partial_ready = partials_waiting > partials_promised;
  assign partial_taken = adds_partial && issued_5 && first_5;
  logic promise, keep;
  assign promise = adds_partial && issue && first_inner;
  assign keep = partial_taken && partial_valid;
  always_ff @(posedge clock) begin
    if (clear) partials_promised <= '0;
    else if (promise && !keep) partials_promised <= partials_promised + (FIFO_LOG2 + 1)'(1);
    else if (keep && !promise) partials_promised <= partials_promised - (FIFO_LOG2 + 1)'(1);
  end

  // --- The accumulators of one row: read at stage 4, added to and written at stage 5.
  logic [SUMS_WIDTH-1:0] accumulators[0:(1<<COLUMN_ADDRESS_BITS)-1];
  logic [SUMS_WIDTH-1:0] stored, updated;
  always_ff @(posedge clock) begin
    stored <= accumulators[column_4];
    if (issued_5 && !last_5) accumulators[column_5] <= updated;
  end

  logic [BEAT_WIDTH-1:0] rounded;
  for (genvar lane = 0; lane < OUTPUT_LANES; lane++) begin : g_accumulate
    logic signed [ELEMENT_BITS-1:0] lane_partial;
    logic [SUM_BITS-1:0] raised, start, total;
    logic [ELEMENT_BITS-1:0] element;
    assign lane_partial = partial[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign raised = adds_partial ? (SUM_BITS'(lane_partial) << partial_shift) : '0;
    assign start = first_5 ? raised : stored[lane*SUM_BITS+:SUM_BITS];
    assign total = start + lane_sums[lane*SUM_BITS+:SUM_BITS];
    assign updated[lane*SUM_BITS+:SUM_BITS] = total;
    round_to_element #(
        .VALUE_BITS(SUM_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(WIRE_BITS)
    ) rounding (
        .value(total),
        .shift(sum_shift),
        .element
    );
    assign rounded[lane*ELEMENT_BITS+:ELEMENT_BITS] = element;
  end

  // --- Finished sums, at stage 6. Room in the FIFO is reserved when a pixel's last step is issued.
  logic finished;
  logic [BEAT_WIDTH-1:0] finished_sums;
  always_ff @(posedge clock) begin
    finished <= issued_5 && last_5 && !clear;
    finished_sums <= rounded;
  end
  logic [FIFO_LOG2:0] sums_waiting, sums_promised;
  logic fifo_ready, reserve, leave;
  stream_fifo #(
      .WIDTH(BEAT_WIDTH),
      .DEPTH_LOG2(FIFO_LOG2)
  ) sum_buffer (
      .clock,
      .clear,
      .in_valid (finished),
      .in_ready (fifo_ready),
      .in_data  (finished_sums),
      .out_valid(sum_tvalid),
      .out_ready(sum_tready),
      .out_data (sum_tdata),
      .count    (sums_waiting)
  );
  assign reserve = issue && last_inner;
  assign leave = sum_tvalid && sum_tready;
  assign room_ready = !sums_promised[FIFO_LOG2];
  always_ff @(posedge clock) begin
    if (clear) sums_promised <= '0;
    else if (reserve && !leave) sums_promised <= sums_promised + (FIFO_LOG2 + 1)'(1);
    else if (leave && !reserve) sums_promised <= sums_promised - (FIFO_LOG2 + 1)'(1);
  end

  // What the shared parts offer beyond what FP needs.
  logic unused;
  assign unused = &{1'b0, in_map, sample_first_row, row, column, outer, last_column, last_sweep_of_row, last_row, fifo_ready, sums_waiting};
endmodule
