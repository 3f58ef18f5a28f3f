// An element of a chain: a memory of weights, a multiplier, an accumulator that wraps. Its result joins those of deeper elements on their
// way back: it is put into the slot in front of it four cycles behind the last input, and a slot moves on every cycle.
module chain_element #(
    parameter int WORDS = 256
) (
    input  logic                     clock,
    input  logic                     load_write,
    input  logic [$clog2(WORDS)-1:0] load_address,
    input  logic [             15:0] load_data,
    input  logic                     valid,
    input  logic                     first,
    input  logic                     last,          // and this element has an output
    input  logic [$clog2(WORDS)-1:0] address,
    input  logic [             15:0] element,
    input  logic                     deeper_valid,
    input  logic [             31:0] deeper,
    output logic                     slot_valid,
    output logic [             31:0] slot
);
  (* ram_style = "block" *) logic [15:0] weights[0:WORDS-1];
  logic signed [15:0] weight, element_1;
  logic signed [31:0] product;
  logic [31:0] sum;
  logic valid_1, first_1, last_1, valid_2, first_2, last_2, last_3;
  always_ff @(posedge clock) begin
    if (load_write) weights[load_address] <= load_data;
    weight <= $signed(weights[address]);
    element_1 <= $signed(element);
    {valid_1, first_1, last_1} <= {valid, first, valid && last};
    product <= 32'(weight) * 32'(element_1);
    {valid_2, first_2, last_2} <= {valid_1, first_1, last_1};
    if (valid_2) sum <= (first_2 ? 32'd0 : sum) + product;
    last_3 <= last_2;
    slot <= last_3 ? sum : deeper;
    slot_valid <= last_3 || deeper_valid;
  end
endmodule
