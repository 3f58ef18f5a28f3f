// The way back through a ReLU that an average hides: an error passes where the value was above zero, which the
// special-function unit noted beat by beat. Both streams come in the same order and are waited for together.
module relu_gate #(
    parameter int LANES = 4,
    parameter int SLOPE = 0,  // of a leaky one, of 15 fraction bits
    parameter int ELEMENT_BITS = 16
) (
    input  logic                          error_tvalid,
    output logic                          error_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] error_tdata,

    input  logic             mask_tvalid,
    output logic             mask_tready,
    input  logic [LANES-1:0] mask_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  assign out_tvalid = error_tvalid && mask_tvalid;
  assign error_tready = out_tready && mask_tvalid;
  assign mask_tready = out_tready && error_tvalid;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic [ELEMENT_BITS-1:0] below;
    leaky_part #(
        .SLOPE(SLOPE),
        .ELEMENT_BITS(ELEMENT_BITS)
    ) leak (
        .element(error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS]),
        .part(below)
    );
    assign out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] = mask_tdata[lane] ? error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] : below;
  end
endmodule
