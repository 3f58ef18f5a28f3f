// LPRAM: the kernels of one shard, read by FP and EB at once, written by the host after an update.
//
// Elements come one by one, those of a word in order; the word is written, a cycle later, with its last element. The host writes through the
// port that FP reads by, and FP rests while it does: a memory of two ports serves FP, EB and host, and none is there twice.
// A word appears one cycle after its address. IMAGE names a file of words in hexadecimal; "" leaves the memory as it is. STYLE: "ultra" for
// UltraRAM, which a bitstream cannot fill (the image is for simulation then), "auto" for what synthesis chooses.
module parameter_memory #(
    parameter int ELEMENTS = 36,      // of a word
    parameter int ELEMENT_BITS = 16,
    parameter int ADDRESS_BITS = 10,
    parameter int WORDS = 1 << ADDRESS_BITS,
    parameter IMAGE = "",
    parameter STYLE = "auto"
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
  (* ram_style = STYLE *) logic [ELEMENTS*ELEMENT_BITS-1:0] words[0:WORDS-1];

  // The word that is coming in.
  logic [ELEMENTS*ELEMENT_BITS-1:0] incoming;
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

  /* verilator lint_off WIDTH */
  localparam bit IS_ULTRA = STYLE == "ultra";
  /* verilator lint_on WIDTH */
  if (IS_ULTRA) begin : g_ultra  // a port of which writes or reads
    always_ff @(posedge clock) begin
      if (complete) words[first_address] <= incoming;
      else forward_word <= words[first_address];
    end
  end else begin : g_first
    always_ff @(posedge clock) begin
      if (complete) words[first_address] <= incoming;
      forward_word <= words[first_address];
    end
  end
  always_ff @(posedge clock) back_word <= words[back_address];

`ifdef SYNTHESIS
  localparam bit FILLED = !IS_ULTRA;
`else
  localparam bit FILLED = 1'b1;
`endif
  if (IMAGE != "" && FILLED) begin : g_image
    initial $readmemh(IMAGE, words);
  end
endmodule
