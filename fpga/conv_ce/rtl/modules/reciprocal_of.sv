// round(2^17 / count) for the averages of a window, by the number of its elements that count; nothing for none.
// after_sum.h says the same in C++, and what the rounding costs.
module reciprocal_of #(
    parameter int WINDOW = 4,           // the most elements
    parameter int RECIPROCAL_BITS = 17  // the reciprocal of one has a bit more
) (
    input  logic [$clog2(WINDOW+1)-1:0] count,
    output logic [   RECIPROCAL_BITS:0] reciprocal
);
  logic [RECIPROCAL_BITS:0] reciprocals[0:WINDOW];
  assign reciprocals[0] = '0;
  for (genvar n = 1; n <= WINDOW; n++) begin : g_reciprocal
    assign reciprocals[n] = (RECIPROCAL_BITS + 1)'(((2 << RECIPROCAL_BITS) / n + 1) / 2);
  end
  assign reciprocal = reciprocals[count];
endmodule
