// LPRAM: the kernels of one shard, read by FP and EB at once, written element by element by the host after an update.
// A word appears one cycle after its address. IMAGE names a file of words in hexadecimal; "" leaves the memory as it is.
module parameter_memory #(
    parameter int ELEMENTS = 36,      // of a word
    parameter int ELEMENT_BITS = 16,
    parameter int ADDRESS_BITS = 10,
    parameter IMAGE = ""
) (
    input logic clock,

    input  logic [         ADDRESS_BITS-1:0] forward_address,
    output logic [ELEMENTS*ELEMENT_BITS-1:0] forward_word,
    input  logic [         ADDRESS_BITS-1:0] back_address,
    output logic [ELEMENTS*ELEMENT_BITS-1:0] back_word,

    input logic                    write_enable,
    input logic [ADDRESS_BITS-1:0] write_address,
    input logic [            15:0] write_element,
    input logic [ELEMENT_BITS-1:0] write_data
);
  localparam int PLACE_BITS = $clog2(ELEMENTS * ELEMENT_BITS);
  logic [ELEMENTS*ELEMENT_BITS-1:0] words[0:(1<<ADDRESS_BITS)-1];
  logic [PLACE_BITS-1:0] write_place;
  assign write_place = PLACE_BITS'(write_element * 16'(ELEMENT_BITS));

  always_ff @(posedge clock) begin
    if (write_enable) words[write_address][write_place+:ELEMENT_BITS] <= write_data;
    forward_word <= words[forward_address];
    back_word <= words[back_address];
  end

  if (IMAGE != "") begin : g_image
    initial $readmemh(IMAGE, words);
  end
endmodule
