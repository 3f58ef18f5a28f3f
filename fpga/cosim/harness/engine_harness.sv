// The three engines of one shard with their memories, each for itself: what a host drives phase by phase, under simulation.
//
// FP reads its kernels from LPRAM and may end in the special-function unit without pooling; EB reads its own copy, PG adds to
// LGB. Each has a clock, so that a simulator works on the one that runs; geometry is shared and means what the engines say.
// While a clock stands still its engine does. `clear` forgets everything but memories. Parameters are those of the modules.
// STREAMED: kernels and gradients lie in the memory behind `m_axi_*`, packed from address 0, for the engine that `stream_phase` names (0 FP, 1
// EB, 2 PG); `stream_busy` falls when PG's are back. Parameters of the streamers are those of a pass.
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
    parameter int GROUP_ADDRESS_BITS = 6,
    parameter int STREAMED = 0,
    parameter int BEAT_BITS = 64
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
    output logic [                      OUTPUT_LANES*32-1:0] bias_read_word,

    input  logic [ 1:0] stream_phase,
    input  logic [31:0] stream_words,
    input  logic [31:0] stream_beats,
    input  logic [31:0] stream_passes,
    output logic        stream_busy,
    output logic        stream_fault,

    output logic                   m_axi_arvalid,
    input  logic                   m_axi_arready,
    output logic [           63:0] m_axi_araddr,
    output logic [            7:0] m_axi_arlen,
    input  logic                   m_axi_rvalid,
    output logic                   m_axi_rready,
    input  logic [  BEAT_BITS-1:0] m_axi_rdata,
    input  logic [            1:0] m_axi_rresp,
    input  logic                   m_axi_rlast,
    output logic                   m_axi_awvalid,
    input  logic                   m_axi_awready,
    output logic [           63:0] m_axi_awaddr,
    output logic [            7:0] m_axi_awlen,
    output logic                   m_axi_wvalid,
    input  logic                   m_axi_wready,
    output logic [  BEAT_BITS-1:0] m_axi_wdata,
    output logic [BEAT_BITS/8-1:0] m_axi_wstrb,
    output logic                   m_axi_wlast,
    input  logic                   m_axi_bvalid,
    output logic                   m_axi_bready,
    input  logic [            1:0] m_axi_bresp
);
  localparam int WORD = KERNELS_PER_WORD * KERNEL * KERNEL;
  localparam int LOAD_WORDS = (INPUT_LANES * OUTPUT_LANES + KERNELS_PER_WORD - 1) / KERNELS_PER_WORD;

  // --- FP.
  logic [PARAMETER_ADDRESS_BITS-1:0] forward_address;
  logic [WORD*16-1:0] forward_word;
  logic forward_read, forward_there;
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
      .parameter_ready(forward_there),
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
  logic [WORD*16-1:0] back_word;
  logic back_read, back_there;
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
      .parameter_ready(back_there),
      .parameter_read(back_read),
      .parameter_address(back_address),
      .parameter_word(back_word)
  );

  // --- PG.
  logic [PARAMETER_ADDRESS_BITS-1:0] gradient_read_address, gradient_write_address;
  logic [WORD*32-1:0] gradient_read_word, gradient_write_word;
  logic gradient_write, gradient_claim, gradient_read, gradient_there;
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
      .gradient_ready(gradient_there),
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

  // --- Where weights lie.
  if (STREAMED != 0) begin : g_streamed
    logic forward_arvalid, back_arvalid, gradient_arvalid, forward_rready, back_rready, gradient_rready;
    logic [63:0] forward_araddr, back_araddr, gradient_araddr;
    logic [7:0] forward_arlen, back_arlen, gradient_arlen;
    logic forward_busy, back_busy, forward_fault, back_fault, gradient_fault;
    logic forward_runs, back_runs, gradient_runs;
    assign forward_runs = stream_phase == 2'd0;
    assign back_runs = stream_phase == 2'd1;
    assign gradient_runs = stream_phase == 2'd2;
    assign m_axi_arvalid = forward_runs ? forward_arvalid : back_runs ? back_arvalid : gradient_arvalid;
    assign m_axi_araddr = forward_runs ? forward_araddr : back_runs ? back_araddr : gradient_araddr;
    assign m_axi_arlen = forward_runs ? forward_arlen : back_runs ? back_arlen : gradient_arlen;
    assign m_axi_rready = forward_runs ? forward_rready : back_runs ? back_rready : gradient_rready;
    assign stream_fault = forward_runs ? forward_fault : back_runs ? back_fault : gradient_fault;
    parameter_streamer #(
        .ELEMENTS(WORD),
        .BEAT_BITS(BEAT_BITS)
    ) forward_kernels (
        .clock(forward_clock),
        .clear,
        .address(64'd0),
        .words(stream_words),
        .beats(stream_beats),
        .passes(stream_passes),
        .busy(forward_busy),
        .fault(forward_fault),
        .parameter_ready(forward_there),
        .parameter_read(forward_read),
        .parameter_word(forward_word),
        .m_axi_arvalid(forward_arvalid),
        .m_axi_arready(m_axi_arready && forward_runs),
        .m_axi_araddr(forward_araddr),
        .m_axi_arlen(forward_arlen),
        .m_axi_rvalid(m_axi_rvalid && forward_runs),
        .m_axi_rready(forward_rready),
        .m_axi_rdata,
        .m_axi_rresp,
        .m_axi_rlast
    );
    parameter_streamer #(
        .ELEMENTS(WORD),
        .BEAT_BITS(BEAT_BITS)
    ) back_kernels (
        .clock(back_clock),
        .clear,
        .address(64'd0),
        .words(stream_words),
        .beats(stream_beats),
        .passes(stream_passes),
        .busy(back_busy),
        .fault(back_fault),
        .parameter_ready(back_there),
        .parameter_read(back_read),
        .parameter_word(back_word),
        .m_axi_arvalid(back_arvalid),
        .m_axi_arready(m_axi_arready && back_runs),
        .m_axi_araddr(back_araddr),
        .m_axi_arlen(back_arlen),
        .m_axi_rvalid(m_axi_rvalid && back_runs),
        .m_axi_rready(back_rready),
        .m_axi_rdata,
        .m_axi_rresp,
        .m_axi_rlast
    );
    gradient_streamer #(
        .ELEMENTS(WORD),
        .LOAD_WORDS(LOAD_WORDS),
        .BEAT_BITS(BEAT_BITS)
    ) gradients (
        .clock(gradient_clock),
        .clear,
        .address(64'd0),
        .words(stream_words),
        .beats(stream_beats),
        .passes(stream_passes),
        .busy(stream_busy),
        .fault(gradient_fault),
        .gradient_ready(gradient_there),
        .gradient_claim,
        .gradient_read,
        .gradient_read_word,
        .gradient_write_enable(gradient_write),
        .gradient_write_word,
        .m_axi_arvalid(gradient_arvalid),
        .m_axi_arready(m_axi_arready && gradient_runs),
        .m_axi_araddr(gradient_araddr),
        .m_axi_arlen(gradient_arlen),
        .m_axi_rvalid(m_axi_rvalid && gradient_runs),
        .m_axi_rready(gradient_rready),
        .m_axi_rdata,
        .m_axi_rresp,
        .m_axi_rlast,
        .m_axi_awvalid,
        .m_axi_awready,
        .m_axi_awaddr,
        .m_axi_awlen,
        .m_axi_wvalid,
        .m_axi_wready,
        .m_axi_wdata,
        .m_axi_wstrb,
        .m_axi_wlast,
        .m_axi_bvalid,
        .m_axi_bready,
        .m_axi_bresp
    );
    logic streamed_unused;
    assign streamed_unused = &{1'b0, forward_busy, back_busy, forward_address, back_address, gradient_read_address, gradient_write_address,
        gradient_host_reads, gradient_host_address, parameter_write_enable, parameter_write_address, parameter_write_element,
        parameter_write_data};
  end else begin : g_held
    logic [WORD*16-1:0] forward_second_word, back_second_word;
    assign {forward_there, back_there, gradient_there} = 3'b111;
    assign {stream_busy, stream_fault, m_axi_arvalid, m_axi_rready, m_axi_awvalid, m_axi_wvalid, m_axi_wlast, m_axi_bready} = '0;
    assign {m_axi_araddr, m_axi_arlen, m_axi_awaddr, m_axi_awlen, m_axi_wdata, m_axi_wstrb} = '0;
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
    logic held_unused;
    assign held_unused = &{1'b0, forward_second_word, back_second_word, forward_read, back_read, gradient_claim, gradient_read, stream_phase,
        stream_words, stream_beats, stream_passes, m_axi_arready, m_axi_rvalid, m_axi_rdata, m_axi_rresp, m_axi_rlast, m_axi_awready,
        m_axi_wready, m_axi_bvalid, m_axi_bresp};
  end

  logic unused;
  assign unused = &{1'b0, winners, mask, mask_valid, output_group_step};
endmodule
