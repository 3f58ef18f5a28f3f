// One convolution tile: the KERNEL x KERNEL products of one input channel for one output channel, every cycle, and their
// sum. It keeps the kernel of this sweep, and beside it the one of the next.
//
// From window to sum: two cycles (products, then the adder tree). Sums wrap at 32 bits.
module forward_tile #(
    parameter int TAPS = 9,
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32
) (
    input logic clock,

    input logic                         load_enable,
    input logic [TAPS*ELEMENT_BITS-1:0] load_kernel,
    input logic                         take_kernel,

    input  logic        [TAPS*ELEMENT_BITS-1:0] window,
    output logic signed [         SUM_BITS-1:0] sum
);
  /*verilator no_inline_module*/
  logic [TAPS*ELEMENT_BITS-1:0] next_kernel, kernel;
  // Registered whole: event by event simulation then takes its readers once a cycle, not once a tap.
  logic [TAPS*SUM_BITS-1:0] made, products;

  always_ff @(posedge clock) begin
    if (load_enable) next_kernel <= load_kernel;
    if (take_kernel) kernel <= next_kernel;
    products <= made;
  end

  for (genvar tap = 0; tap < TAPS; tap++) begin : g_tap
    logic signed [ELEMENT_BITS-1:0] element, weight;
    logic signed [SUM_BITS-1:0] product;
    assign element = window[tap*ELEMENT_BITS+:ELEMENT_BITS];
    assign weight = kernel[tap*ELEMENT_BITS+:ELEMENT_BITS];
    assign product = element * weight;
    assign made[tap*SUM_BITS+:SUM_BITS] = product;
  end

  logic signed [SUM_BITS-1:0] total;
  always_comb begin
    total = '0;
    for (int tap = 0; tap < TAPS; tap++) total = total + products[tap*SUM_BITS+:SUM_BITS];
  end
  always_ff @(posedge clock) sum <= total;
endmodule
