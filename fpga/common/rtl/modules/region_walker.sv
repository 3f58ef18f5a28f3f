// Walks over a list of memories, element by element: what is moved between a device and the memory outside it, in order.
//
// TABLE holds a region in 56 bits, the first lowest: memory (16), words (24), elements of a word (16), as the host's window
// numbers them (registers.txt of a generated device). `restart` goes back to the first element; `advance` takes one step.
module region_walker #(
    parameter int REGIONS = 1,
    parameter logic [REGIONS*56-1:0] TABLE = '0
) (
    input logic clock,
    input logic restart,
    input logic advance,

    output logic [15:0] memory,
    output logic [23:0] address,
    output logic [15:0] element,
    output logic        last
);
  logic [15:0] region, elements;
  logic [23:0] words;
  logic last_element, last_word;
  logic [31:0] region_begins;  // 56 bits a region: a product would take a DSP slice
  logic [55:0] current;
  assign region_begins = (32'(region) << 6) - (32'(region) << 3);
  assign current = 56'(TABLE >> region_begins);
  assign {memory, words, elements} = current;
  assign last_element = element == elements - 16'd1;
  assign last_word = address == words - 24'd1;
  assign last = last_element && last_word && region == 16'(REGIONS - 1);

  always_ff @(posedge clock) begin
    if (restart) begin
      region  <= '0;
      address <= '0;
      element <= '0;
    end else if (advance) begin
      element <= last_element ? '0 : element + 16'd1;
      if (last_element) begin
        address <= last_word ? '0 : address + 24'd1;
        if (last_word) region <= last ? '0 : region + 16'd1;
      end
    end
  end
endmodule
