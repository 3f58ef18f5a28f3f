// PG: the gradients of the kernels held here, row of errors by row, added up in the gradient buffer (FPDeep's LGB).
//
// INPUT_LANES x OUTPUT_LANES tiles: every cycle one pixel's errors of OUTPUT_LANES outputs meet the windows of INPUT_LANES
// inputs. A sweep covers one row for one pair of groups; its sums are then captured and added to the gradient buffer,
// KERNELS_PER_WORD kernels per cycle, while the next sweep runs. The K x K large convolutions that gradients are thus fall
// into as many small ones as there are pixels.
//   cycles of a row = output groups x input groups x max(output columns, LOAD_WORDS, 2)
// as long as activations and errors come in time.
//
// Streams: activation, INPUT_LANES elements per beat, as for FP; error, OUTPUT_LANES elements, as for EB.
// The gradient buffer lies outside, two ports, words like the parameter memory's but SUM_BITS per weight: a read appears one
// cycle after its address. The first of `samples_per_update` samples replaces what is there.
// `bias_*` give each output channel's sum of errors: written once per row and group, to be read when `rows_done` has come.
module gradient_engine #(
    parameter int KERNEL = 3,
    parameter int STRIDE = 1,
    parameter int INPUT_LANES = 4,
    parameter int OUTPUT_LANES = 4,
    parameter int CHANNEL_GROUPS = 1,           // that do not mix; lanes divide the channels of each
    parameter int CHANNEL_BITS = 16,            // of what counts input channels and groups of them
    parameter int KERNELS_PER_WORD = 4,
    parameter int ROW_BANKS_LOG2 = 2,       // of activations: at least KERNEL + STRIDE rows
    parameter int COLUMN_BANKS_LOG2 = 2,
    parameter int LINE_ADDRESS_BITS = 6,
    parameter int ERROR_ROW_BANKS_LOG2 = 1,
    parameter int ERROR_ADDRESS_BITS = 7,
    parameter int GRADIENT_ADDRESS_BITS = 10,
    parameter int GROUP_ADDRESS_BITS = 6,   // output groups
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] pad,
    input logic [CHANNEL_BITS-1:0] input_groups,
    input logic [15:0] output_groups,
    input logic [15:0] first_block_rows,        // of the activations
    input logic [15:0] block_rows,
    input logic [15:0] error_first_block_rows,  // of the errors
    input logic [15:0] error_block_rows,
    input logic [15:0] samples_per_update,      // the first of them overwrites the gradient buffer

    input  logic                                activation_tvalid,
    output logic                                activation_tready,
    input  logic [INPUT_LANES*ELEMENT_BITS-1:0] activation_tdata,

    input  logic                                 error_tvalid,
    output logic                                 error_tready,
    input  logic [OUTPUT_LANES*ELEMENT_BITS-1:0] error_tdata,

    // Memory outside: a sweep ends while `gradient_ready`, and claims its LOAD_WORDS words by `gradient_claim`.
    input  logic                                              gradient_ready,
    output logic                                              gradient_claim,
    output logic                                              gradient_read,
    output logic [                 GRADIENT_ADDRESS_BITS-1:0] gradient_read_address,
    input  logic [KERNELS_PER_WORD*KERNEL*KERNEL*SUM_BITS-1:0] gradient_read_word,
    output logic                                              gradient_write_enable,
    output logic [                 GRADIENT_ADDRESS_BITS-1:0] gradient_write_address,
    output logic [KERNELS_PER_WORD*KERNEL*KERNEL*SUM_BITS-1:0] gradient_write_word,

    input  logic [   GROUP_ADDRESS_BITS-1:0] bias_read_address,
    output logic [OUTPUT_LANES*SUM_BITS-1:0] bias_read_word,  // one cycle later

    output logic [15:0] rows_done  // whose gradients are in the buffer, over all samples, modulo 2^16
);
  localparam int TAPS = KERNEL * KERNEL;
  localparam int TILES = INPUT_LANES * OUTPUT_LANES;
  localparam int LOAD_WORDS = (TILES + KERNELS_PER_WORD - 1) / KERNELS_PER_WORD;
  localparam int SHORTEST_SWEEP = (LOAD_WORDS < 2) ? 2 : LOAD_WORDS;
  localparam int KERNEL_WIDTH = TAPS * SUM_BITS;

  // --- Activations.
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

  logic issue, row_ready;
  logic [15:0] sample_first_row, top, left, row, column;
  logic [CHANNEL_BITS-1:0] outer;
  logic [LINE_ADDRESS_BITS-1:0] inner_address, columns_per_bank;
  logic first_inner, last_inner, first_column, last_column, last_sweep_of_row, last_row;
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

  // --- Errors: rows of single pixels, in the same kind of memory. `error_row` counts rows over all samples.
  logic error_write;
  logic [ERROR_ROW_BANKS_LOG2-1:0] error_write_row;
  logic error_write_column;
  logic [ERROR_ADDRESS_BITS-1:0] error_write_address, error_group_address, error_columns_per_bank;
  logic [15:0] error_rows_written, error_row;
  logic error_row_ready;
  assign error_columns_per_bank = ERROR_ADDRESS_BITS'((out_width + 16'd1) >> 1);
  assign error_row_ready = error_rows_written != error_row;
  row_writer #(
      .ROW_BANKS_LOG2(ERROR_ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(1),
      .ADDRESS_BITS(ERROR_ADDRESS_BITS)
  ) error_writer (
      .clock,
      .clear,
      .height(out_height),
      .width(out_width),
      .groups(output_groups),
      .first_block_rows(error_first_block_rows),
      .block_rows(error_block_rows),
      .valid(error_tvalid),
      .ready(error_tready),
      .rows_released(error_row),
      .rows_written(error_rows_written),
      .write_enable(error_write),
      .write_row(error_write_row),
      .write_column(error_write_column),
      .write_address(error_write_address)
  );
  logic [OUTPUT_LANES*ELEMENT_BITS-1:0] errors;
  logic error_in_map;
  window_memory #(
      .WORD_BITS(OUTPUT_LANES * ELEMENT_BITS),
      .WINDOW_ROWS(1),
      .WINDOW_COLUMNS(1),
      .ROW_BANKS_LOG2(ERROR_ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(1),
      .ADDRESS_BITS(ERROR_ADDRESS_BITS)
  ) error_rows (
      .clock,
      .write_enable(error_write),
      .write_row(error_write_row),
      .write_column(error_write_column),
      .write_address(error_write_address),
      .write_word(error_tdata),
      .height(16'd1),
      .width(out_width),
      .first_row_bank(error_row[ERROR_ROW_BANKS_LOG2-1:0]),
      .top(16'd0),
      .left(column),
      .group_address(error_group_address),
      .window(errors),
      .in_map(error_in_map)
  );

  // --- Steps. The last one of a sweep waits until the sweep before is on its way into the gradient buffer.
  logic [15:0] capture_wait, sample;
  assign issue = row_ready && error_row_ready && (!last_column || (capture_wait == 16'd0 && gradient_ready));
  assign gradient_claim = issue && last_column;
  always_ff @(posedge clock) begin
    if (clear) begin
      error_row <= '0;
      error_group_address <= '0;
      capture_wait <= '0;
      sample <= '0;
    end else begin
      if (capture_wait != 16'd0) capture_wait <= capture_wait - 16'd1;
      if (issue && last_column) begin
        capture_wait <= 16'(SHORTEST_SWEEP - 1);
        if (last_inner) error_group_address <= last_sweep_of_row ? '0 : error_group_address + error_columns_per_bank;
        if (last_sweep_of_row) error_row <= error_row + 16'd1;
        if (last_sweep_of_row && last_row) sample <= (sample == samples_per_update - 16'd1) ? '0 : sample + 16'd1;
      end
    end
  end

  // --- What travels beside the data: products at stage 3, accumulators at stage 4, captured at stage 5.
  logic issued_1, issued_2, issued_3;
  logic first_1, first_2, first_3;
  logic last_1, last_2, last_3, last_4;
  // What the captured sums are: of the last sweep of a row; of the first row that overwrites; the first input group.
  logic row_ends_1, row_ends_2, row_ends_3, row_ends_4;
  logic replaces_1, replaces_2, replaces_3, replaces_4;
  logic biased_1, biased_2, biased_3, biased_4;
  logic [GROUP_ADDRESS_BITS-1:0] group_1, group_2, group_3, group_4;
  always_ff @(posedge clock) begin
    {issued_1, issued_2, issued_3} <= clear ? '0 : {issue, issued_1, issued_2};
    {first_1, first_2, first_3} <= {first_column, first_1, first_2};
    {last_1, last_2, last_3, last_4} <= clear ? '0 : {issue && last_column, last_1, last_2, last_3};
    {row_ends_1, row_ends_2, row_ends_3, row_ends_4} <= {last_sweep_of_row, row_ends_1, row_ends_2, row_ends_3};
    {replaces_1, replaces_2, replaces_3, replaces_4} <= {sample == 16'd0 && row == 16'd0, replaces_1, replaces_2, replaces_3};
    {biased_1, biased_2, biased_3, biased_4} <= {first_inner, biased_1, biased_2, biased_3};
    {group_1, group_2, group_3, group_4} <= {GROUP_ADDRESS_BITS'(outer), group_1, group_2, group_3};
  end

  logic [TILES*KERNEL_WIDTH-1:0] captured;
  for (genvar output_lane = 0; output_lane < OUTPUT_LANES; output_lane++) begin : g_output
    for (genvar input_lane = 0; input_lane < INPUT_LANES; input_lane++) begin : g_input
      localparam int TILE = output_lane * INPUT_LANES + input_lane;
      logic [TAPS*ELEMENT_BITS-1:0] tile_window;
      for (genvar tap = 0; tap < TAPS; tap++) begin : g_tap
        assign tile_window[tap*ELEMENT_BITS+:ELEMENT_BITS] = window[(tap*INPUT_LANES+input_lane)*ELEMENT_BITS+:ELEMENT_BITS];
      end
      gradient_tile #(
          .TAPS(TAPS),
          .ELEMENT_BITS(ELEMENT_BITS),
          .SUM_BITS(SUM_BITS)
      ) tile (
          .clock,
          .window(tile_window),
          .error(errors[output_lane*ELEMENT_BITS+:ELEMENT_BITS]),
          .accumulate(issued_3),
          .first(first_3),
          .capture(last_4),
          .captured(captured[TILE*KERNEL_WIDTH+:KERNEL_WIDTH])
      );
    end
  end

  // --- Captured sums into the gradient buffer: word after word is read, then written with the sums added.
  logic draining, drain_ends_row, drain_replaces;
  logic [15:0] drain_index;
  logic [GRADIENT_ADDRESS_BITS-1:0] drain_address;
  logic adding, add_ends_row, add_replaces;
  logic [KERNELS_PER_WORD*KERNEL_WIDTH-1:0] drained;
  always_ff @(posedge clock) begin
    if (clear) begin
      draining <= 1'b0;
      drain_index <= '0;
      drain_address <= '0;
      adding <= 1'b0;
      add_ends_row <= 1'b0;
      rows_done <= '0;
    end else begin
      if (last_4) begin
        draining <= 1'b1;
        drain_index <= '0;
      end else if (drain_index == 16'(LOAD_WORDS - 1)) begin
        draining <= 1'b0;
        drain_index <= '0;
      end else if (draining) begin
        drain_index <= drain_index + 16'd1;
      end
      if (draining)
        drain_address <= (drain_ends_row && drain_index == 16'(LOAD_WORDS - 1)) ? '0 : drain_address + GRADIENT_ADDRESS_BITS'(1);
      adding <= draining;
      add_ends_row <= draining && drain_ends_row && drain_index == 16'(LOAD_WORDS - 1);
      if (add_ends_row) rows_done <= rows_done + 16'd1;
    end
    if (last_4) begin
      drain_ends_row <= row_ends_4;
      drain_replaces <= replaces_4;
    end
    add_replaces <= drain_replaces;
    gradient_write_address <= drain_address;
  end
  assign gradient_read = draining;
  assign gradient_read_address = drain_address;
  assign gradient_write_enable = adding;

  for (genvar kernel = 0; kernel < KERNELS_PER_WORD; kernel++) begin : g_drain
    logic [KERNEL_WIDTH-1:0] chosen;
    always_comb begin
      /* verilator lint_off WIDTHCONCAT */
      chosen = '0;  // of a kernel as large as a map of 28 x 28, more than 8 thousand bits
      /* verilator lint_on WIDTHCONCAT */
      for (int word = 0; word < LOAD_WORDS; word++)
        if (word * KERNELS_PER_WORD + kernel < TILES && drain_index == 16'(word))
          chosen = captured[(word*KERNELS_PER_WORD+kernel)%TILES*KERNEL_WIDTH+:KERNEL_WIDTH];
    end
    always_ff @(posedge clock) drained[kernel*KERNEL_WIDTH+:KERNEL_WIDTH] <= chosen;
    for (genvar tap = 0; tap < TAPS; tap++) begin : g_add
      localparam int PLACE = (kernel * TAPS + tap) * SUM_BITS;
      assign gradient_write_word[PLACE+:SUM_BITS] =
          (add_replaces ? '0 : gradient_read_word[PLACE+:SUM_BITS]) + drained[PLACE+:SUM_BITS];
    end
  end

  // --- The bias: sums of errors over a row, added up per output group.
  logic [OUTPUT_LANES*SUM_BITS-1:0] biases[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [OUTPUT_LANES*SUM_BITS-1:0] bias_before, row_sums;
  logic [OUTPUT_LANES*ELEMENT_BITS-1:0] errors_3;
  always_ff @(posedge clock) begin
    errors_3 <= errors;
    bias_before <= biases[group_3];
    bias_read_word <= biases[bias_read_address];
  end
  logic [OUTPUT_LANES*SUM_BITS-1:0] bias_after;
  for (genvar lane = 0; lane < OUTPUT_LANES; lane++) begin : g_bias
    logic signed [ELEMENT_BITS-1:0] error;
    logic [SUM_BITS-1:0] start;
    assign error = errors_3[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign start = first_3 ? '0 : row_sums[lane*SUM_BITS+:SUM_BITS];
    always_ff @(posedge clock) if (issued_3) row_sums[lane*SUM_BITS+:SUM_BITS] <= start + SUM_BITS'(error);
    assign bias_after[lane*SUM_BITS+:SUM_BITS] =
        (replaces_4 ? '0 : bias_before[lane*SUM_BITS+:SUM_BITS]) + row_sums[lane*SUM_BITS+:SUM_BITS];
  end
  always_ff @(posedge clock) if (last_4 && biased_4) biases[group_4] <= bias_after;

  logic unused;
  assign unused = &{1'b0, in_map, error_in_map, sample_first_row, top, left, outer};
endmodule
