// A FIFO between two streams. The oldest word is visible before it is taken.
module stream_fifo #(
    parameter int WIDTH = 16,
    parameter int DEPTH_LOG2 = 4
) (
    input logic clock,
    input logic clear,

    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,

    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data,

    output logic [DEPTH_LOG2:0] count
);
  logic [WIDTH-1:0] words[0:(1<<DEPTH_LOG2)-1];
  logic [DEPTH_LOG2-1:0] write_place, read_place;
  logic writes, reads;

  assign in_ready = !count[DEPTH_LOG2];
  assign out_valid = count != '0;
  assign out_data = words[read_place];
  assign writes = in_valid && in_ready;
  assign reads = out_valid && out_ready;

  always_ff @(posedge clock) begin
    if (writes) words[write_place] <= in_data;
    if (clear) begin
      write_place <= '0;
      read_place <= '0;
      count <= '0;
    end else begin
      if (writes) write_place <= write_place + DEPTH_LOG2'(1);
      if (reads) read_place <= read_place + DEPTH_LOG2'(1);
      if (writes && !reads) count <= count + (DEPTH_LOG2 + 1)'(1);
      if (reads && !writes) count <= count - (DEPTH_LOG2 + 1)'(1);
    end
  end
endmodule
