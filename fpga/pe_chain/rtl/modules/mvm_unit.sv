// One unit of CHAINS chains of PER_CHAIN elements: all multiply the same input of a cycle, which relays down, an element a cycle; results
// relay back likewise. Where outputs are divided, every second element of a chain takes the second half's input. ELEMENT is the bits of a
// weight: 16 in fixed point, 32 in single precision. With ULTRA weights lie in UltraRAM, those of neighbouring chains in one word.
module mvm_unit #(
    parameter int ELEMENT = 16,
    parameter int CHAINS = 4,
    parameter int PER_CHAIN = 4,
    parameter int WORDS = 256,
    parameter int ULTRA = 0
) (
    input  logic                     clock,
    input  logic                     load_write,
    input  logic [              7:0] load_depth,
    input  logic [$clog2(WORDS)-1:0] load_address,
    input  logic [CHAINS*ELEMENT-1:0] load_data,
    input  logic                     valid,
    input  logic                     first,
    input  logic                     last,
    input  logic                     divided,
    input  logic [              4:0] lane,          // of an accumulator: begins, half, lane
    input  logic [              7:0] depths,        // elements of a chain that have an output
    input  logic [$clog2(WORDS)-1:0] address,
    input  logic [      ELEMENT-1:0] element,
    input  logic [      ELEMENT-1:0] second,
    output logic                     result_valid,
    output logic [    CHAINS*32-1:0] results
);
  localparam int ADDRESS_BITS = $clog2(WORDS);
  localparam int TOGETHER = ULTRA != 0 ? 64 / ELEMENT : 1;  // chains whose weights are a word
  localparam int TOKEN_BITS = 17 + ADDRESS_BITS + 2 * ELEMENT;
  logic [CHAINS-1:0] slot_valid[0:PER_CHAIN];
  logic [CHAINS*32-1:0] slots[0:PER_CHAIN];
  assign slot_valid[PER_CHAIN] = '0;
  assign slots[PER_CHAIN] = '0;
  assign result_valid = slot_valid[0][0];
  assign results = slots[0];

  genvar d, c;
  for (d = 0; d < PER_CHAIN; d++) begin : g_depth
    logic [TOKEN_BITS-1:0] token;
    if (d > 0) begin : g_relay
      always_ff @(posedge clock) token <= g_depth[d-1].token;
    end else begin : g_head
      assign token = {valid, first, last, divided, lane, depths, address, element, second};
    end
    logic here_valid, here_first, here_last, here_divided;
    logic [7:0] here_depths;
    logic [ADDRESS_BITS-1:0] here_address;
    logic [4:0] here_lane;
    logic [ELEMENT-1:0] here_element, here_second, taken;
    logic unused_lane;
    assign unused_lane = &{1'b0, here_lane};
    assign {here_valid, here_first, here_last, here_divided, here_lane, here_depths, here_address, here_element, here_second} = token;
    assign taken = (here_divided && (d % 2) == 1) ? here_second : here_element;
    logic [CHAINS*ELEMENT-1:0] weights;
    for (c = 0; c < CHAINS; c = c + TOGETHER) begin : g_weights
      localparam int WIDTH = ELEMENT * (c + TOGETHER > CHAINS ? CHAINS - c : TOGETHER);
      chain_weights #(
          .WIDTH(WIDTH), .WORDS(WORDS), .ULTRA(ULTRA)
      ) memory (
          .clock,
          .load_write(load_write && load_depth == 8'(d)),
          .load_address,
          .load_data(load_data[c*ELEMENT+:WIDTH]),
          .address(here_address),
          .weights(weights[c*ELEMENT+:WIDTH])
      );
    end
    for (c = 0; c < CHAINS; c++) begin : g_chain
      if (ELEMENT == 16) begin : g_fixed
        chain_element pe (
            .clock,
            .valid(here_valid),
            .first(here_first),
            .last(here_last && here_depths > 8'(d)),
            .weight(weights[c*ELEMENT+:ELEMENT]),
            .element(taken),
            .deeper_valid(slot_valid[d+1][c]),
            .deeper(slots[d+1][c*32+:32]),
            .slot_valid(slot_valid[d][c]),
            .slot(slots[d][c*32+:32])
        );
      end else begin : g_real
        chain_element_fp32 pe (
            .clock,
            .valid(here_valid),
            .first(here_first),
            .last(here_last && here_depths > 8'(d)),
            .lane(here_lane),
            .weight(weights[c*ELEMENT+:ELEMENT]),
            .element(taken),
            .deeper_valid(slot_valid[d+1][c]),
            .deeper(slots[d+1][c*32+:32]),
            .slot_valid(slot_valid[d][c]),
            .slot(slots[d][c*32+:32])
        );
      end
    end
  end
  logic unused_valid;
  assign unused_valid = &{1'b0, slot_valid[0]};
endmodule
