// What follows the sum: scale and offset per channel (bias, batch norm), ReLU, pooling over windows that may overlap.
//
// y = round((x * scale + offset * 2^offset_shift) * 2^-shift), saturated; with `relu` nothing below zero, or with a SLOPE what
// leaky_part.sv leaves. A pooling window
// moves over y at one window per cycle, whatever its size. One of a single element leaves pooling out, unless
// elements lie between.
//   maximum   the first in row-major order wins
//   average   round(sum * reciprocal * 2^-17), reciprocal = round(2^17 / elements), which are those on the map, or with
//             `count_padding` those on the map or its padding
//
// Streams (row - group - column order):
//   sum    LANES elements of the raw sum
//   out    LANES elements, pooled
//   kept   with every beat of `out`, and waited for together with it: per lane what the way back needs (unpooling_unit.sv),
//          PLACE_BITS + 1 bits: whether the value is above zero, and above it which element of the window won
//   mask   of an average, which hides where the ReLU let pass: with every beat that goes into a window, per lane whether it
//          is above zero (relu_gate.sv). It must be taken too
// Scales and offsets come from images, or are written while `clear` is high: a word holds LANES elements of one channel group.
module special_function_unit #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 2,         // rows of the window
    parameter int POOL_STRIDE = 2,
    parameter int POOL_COLUMNS = POOL_KERNEL,
    parameter int COLUMN_STRIDE = POOL_STRIDE,
    parameter int COLUMN_PAD = -1,         // as pool_pad, unless given
    parameter int AVERAGE = 0,
    parameter int ROW_BANKS_LOG2 = 2,      // at least POOL_KERNEL + POOL_STRIDE rows
    parameter int COLUMN_BANKS_LOG2 = 1,   // at least POOL_COLUMNS columns
    parameter int LINE_ADDRESS_BITS = 6,
    parameter int GROUP_ADDRESS_BITS = 4,
    parameter int PLACE_BITS = 4,          // of a place in the window
    parameter int SCALED = 1,              // 0: neither scale nor offset, what follows alone
    parameter int SLOPE = 0,               // of 15 fraction bits
    parameter int ELEMENT_BITS = 16,
    parameter SCALES_IMAGE = "",           // files of words in hexadecimal
    parameter OFFSETS_IMAGE = ""
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,      // of the sum
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] out_height,  // pooled
    input logic [15:0] out_width,
    input logic [15:0] pool_pad,
    input logic        relu,
    input logic        count_padding,
    input logic [ 3:0] offset_shift,
    input logic [ 4:0] shift,

    input logic                          parameter_write_enable,
    input logic [GROUP_ADDRESS_BITS-1:0] parameter_write_address,
    input logic [LANES*ELEMENT_BITS-1:0] parameter_write_scales,
    input logic [LANES*ELEMENT_BITS-1:0] parameter_write_offsets,

    input  logic                          sum_tvalid,
    output logic                          sum_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] sum_tdata,

    output logic                            out_tvalid,
    input  logic                            out_tready,
    output logic [  LANES*ELEMENT_BITS-1:0] out_tdata,
    output logic [LANES*(PLACE_BITS+1)-1:0] kept_tdata,

    output logic             mask_tvalid,
    input  logic             mask_tready,
    output logic [LANES-1:0] mask_tdata
);
  localparam int BEAT_WIDTH = LANES * ELEMENT_BITS;
  localparam int VALUE_BITS = 2 * ELEMENT_BITS + 2;

  // --- Which group a beat belongs to.
  logic [15:0] column, group;
  logic accepts;
  assign accepts = sum_tvalid && sum_tready;
  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group  <= '0;
    end else if (accepts) begin
      column <= (column == width - 16'd1) ? '0 : column + 16'd1;
      if (column == width - 16'd1) group <= (group == groups - 16'd1) ? '0 : group + 16'd1;
    end
  end

  logic [BEAT_WIDTH-1:0] scales[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [BEAT_WIDTH-1:0] offsets[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [BEAT_WIDTH-1:0] scale_word, offset_word;
  always_ff @(posedge clock) begin
    if (parameter_write_enable) begin
      scales[parameter_write_address]  <= parameter_write_scales;
      offsets[parameter_write_address] <= parameter_write_offsets;
    end
  end
  if (SCALES_IMAGE != "") begin : g_scales_image
    initial $readmemh(SCALES_IMAGE, scales);
  end
  if (OFFSETS_IMAGE != "") begin : g_offsets_image
    initial $readmemh(OFFSETS_IMAGE, offsets);
  end
  assign scale_word  = scales[GROUP_ADDRESS_BITS'(group)];
  assign offset_word = offsets[GROUP_ADDRESS_BITS'(group)];

  // --- Two steps that stand still together: the product with its offset, then rounding and ReLU.
  logic product_valid, value_valid, value_ready, advance;
  logic [LANES*VALUE_BITS-1:0] products;
  logic [BEAT_WIDTH-1:0] values;
  assign advance = !value_valid || value_ready;
  assign sum_tready = advance && !clear;
  always_ff @(posedge clock) begin
    if (clear) {product_valid, value_valid} <= '0;
    else if (advance) {product_valid, value_valid} <= {accepts, product_valid};
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_value
    logic signed [ELEMENT_BITS-1:0] element, scale, offset, rounded, below;
    assign element = sum_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign scale = scale_word[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign offset = offset_word[lane*ELEMENT_BITS+:ELEMENT_BITS];
    round_to_element #(
        .VALUE_BITS(VALUE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value(products[lane*VALUE_BITS+:VALUE_BITS]),
        .shift,
        .element(rounded)
    );
    leaky_part #(
        .SLOPE(SLOPE),
        .ELEMENT_BITS(ELEMENT_BITS)
    ) leak (
        .element(rounded),
        .part(below)
    );
    always_ff @(posedge clock) begin
      if (advance) begin
        products[lane*VALUE_BITS+:VALUE_BITS] <= (SCALED == 0) ? VALUE_BITS'(element) :
            VALUE_BITS'(element) * VALUE_BITS'(scale) + (VALUE_BITS'(offset) << offset_shift);
        values[lane*ELEMENT_BITS+:ELEMENT_BITS] <= (relu && rounded[ELEMENT_BITS-1]) ? below : rounded;
      end
    end
  end

  // --- A value goes into the windows when its mask is taken.
  logic pool_valid, pool_ready;
  if (AVERAGE != 0) begin : g_masked
    assign pool_valid = value_valid && mask_tready;
    assign value_ready = pool_ready && mask_tready;
    assign mask_tvalid = value_valid && pool_ready;
    for (genvar lane = 0; lane < LANES; lane++) begin : g_mask
      assign mask_tdata[lane] = $signed(values[lane*ELEMENT_BITS+:ELEMENT_BITS]) > 0;
    end
  end else begin : g_not_masked
    assign pool_valid = value_valid;
    assign value_ready = pool_ready;
    assign mask_tvalid = 1'b0;
    assign mask_tdata = '0;
    logic unused_mask;
    assign unused_mask = &{1'b0, mask_tready};
  end

  if (POOL_KERNEL == 1 && POOL_COLUMNS == 1 && POOL_STRIDE == 1 && COLUMN_STRIDE == 1) begin : g_not_pooled
    assign pool_ready = out_tready;
    assign out_tvalid = pool_valid;
    assign out_tdata = values;
    for (genvar lane = 0; lane < LANES; lane++) begin : g_kept
      logic signed [ELEMENT_BITS-1:0] value;
      assign value = values[lane*ELEMENT_BITS+:ELEMENT_BITS];
      assign kept_tdata[lane*(PLACE_BITS+1)+:PLACE_BITS+1] = (PLACE_BITS + 1)'(value > 0);
    end
    logic unused;
    assign unused = &{1'b0, height, out_height, out_width, pool_pad, count_padding};
  end else begin : g_pooled
    pooling_unit #(
        .LANES(LANES),
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_STRIDE(POOL_STRIDE),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COLUMN_STRIDE(COLUMN_STRIDE),
        .COLUMN_PAD(COLUMN_PAD),
        .AVERAGE(AVERAGE),
        .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
        .COLUMN_BANKS_LOG2(COLUMN_BANKS_LOG2),
        .LINE_ADDRESS_BITS(LINE_ADDRESS_BITS),
        .PLACE_BITS(PLACE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS)
    ) pooling (
        .clock,
        .clear,
        .height,
        .width,
        .groups,
        .out_height,
        .out_width,
        .pad(pool_pad),
        .count_padding,
        .in_tvalid(pool_valid),
        .in_tready(pool_ready),
        .in_tdata(values),
        .out_tvalid,
        .out_tready,
        .out_tdata,
        .kept_tdata
    );
  end
endmodule
