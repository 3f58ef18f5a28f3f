// What came CYCLES cycles ago.
module delayed #(
    parameter int WIDTH = 16,
    parameter int CYCLES = 1
) (
    input  logic             clock,
    input  logic [WIDTH-1:0] value,
    output logic [WIDTH-1:0] later
);
  logic [WIDTH-1:0] line[1:CYCLES];
  integer i;
  always_ff @(posedge clock) begin
    line[1] <= value;
    for (i = 2; i <= CYCLES; i++) line[i] <= line[i-1];
  end
  assign later = line[CYCLES];
endmodule
