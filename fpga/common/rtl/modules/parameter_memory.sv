// LPRAM: the kernels of one shard, read by FP and EB at once, written by the host after an update.
//
// Elements come one by one, those of a word in order; the word is written, a cycle later, with its last element. The host writes through the
// port that FP reads by, and FP rests while it does: a memory of two ports serves FP, EB and host, and none is there twice.
// A word appears one cycle after its address. IMAGE names a file of words in hexadecimal; "" leaves the memory as it is. ULTRA_BITS: the
// lowest bits of a word, whole columns of 72 or all, that lie in UltraRAM, which a bitstream cannot fill (the image is for simulation then,
// and the host writes all words); the others are of block RAM then, else of what synthesis chooses.
module parameter_memory #(
    parameter int ELEMENTS = 36,      // of a word
    parameter int ELEMENT_BITS = 16,
    parameter int ADDRESS_BITS = 10,
    parameter int WORDS = 1 << ADDRESS_BITS,
    parameter IMAGE = "",
    parameter int ULTRA_BITS = 0
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
  localparam int WIDTH = ELEMENTS * ELEMENT_BITS;

  // The word that is coming in.
  logic [WIDTH-1:0] incoming;
  logic complete;
  logic [ADDRESS_BITS-1:0] complete_address, first_address;
  for (genvar element = 0; element < ELEMENTS; element++) begin : g_element
    always_ff @(posedge clock)
      if (write_enable && write_element == 16'(element)) incoming[element*ELEMENT_BITS+:ELEMENT_BITS] <= write_data;
  end
  always_ff @(posedge clock) begin
    complete <= write_enable && write_element == 16'(ELEMENTS - 1);
    complete_address <= write_address;
  end
  assign first_address = complete ? complete_address : forward_address;

  if (ULTRA_BITS > 0) begin : g_ultra  // a port of which writes or reads
    (* ram_style = "ultra" *) logic [ULTRA_BITS-1:0] words[0:WORDS-1];
    always_ff @(posedge clock) begin
      if (complete) words[first_address] <= incoming[0+:ULTRA_BITS];
      else forward_word[0+:ULTRA_BITS] <= words[first_address];
    end
    always_ff @(posedge clock) back_word[0+:ULTRA_BITS] <= words[back_address];
  end
  if (ULTRA_BITS == 0) begin : g_words
    (* ram_style = "auto" *) logic [WIDTH-1:0] words[0:WORDS-1];
    always_ff @(posedge clock) begin
      if (complete) words[first_address] <= incoming;
      forward_word <= words[first_address];
    end
    always_ff @(posedge clock) back_word <= words[back_address];
    if (IMAGE != "") begin : g_image
      initial $readmemh(IMAGE, words);
    end
  end else if (ULTRA_BITS < WIDTH) begin : g_block
    (* ram_style = "block" *) logic [WIDTH-ULTRA_BITS-1:0] words[0:WORDS-1];
    always_ff @(posedge clock) begin
      if (complete) words[first_address] <= incoming[WIDTH-1:ULTRA_BITS];
      forward_word[WIDTH-1:ULTRA_BITS] <= words[first_address];
    end
    always_ff @(posedge clock) back_word[WIDTH-1:ULTRA_BITS] <= words[back_address];
  end

`ifndef SYNTHESIS
  if (IMAGE != "" && ULTRA_BITS > 0) begin : g_image
    logic [WIDTH-1:0] image[0:WORDS-1];
    initial begin
      $readmemh(IMAGE, image);
      for (int word = 0; word < WORDS; word++) g_ultra.words[word] = image[word][0+:ULTRA_BITS];
    end
    if (ULTRA_BITS < WIDTH) begin : g_rest
      initial begin
        $readmemh(IMAGE, image);
        for (int word = 0; word < WORDS; word++) g_block.words[word] = image[word][WIDTH-1:ULTRA_BITS];
      end
    end
  end
`endif
endmodule
