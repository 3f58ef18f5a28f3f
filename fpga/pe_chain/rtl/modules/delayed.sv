// What came CYCLES cycles ago.
module delayed #(
    parameter int WIDTH = 16,
    parameter int CYCLES = 1
) (
    input  logic             clock,
    input  logic [WIDTH-1:0] value,
    output logic [WIDTH-1:0] later
);
  logic [CYCLES*WIDTH-1:0] line;
  if (CYCLES > 1) begin : g_line
    always_ff @(posedge clock) line <= {line[(CYCLES-1)*WIDTH-1:0], value};
  end else begin : g_one
    always_ff @(posedge clock) line <= value;
  end
  assign later = line[CYCLES*WIDTH-1-:WIDTH];
endmodule
