// An element of a chain, beside its weights: a multiplier, an accumulator that wraps. Its result joins those of deeper elements on their
// way back: it is put into the slot in front of it four cycles behind the last input, and a slot moves on every cycle.
module chain_element (
    input  logic                     clock,
    input  logic                     valid,
    input  logic                     first,
    input  logic                     last,          // and this element has an output
    input  logic [             15:0] weight,        // of the input before
    input  logic [             15:0] element,
    input  logic                     deeper_valid,
    input  logic [             31:0] deeper,
    output logic                     slot_valid,
    output logic [             31:0] slot
);
  logic signed [15:0] element_1;
  logic signed [31:0] product;
  logic [31:0] sum;
  logic valid_1, first_1, last_1, valid_2, first_2, last_2, last_3;
  always_ff @(posedge clock) begin
    element_1 <= $signed(element);
    {valid_1, first_1, last_1} <= {valid, first, valid && last};
    product <= 32'($signed(weight)) * 32'(element_1);
    {valid_2, first_2, last_2} <= {valid_1, first_1, last_1};
    if (valid_2) sum <= (first_2 ? 32'd0 : sum) + product;
    last_3 <= last_2;
    slot <= last_3 ? sum : deeper;
    slot_valid <= last_3 || deeper_valid;
  end
endmodule
