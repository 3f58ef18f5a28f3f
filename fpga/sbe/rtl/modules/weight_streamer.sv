// Fetches blocks of weights over AXI4, as early as slots are free: bursts of at most BURST beats, none across a page of 4 KiB because
// every block begins on one, and up to OUTSTANDING bursts on their way, so that latency is hidden where latency x a beat is no more.
// Beats arrive in order and are always taken: their slot was free when they were asked for.
// `loaded` counts streamed blocks that are there, `released` those that are done with; `faults` that an answer was an error.
module weight_streamer #(
    parameter int BEAT_BITS = 64,
    parameter int SLOTS = 2,
    parameter int OUTSTANDING = 8
) (
    input logic clock,
    input logic reset_n,
    input logic restart,

    input logic [15:0] batches,
    input logic [15:0] blocks,
    input logic [15:0] input_blocks,
    input logic [15:0] walks,
    input logic [15:0] block_chunks,
    input logic [15:0] last_chunks,
    input logic        loads_pinned,
    input logic [15:0] pinned_chunks,
    input logic [63:0] address,
    input logic [63:0] stride,
    input logic [63:0] pinned_address,
    input logic [15:0] groups,
    input logic [15:0] group_beats,       // of a chunk
    input logic [15:0] last_group_beats,
    input logic [31:0] block_beats,       // of a whole block
    input logic [31:0] last_block_beats,
    input logic [31:0] pinned_beats,
    input logic [15:0] slot_words,
    input logic [15:0] pinned_place,

    input  logic [15:0] released,
    output logic [15:0] loaded,
    output logic        pinned_loaded,
    output logic        faults,

    output logic                 m_axi_arvalid,
    input  logic                 m_axi_arready,
    output logic [         63:0] m_axi_araddr,
    output logic [          7:0] m_axi_arlen,
    input  logic                 m_axi_rvalid,
    output logic                 m_axi_rready,
    input  logic [BEAT_BITS-1:0] m_axi_rdata,
    input  logic [          1:0] m_axi_rresp,
    input  logic                 m_axi_rlast,

    output logic                 write,
    output logic [         15:0] write_bank,
    output logic [         15:0] write_place,
    output logic [BEAT_BITS-1:0] write_beat
);
  localparam int BEAT_BYTES = BEAT_BITS / 8;
  localparam int BURST = (4096 / BEAT_BYTES < 64) ? 4096 / BEAT_BYTES : 64;

  // --- What is asked for.
  logic ask_ended, ask_pinned, ask_next, asking;
  logic [15:0] ask_chunks, asked;
  logic [63:0] ask_begins;
  logic [31:0] ask_beats, beats_left;
  logic [7:0] on_their_way;
  logic sends;
  block_order asks (
      .clock, .restart, .next(ask_next), .batches, .blocks, .input_blocks, .walks, .block_chunks, .last_chunks, .loads_pinned,
      .pinned_chunks, .address, .stride, .pinned_address, .ended(ask_ended), .pinned(ask_pinned), .chunks(ask_chunks), .begins(ask_begins)
  );
  assign ask_beats = ask_pinned ? pinned_beats : (ask_chunks == block_chunks) ? block_beats : last_block_beats;
  assign ask_next = !restart && !asking && (!m_axi_arvalid || sends) && !ask_ended && (ask_pinned || 16'(asked - released) < 16'(SLOTS));
  logic arrives_last;
  logic [31:0] burst;
  assign burst = (beats_left > 32'(BURST)) ? 32'(BURST) : beats_left;
  assign sends = m_axi_arvalid && m_axi_arready;
  assign arrives_last = m_axi_rvalid && m_axi_rready && m_axi_rlast;
  always_ff @(posedge clock) begin
    if (!reset_n || restart) begin
      asking <= 1'b0;
      asked <= '0;
      m_axi_arvalid <= 1'b0;
      on_their_way <= '0;
    end else begin
      if (ask_next) begin
        asking <= 1'b1;
        beats_left <= ask_beats;
        if (!ask_pinned) asked <= asked + 16'd1;
      end
      if (sends) m_axi_arvalid <= 1'b0;
      if (asking && (!m_axi_arvalid || sends)) begin
        if (beats_left == '0) asking <= 1'b0;
        else if (on_their_way + 8'(sends) < 8'(OUTSTANDING)) begin
          m_axi_arvalid <= 1'b1;
          m_axi_arlen <= 8'(burst - 32'd1);
          beats_left <= beats_left - burst;
          if (beats_left == burst) asking <= 1'b0;
        end
      end
      on_their_way <= on_their_way + 8'(sends) - 8'(arrives_last);
    end
    if (ask_next) m_axi_araddr <= ask_begins;
    else if (sends) m_axi_araddr <= m_axi_araddr + (64'(m_axi_arlen) + 64'd1) * 64'(BEAT_BYTES);
  end

  // --- Where it goes: chunk by chunk, a beat to a bank.
  logic come_ended, come_pinned, come_next;
  logic [15:0] come_chunks, bank, chunk, group, place, slot, slot_place, beats_of_chunk;
  logic [63:0] come_begins;
  block_order comes (
      .clock, .restart, .next(come_next), .batches, .blocks, .input_blocks, .walks, .block_chunks, .last_chunks, .loads_pinned,
      .pinned_chunks, .address, .stride, .pinned_address, .ended(come_ended), .pinned(come_pinned), .chunks(come_chunks), .begins(come_begins)
  );
  logic first_beat, last_bank, last_chunk, last_group;
  assign m_axi_rready = 1'b1;
  assign write = m_axi_rvalid && !come_ended;
  assign write_bank = bank;
  assign write_place = first_beat ? (come_pinned ? pinned_place : slot_place) : place;
  assign write_beat = m_axi_rdata;
  assign beats_of_chunk = (group + 16'd1 == groups) ? last_group_beats : group_beats;
  assign last_bank = bank + 16'd1 == beats_of_chunk;
  assign last_chunk = chunk + 16'd1 == come_chunks;
  assign last_group = group + 16'd1 == groups;
  assign come_next = write && last_bank && last_chunk && last_group;
  always_ff @(posedge clock) begin
    if (!reset_n || restart) begin
      {bank, chunk, group, slot, slot_place, loaded} <= '0;
      pinned_loaded <= 1'b0;
      faults <= 1'b0;
      first_beat <= 1'b1;
    end else if (write) begin
      if (m_axi_rresp != 2'b00) faults <= 1'b1;
      first_beat <= come_next;
      place <= write_place + 16'(last_bank);
      bank <= last_bank ? 16'd0 : bank + 16'd1;
      if (last_bank) chunk <= last_chunk ? 16'd0 : chunk + 16'd1;
      if (last_bank && last_chunk) group <= last_group ? 16'd0 : group + 16'd1;
      if (come_next) begin
        if (come_pinned) pinned_loaded <= 1'b1;
        else begin
          loaded <= loaded + 16'd1;
          slot <= (slot + 16'd1 == 16'(SLOTS)) ? 16'd0 : slot + 16'd1;
          slot_place <= (slot + 16'd1 == 16'(SLOTS)) ? 16'd0 : slot_place + slot_words;
        end
      end
    end
  end
  logic unused;
  assign unused = &{1'b0, come_begins};
endmodule
