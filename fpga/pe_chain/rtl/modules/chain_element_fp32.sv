// An element of a chain in single precision. A product goes to the lane that the chain names, of eight to each half of the inputs, since an
// addition takes four cycles; behind the last one a second adder makes a balanced tree of the sixteen, and the result goes into the
// slot LATENCY cycles behind the last input (chain_sum.h says the same in C++). Lanes lie twice, by turns of outputs: the last inputs of two
// outputs are 26 cycles apart or more.
module chain_element_fp32 (
    input  logic                     clock,
    input  logic                     valid,
    input  logic                     first,
    input  logic                     last,          // and this element has an output
    input  logic [              4:0] lane,          // begins, half, lane
    input  logic [             31:0] weight,        // of the input before
    input  logic [             31:0] element,
    input  logic                     deeper_valid,
    input  logic [             31:0] deeper,
    output logic                     slot_valid,
    output logic [             31:0] slot
);
  logic [31:0] element_1, product;
  always_ff @(posedge clock) element_1 <= element;
  fp32_multiply multiplier (.clock, .a(weight), .b(element_1), .y(product));

  // With the product: whose lane, and whether it is the output's first or last one.
  logic valid_4, first_4, last_4, bank_4, valid_8, first_8, last_8, bank_8;
  logic [4:0] lane_4;
  logic [3:0] lane_8;
  delayed #(.WIDTH(8), .CYCLES(4)) token_later (
      .clock, .value({valid, first, valid && last, lane}), .later({valid_4, first_4, last_4, lane_4})
  );
  delayed #(.WIDTH(8), .CYCLES(4)) token_later_still (
      .clock, .value({valid_4, first_4, last_4, bank_4, lane_4[3:0]}), .later({valid_8, first_8, last_8, bank_8, lane_8})
  );
  logic bank = 1'b0;
  assign bank_4 = first_4 ? !bank : bank;
  always_ff @(posedge clock) if (valid_4) bank <= bank_4;

  (* ram_style = "distributed" *) logic [31:0] evens[0:15];
  (* ram_style = "distributed" *) logic [31:0] odds[0:15];
  logic [15:0] touched[0:1];
  logic [31:0] taken_up, sum;
  logic [3:0] place_4, place_8;
  assign place_4 = {bank_4, lane_4[3:1]};
  assign place_8 = {bank_8, lane_8[3:1]};
  assign taken_up = lane_4[4] ? 32'd0 : lane_4[0] ? odds[place_4] : evens[place_4];
  fp32_add adder (.clock, .a(taken_up), .b(product), .y(sum));
  always_ff @(posedge clock)
    if (valid_8) begin
      if (lane_8[0]) odds[place_8] <= sum;
      else evens[place_8] <= sum;
      touched[bank_8] <= (first_8 ? 16'd0 : touched[bank_8]) | (16'd1 << lane_8);
    end

  // The tree: eight pairs of lanes, and pairs of what comes out, which go before.
  logic running = 1'b0, tree_bank, pairs;
  logic [2:0] pair, level;
  logic [11:0] levels = 12'd0;
  logic [3:1] waiting = 3'd0;
  logic [31:0] held[1:3];
  logic [2:0] level_in;
  logic [31:0] left, right, made;
  logic [3:0] place;
  assign place = {tree_bank, pair};
  assign pairs = level != 3'd0 && level != 3'd4 && waiting[level[1:0]];
  assign level_in = pairs ? level + 3'd1 : running ? 3'd1 : 3'd0;
  assign left = pairs ? held[level[1:0]] : touched[tree_bank][{pair, 1'b0}] ? evens[place] : 32'd0;
  assign right = pairs ? made : touched[tree_bank][{pair, 1'b1}] ? odds[place] : 32'd0;
  assign level = levels[11:9];
  fp32_add tree (.clock, .a(left), .b(right), .y(made));
  always_ff @(posedge clock) begin
    levels <= {levels[8:0], level_in};
    if (last_8) begin
      running <= 1'b1;
      pair <= 3'd0;
      tree_bank <= bank_8;
      waiting <= 3'd0;
    end else begin
      if (running && !pairs) begin
        pair <= pair + 3'd1;
        if (pair == 3'd7) running <= 1'b0;
      end
      if (level != 3'd0 && level != 3'd4) begin
        waiting[level[1:0]] <= !pairs;
        held[level[1:0]] <= made;
      end
    end
    slot <= (level == 3'd4) ? made : deeper;
    slot_valid <= level == 3'd4 || deeper_valid;
  end
endmodule
