// Takes stretches of a stream and gives each back in another order: samples one after the other become samples side by side, or the way back.
//
// Of a stretch of COUNT_0 x COUNT_1 x COUNT_2 x COUNT_3 beats, the outermost count last, beat (i_0, i_1, i_2, i_3) that leaves is the one that
// came in at i_0 STRIDE_0 + i_1 STRIDE_1 + i_2 STRIDE_2 + i_3 STRIDE_3. The next stretch comes in while one leaves, at a beat per cycle each.
module permuting_buffer #(
    parameter int WIDTH = 16,
    parameter int COUNT_0 = 1,
    parameter int COUNT_1 = 1,
    parameter int COUNT_2 = 1,
    parameter int COUNT_3 = 1,
    parameter int STRIDE_0 = 1,
    parameter int STRIDE_1 = 1,
    parameter int STRIDE_2 = 1,
    parameter int STRIDE_3 = 1
) (
    input logic clock,
    input logic clear,

    input  logic             in_tvalid,
    output logic             in_tready,
    input  logic [WIDTH-1:0] in_tdata,

    output logic             out_tvalid,
    input  logic             out_tready,
    output logic [WIDTH-1:0] out_tdata
);
  localparam int BEATS = COUNT_0 * COUNT_1 * COUNT_2 * COUNT_3;
  localparam int PLACE_BITS = $clog2(2 * BEATS);
  localparam int MOUTH_LOG2 = 2;

  logic [WIDTH-1:0] words[0:2*BEATS-1];
  logic [WIDTH-1:0] word;
  logic [PLACE_BITS-1:0] written;       // of this stretch
  logic write_half, read_half;
  logic [1:0] full;                     // halves
  logic writes, ends_in, reads, ends_out, arrives, mouth_ready;
  logic [MOUTH_LOG2:0] waiting;
  assign in_tready = !clear && full != 2'd2;
  assign writes = in_tvalid && in_tready;
  assign ends_in = writes && written == PLACE_BITS'(BEATS - 1);

  // The place of the next beat: every count's own part of it.
  logic [31:0] i_0, i_1, i_2, i_3;
  logic [PLACE_BITS-1:0] at_0, at_1, at_2, at_3, place;
  logic last_0, last_1, last_2, last_3;
  assign last_0 = i_0 == 32'(COUNT_0 - 1);
  assign last_1 = last_0 && i_1 == 32'(COUNT_1 - 1);
  assign last_2 = last_1 && i_2 == 32'(COUNT_2 - 1);
  assign last_3 = last_2 && i_3 == 32'(COUNT_3 - 1);
  assign place = at_0 + at_1 + at_2 + at_3 + (read_half ? PLACE_BITS'(BEATS) : '0);
  assign reads = full != 2'd0 && waiting + (MOUTH_LOG2 + 1)'(arrives) < (MOUTH_LOG2 + 1)'(1 << MOUTH_LOG2);
  assign ends_out = reads && last_3;

  always_ff @(posedge clock) begin
    if (writes) words[written+(write_half ? PLACE_BITS'(BEATS) : '0)] <= in_tdata;
    word <= words[place];
    arrives <= reads && !clear;
    if (clear) begin
      {written, write_half, read_half, full} <= '0;
      {i_0, i_1, i_2, i_3} <= '0;
      {at_0, at_1, at_2, at_3} <= '0;
    end else begin
      if (writes) written <= ends_in ? '0 : written + PLACE_BITS'(1);
      if (ends_in) write_half <= !write_half;
      if (ends_out) read_half <= !read_half;
      full <= full + 2'(ends_in) - 2'(ends_out);
      if (reads) begin
        i_0 <= last_0 ? '0 : i_0 + 32'd1;
        at_0 <= last_0 ? '0 : at_0 + PLACE_BITS'(STRIDE_0);
        if (last_0) begin
          i_1 <= last_1 ? '0 : i_1 + 32'd1;
          at_1 <= last_1 ? '0 : at_1 + PLACE_BITS'(STRIDE_1);
        end
        if (last_1) begin
          i_2 <= last_2 ? '0 : i_2 + 32'd1;
          at_2 <= last_2 ? '0 : at_2 + PLACE_BITS'(STRIDE_2);
        end
        if (last_2) begin
          i_3 <= last_3 ? '0 : i_3 + 32'd1;
          at_3 <= last_3 ? '0 : at_3 + PLACE_BITS'(STRIDE_3);
        end
      end
    end
  end

  stream_fifo #(
      .WIDTH(WIDTH),
      .DEPTH_LOG2(MOUTH_LOG2)
  ) mouth (
      .clock,
      .clear,
      .in_valid (arrives),
      .in_ready (mouth_ready),
      .in_data  (word),
      .out_valid(out_tvalid),
      .out_ready(out_tready),
      .out_data (out_tdata),
      .count    (waiting)
  );
  logic unused;
  assign unused = &{1'b0, mouth_ready};
endmodule
