// Dropout: elements whose draw lies below a threshold become 0, the others round(x * scale * 2^-shift), saturated. The same module
// serves the way back, where it makes the same draws again from the same counters; nothing is kept in between.
//
// The draw of an element is word `element % 4` of the Philox block (4 x 32 bits, ten rounds) at counter
// `first block of the sample + element / 4`; elements are counted channel by channel, row by row, over the sample's whole map. One
// generator serves all lanes: two cycles a round, a lane after the other; every lane remembers its last block, and lanes that follow
// each other share one.
//   cycles of a beat = LANES + 1 + 21 x blocks that are new
// Words, written while `clear` is high: 0 the seed, 1 the stream, 2 threshold (bits 31 to 0), scale (47 to 32) and shift (52 to 48),
// from 3 on the first block of each sample of the mini-batch.
// Streams: one pixel of LANES channels per beat, row - group - column order.
module dropout_unit #(
    parameter int LANES = 4,
    parameter int SAMPLE_BITS = 4,  // of the mini-batch
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [31:0] plane,       // height * width
    input logic [31:0] group_step,  // LANES * plane

    input logic        write_enable,
    input logic [23:0] write_address,
    input logic [63:0] write_word,

    input  logic                          in_tvalid,
    output logic                          in_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] in_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int LANE_BITS = (LANES > 1) ? $clog2(LANES) : 1;
  localparam logic [31:0] FACTOR_0 = 32'hD2511F53, FACTOR_1 = 32'hCD9E8D57;
  localparam logic [31:0] WEYL_0 = 32'h9E3779B9, WEYL_1 = 32'hBB67AE85;

  // --- What the host wrote.
  logic [63:0] seed, stream;
  logic [31:0] threshold;
  logic signed [ELEMENT_BITS-1:0] scale;
  logic [4:0] shift;
  logic [63:0] first_blocks[0:(1<<SAMPLE_BITS)-1];
  always_ff @(posedge clock) begin
    if (write_enable) begin
      case (write_address)
        24'd0: seed <= write_word;
        24'd1: stream <= write_word;
        24'd2: {shift, scale, threshold} <= write_word[52:0];
        default: first_blocks[SAMPLE_BITS'(write_address-24'd3)] <= write_word;
      endcase
    end
  end

  // --- Which elements a beat holds.
  logic [15:0] column, group, row;
  logic [31:0] pixel, row_base, group_base;
  logic [SAMPLE_BITS-1:0] sample;
  logic accepts, last_column, last_group, last_row;
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  assign last_row = row == height - 16'd1;
  assign accepts = in_tvalid && in_tready;
  always_ff @(posedge clock) begin
    if (clear) begin
      {column, group, row} <= '0;
      {pixel, row_base, group_base} <= '0;
      sample <= '0;
    end else if (accepts) begin
      column <= last_column ? '0 : column + 16'd1;
      pixel  <= pixel + 32'd1;
      if (last_column) begin
        group <= last_group ? '0 : group + 16'd1;
        group_base <= last_group ? '0 : group_base + group_step;
        pixel <= row_base;
        if (last_group) begin
          row <= last_row ? '0 : row + 16'd1;
          row_base <= last_row ? '0 : row_base + 32'(width);
          pixel <= last_row ? '0 : row_base + 32'(width);
          if (last_row) sample <= sample + SAMPLE_BITS'(1);
        end
      end
    end
  end

  // --- The beat being worked on: lane by lane, as their blocks are there.
  logic busy, hit_last, hit_held, step, computing;
  logic [LANES*ELEMENT_BITS-1:0] beat;
  logic [LANE_BITS-1:0] lane;
  logic [31:0] element;
  logic [63:0] first_block;
  logic [29:0] index, last_index;
  logic last_valid;
  logic [127:0] last_words, held_block, block;
  logic [157:0] held[0:(1<<LANE_BITS)-1];
  logic [LANES-1:0] held_valid;
  logic [29:0] held_index;
  assign index = element[31:2];
  assign {held_index, held_block} = held[lane];
  assign hit_last = last_valid && last_index == index;
  assign hit_held = held_valid[lane] && held_index == index;
  assign block = hit_last ? last_words : held_block;
  assign step = busy && !computing && (hit_last || hit_held) && !(out_tvalid && !out_tready);
  assign in_tready = !clear && !busy && (!out_tvalid || out_tready);

  // --- A block of draws: products, then what they make of the words.
  logic mixes;
  logic [3:0] round;
  logic [31:0] x0, x1, x2, x3, key_0, key_1;
  logic [63:0] product_0, product_1, counter;
  assign counter = first_block + {34'd0, index};
  always_ff @(posedge clock) begin
    product_0 <= FACTOR_0 * 64'(x0);
    product_1 <= FACTOR_1 * 64'(x2);
    if (clear) begin
      {computing, mixes, last_valid} <= '0;
      round <= '0;
    end else begin
      if (accepts && column == 16'd0 && group == 16'd0 && row == 16'd0) last_valid <= 1'b0;
      if (!computing && busy && !hit_last && !hit_held) begin
        computing <= 1'b1;
        mixes <= 1'b0;
        round <= '0;
        {x1, x0} <= counter;
        {x3, x2} <= stream;
        {key_1, key_0} <= seed;
      end else if (computing) begin
        mixes <= !mixes;
        if (mixes) begin
          x0 <= product_1[63:32] ^ x1 ^ key_0;
          x1 <= product_1[31:0];
          x2 <= product_0[63:32] ^ x3 ^ key_1;
          x3 <= product_0[31:0];
          key_0 <= key_0 + WEYL_0;
          key_1 <= key_1 + WEYL_1;
          round <= round + 4'd1;
          if (round == 4'd9) begin
            computing  <= 1'b0;
            last_valid <= 1'b1;
            last_index <= index;
            last_words <= {product_0[31:0], product_0[63:32] ^ x3 ^ key_1, product_1[31:0], product_1[63:32] ^ x1 ^ key_0};
          end
        end
      end
    end
  end

  // --- A lane's result: scaled, or nothing.
  logic scaled_valid, drops, ends;
  logic [LANE_BITS-1:0] scaled_lane;
  logic signed [2*ELEMENT_BITS-1:0] scaled;
  logic signed [ELEMENT_BITS-1:0] x;
  logic [ELEMENT_BITS-1:0] rounded;
  logic [31:0] draw;
  assign x = beat[32'(lane)*ELEMENT_BITS+:ELEMENT_BITS];
  assign draw = block[32'(element[1:0])*32+:32];
  round_to_element #(
      .VALUE_BITS(2 * ELEMENT_BITS),
      .ELEMENT_BITS(ELEMENT_BITS),
      .OUTPUT_BITS(ELEMENT_BITS)
  ) rounding (
      .value(scaled),
      .shift,
      .element(rounded)
  );
  always_ff @(posedge clock) begin
    if (clear) begin
      {busy, scaled_valid, out_tvalid} <= '0;
      held_valid <= '0;
    end else begin
      if (out_tready) out_tvalid <= 1'b0;
      scaled_valid <= step;
      if (scaled_valid) begin
        out_tdata[32'(scaled_lane)*ELEMENT_BITS+:ELEMENT_BITS] <= drops ? '0 : rounded;
        if (ends) out_tvalid <= 1'b1;
      end
      if (accepts) begin
        busy <= 1'b1;
        lane <= '0;
        beat <= in_tdata;
        element <= group_base + pixel;
        first_block <= first_blocks[sample];
        if (column == 16'd0 && group == 16'd0 && row == 16'd0) held_valid <= '0;
      end else if (step) begin
        busy <= lane != LANE_BITS'(LANES - 1);
        lane <= lane + LANE_BITS'(1);
        element <= element + plane;
        held_valid[lane] <= 1'b1;
      end
    end
    if (step) held[lane] <= {index, block};
    scaled <= x * scale;
    drops <= draw < threshold;
    scaled_lane <= lane;
    ends <= lane == LANE_BITS'(LANES - 1);
  end
endmodule
