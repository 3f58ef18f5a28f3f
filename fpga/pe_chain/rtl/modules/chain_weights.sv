// Weights of elements that read the same place in the same cycle: one of them, or, in UltraRAM, neighbours of several chains in one word,
// since all chains of a unit take an input at once. What is read comes a cycle behind its address.
module chain_weights #(
    parameter int WIDTH = 16,
    parameter int WORDS = 256,
    parameter int ULTRA = 0
) (
    input  logic                     clock,
    input  logic                     load_write,
    input  logic [$clog2(WORDS)-1:0] load_address,
    input  logic [        WIDTH-1:0] load_data,
    input  logic [$clog2(WORDS)-1:0] address,
    output logic [        WIDTH-1:0] weights
);
  if (ULTRA != 0) begin : g_ultra
    (* ram_style = "ultra" *) logic [WIDTH-1:0] kept[0:WORDS-1];
    always_ff @(posedge clock) begin
      if (load_write) kept[load_address] <= load_data;
      weights <= kept[address];
    end
  end else begin : g_block
    (* ram_style = "block" *) logic [WIDTH-1:0] kept[0:WORDS-1];
    always_ff @(posedge clock) begin
      if (load_write) kept[load_address] <= load_data;
      weights <= kept[address];
    end
  end
endmodule
