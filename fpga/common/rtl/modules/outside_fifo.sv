// A FIFO in the memory outside: what deep_fifo.sv is in block RAM, for what waits too long for a chip.
//
// A sample is `words` words, which lie packed in a place of PLACE_BYTES, a multiple of 4096, as many as SAMPLES places from `address` on;
// they are used in turn. Words go out in bursts, each begun when all its beats are there, and are read back as early as there is room for
// them; so a word may stay here until the sample it belongs to is complete, and nobody may wait for it before that. While `clear` is high,
// `address` and the counts are taken; it may rise only while `busy` is low. `fault`: an answer was an error, of a read (bit
// 0) or of a write; it stays until `clear`.
module outside_fifo #(
    parameter int WIDTH = 64,
    parameter int SAMPLES = 4,          // that it has room for
    parameter int PLACE_BYTES = 4096,
    parameter int BEAT_BITS = 64
) (
    input logic clock,
    input logic clear,

    input  logic [63:0] address,
    input  logic [31:0] words,    // of a sample
    input  logic [31:0] beats,    // that they take
    input  logic [31:0] room,     // beats of SAMPLES samples
    input  logic [31:0] samples,  // of a run
    output logic        busy,
    output logic [ 1:0] fault,

    input  logic             in_tvalid,
    output logic             in_tready,
    input  logic [WIDTH-1:0] in_tdata,

    output logic             out_tvalid,
    input  logic             out_tready,
    output logic [WIDTH-1:0] out_tdata,

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
  // Words begin at multiples of what divides them and the beat.
  localparam int UNIT_BITS = (WIDTH % 16 == 0) ? 16 : (WIDTH % 8 == 0) ? 8 : (WIDTH % 4 == 0) ? 4 : (WIDTH % 2 == 0) ? 2 : 1;

  logic [31:0] written, held;  // beats: answered; taken for a place and not read back
  logic reading, writing, has_room, takes, comes;
  logic packed_valid, packed_ready, leaving_ready, here_valid, here_ready;
  logic [BEAT_BITS-1:0] packed_beat, here_beat;

  assign has_room = held < room;
  assign packed_ready = leaving_ready && has_room;
  assign takes = packed_valid && packed_ready;
  assign comes = m_axi_rvalid && m_axi_rready;
  always_ff @(posedge clock) held <= clear ? '0 : held + 32'(takes) - 32'(comes);
  assign busy = reading || writing || packed_valid;

  word_packer #(
      .BEAT_BITS(BEAT_BITS),
      .WORD_BITS(WIDTH),
      .UNIT_BITS(UNIT_BITS)
  ) packer (
      .clock, .clear, .words, .word_valid(in_tvalid), .word_ready(in_tready), .word(in_tdata),
      .beat_valid(packed_valid), .beat_ready(packed_ready), .beat(packed_beat)
  );
  burst_writer #(
      .BEAT_BITS(BEAT_BITS),
      .PLACES(SAMPLES),
      .PLACE_BYTES(PLACE_BYTES)
  ) writer (
      .clock, .clear, .address, .beats, .written, .busy(writing), .fault(fault[1]),
      .beat_valid(packed_valid && has_room), .beat_ready(leaving_ready), .beat(packed_beat),
      .m_axi_awvalid, .m_axi_awready, .m_axi_awaddr, .m_axi_awlen,
      .m_axi_wvalid, .m_axi_wready, .m_axi_wdata, .m_axi_wstrb, .m_axi_wlast, .m_axi_bvalid, .m_axi_bready, .m_axi_bresp
  );
  burst_reader #(
      .BEAT_BITS(BEAT_BITS),
      .PLACES(SAMPLES),
      .PLACE_BYTES(PLACE_BYTES)
  ) reader (
      .clock, .clear, .address, .beats, .passes(samples), .allowed(written), .busy(reading), .fault(fault[0]),
      .m_axi_arvalid, .m_axi_arready, .m_axi_araddr, .m_axi_arlen,
      .m_axi_rvalid, .m_axi_rready, .m_axi_rdata, .m_axi_rresp, .m_axi_rlast,
      .beat_valid(here_valid), .beat_ready(here_ready), .beat(here_beat)
  );
  word_unpacker #(
      .BEAT_BITS(BEAT_BITS),
      .WORD_BITS(WIDTH),
      .UNIT_BITS(UNIT_BITS)
  ) unpacker (
      .clock, .clear, .words, .beats, .beat_valid(here_valid), .beat_ready(here_ready), .beat(here_beat),
      .word_valid(out_tvalid), .word_ready(out_tready), .word(out_tdata)
  );
endmodule
