// The texts of a generated engine: its top with settings, and its testbench. Internal to fpga/sbe/generator.
#pragma once

#include <string_view>

namespace millrace {

inline constexpr std::string_view kEngineTop = R"sv(// $WHAT$
// $ORIGIN$
module millrace_sbe #(
    parameter TABLE = "sigmoid_table.hex"
) (
    input  logic        clock,
    input  logic        reset_n,
    input  logic        start,
    input  logic [15:0] batches,
    input  logic        stateful,
    input  logic        loads_pinned,
    input  logic [63:0] address,      // of the image of weights: a multiple of 4096
    output logic        busy,
    output logic        faults,

    input  logic                  projection_write,  // of a layer that projects, before it is started
    input  logic [          15:0] projection_bank,
    input  logic [          15:0] projection_place,
    input  logic [$BEAT_BITS$-1:0] projection_beat,
    input  logic                  state_load,  // a state from outside, while nothing is busy
    input  logic                  state_load_half,
    input  logic [          15:0] state_load_place,
    input  logic [          15:0] state_load_word,
    input  logic [$H_BITS$-1:0] state_load_units,
    input  logic                  kept_write,
    input  logic [          15:0] kept_address,
    input  logic [$KEPT_BITS$-1:0] kept_data,
    output logic [$KEPT_BITS$-1:0] kept_read,

    input logic                  bias_write,
    input logic [          15:0] bias_address,
    input logic [$BIAS_BITS$-1:0] bias_data,
    input logic                  length_write,
    input logic [          15:0] length_stream,
    input logic [          15:0] length,

    output logic                  m_axi_arvalid,
    input  logic                  m_axi_arready,
    output logic [          63:0] m_axi_araddr,
    output logic [           7:0] m_axi_arlen,
    input  logic                  m_axi_rvalid,
    output logic                  m_axi_rready,
    input  logic [$BEAT_BITS$-1:0] m_axi_rdata,
    input  logic [           1:0] m_axi_rresp,
    input  logic                  m_axi_rlast,

    input  logic                 x_tvalid,
    output logic                 x_tready,
    input  logic [$X_BITS$-1:0] x_tdata,
    output logic                 h_tvalid,
    input  logic                 h_tready,
    output logic [$H_BITS$-1:0] h_tdata
);
  sbe_engine #(
$PARAMETERS$      .TABLE(TABLE)
  ) engine (
      .clock, .reset_n, .start, .busy, .faults, .batches, .stateful, .loads_pinned,
$SETTINGS$      .address, .pinned_address(address + 64'd$PINNED_BYTES$),
      .projection_write, .projection_bank, .projection_place, .projection_beat, .state_load, .state_load_half, .state_load_place,
      .state_load_word, .state_load_units, .kept_write, .kept_address, .kept_data, .kept_read,
      .bias_write, .bias_address, .bias_data, .length_write, .length_stream, .length,
      .m_axi_arvalid, .m_axi_arready, .m_axi_araddr, .m_axi_arlen, .m_axi_rvalid, .m_axi_rready, .m_axi_rdata, .m_axi_rresp,
      .m_axi_rlast, .x_tvalid, .x_tready, .x_tdata, .h_tvalid, .h_tready, .h_tdata
  );
endmodule
)sv";

