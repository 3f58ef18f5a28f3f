// Writes a stretch of the memory outside from its begin to its end, again and again, over AXI4: bursts of at most BURST beats, each begun when
// all its beats are there, several of them unanswered at once.
//
// The stretch begins on a multiple of 4096 bytes, so no burst crosses such a boundary; PLACES as in burst_reader.sv. While `clear` is high, address and `beats` are
// taken; it may rise only while `busy` is low. `written` counts beats whose burst was answered, modulo 2^32. `fault`: an answer was an
// error; it stays until `clear`.
module burst_writer #(
    parameter int BEAT_BITS = 512,
    parameter int BURST = 16,
    parameter int DEPTH = 64,        // beats that wait
    parameter int PLACES = 1,
    parameter int PLACE_BYTES = 4096
) (
    input logic clock,
    input logic clear,

    input  logic [63:0] address,
    input  logic [31:0] beats,   // of a pass
    output logic [31:0] written,
    output logic        busy,
    output logic        fault,

    input  logic                 beat_valid,
    output logic                 beat_ready,
    input  logic [BEAT_BITS-1:0] beat,

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
  localparam int BEAT_BYTES = BEAT_BITS / 8;
  localparam int COUNT_BITS = $clog2(DEPTH + 1) + 1;
  logic [31:0] left, burst, unanswered_left, answered;
  localparam int PLACE_BITS = (PLACES < 2) ? 1 : $clog2(PLACES);
  logic [63:0] next_address, pass_address, next_pass_address;
  logic [PLACE_BITS-1:0] place;
  logic [COUNT_BITS-1:0] here, spoken_for;  // beats that wait, and those of bursts that have begun
  logic [15:0] unanswered;                  // bursts
  logic [15:0] beats_of_burst;              // still to send
  logic begins, comes, sends, answers, fifo_valid, fifo_ready;
  assign burst = (left < 32'(BURST)) ? left : 32'(BURST);
  assign answered = (unanswered_left < 32'(BURST)) ? unanswered_left : 32'(BURST);
  assign next_pass_address = (place == PLACE_BITS'(PLACES - 1)) ? address : pass_address + 64'(PLACE_BYTES);
  // One address at a time: the next burst begins when this one's beats have gone.
  assign begins = !clear && !m_axi_awvalid && beats_of_burst == 16'd0 && 32'(here) >= burst && burst != 32'd0;
  assign comes = beat_valid && beat_ready;
  assign sends = m_axi_wvalid && m_axi_wready;
  assign answers = m_axi_bvalid && m_axi_bready;
  assign m_axi_bready = 1'b1;
  assign m_axi_wstrb = '1;
  assign m_axi_wvalid = fifo_valid && beats_of_burst != 16'd0;
  assign m_axi_wlast = beats_of_burst == 16'd1;
  assign fifo_ready = m_axi_wready && beats_of_burst != 16'd0;
  assign spoken_for = COUNT_BITS'(beats_of_burst);
  assign busy = here != '0 || m_axi_awvalid || unanswered != 16'd0 || spoken_for != '0;
  always_ff @(posedge clock) begin
    if (clear) begin
      m_axi_awvalid <= 1'b0;
      left <= beats;
      unanswered_left <= beats;
      next_address <= address;
      pass_address <= address;
      place <= '0;
      here <= '0;
      unanswered <= '0;
      beats_of_burst <= '0;
      written <= '0;
      fault <= 1'b0;
    end else begin
      if (m_axi_awvalid && m_axi_awready) m_axi_awvalid <= 1'b0;
      if (begins) begin
        m_axi_awvalid <= 1'b1;
        m_axi_awaddr <= next_address;
        m_axi_awlen <= 8'(burst - 32'd1);
        beats_of_burst <= burst[15:0];
        next_address <= (left == burst) ? next_pass_address : next_address + 64'(burst) * 64'(BEAT_BYTES);
        left <= (left == burst) ? beats : left - burst;
        if (left == burst) begin
          pass_address <= next_pass_address;
          place <= (place == PLACE_BITS'(PLACES - 1)) ? '0 : place + PLACE_BITS'(1);
        end
      end else if (sends) beats_of_burst <= beats_of_burst - 16'd1;
      here <= here + COUNT_BITS'(comes) - COUNT_BITS'(sends);
      unanswered <= unanswered + 16'(begins) - 16'(answers);
      if (answers) begin
        written <= written + answered;
        unanswered_left <= (unanswered_left == answered) ? beats : unanswered_left - answered;
        if (m_axi_bresp != 2'b00) fault <= 1'b1;
      end
    end
  end

  deep_fifo #(
      .WIDTH(BEAT_BITS),
      .DEPTH(DEPTH)
  ) beats_here (
      .clock,
      .clear,
      .in_tvalid(beat_valid),
      .in_tready(beat_ready),
      .in_tdata(beat),
      .out_tvalid(fifo_valid),
      .out_tready(fifo_ready),
      .out_tdata(m_axi_wdata)
  );
endmodule
