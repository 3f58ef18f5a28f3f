// What stands around a generated device in its testbench, whatever its engine: players and checkers of streams, the memory outside.
//
//   filled(kTestbench, {{"MODULES", std::string(kTestbenchModules)}});
//
// SystemVerilog that runs alike under Verilator and Icarus. A constant alone.
#pragma once

#include <string_view>

namespace millrace {

inline constexpr std::string_view kTestbenchModules =
    R"sv(// Sends the words of a file, with pauses.
module stream_player #(
    parameter FILE = "",
    parameter int COUNT = 1,
    parameter int WIDTH = 16,
    parameter int SEED = 1
) (
    input  logic             clock,
    input  logic             enable,
    output logic             tvalid,
    input  logic             tready,
    output logic [WIDTH-1:0] tdata
);
  logic [WIDTH-1:0] words[0:COUNT-1];
  logic [31:0] random;
  int next;
  initial begin
    $readmemh(FILE, words);
    random = 32'h2545F491 ^ SEED;
    next = 0;
    tvalid = 1'b0;
    tdata = '0;
  end
  always @(posedge clock) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    if (!tvalid || tready) begin
      tvalid <= 1'b0;
      if (enable && next < COUNT && random[1:0] != 2'd0) begin
        tvalid <= 1'b1;
        tdata  <= words[next];
        next   <= next + 1;
      end
    end
  end
endmodule

// Takes a stream, with pauses, and compares it with the words of a file, as far as the mask beside it says: lanes beyond the
// last channel carry anything. What a simulator knows nothing of (X) differs from every word.
module stream_checker #(
    parameter FILE = "",
    parameter NAME = "",
    parameter int COUNT = 1,
    parameter int WIDTH = 16,
    parameter int SEED = 1
) (
    input  logic             clock,
    input  logic             tvalid,
    output logic             tready,
    input  logic [WIDTH-1:0] tdata,
    output int               received,
    output int               differences
);
  logic [WIDTH-1:0] words[0:COUNT-1];
  logic [WIDTH-1:0] masks[0:COUNT-1];
  logic [31:0] random;
  initial begin
    $readmemh(FILE, words);
    $readmemh({FILE, ".mask"}, masks);
    random = 32'h9E3779B9 ^ SEED;
    received = 0;
    differences = 0;
    tready = 1'b0;
  end
  always @(posedge clock) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    tready <= random[1:0] != 2'd0;
    if (tvalid && tready) begin
      received <= received + 1;
      if (received >= COUNT) begin
        $display("%s: more beats than the %0d expected", NAME, COUNT);
        differences <= differences + 1;
      end else if (((tdata ^ words[received]) & masks[received]) !== '0) begin
        if (differences < 3) $display("%s: beat %0d is %h, expected %h", NAME, received, tdata, words[received]);
        differences <= differences + 1;
      end
    end
  end
endmodule

// The memory outside: AXI4, bursts of ascending addresses, with pauses; places that it does not have are errors.
module outside_memory #(
    parameter FILE = "",
    parameter int WORDS = 1024,
    parameter int SEED = 1
) (
    input  logic        clock,
    input  logic        reset_n,
    input  logic        arvalid,
    output logic        arready,
    input  logic [63:0] araddr,
    input  logic [ 7:0] arlen,
    output logic        rvalid,
    input  logic        rready,
    output logic [63:0] rdata,
    output logic        rlast,
    output logic [ 1:0] rresp,
    input  logic        awvalid,
    output logic        awready,
    input  logic [63:0] awaddr,
    input  logic [ 7:0] awlen,
    input  logic        wvalid,
    output logic        wready,
    input  logic [63:0] wdata,
    input  logic [ 7:0] wstrb,
    input  logic        wlast,
    output logic        bvalid,
    input  logic        bready,
    output logic [ 1:0] bresp
);
  logic [63:0] words[0:WORDS-1];
  logic [31:0] random;
  logic [60:0] read_word, write_word;
  logic [8:0] read_beats, write_beats;
  logic write_failed;
  initial begin
    $readmemh(FILE, words);
    random = 32'h7F4A7C15 ^ SEED;
  end
  always @(posedge clock) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    if (!reset_n) begin
      {arready, rvalid, rlast, awready, wready, bvalid, write_failed} <= '0;
      {rresp, bresp} <= '0;
      {read_beats, write_beats} <= '0;
    end else begin
      // Reading.
      arready <= read_beats == 9'd0 && !rvalid && !arready && random[0];
      if (arvalid && arready) begin
        read_word  <= araddr[63:3];
        read_beats <= {1'b0, arlen} + 9'd1;
      end
      if (!rvalid || rready) begin
        rvalid <= 1'b0;
        if (read_beats != 9'd0 && random[2:1] != 2'd0) begin
          rvalid <= 1'b1;
          rdata <= words[read_word % WORDS];
          rresp <= (read_word < WORDS) ? 2'b00 : 2'b11;
          rlast <= read_beats == 9'd1;
          read_word <= read_word + 61'd1;
          read_beats <= read_beats - 9'd1;
        end
      end
      // Writing.
      awready <= write_beats == 9'd0 && !bvalid && !awready && random[3];
      if (awvalid && awready) begin
        write_word <= awaddr[63:3];
        write_beats <= {1'b0, awlen} + 9'd1;
        write_failed <= 1'b0;
      end
      wready <= write_beats != 9'd0 && !wready && random[4];
      if (wvalid && wready) begin
        for (int byte_lane = 0; byte_lane < 8; byte_lane++)
          if (wstrb[byte_lane] && write_word < WORDS) words[write_word % WORDS][byte_lane*8+:8] <= wdata[byte_lane*8+:8];
        if (write_word >= WORDS || wlast != (write_beats == 9'd1)) write_failed <= 1'b1;
        write_word <= write_word + 61'd1;
        write_beats <= write_beats - 9'd1;
        if (write_beats == 9'd1) begin
          bvalid <= 1'b1;
          bresp  <= (write_failed || write_word >= WORDS || !wlast) ? 2'b10 : 2'b00;
        end
      end
      if (bvalid && bready) bvalid <= 1'b0;
    end
  end
endmodule

// Memory outside behind one port of a device: AXI4, bursts of ascending addresses, several on their way, each answered LATENCY cycles after it
// was asked for at the earliest, with pauses unless PAUSES is 0. It has BEATS beats from BASE on, those of FILE where there is one; other places are errors.
module streamed_memory #(
    parameter FILE = "",
    parameter logic [63:0] BASE = 64'd0,
    parameter int BEATS = 1,
    parameter int BEAT_BITS = 64,
    parameter int LATENCY = 100,
    parameter int PAUSES = 1,
    parameter int SEED = 1
) (
    input  logic                   clock,
    input  logic                   reset_n,
    input  logic                   arvalid,
    output logic                   arready,
    input  logic [           63:0] araddr,
    input  logic [            7:0] arlen,
    output logic                   rvalid,
    input  logic                   rready,
    output logic [  BEAT_BITS-1:0] rdata,
    output logic                   rlast,
    output logic [            1:0] rresp,
    input  logic                   awvalid,
    output logic                   awready,
    input  logic [           63:0] awaddr,
    input  logic [            7:0] awlen,
    input  logic                   wvalid,
    output logic                   wready,
    input  logic [  BEAT_BITS-1:0] wdata,
    input  logic [BEAT_BITS/8-1:0] wstrb,
    input  logic                   wlast,
    output logic                   bvalid,
    input  logic                   bready,
    output logic [            1:0] bresp
);
  localparam int BURSTS = 64;
  logic [BEAT_BITS-1:0] words[0:BEATS-1];
  logic [31:0] random;
  int now, asked, served, read_beat, left, addressed, taken, write_beat, write_left, answered;
  int ask_beat[0:BURSTS-1], ask_beats[0:BURSTS-1], ask_time[0:BURSTS-1];
  int write_first[0:BURSTS-1], write_beats[0:BURSTS-1], answer_time[0:BURSTS-1];
  logic write_failed;
  initial begin
    for (int beat = 0; beat < BEATS; beat++) words[beat] = '0;
    if (FILE != "") $readmemh(FILE, words);
    random = 32'h3C6EF372 ^ SEED;
  end
  always @(posedge clock) begin
    random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
    if (!reset_n) begin
      {arready, rvalid, rlast, awready, wready, bvalid, write_failed} <= '0;
      {rresp, bresp} <= '0;
      now = 0;
      asked = 0;
      served = 0;
      left = 0;
      addressed = 0;
      taken = 0;
      write_left = 0;
      answered = 0;
    end else begin
      now = now + 1;
      // Reading.
      if (arvalid && arready) begin
        ask_beat[asked%BURSTS] = int'((araddr - BASE) / (BEAT_BITS / 8));
        ask_beats[asked%BURSTS] = int'(arlen) + 1;
        ask_time[asked%BURSTS] = now + LATENCY;
        asked = asked + 1;
      end
      arready <= asked - served < BURSTS - 2 && (random[0] || PAUSES == 0);
      if (!rvalid || rready) begin
        rvalid <= 1'b0;
        if (left == 0 && served < asked && ask_time[served%BURSTS] <= now) begin
          read_beat = ask_beat[served%BURSTS];
          left = ask_beats[served%BURSTS];
          served = served + 1;
        end
        if (left != 0 && (random[2:1] != 2'd0 || PAUSES == 0)) begin
          rvalid <= 1'b1;
          rdata <= words[read_beat%BEATS];
          rresp <= (read_beat >= 0 && read_beat < BEATS) ? 2'b00 : 2'b11;
          rlast <= left == 1;
          read_beat = read_beat + 1;
          left = left - 1;
        end
      end
      // Writing: an address, then its beats, then later the answer.
      if (awvalid && awready) begin
        write_first[addressed%BURSTS] = int'((awaddr - BASE) / (BEAT_BITS / 8));
        write_beats[addressed%BURSTS] = int'(awlen) + 1;
        addressed = addressed + 1;
      end
      awready <= addressed - answered < BURSTS - 2 && (random[3] || PAUSES == 0);
      if (wvalid && wready) begin
        if (write_beat < 0 || write_beat >= BEATS || wlast != (write_left == 1)) write_failed <= 1'b1;
        for (int lane = 0; lane < BEAT_BITS / 8; lane++)
          if (wstrb[lane] && write_beat >= 0 && write_beat < BEATS) words[write_beat%BEATS][lane*8+:8] = wdata[lane*8+:8];
        write_beat = write_beat + 1;
        write_left = write_left - 1;
        if (write_left == 0) answer_time[(taken-1)%BURSTS] = now + LATENCY;
      end
      if (write_left == 0 && taken < addressed) begin
        write_beat = write_first[taken%BURSTS];
        write_left = write_beats[taken%BURSTS];
        answer_time[taken%BURSTS] = 0;
        taken = taken + 1;
      end
      wready <= (write_left > 1 || write_left == 1 && !wready) && (random[4] || PAUSES == 0);
      if (!bvalid || bready) begin
        bvalid <= 1'b0;
        if (answered < taken && answer_time[answered%BURSTS] != 0 && answer_time[answered%BURSTS] <= now) begin
          bvalid <= 1'b1;
          bresp <= write_failed ? 2'b10 : 2'b00;
          answered = answered + 1;
        end
      end
    end
  end
endmodule

)sv";

}  // namespace millrace