inline constexpr std::string_view kEngineTestbench = R"sv(`timescale 1ns / 1ps
// Runs $BATCHES$ batches and compares every state that leaves, and the beats that were read, with the functional model's.
// The memory outside answers $LATENCY$ cycles behind a request, with pauses; both streams pause.
$MODULES$
// Bursts in order, each `LATENCY` cycles behind its request at least.
module burst_memory #(
    parameter FILE = "",
    parameter int BEATS = 1024,
    parameter int BEAT_BITS = 64,
    parameter int LATENCY = 100,
    parameter int SEED = 1
) (
    input  logic                 clock,
    input  logic                 reset_n,
    input  logic                 arvalid,
    output logic                 arready,
    input  logic [         63:0] araddr,
    input  logic [          7:0] arlen,
    output logic                 rvalid,
    input  logic                 rready,
    output logic [BEAT_BITS-1:0] rdata,
    output logic                 rlast,
    output logic [          1:0] rresp,
    output int                   beats,
    output int                   across_pages
);
  logic [BEAT_BITS-1:0] words[0:BEATS-1];
  logic [63:0] place[0:15];
  logic [8:0] left[0:15];
  int due[0:15];
  int now, put, get, waiting;
  logic [31:0] random;
  initial begin
    $readmemh(FILE, words);
    random = 32'h2545F491 ^ SEED;
    {now, put, get, waiting, beats, across_pages} = '0;
    {arready, rvalid, rlast} = '0;
    rresp = 2'b00;
  end
  always @(posedge clock) begin
    now <= now + 1;
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    arready <= reset_n && waiting < 14 && random[1:0] != 2'd0;
    if (arvalid && arready) begin
      place[put] <= araddr / (BEAT_BITS / 8);
      left[put] <= {1'b0, arlen} + 9'd1;
      due[put] <= now + LATENCY;
      put <= (put + 1) % 16;
      if (araddr / 4096 != (araddr + ({56'd0, arlen} + 64'd1) * (BEAT_BITS / 8) - 64'd1) / 4096) across_pages <= across_pages + 1;
    end
    if (!rvalid || rready) begin
      rvalid <= 1'b0;
      if (put != get && due[get] <= now && random[4:2] != 3'd0) begin
        rvalid <= 1'b1;
        rdata <= words[place[get] % BEATS];
        rresp <= (place[get] < BEATS) ? 2'b00 : 2'b11;
        rlast <= left[get] == 9'd1;
        place[get] <= place[get] + 64'd1;
        left[get] <= left[get] - 9'd1;
        if (left[get] == 9'd1) get <= (get + 1) % 16;
        beats <= beats + 1;
      end
    end
    waiting <= waiting + ((arvalid && arready) ? 1 : 0) - ((rvalid && rready && rlast) ? 1 : 0);
  end
endmodule

module testbench;
  logic clock = 1'b0;
  logic reset_n = 1'b0;
  logic start = 1'b0;
  logic busy, faults;
  always #4 clock = !clock;

  logic [$BIAS_BITS$-1:0] biases[0:$BIAS_WORDS$-1];
  logic [15:0] lengths[0:$STREAMS$-1];
  logic bias_write = 1'b0, length_write = 1'b0;
  logic [15:0] bias_address, length_stream, length;
  logic [$BIAS_BITS$-1:0] bias_data;
  logic [$BEAT_BITS$-1:0] projections[0:$PROJECTION_BEATS$];
  logic projection_write = 1'b0;
  logic [15:0] projection_bank, projection_place;
  logic [$BEAT_BITS$-1:0] projection_beat;
  logic [$KEPT_BITS$-1:0] kept_read;

  logic arvalid, arready, rvalid, rready, rlast;
  logic [63:0] araddr;
  logic [7:0] arlen;
  logic [$BEAT_BITS$-1:0] rdata;
  logic [1:0] rresp;
  logic x_tvalid, x_tready, h_tvalid, h_tready, started;
  logic [$X_BITS$-1:0] x_tdata;
  logic [$H_BITS$-1:0] h_tdata;
  int beats, across_pages, received, differences;

  millrace_sbe #(
      .TABLE("images/sigmoid_table.hex")
  ) engine (
      .clock, .reset_n, .start, .batches(16'd$BATCHES$), .stateful(1'b0), .loads_pinned(1'b$PINNED$), .address(64'd0), .busy, .faults,
      .projection_write, .projection_bank, .projection_place, .projection_beat, .state_load(1'b0), .state_load_half(1'b0),
      .state_load_place('0), .state_load_word('0), .state_load_units('0), .kept_write(1'b0), .kept_address('0), .kept_data('0), .kept_read,
      .bias_write, .bias_address, .bias_data, .length_write, .length_stream, .length, .m_axi_arvalid(arvalid), .m_axi_arready(arready),
      .m_axi_araddr(araddr), .m_axi_arlen(arlen), .m_axi_rvalid(rvalid), .m_axi_rready(rready), .m_axi_rdata(rdata), .m_axi_rresp(rresp),
      .m_axi_rlast(rlast), .x_tvalid, .x_tready, .x_tdata, .h_tvalid, .h_tready, .h_tdata
  );
  burst_memory #(
      .FILE("images/weights.hex"), .BEATS($IMAGE_BEATS$), .BEAT_BITS($BEAT_BITS$), .LATENCY($LATENCY$), .SEED($SEED$)
  ) memory (
      .clock, .reset_n, .arvalid, .arready, .araddr, .arlen, .rvalid, .rready, .rdata, .rlast, .rresp, .beats, .across_pages
  );
$PLAYER$  stream_checker #(
      .FILE("vectors/h.hex"), .NAME("h"), .COUNT($H_WORDS$), .WIDTH($H_BITS$), .SEED($SEED$)
  ) h (
      .clock, .tvalid(h_tvalid), .tready(h_tready), .tdata(h_tdata), .received, .differences
  );

  initial begin
    started = 1'b0;
    $readmemh("images/biases.hex", biases);
    $readmemh("vectors/lengths.hex", lengths);
    repeat (4) @(posedge clock);
    reset_n <= 1'b1;
    for (int i = 0; i < $BIAS_WORDS$; i++) begin
      @(posedge clock);
      bias_write <= 1'b1;
      bias_address <= 16'(i);
      bias_data <= biases[i];
    end
    @(posedge clock);
    bias_write <= 1'b0;
    if ($PROJECTION_BEATS$ > 0) $readmemh("images/projection.hex", projections, 0, $PROJECTION_BEATS$ - 1);
    for (int i = 0; i < $PROJECTION_BEATS$; i++) begin
      @(posedge clock);
      projection_write <= 1'b1;
      projection_bank <= 16'(i % $PROJECTION_BANKS$);
      projection_place <= 16'(i / $PROJECTION_BANKS$);
      projection_beat <= projections[i];
    end
    @(posedge clock);
    projection_write <= 1'b0;
    for (int i = 0; i < $STREAMS$; i++) begin
      @(posedge clock);
      length_write <= 1'b1;
      length_stream <= 16'(i);
      length <= lengths[i];
    end
    @(posedge clock);
    length_write <= 1'b0;
    start <= 1'b1;
    @(posedge clock);
    start <= 1'b0;
    started = 1'b1;
    repeat (3) @(posedge clock);
    for (int cycles = 0; busy && cycles < $MOST_CYCLES$; cycles++) @(posedge clock);
    repeat (4) @(posedge clock);
    if (busy) $display("FAIL: still busy, %0d of $H_WORDS$ words received", received);
    else if (differences != 0) $display("FAIL: %0d words differ", differences);
    else if (received != $H_WORDS$) $display("FAIL: %0d words received, expected $H_WORDS$", received);
    else if (beats != $WEIGHT_BEATS$) $display("FAIL: %0d beats read, expected $WEIGHT_BEATS$", beats);
    else if (faults || across_pages != 0) $display("FAIL: a burst across a page, or to where nothing is");
    else $display("PASS: %0d words of h, %0d beats of weights", received, beats);
    $finish;
  end
endmodule
)sv";

inline constexpr std::string_view kEnginePlayer = R"sv(  stream_player #(
      .FILE("vectors/x.hex"), .COUNT($X_WORDS$), .WIDTH($X_BITS$), .SEED($SEED$)
  ) x (
      .clock, .enable(started), .tvalid(x_tvalid), .tready(x_tready), .tdata(x_tdata)
  );
)sv";

}  // namespace millrace
