// A FIFO in memory blocks: FPDeep's Act-RAM, which holds activations from FP until their errors have come back.
//
// Words wait in a memory (column_memory.sv) that is read a cycle ahead into a small FIFO at its mouth. DEPTH need not be a power of two.
// ULTRA_BITS of a word lie in UltraRAM, as column_memory.sv has it.
module deep_fifo #(
    parameter int WIDTH = 64,
    parameter int DEPTH = 1024,
    parameter int ULTRA_BITS = 0
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
  localparam int ADDRESS_BITS = (DEPTH < 2) ? 1 : $clog2(DEPTH);
  localparam int MOUTH_LOG2 = 2;

  logic [WIDTH-1:0] word;
  logic [ADDRESS_BITS-1:0] write_place, read_place;
  logic [ADDRESS_BITS:0] count;
  logic writes, reads, arrives, mouth_ready;
  logic [MOUTH_LOG2:0] waiting;

  assign in_tready = count < (ADDRESS_BITS + 1)'(DEPTH);
  assign writes = in_tvalid && in_tready;
  assign reads = count != '0 && waiting + (MOUTH_LOG2 + 1)'(arrives) < (MOUTH_LOG2 + 1)'(1 << MOUTH_LOG2);

  always_ff @(posedge clock) begin
    arrives <= reads && !clear;
    if (clear) begin
      write_place <= '0;
      read_place <= '0;
      count <= '0;
    end else begin
      if (writes) write_place <= (write_place == ADDRESS_BITS'(DEPTH - 1)) ? '0 : write_place + ADDRESS_BITS'(1);
      if (reads) read_place <= (read_place == ADDRESS_BITS'(DEPTH - 1)) ? '0 : read_place + ADDRESS_BITS'(1);
      count <= count + (ADDRESS_BITS + 1)'(writes) - (ADDRESS_BITS + 1)'(reads);
    end
  end

  column_memory #(
      .WIDTH(WIDTH),
      .DEPTH(DEPTH),
      .ULTRA_BITS(ULTRA_BITS)
  ) words (
      .clock,
      .read_address (read_place),
      .read_word    (word),
      .write_enable (writes),
      .write_address(write_place),
      .write_word   (in_tdata)
  );

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
