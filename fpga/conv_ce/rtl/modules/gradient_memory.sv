// LGB: the gradients of one shard. PG adds to it word by word; while PG rests, the host reads element by element.
// A word appears one cycle after its address. ULTRA_BITS of it lie in UltraRAM (column_memory.sv).
module gradient_memory #(
    parameter int ELEMENTS = 36,
    parameter int ELEMENT_BITS = 32,
    parameter int ADDRESS_BITS = 10,
    parameter int WORDS = 1 << ADDRESS_BITS,
    parameter int ULTRA_BITS = 0
) (
    input logic clock,

    input  logic [         ADDRESS_BITS-1:0] read_address,
    output logic [ELEMENTS*ELEMENT_BITS-1:0] read_word,
    input  logic                             write_enable,
    input  logic [         ADDRESS_BITS-1:0] write_address,
    input  logic [ELEMENTS*ELEMENT_BITS-1:0] write_word
);
  column_memory #(
      .WIDTH(ELEMENTS * ELEMENT_BITS),
      .DEPTH(WORDS),
      .ADDRESS_BITS(ADDRESS_BITS),
      .ULTRA_BITS(ULTRA_BITS)
  ) words (
      .clock,
      .read_address,
      .read_word,
      .write_enable,
      .write_address,
      .write_word
  );
endmodule
