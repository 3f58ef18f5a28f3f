// What follows the chains behind a product without gates, of a layer that projects its outputs: CHAINS outputs a cycle, from the sums of four
// units to elements, forward those of h, back those of dh, to which the layer's error is added. They leave two cycles behind `take`, in
// single precision twelve.
module projected_sums #(
    parameter int ELEMENT = 16,
    parameter int CHAINS = 4
) (
    input  logic                      clock,
    input  logic                      reset_n,
    input  logic [               4:0] shift,     // fraction bits of a sum that an element lacks
    input  logic                      take,
    input  logic [   4*CHAINS*32-1:0] products,  // [unit][lane]
    input  logic [CHAINS*ELEMENT-1:0] given,     // zero where there is no error
    input  logic [              15:0] place,     // of the state
    input  logic                      half,
    output logic                      made,
    output logic [              15:0] made_place,
    output logic                      made_half,
    output logic [CHAINS*ELEMENT-1:0] elements
);
  localparam int LATENCY = (ELEMENT == 16) ? 2 : 12;
  logic [LATENCY:1] active_at, half_at;
  logic [LATENCY*16-1:0] place_at;  // of cycle k from (k - 1) 16 on
  always_ff @(posedge clock) begin
    active_at <= reset_n ? {active_at[LATENCY-1:1], take} : '0;
    half_at <= {half_at[LATENCY-1:1], half};
    place_at <= {place_at[(LATENCY-1)*16-1:0], place};
  end
  assign made = active_at[LATENCY];
  assign made_place = place_at[(LATENCY-1)*16+:16];
  assign made_half = half_at[LATENCY];

  genvar u;
  for (u = 0; u < CHAINS; u++) begin : g_unit
    logic [31:0] part[0:3];
    assign part[0] = products[u*32+:32];
    assign part[1] = products[(CHAINS+u)*32+:32];
    assign part[2] = products[(2*CHAINS+u)*32+:32];
    assign part[3] = products[(3*CHAINS+u)*32+:32];
    if (ELEMENT == 16) begin : g_fixed
      logic signed [31:0] total;
      logic signed [15:0] nearest;
      always_ff @(posedge clock) begin
        total <= ((part[0] + part[1]) + (part[2] + part[3])) + (32'($signed(given[u*16+:16])) <<< shift);
        elements[u*16+:16] <= nearest;
      end
      round_to_element #(
          .VALUE_BITS(32)
      ) rounding (
          .value(total),
          .shift,
          .element(nearest)
      );
    end else begin : g_real
      logic [31:0] first_4, second_4, product_8, given_8;
      fp32_add first_two (.clock, .a(part[0]), .b(part[1]), .y(first_4));
      fp32_add second_two (.clock, .a(part[2]), .b(part[3]), .y(second_4));
      fp32_add all (.clock, .a(first_4), .b(second_4), .y(product_8));
      delayed #(.WIDTH(32), .CYCLES(8)) given_later (.clock, .value(given[u*32+:32]), .later(given_8));
      fp32_add with_given (.clock, .a(given_8), .b(product_8), .y(elements[u*32+:32]));
    end
  end
  logic unused_shift;
  assign unused_shift = &{1'b0, shift};
endmodule
