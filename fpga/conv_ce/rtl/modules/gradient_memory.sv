// LGB: the gradients of one shard. PG adds to it word by word; while PG rests, the host reads element by element.
// A word appears one cycle after its address. STYLE: "ultra" for UltraRAM, "auto" for what synthesis chooses.
module gradient_memory #(
    parameter int ELEMENTS = 36,
    parameter int ELEMENT_BITS = 32,
    parameter int ADDRESS_BITS = 10,
    parameter int WORDS = 1 << ADDRESS_BITS,
    parameter STYLE = "auto"
) (
    input logic clock,

    input  logic [         ADDRESS_BITS-1:0] read_address,
    output logic [ELEMENTS*ELEMENT_BITS-1:0] read_word,
    input  logic                             write_enable,
    input  logic [         ADDRESS_BITS-1:0] write_address,
    input  logic [ELEMENTS*ELEMENT_BITS-1:0] write_word
);
  (* ram_style = STYLE *) logic [ELEMENTS*ELEMENT_BITS-1:0] words[0:WORDS-1];
  always_ff @(posedge clock) begin
    if (write_enable) words[write_address] <= write_word;
    read_word <= words[read_address];
  end
  logic unused;
  assign unused = &{1'b0, STYLE};
endmodule
