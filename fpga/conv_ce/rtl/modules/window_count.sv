// How many elements of a pooling window count for its average: those on the map, or with `count_padding` those on the map or its
// padding, which the last window may reach past.
module window_count #(
    parameter int POOL_KERNEL = 2,
    parameter int POOL_COLUMNS = 2,
    parameter int COUNT_BITS = 3
) (
    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] top,  // signed: the window's first row and column
    input logic [15:0] left,
    input logic [15:0] pad,
    input logic [15:0] column_pad,
    input logic        count_padding,

    output logic [COUNT_BITS-1:0] count
);
  logic [15:0] bottom, right, rows_above, rows_below, columns_before, columns_behind;
  logic [COUNT_BITS-1:0] rows, columns;
  assign bottom = top + 16'(POOL_KERNEL);
  assign right = left + 16'(POOL_COLUMNS);
  assign rows_above = top[15] ? 16'd0 - top : 16'd0;
  assign rows_below = (bottom > height) ? bottom - height : 16'd0;
  assign columns_before = left[15] ? 16'd0 - left : 16'd0;
  assign columns_behind = (right > width) ? right - width : 16'd0;
  // With the padding only what the last window has behind it is left out.
  assign rows = COUNT_BITS'(!count_padding ? 16'(POOL_KERNEL) - rows_above - rows_below
                            : (rows_below > pad) ? 16'(POOL_KERNEL) - (rows_below - pad) : 16'(POOL_KERNEL));
  assign columns = COUNT_BITS'(!count_padding ? 16'(POOL_COLUMNS) - columns_before - columns_behind
                               : (columns_behind > column_pad) ? 16'(POOL_COLUMNS) - (columns_behind - column_pad) : 16'(POOL_COLUMNS));
  // Their product by adders: a multiplier of this size would take a DSP slice.
  always_comb begin
    count = '0;
    for (int place = 0; place < COUNT_BITS; place++) if (rows[place]) count = count + (columns << place);
  end
endmodule
