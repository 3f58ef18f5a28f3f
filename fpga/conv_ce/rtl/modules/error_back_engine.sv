// EB: the errors of the input channels held here, from the errors of all output channels.
//
// INPUT_LANES x OUTPUT_LANES tiles do one kernel each per cycle, at every stride (error_tile.sv). A step q stands for the
// STRIDE x STRIDE input pixels around q * STRIDE, counted from the corner of the padding; steps run from pad / STRIDE to
// (size - 1 + pad) / STRIDE in both directions. Row of steps by row, for every group of INPUT_LANES inputs and every group
// of OUTPUT_LANES outputs, one sweep goes over the row's steps; sums of several output groups meet in a row of accumulators.
//   cycles of a row of steps = input groups x output groups / CHANNEL_GROUPS x max(steps, LOAD_WORDS + 1)
// as long as errors come and go in time.
//
// Streams (one pixel of a channel group per beat):
//   error         OUTPUT_LANES elements, of the raw sum: behind un-pooling and the activation's derivative
//   input_error   INPUT_LANES elements, rounded and saturated to WIRE_BITS, in blocks of up to STRIDE rows:
//                 the first of STRIDE - pad mod STRIDE rows
module error_back_engine #(
    parameter int KERNEL = 3,
    parameter int STRIDE = 1,
    parameter int INPUT_LANES = 4,
    parameter int OUTPUT_LANES = 4,
    parameter int CHANNEL_GROUPS = 1,           // that do not mix; lanes divide the channels of each
    parameter int CHANNEL_BITS = 16,            // of what counts input channels and groups of them
    parameter int KERNELS_PER_WORD = 4,
    parameter int ROW_BANKS_LOG2 = 2,     // at least KERNEL / STRIDE rounded up, and one
    parameter int COLUMN_BANKS_LOG2 = 2,  // at least KERNEL / STRIDE rounded up
    parameter int LINE_ADDRESS_BITS = 6,
    parameter int COLUMN_ADDRESS_BITS = 6,
    parameter int PARAMETER_ADDRESS_BITS = 10,
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32,
    parameter int WIRE_BITS = 16
) (
    input logic clock,
    input logic clear,

    // Geometry, constant while running. Height and width are those of the layer's input.
    input logic [15:0] width,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] step_rows,
    input logic [15:0] step_columns,
    input logic [15:0] first_step,                               // pad / STRIDE
    input logic [15:0] first_phase,                              // pad mod STRIDE
    input logic [15:0] last_phase,                               // (height - 1 + pad) mod STRIDE
    input logic [CHANNEL_BITS-1:0] input_groups,
    input logic [15:0] output_groups,
    input logic [15:0] first_block_rows,                         // of the incoming errors
    input logic [15:0] block_rows,
    input logic [PARAMETER_ADDRESS_BITS-1:0] output_group_step,  // words: input groups / CHANNEL_GROUPS x LOAD_WORDS
    input logic [ 4:0] sum_shift,

    input  logic                                 error_tvalid,
    output logic                                 error_tready,
    input  logic [OUTPUT_LANES*ELEMENT_BITS-1:0] error_tdata,

    output logic                                input_error_tvalid,
    input  logic                                input_error_tready,
    output logic [INPUT_LANES*ELEMENT_BITS-1:0] input_error_tdata,

    input  logic                                                   parameter_ready,
    output logic                                                   parameter_read,
    output logic [                     PARAMETER_ADDRESS_BITS-1:0] parameter_address,
    input  logic [KERNELS_PER_WORD*KERNEL*KERNEL*ELEMENT_BITS-1:0] parameter_word
);
  localparam int TAPS = KERNEL * KERNEL;
  localparam int SPAN = (KERNEL + STRIDE - 1) / STRIDE;
  localparam int PHASES = STRIDE * STRIDE;
  localparam int TILES = INPUT_LANES * OUTPUT_LANES;
  localparam int LOAD_WORDS = (TILES + KERNELS_PER_WORD - 1) / KERNELS_PER_WORD;
  localparam int SUMS_WIDTH = INPUT_LANES * PHASES * SUM_BITS;

  // --- The line buffer of errors and who fills it.
  logic line_write;
  logic [ROW_BANKS_LOG2-1:0] line_write_row;
  logic [COLUMN_BANKS_LOG2-1:0] line_write_column;
  logic [LINE_ADDRESS_BITS-1:0] line_write_address;
  logic [15:0] rows_written, rows_released;
  row_writer #(
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .ADDRESS_BITS(LINE_ADDRESS_BITS)
  ) writer (
      .clock,
      .clear,
      .height(out_height),
      .width(out_width),
      .groups(output_groups),
      .first_block_rows,
      .block_rows,
      .valid(error_tvalid),
      .ready(error_tready),
      .rows_released,
      .rows_written,
      .write_enable(line_write),
      .write_row(line_write_row),
      .write_column(line_write_column),
      .write_address(line_write_address)
  );

  // --- Which step comes next, and whether it can be taken.
  logic issue, row_ready, kernels_ready, room;
  logic [15:0] sample_first_row, top, left, row, column;
  logic [CHANNEL_BITS-1:0] outer;
  logic [LINE_ADDRESS_BITS-1:0] inner_address, columns_per_bank;
  logic first_inner, last_inner, first_column, last_column, last_sweep_of_row, last_row;
  assign columns_per_bank = LINE_ADDRESS_BITS'((out_width + 16'((1 << COLUMN_BANKS_LOG2) - 1)) >> COLUMN_BANKS_LOG2);
  sweep_sequencer #(
      .WINDOW_ROWS (SPAN),
      .ADDRESS_BITS(LINE_ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) sequencer (
      .clock,
      .clear,
      .height(out_height),
      .rows(step_rows),
      .columns(step_columns),
      .outer_groups(input_groups),
      .class_groups(input_groups / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .inner_groups(CHANNEL_BITS'(output_groups) / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .stride(16'd1),
      .first_top(first_step - 16'(SPAN - 1)),
      .first_left(first_step - 16'(SPAN - 1)),
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
  assign issue = row_ready && (!first_column || kernels_ready) && (!(first_column && last_inner) || room);

  logic [OUTPUT_LANES*SPAN*SPAN*ELEMENT_BITS-1:0] window;
  logic [SPAN*SPAN-1:0] in_map;
  window_memory #(
      .WORD_BITS(OUTPUT_LANES * ELEMENT_BITS),
      .WINDOW_ROWS(SPAN),
      .WINDOW_COLUMNS(SPAN),
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .ADDRESS_BITS(LINE_ADDRESS_BITS)
  ) line_buffer (
      .clock,
      .write_enable(line_write),
      .write_row(line_write_row),
      .write_column(line_write_column),
      .write_address(line_write_address),
      .write_word(error_tdata),
      .height(out_height),
      .width(out_width),
      .first_row_bank(sample_first_row[ROW_BANKS_LOG2-1:0]),
      .top,
      .left,
      .group_address(inner_address),
      .window,
      .in_map
  );

  // --- Kernels on their way into the tiles: the same memory as FP's, walked along the outputs.
  logic load_enable;
  logic [15:0] load_index;
  weight_loader #(
      .LOAD_WORDS  (LOAD_WORDS),
      .ADDRESS_BITS(PARAMETER_ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) loader (
      .clock,
      .clear,
      .inner_sweeps(CHANNEL_BITS'(output_groups) / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .outer_sweeps(input_groups),
      .class_sweeps(input_groups / CHANNEL_BITS'(CHANNEL_GROUPS)),
      .inner_step(output_group_step),
      .outer_step(PARAMETER_ADDRESS_BITS'(LOAD_WORDS)),
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
  logic ends_1, ends_2, ends_3, ends_4, ends_5;
  logic [1:0] block_1, block_2, block_3, block_4, block_5;
  logic take_1;
  logic [COLUMN_ADDRESS_BITS-1:0] column_1, column_2, column_3, column_4, column_5;
  always_ff @(posedge clock) begin
    {issued_1, issued_2, issued_3, issued_4, issued_5} <= clear ? '0 : {issue, issued_1, issued_2, issued_3, issued_4};
    {first_1, first_2, first_3, first_4, first_5} <= {first_inner, first_1, first_2, first_3, first_4};
    {last_1, last_2, last_3, last_4, last_5} <= {last_inner, last_1, last_2, last_3, last_4};
    {ends_1, ends_2, ends_3, ends_4, ends_5} <= {last_column, ends_1, ends_2, ends_3, ends_4};
    {block_1, block_2, block_3, block_4, block_5} <= {row == 16'd0, last_row, block_1, block_2, block_3, block_4};
    {column_1, column_2, column_3, column_4, column_5} <=
        {COLUMN_ADDRESS_BITS'(column), column_1, column_2, column_3, column_4};
    take_1 <= issue && first_column;
  end

  // --- The tiles: tile output_lane * INPUT_LANES + input_lane. Windows at stage 2, their sums at stage 4.
  logic [TILES*PHASES*SUM_BITS-1:0] tile_sums;
  for (genvar output_lane = 0; output_lane < OUTPUT_LANES; output_lane++) begin : g_output
    logic [SPAN*SPAN*ELEMENT_BITS-1:0] lane_window;
    for (genvar place = 0; place < SPAN * SPAN; place++) begin : g_place
      assign lane_window[place*ELEMENT_BITS+:ELEMENT_BITS] = window[(place*OUTPUT_LANES+output_lane)*ELEMENT_BITS+:ELEMENT_BITS];
    end
    for (genvar input_lane = 0; input_lane < INPUT_LANES; input_lane++) begin : g_input
      localparam int TILE = output_lane * INPUT_LANES + input_lane;
      localparam int WORD = TILE / KERNELS_PER_WORD;
      localparam int PLACE = TILE % KERNELS_PER_WORD;
      error_tile #(
          .KERNEL(KERNEL),
          .STRIDE(STRIDE),
          .ELEMENT_BITS(ELEMENT_BITS),
          .SUM_BITS(SUM_BITS)
      ) tile (
          .clock,
          .load_enable(load_enable && load_index == 16'(WORD)),
          .load_kernel(parameter_word[PLACE*TAPS*ELEMENT_BITS+:TAPS*ELEMENT_BITS]),
          .take_kernel(take_1),
          .window(lane_window),
          .sums(tile_sums[TILE*PHASES*SUM_BITS+:PHASES*SUM_BITS])
      );
    end
  end

  // --- The sums over output lanes, at stage 5: sum phase * INPUT_LANES + input_lane.
  logic [SUMS_WIDTH-1:0] lane_sums;
  for (genvar phase = 0; phase < PHASES; phase++) begin : g_phase_sum
    for (genvar input_lane = 0; input_lane < INPUT_LANES; input_lane++) begin : g_lane_sum
      logic [SUM_BITS-1:0] total;
      always_comb begin
        total = '0;
        for (int output_lane = 0; output_lane < OUTPUT_LANES; output_lane++)
          total = total + tile_sums[((output_lane*INPUT_LANES+input_lane)*PHASES+phase)*SUM_BITS+:SUM_BITS];
      end
      always_ff @(posedge clock) lane_sums[(phase*INPUT_LANES+input_lane)*SUM_BITS+:SUM_BITS] <= total;
    end
  end

  // --- The accumulators of one row of steps: read at stage 4, added to and written at stage 5.
  logic [SUMS_WIDTH-1:0] accumulators[0:(1<<COLUMN_ADDRESS_BITS)-1];
  logic [SUMS_WIDTH-1:0] stored, updated;
  always_ff @(posedge clock) begin
    stored <= accumulators[column_4];
    if (issued_5 && !last_5) accumulators[column_5] <= updated;
  end
  logic [PHASES*INPUT_LANES*ELEMENT_BITS-1:0] rounded;
  for (genvar lane = 0; lane < PHASES * INPUT_LANES; lane++) begin : g_accumulate
    logic [SUM_BITS-1:0] total;
    logic [ELEMENT_BITS-1:0] element;
    assign total = (first_5 ? '0 : stored[lane*SUM_BITS+:SUM_BITS]) + lane_sums[lane*SUM_BITS+:SUM_BITS];
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

  // --- Finished errors, at stage 6.
  logic finished, sweep_done;
  logic [1:0] block_6;
  logic [COLUMN_ADDRESS_BITS-1:0] column_6;
  logic [PHASES*INPUT_LANES*ELEMENT_BITS-1:0] finished_errors;
  always_ff @(posedge clock) begin
    finished <= issued_5 && last_5 && !clear;
    sweep_done <= issued_5 && last_5 && ends_5 && !clear;
    block_6 <= block_5;
    column_6 <= column_5;
    finished_errors <= rounded;
  end
  error_buffer #(
      .STRIDE(STRIDE),
      .WORD_BITS(INPUT_LANES * ELEMENT_BITS),
      .COLUMN_ADDRESS_BITS(COLUMN_ADDRESS_BITS)
  ) buffer (
      .clock,
      .clear,
      .width,
      .first_phase,
      .last_phase,
      .room,
      .reserve(issue && first_column && last_inner),
      .write_enable(finished),
      .write_place(column_6),
      .write_words(finished_errors),
      .sweep_done,
      .first_block(block_6[1]),
      .last_block(block_6[0]),
      .out_tvalid(input_error_tvalid),
      .out_tready(input_error_tready),
      .out_tdata(input_error_tdata)
  );

  logic unused;
  assign unused = &{1'b0, in_map, sample_first_row, column, outer, last_sweep_of_row};
endmodule
