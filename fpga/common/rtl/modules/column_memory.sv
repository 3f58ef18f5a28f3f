// A memory that is written at one place and read at another, its words cut into columns of the shapes that a block RAM has: 36 bits of 512
// words, 18 of 1024, 9 of 2048, and on to one bit of 16384. Synthesis puts a whole array into one shape.
//
// The columns are those that take the fewest blocks, as bram18_blocks() counts them (fpga/common/cost/bram_packing.h): as many of a wider
// shape as the word fills, then narrower ones for what is left. A word appears one cycle after its address. DEPTH need not be a power of
// two. ULTRA_BITS: the lowest bits of a word, whole columns of 72 or all, that lie in UltraRAM, whose one shape leaves nothing to cut.
// The others are of block RAM then, else of what synthesis chooses.
module column_memory #(
    parameter int WIDTH = 64,
    parameter int DEPTH = 1024,
    parameter int ADDRESS_BITS = (DEPTH < 2) ? 1 : $clog2(DEPTH),
    parameter int ULTRA_BITS = 0
) (
    input logic clock,

    input  logic [ADDRESS_BITS-1:0] read_address,
    output logic [       WIDTH-1:0] read_word,
    input  logic                    write_enable,
    input  logic [ADDRESS_BITS-1:0] write_address,
    input  logic [       WIDTH-1:0] write_word
);
  localparam int SHAPES = 6;  // shape s: 36 >> s bits of 512 << s words

  // Bits of a word in columns of `shape`, where those whose bit of `chosen` is set are used; the narrowest of them takes all that is left.
  function automatic int bits_in(input int chosen, input int shape);
    int wider, left;
    left = WIDTH - ULTRA_BITS;
    bits_in = 0;
    for (wider = 0; wider <= shape; wider = wider + 1) begin
      left = left - bits_in;
      bits_in = (((chosen >> wider) & 1) == 0) ? 0 : ((chosen >> (wider + 1)) == 0) ? left : left - left % (36 >> wider);
    end
  endfunction

  function automatic int blocks_in(input int chosen);
    int shape;
    blocks_in = 0;
    for (shape = 0; shape < SHAPES; shape = shape + 1)
      blocks_in = blocks_in +
          ((bits_in(chosen, shape) + (36 >> shape) - 1) / (36 >> shape)) * ((DEPTH + (512 << shape) - 1) / (512 << shape));
  endfunction

  // Of those with the fewest blocks the one with the fewest and widest shapes.
  function automatic int best_shapes(input int first);
    int chosen;
    best_shapes = first;
    for (chosen = first + 1; chosen < (1 << SHAPES); chosen = chosen + 1)
      if (blocks_in(chosen) < blocks_in(best_shapes)) best_shapes = chosen;
  endfunction

  function automatic int first_bit(input int chosen, input int shape);
    int wider;
    first_bit = 0;
    for (wider = 0; wider < shape; wider = wider + 1) first_bit = first_bit + bits_in(chosen, wider);
  endfunction

  localparam int CHOSEN = best_shapes(1);

  if (ULTRA_BITS > 0) begin : g_ultra
    (* ram_style = "ultra" *) logic [ULTRA_BITS-1:0] column[0:DEPTH-1];
    always_ff @(posedge clock) begin
      if (write_enable) column[write_address] <= write_word[0+:ULTRA_BITS];
      read_word[0+:ULTRA_BITS] <= column[read_address];
    end
  end
  for (genvar shape = 0; shape < SHAPES; shape++) begin : g_shape
    localparam int BITS = bits_in(CHOSEN, shape);
    localparam int FIRST = ULTRA_BITS + first_bit(CHOSEN, shape);
    if (BITS > 0 && ULTRA_BITS == 0) begin : g_columns
      (* ram_style = "auto" *) logic [BITS-1:0] column[0:DEPTH-1];
      always_ff @(posedge clock) begin
        if (write_enable) column[write_address] <= write_word[FIRST+:BITS];
        read_word[FIRST+:BITS] <= column[read_address];
      end
    end else if (BITS > 0) begin : g_block
      (* ram_style = "block" *) logic [BITS-1:0] column[0:DEPTH-1];
      always_ff @(posedge clock) begin
        if (write_enable) column[write_address] <= write_word[FIRST+:BITS];
        read_word[FIRST+:BITS] <= column[read_address];
      end
    end
  end
endmodule
