// The gradient buffer in the memory outside: every pass of PG reads each word, and writes it back with what it adds. What gradient_memory.sv
// is on the chip.
//
// The `words` of a pass lie packed from `address` on, a multiple of 4096, in the order of PG's walk. The engine claims LOAD_WORDS words when a
// sweep ends, which are then here, and room for them when they come back; a word is there a cycle after it is read.
// A word is read for the next pass only when that of this one has been written. `busy` falls when all are.
module gradient_streamer #(
    parameter int ELEMENTS = 36,      // of a word
    parameter int ELEMENT_BITS = 32,
    parameter int LOAD_WORDS = 1,
    parameter int BEAT_BITS = 512
) (
    input logic clock,
    input logic clear,

    input  logic [63:0] address,
    input  logic [31:0] words,    // of a pass
    input  logic [31:0] beats,    // that they take
    input  logic [31:0] passes,
    output logic        busy,
    output logic        fault,

    output logic                             gradient_ready,
    input  logic                             gradient_claim,
    input  logic                             gradient_read,
    output logic [ELEMENTS*ELEMENT_BITS-1:0] gradient_read_word,
    input  logic                             gradient_write_enable,
    input  logic [ELEMENTS*ELEMENT_BITS-1:0] gradient_write_word,

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
  localparam int WORD_BITS = ELEMENTS * ELEMENT_BITS;
  localparam int WAITING_LOG2 = $clog2(4 * LOAD_WORDS + 4);

  logic [31:0] written, allowed;
  logic reading, writing, read_fault, write_fault;
  // Of the pass after those that are written, and not beyond.
  assign allowed = written + beats;
  assign fault = read_fault || write_fault;

  logic in_beat_valid, in_beat_ready, in_valid, in_ready, here_valid;
  logic [BEAT_BITS-1:0] in_beat;
  logic [WORD_BITS-1:0] in_word, here_word;
  logic [WAITING_LOG2:0] here, leaving, read_claims, write_claims;
  burst_reader #(
      .BEAT_BITS(BEAT_BITS)
  ) reader (
      .clock, .clear, .address, .beats, .passes, .allowed, .busy(reading), .fault(read_fault),
      .m_axi_arvalid, .m_axi_arready, .m_axi_araddr, .m_axi_arlen,
      .m_axi_rvalid, .m_axi_rready, .m_axi_rdata, .m_axi_rresp, .m_axi_rlast,
      .beat_valid(in_beat_valid), .beat_ready(in_beat_ready), .beat(in_beat)
  );
  word_unpacker #(
      .BEAT_BITS(BEAT_BITS),
      .WORD_BITS(WORD_BITS)
  ) unpacker (
      .clock, .clear, .words, .beats, .beat_valid(in_beat_valid), .beat_ready(in_beat_ready), .beat(in_beat),
      .word_valid(in_valid), .word_ready(in_ready), .word(in_word)
  );
  stream_fifo #(
      .WIDTH(WORD_BITS),
      .DEPTH_LOG2(WAITING_LOG2)
  ) words_here (
      .clock, .clear, .in_valid, .in_ready, .in_data(in_word),
      .out_valid(here_valid), .out_ready(gradient_read), .out_data(here_word), .count(here)
  );
  always_ff @(posedge clock) if (gradient_read) gradient_read_word <= here_word;

  // What sweeps that ended will still read, and still write.
  assign gradient_ready = !clear && here >= read_claims + (WAITING_LOG2 + 1)'(LOAD_WORDS) &&
      leaving + write_claims + (WAITING_LOG2 + 1)'(LOAD_WORDS) <= (WAITING_LOG2 + 1)'(1 << WAITING_LOG2);
  always_ff @(posedge clock) begin
    if (clear) begin
      read_claims <= '0;
      write_claims <= '0;
    end else begin
      read_claims <= read_claims + (gradient_claim ? (WAITING_LOG2 + 1)'(LOAD_WORDS) : '0) - (WAITING_LOG2 + 1)'(gradient_read);
      write_claims <= write_claims + (gradient_claim ? (WAITING_LOG2 + 1)'(LOAD_WORDS) : '0) - (WAITING_LOG2 + 1)'(gradient_write_enable);
    end
  end

  logic out_valid, out_ready, leaves_ready, out_beat_valid, out_beat_ready;
  logic [WORD_BITS-1:0] out_word;
  logic [BEAT_BITS-1:0] out_beat;
  stream_fifo #(
      .WIDTH(WORD_BITS),
      .DEPTH_LOG2(WAITING_LOG2)
  ) words_leaving (
      .clock, .clear, .in_valid(gradient_write_enable), .in_ready(leaves_ready), .in_data(gradient_write_word),
      .out_valid, .out_ready, .out_data(out_word), .count(leaving)
  );
  word_packer #(
      .BEAT_BITS(BEAT_BITS),
      .WORD_BITS(WORD_BITS)
  ) packer (
      .clock, .clear, .words, .word_valid(out_valid), .word_ready(out_ready), .word(out_word),
      .beat_valid(out_beat_valid), .beat_ready(out_beat_ready), .beat(out_beat)
  );
  burst_writer #(
      .BEAT_BITS(BEAT_BITS)
  ) writer (
      .clock, .clear, .address, .beats, .written, .busy(writing), .fault(write_fault),
      .beat_valid(out_beat_valid), .beat_ready(out_beat_ready), .beat(out_beat),
      .m_axi_awvalid, .m_axi_awready, .m_axi_awaddr, .m_axi_awlen,
      .m_axi_wvalid, .m_axi_wready, .m_axi_wdata, .m_axi_wstrb, .m_axi_wlast, .m_axi_bvalid, .m_axi_bready, .m_axi_bresp
  );
  assign busy = reading || writing || write_claims != '0 || leaving != '0 || out_beat_valid;
  logic unused;
  assign unused = &{1'b0, here_valid, leaves_ready};
endmodule
