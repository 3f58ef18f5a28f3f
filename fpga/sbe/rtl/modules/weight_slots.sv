// All blocks of weights that are on the chip, in one memory with a port for loading: banks one beat wide, so that a beat is written
// whole, read all at once for the array.
module weight_slots #(
    parameter int BANKS = 2,
    parameter int BEAT_BITS = 64,
    parameter int DEPTH = 512
) (
    input  logic                       clock,
    input  logic                       write,
    input  logic [               15:0] write_bank,
    input  logic [               15:0] write_place,
    input  logic [      BEAT_BITS-1:0] write_beat,
    input  logic [               15:0] read_place,
    output logic [BANKS*BEAT_BITS-1:0] read_word
);
  localparam int BITS = (DEPTH > 1) ? $clog2(DEPTH) : 1;
  genvar b;
  for (b = 0; b < BANKS; b++) begin : g_bank
    (* ram_style = "block" *) logic [BEAT_BITS-1:0] beats[0:DEPTH-1];
    logic [BEAT_BITS-1:0] beat;
    always_ff @(posedge clock) begin
      if (write && write_bank == 16'(b)) beats[write_place[BITS-1:0]] <= write_beat;
      beat <= beats[read_place[BITS-1:0]];
    end
    assign read_word[b*BEAT_BITS+:BEAT_BITS] = beat;
  end
  logic unused;
  assign unused = &{1'b0, write_place, read_place};
endmodule
