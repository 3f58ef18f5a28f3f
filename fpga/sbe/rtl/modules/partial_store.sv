// Where sums wait between two blocks: a word of all lanes for every vector and group. Read a cycle after its place.
module partial_store #(
    parameter int WIDTH = 256,
    parameter int DEPTH = 64,
    parameter int BLOCK = 0  // block memory, else distributed
) (
    input  logic             clock,
    input  logic             write,
    input  logic [     15:0] write_place,
    input  logic [WIDTH-1:0] write_word,
    input  logic [     15:0] read_place,
    output logic [WIDTH-1:0] read_word
);
  localparam int BITS = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  if (BLOCK != 0) begin : g_block
    (* ram_style = "block" *) logic [WIDTH-1:0] words[0:DEPTH-1];
    always_ff @(posedge clock) begin
      if (write) words[write_place[BITS-1:0]] <= write_word;
      read_word <= words[read_place[BITS-1:0]];
    end
  end else begin : g_distributed
    (* ram_style = "distributed" *) logic [WIDTH-1:0] words[0:DEPTH-1];
    always_ff @(posedge clock) begin
      if (write) words[write_place[BITS-1:0]] <= write_word;
      read_word <= words[read_place[BITS-1:0]];
    end
  end
  logic unused;
  assign unused = &{1'b0, write_place, read_place};
endmodule
