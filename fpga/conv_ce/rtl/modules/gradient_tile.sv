// One tile of PG: the gradient of one kernel. Every cycle an error meets the window of activations that its output was made
// of; each of the KERNEL x KERNEL products is added to an accumulator of its own.
//
// `first` begins a sweep: the accumulators then start anew. `capture` copies them aside, where they stay until the next one.
// Product, accumulator: two cycles. Sums wrap at 32 bits.
module gradient_tile #(
    parameter int TAPS = 9,
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32
) (
    input logic clock,

    input logic        [TAPS*ELEMENT_BITS-1:0] window,
    input logic signed [     ELEMENT_BITS-1:0] error,

    input logic accumulate,  // with the products
    input logic first,
    input logic capture,

    output logic [TAPS*SUM_BITS-1:0] captured
);
  /*verilator no_inline_module*/
  logic [TAPS*SUM_BITS-1:0] made, products, added, accumulators;  // registered whole, as in forward_tile

  for (genvar tap = 0; tap < TAPS; tap++) begin : g_tap
    logic signed [ELEMENT_BITS-1:0] element;
    logic signed [SUM_BITS-1:0] product;
    logic [SUM_BITS-1:0] start;
    assign element = window[tap*ELEMENT_BITS+:ELEMENT_BITS];
    assign product = element * error;
    assign start = first ? '0 : accumulators[tap*SUM_BITS+:SUM_BITS];
    assign made[tap*SUM_BITS+:SUM_BITS] = product;
    assign added[tap*SUM_BITS+:SUM_BITS] = start + products[tap*SUM_BITS+:SUM_BITS];
  end
  always_ff @(posedge clock) begin
    products <= made;
    if (accumulate) accumulators <= added;
    if (capture) captured <= accumulators;
  end
endmodule
