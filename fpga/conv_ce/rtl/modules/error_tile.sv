// One tile of EB: the KERNEL x KERNEL products of one output channel's errors for one input channel, every cycle.
//
// With a stride S the errors of S x S neighbouring inputs come from the same errors of the output, each through its own
// share of the kernel: input row q * S + a meets kernel rows a, a + S, a + 2S, ... in output rows q, q - 1, q - 2, ...
// So every product belongs to exactly one of S x S sums, and no multiplier waits. `window` holds the output rows
// q - SPAN + 1 .. q, SPAN = KERNEL / S rounded up; `sums` one sum per (a, b).
// From window to sums: two cycles. Sums wrap at 32 bits.
module error_tile #(
    parameter int KERNEL = 3,
    parameter int STRIDE = 1,
    parameter int ELEMENT_BITS = 16,
    parameter int SUM_BITS = 32,
    parameter int SPAN = (KERNEL + STRIDE - 1) / STRIDE
) (
    input logic clock,

    input logic                                  load_enable,
    input logic [KERNEL*KERNEL*ELEMENT_BITS-1:0] load_kernel,
    input logic                                  take_kernel,

    input  logic [   SPAN*SPAN*ELEMENT_BITS-1:0] window,
    output logic [STRIDE*STRIDE*SUM_BITS-1:0] sums
);
  /*verilator no_inline_module*/
  localparam int TAPS = KERNEL * KERNEL;
  logic [TAPS*ELEMENT_BITS-1:0] next_kernel, kernel;
  logic [TAPS*SUM_BITS-1:0] made, products;  // registered whole, as in forward_tile

  always_ff @(posedge clock) begin
    if (load_enable) next_kernel <= load_kernel;
    if (take_kernel) kernel <= next_kernel;
    products <= made;
  end

  for (genvar row = 0; row < KERNEL; row++) begin : g_row
    for (genvar column = 0; column < KERNEL; column++) begin : g_column
      localparam int TAP = row * KERNEL + column;
      localparam int PLACE = (SPAN - 1 - row / STRIDE) * SPAN + SPAN - 1 - column / STRIDE;
      logic signed [ELEMENT_BITS-1:0] error, weight;
      logic signed [SUM_BITS-1:0] product;
      assign error = window[PLACE*ELEMENT_BITS+:ELEMENT_BITS];
      assign weight = kernel[TAP*ELEMENT_BITS+:ELEMENT_BITS];
      assign product = error * weight;
      assign made[TAP*SUM_BITS+:SUM_BITS] = product;
    end
  end

  for (genvar row_phase = 0; row_phase < STRIDE; row_phase++) begin : g_row_phase
    for (genvar column_phase = 0; column_phase < STRIDE; column_phase++) begin : g_column_phase
      logic [SUM_BITS-1:0] total;
      always_comb begin
        total = '0;
        for (int row = row_phase; row < KERNEL; row += STRIDE)
          for (int column = column_phase; column < KERNEL; column += STRIDE)
            total = total + products[(row*KERNEL+column)*SUM_BITS+:SUM_BITS];
      end
      always_ff @(posedge clock) sums[(row_phase*STRIDE+column_phase)*SUM_BITS+:SUM_BITS] <= total;
    end
  end
endmodule
