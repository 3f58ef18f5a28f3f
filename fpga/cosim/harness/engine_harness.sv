// The three engines of one shard with their memories, each for itself: what a host drives phase by phase, under simulation.
//
// FP reads its kernels from LPRAM and may end in the special-function unit without pooling; EB reads its own copy, PG adds to
// LGB. Each has a clock, so that a simulator works on the one that runs; geometry is shared and means what the engines say.
// While a clock stands still its engine does. `clear` forgets everything but memories. Parameters are those of the modules.
// Host ports: `parameter_*` write one element of both LPRAMs (both clocks tick), `scale_*` one word of the special-function
// unit (FP's clock), `gradient_host_*` and `bias_read_*` read what PG left (PG's clock).
module engine_harness #(
    parameter int KERNEL = 3,
    parameter int STRIDE = 1,
    parameter int INPUT_LANES = 2,
    parameter int OUTPUT_LANES = 2,
    parameter int CHANNEL_GROUPS = 1,
    parameter int KERNELS_PER_WORD = 4,
    parameter int ROW_BANKS_LOG2 = 2,
    parameter int COLUMN_BANKS_LOG2 = 2,
    parameter int LINE_ADDRESS_BITS = 6,
    parameter int ERROR_ROW_BANKS_LOG2 = 2,
    parameter int ERROR_COLUMN_BANKS_LOG2 = 2,
    parameter int ERROR_LINE_ADDRESS_BITS = 6,
    parameter int GRADIENT_ERROR_ROW_BANKS_LOG2 = 1,
    parameter int GRADIENT_ERROR_ADDRESS_BITS = 7,
    parameter int COLUMN_ADDRESS_BITS = 6,
    parameter int PARAMETER_ADDRESS_BITS = 10,
    parameter int GROUP_ADDRESS_BITS = 6
) (
    input logic forward_clock,
    input logic back_clock,
    input logic gradient_clock,
    input logic clear,

    // Geometry of all three.
    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] pad,
    input logic [15:0] input_groups,
    input logic [15:0] output_groups,
    input logic [15:0] output_group_step,
    input logic [15:0] error_first_block_rows,
    input logic [15:0] error_block_rows,
    input logic [15:0] samples,
    input logic [ 4:0] sum_shift,
    input logic        adds_partial,
    input logic        finishes,         // FP: the special-function unit follows the sum
    input logic [15:0] step_rows,        // EB
    input logic [15:0] step_columns,
    input logic [15:0] first_step,
    input logic [15:0] first_phase,
    input logic [15:0] last_phase,

    input  logic                      activation_tvalid,
    output logic                      activation_tready,
    input  logic [INPUT_LANES*16-1:0] activation_tdata,

    input  logic                       partial_tvalid,
    output logic                       partial_tready,
    input  logic [OUTPUT_LANES*16-1:0] partial_tdata,

    output logic                       sum_tvalid,
    input  logic                       sum_tready,
    output logic [OUTPUT_LANES*16-1:0] sum_tdata,

    input  logic                       error_tvalid,
    output logic                       error_tready,
    input  logic [OUTPUT_LANES*16-1:0] error_tdata,

    output logic                      input_error_tvalid,
    input  logic                      input_error_tready,
    output logic [INPUT_LANES*16-1:0] input_error_tdata,

    input  logic                       kept_tvalid,  // activations once more, for PG
    output logic                       kept_tready,
    input  logic [INPUT_LANES*16-1:0]  kept_tdata,
    input  logic                       raw_error_tvalid,
    output logic                       raw_error_tready,
    input  logic [OUTPUT_LANES*16-1:0] raw_error_tdata,
    output logic [15:0]                rows_done,

    input logic                              parameter_write_enable,
    input logic [PARAMETER_ADDRESS_BITS-1:0] parameter_write_address,
    input logic [                      15:0] parameter_write_element,
    input logic [                      15:0] parameter_write_data,

    input logic                          scale_write_enable,
    input logic [GROUP_ADDRESS_BITS-1:0] scale_write_address,
    input logic [   OUTPUT_LANES*16-1:0] scale_write_scales,
    input logic [   OUTPUT_LANES*16-1:0] scale_write_offsets,

    input  logic                                             gradient_host_reads,
    input  logic [               PARAMETER_ADDRESS_BITS-1:0] gradient_host_address,
    output logic [KERNELS_PER_WORD*KERNEL*KERNEL*32-1:0]     gradient_host_word,
    input  logic [                   GROUP_ADDRESS_BITS-1:0] bias_read_address,
    output logic [                      OUTPUT_LANES*32-1:0] bias_read_word
);
  localparam int WORD = KERNELS_PER_WORD * KERNEL * KERNEL;

  // --- FP.
  logic [PARAMETER_ADDRESS_BITS-1:0] forward_address;
  logic [WORD*16-1:0] forward_word, forward_second_word;
  logic forward_read;
  parameter_memory #(
      .ELEMENTS(WORD),
      .ADDRESS_BITS(PARAMETER_ADDRESS_BITS)
  ) forward_parameters (
      .clock(forward_clock),
      .forward_address,
      .forward_word,
      .back_address('0),
      .back_word(forward_second_word),
      .write_enable(parameter_write_enable),
      .write_address(parameter_write_address),
      .write_element(parameter_write_element),
      .write_data(parameter_write_data)
  );
  logic raw_sum_valid, raw_sum_ready;
  logic [OUTPUT_LANES*16-1:0] raw_sum;
  forward_engine #(
      .KERNEL(KERNEL),
      .STRIDE(STRIDE),
      .INPUT_LANES(INPUT_LANES),
      .OUTPUT_LANES(OUTPUT_LANES),
      .CHANNEL_GROUPS(CHANNEL_GROUPS),
      .KERNELS_PER_WORD(KERNELS_PER_WORD),
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .LINE_ADDRESS_BITS(LINE_ADDRESS_BITS),
      .COLUMN_ADDRESS_BITS(COLUMN_ADDRESS_BITS),
      .PARAMETER_ADDRESS_BITS(PARAMETER_ADDRESS_BITS)
  ) forward (
      .clock(forward_clock),
      .clear,
      .height,
      .width,
      .out_height,
      .out_width,
      .pad,
      .input_groups,
      .output_groups,
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .output_group_step(PARAMETER_ADDRESS_BITS'(output_group_step)),
      .adds_partial,
      .partial_shift(sum_shift),
      .sum_shift,
      .activation_tvalid,
      .activation_tready,
      .activation_tdata,
      .partial_tvalid,
      .partial_tready,
      .partial_tdata,
      .sum_tvalid(raw_sum_valid),
      .sum_tready(raw_sum_ready),
      .sum_tdata(raw_sum),
      .parameter_ready(1'b1),
      .parameter_read(forward_read),
      .parameter_address(forward_address),
      .parameter_word(forward_word)
  );
  logic finished_valid, finished_ready;
  logic [OUTPUT_LANES*16-1:0] finished_sum;
  logic [OUTPUT_LANES*5-1:0] winners;
  logic [OUTPUT_LANES-1:0] mask;
  logic mask_valid;
  special_function_unit #(
      .LANES(OUTPUT_LANES),
      .POOL_KERNEL(1),
      .POOL_STRIDE(1),
      .GROUP_ADDRESS_BITS(GROUP_ADDRESS_BITS)
  ) special_function (
      .clock(forward_clock),
      .clear,
      .height(out_height),
      .width(out_width),
      .groups(output_groups),
      .out_height,
      .out_width,
      .pool_pad(16'd0),
      .relu(1'b0),
      .count_padding(1'b0),
      .offset_shift(4'd0),
      .shift(5'd0),
      .parameter_write_enable(scale_write_enable),
      .parameter_write_address(scale_write_address),
      .parameter_write_scales(scale_write_scales),
      .parameter_write_offsets(scale_write_offsets),
      .sum_tvalid(raw_sum_valid && finishes),
      .sum_tready(finished_ready),
      .sum_tdata(raw_sum),
      .out_tvalid(finished_valid),
      .out_tready(sum_tready && finishes),
      .out_tdata(finished_sum),
      .kept_tdata(winners),
      .mask_tvalid(mask_valid),
      .mask_tready(1'b1),
      .mask_tdata(mask)
  );
  assign raw_sum_ready = finishes ? finished_ready : sum_tready;
  assign sum_tvalid = finishes ? finished_valid : raw_sum_valid;
  assign sum_tdata = finishes ? finished_sum : raw_sum;

  // --- EB.
  logic [PARAMETER_ADDRESS_BITS-1:0] back_address;
  logic [WORD*16-1:0] back_word, back_second_word;
  logic back_read;
  parameter_memory #(
      .ELEMENTS(WORD),
      .ADDRESS_BITS(PARAMETER_ADDRESS_BITS)
  ) back_parameters (
      .clock(back_clock),
      .forward_address('0),
      .forward_word(back_second_word),
      .back_address,
      .back_word,
      .write_enable(parameter_write_enable),
      .write_address(parameter_write_address),
      .write_element(parameter_write_element),
      .write_data(parameter_write_data)
  );
  error_back_engine #(
      .KERNEL(KERNEL),
      .STRIDE(STRIDE),
      .INPUT_LANES(INPUT_LANES),
      .OUTPUT_LANES(OUTPUT_LANES),
      .CHANNEL_GROUPS(CHANNEL_GROUPS),
      .KERNELS_PER_WORD(KERNELS_PER_WORD),
      .ROW_BANKS_LOG2(ERROR_ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(ERROR_COLUMN_BANKS_LOG2),
      .LINE_ADDRESS_BITS(ERROR_LINE_ADDRESS_BITS),
      .COLUMN_ADDRESS_BITS(COLUMN_ADDRESS_BITS),
      .PARAMETER_ADDRESS_BITS(PARAMETER_ADDRESS_BITS)
  ) error_back (
      .clock(back_clock),
      .clear,
      .width,
      .out_height,
      .out_width,
      .step_rows,
      .step_columns,
      .first_step,
      .first_phase,
      .last_phase,
      .input_groups,
      .output_groups,
      .first_block_rows(error_first_block_rows),
      .block_rows(error_block_rows),
      .output_group_step(PARAMETER_ADDRESS_BITS'(output_group_step)),
      .sum_shift,
      .error_tvalid,
      .error_tready,
      .error_tdata,
      .input_error_tvalid,
      .input_error_tready,
      .input_error_tdata,
      .parameter_ready(1'b1),
      .parameter_read(back_read),
      .parameter_address(back_address),
      .parameter_word(back_word)
  );

  // --- PG.
  logic [PARAMETER_ADDRESS_BITS-1:0] gradient_read_address, gradient_write_address;
  logic [WORD*32-1:0] gradient_read_word, gradient_write_word;
  logic gradient_write, gradient_claim, gradient_read;
  gradient_memory #(
      .ELEMENTS(WORD),
      .ADDRESS_BITS(PARAMETER_ADDRESS_BITS)
  ) gradients (
      .clock(gradient_clock),
      .read_address(gradient_host_reads ? gradient_host_address : gradient_read_address),
      .read_word(gradient_read_word),
      .write_enable(gradient_write),
      .write_address(gradient_write_address),
      .write_word(gradient_write_word)
  );
  assign gradient_host_word = gradient_read_word;
  gradient_engine #(
      .KERNEL(KERNEL),
      .STRIDE(STRIDE),
      .INPUT_LANES(INPUT_LANES),
      .OUTPUT_LANES(OUTPUT_LANES),
      .CHANNEL_GROUPS(CHANNEL_GROUPS),
      .KERNELS_PER_WORD(KERNELS_PER_WORD),
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
      .LINE_ADDRESS_BITS(LINE_ADDRESS_BITS),
      .ERROR_ROW_BANKS_LOG2(GRADIENT_ERROR_ROW_BANKS_LOG2),
      .ERROR_ADDRESS_BITS(GRADIENT_ERROR_ADDRESS_BITS),
      .GRADIENT_ADDRESS_BITS(PARAMETER_ADDRESS_BITS),
      .GROUP_ADDRESS_BITS(GROUP_ADDRESS_BITS)
  ) gradient (
      .clock(gradient_clock),
      .clear,
      .height,
      .width,
      .out_height,
      .out_width,
      .pad,
      .input_groups,
      .output_groups,
      .first_block_rows(16'd1),
      .block_rows(16'd1),
      .error_first_block_rows,
      .error_block_rows,
      .samples_per_update(samples),
      .activation_tvalid(kept_tvalid),
      .activation_tready(kept_tready),
      .activation_tdata(kept_tdata),
      .error_tvalid(raw_error_tvalid),
      .error_tready(raw_error_tready),
      .error_tdata(raw_error_tdata),
      .gradient_ready(1'b1),
      .gradient_claim,
      .gradient_read,
      .gradient_read_address,
      .gradient_read_word,
      .gradient_write_enable(gradient_write),
      .gradient_write_address,
      .gradient_write_word,
      .bias_read_address,
      .bias_read_word,
      .rows_done
  );

  logic unused;
  assign unused = &{1'b0, forward_second_word, back_second_word, winners, mask, mask_valid, output_group_step, forward_read, back_read, gradient_claim,
      gradient_read};
endmodule
