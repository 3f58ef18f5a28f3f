// Reads a stretch of the memory outside from its begin to its end, `passes` times, over AXI4, as early as there is room for it: bursts of at
// most BURST beats, up to OUTSTANDING of them on their way, so that latency is hidden where latency x a beat is no more than DEPTH.
//
// The stretch begins on a multiple of 4096 bytes, so no burst crosses such a boundary. With several PLACES every pass has its own stretch,
// PLACE_BYTES behind the one before, a multiple of 4096, and begins again with the first behind the last. Beats come in order and are always taken: their
// place was free when they were asked for. While `clear` is high, address, `beats` and `passes` are taken; it may rise only while `busy` is
// low. No more than `allowed` beats are asked for since then (modulo 2^32), for who must not read ahead of what is still written.
// `fault`: an answer was an error; it stays until `clear`.
module burst_reader #(
    parameter int BEAT_BITS = 512,
    parameter int BURST = 16,
    parameter int DEPTH = 128,       // beats asked for, and those that wait
    parameter int OUTSTANDING = 16,
    parameter int PLACES = 1,
    parameter int PLACE_BYTES = 4096
) (
    input logic clock,
    input logic clear,

    input  logic [63:0] address,
    input  logic [31:0] beats,   // of a pass
    input  logic [31:0] passes,
    input  logic [31:0] allowed,
    output logic        busy,
    output logic        fault,

    output logic                 m_axi_arvalid,
    input  logic                 m_axi_arready,
    output logic [         63:0] m_axi_araddr,
    output logic [          7:0] m_axi_arlen,
    input  logic                 m_axi_rvalid,
    output logic                 m_axi_rready,
    input  logic [BEAT_BITS-1:0] m_axi_rdata,
    input  logic [          1:0] m_axi_rresp,
    input  logic                 m_axi_rlast,

    output logic                 beat_valid,
    input  logic                 beat_ready,
    output logic [BEAT_BITS-1:0] beat
);
  localparam int BEAT_BYTES = BEAT_BITS / 8;
  localparam int COUNT_BITS = $clog2(DEPTH + 1) + 1;
  logic [31:0] left, passes_left, asked, burst, may_come;
  localparam int PLACE_BITS = (PLACES < 2) ? 1 : $clog2(PLACES);
  logic [63:0] next_address, pass_address, next_pass_address;
  logic [PLACE_BITS-1:0] place;
  logic [COUNT_BITS-1:0] promised;  // beats on their way, or waiting
  logic [7:0] on_their_way;
  logic sends, asks, ends_pass, leaves, arrives_last, fifo_ready;
  assign burst = (left < 32'(BURST)) ? left : 32'(BURST);
  assign ends_pass = left == burst;
  assign may_come = allowed - asked;
  assign next_pass_address = (place == PLACE_BITS'(PLACES - 1)) ? address : pass_address + 64'(PLACE_BYTES);
  assign sends = m_axi_arvalid && m_axi_arready;
  assign leaves = beat_valid && beat_ready;
  assign arrives_last = m_axi_rvalid && m_axi_rready && m_axi_rlast;
  assign asks = !clear && (!m_axi_arvalid || sends) && passes_left != 32'd0 && 32'(promised) + burst <= 32'(DEPTH) &&
      on_their_way < 8'(OUTSTANDING) && !may_come[31] && may_come >= burst;
  assign busy = m_axi_arvalid || on_their_way != 8'd0;
  assign m_axi_rready = 1'b1;
  always_ff @(posedge clock) begin
    if (clear) begin
      m_axi_arvalid <= 1'b0;
      left <= beats;
      passes_left <= passes;
      next_address <= address;
      pass_address <= address;
      place <= '0;
      asked <= '0;
      promised <= '0;
      on_their_way <= '0;
      fault <= 1'b0;
    end else begin
      if (sends) m_axi_arvalid <= 1'b0;
      if (asks) begin
        m_axi_arvalid <= 1'b1;
        m_axi_araddr <= next_address;
        m_axi_arlen <= 8'(burst - 32'd1);
        next_address <= ends_pass ? next_pass_address : next_address + 64'(burst) * 64'(BEAT_BYTES);
        left <= ends_pass ? beats : left - burst;
        if (ends_pass) begin
          passes_left <= passes_left - 32'd1;
          pass_address <= next_pass_address;
          place <= (place == PLACE_BITS'(PLACES - 1)) ? '0 : place + PLACE_BITS'(1);
        end
        asked <= asked + burst;
      end
      promised <= promised + (asks ? COUNT_BITS'(burst) : '0) - COUNT_BITS'(leaves);
      on_their_way <= on_their_way + 8'(asks) - 8'(arrives_last);
      if (m_axi_rvalid && m_axi_rresp != 2'b00) fault <= 1'b1;
    end
  end

  deep_fifo #(
      .WIDTH(BEAT_BITS),
      .DEPTH(DEPTH)
  ) beats_here (
      .clock,
      .clear,
      .in_tvalid(m_axi_rvalid),
      .in_tready(fifo_ready),
      .in_tdata(m_axi_rdata),
      .out_tvalid(beat_valid),
      .out_tready(beat_ready),
      .out_tdata(beat)
  );
  logic unused;
  assign unused = &{1'b0, fifo_ready};
endmodule
