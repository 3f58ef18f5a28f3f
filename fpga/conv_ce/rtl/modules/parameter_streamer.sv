// Kernels from the memory outside, for FP or for EB, in the order of its walk over them: what parameter_memory.sv is on the chip.
//
// The engine asks word by word, and finds each a cycle later. The `words` of a pass lie packed from `address` on, a multiple of 4096, in the
// order in which the engine reads them; they are read `passes` times, as many as the samples that share a pass make.
module parameter_streamer #(
    parameter int ELEMENTS = 36,      // of a word
    parameter int ELEMENT_BITS = 16,
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

    output logic                             parameter_ready,
    input  logic                             parameter_read,
    output logic [ELEMENTS*ELEMENT_BITS-1:0] parameter_word,

    output logic                 m_axi_arvalid,
    input  logic                 m_axi_arready,
    output logic [         63:0] m_axi_araddr,
    output logic [          7:0] m_axi_arlen,
    input  logic                 m_axi_rvalid,
    output logic                 m_axi_rready,
    input  logic [BEAT_BITS-1:0] m_axi_rdata,
    input  logic [          1:0] m_axi_rresp,
    input  logic                 m_axi_rlast
);
  localparam int WORD_BITS = ELEMENTS * ELEMENT_BITS;
  logic beat_valid, beat_ready;
  logic [BEAT_BITS-1:0] beat;
  burst_reader #(
      .BEAT_BITS(BEAT_BITS)
  ) reader (
      .clock, .clear, .address, .beats, .passes, .allowed(32'h7fffffff), .busy, .fault,
      .m_axi_arvalid, .m_axi_arready, .m_axi_araddr, .m_axi_arlen,
      .m_axi_rvalid, .m_axi_rready, .m_axi_rdata, .m_axi_rresp, .m_axi_rlast,
      .beat_valid, .beat_ready, .beat
  );
  logic [WORD_BITS-1:0] word;
  word_unpacker #(
      .BEAT_BITS(BEAT_BITS),
      .WORD_BITS(WORD_BITS)
  ) unpacker (
      .clock, .clear, .words, .beats, .beat_valid, .beat_ready, .beat,
      .word_valid(parameter_ready), .word_ready(parameter_read), .word
  );
  always_ff @(posedge clock) if (parameter_read) parameter_word <= word;
endmodule
