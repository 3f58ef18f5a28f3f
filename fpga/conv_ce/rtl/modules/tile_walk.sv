// Where a beat of a map lies among large windows that do not overlap: in which of them, and where in it. For tiled_pooling.sv and
// tiled_unpooling.sv, which take and give a map's beats row - group - column.
module tile_walk #(
    parameter int POOL_STRIDE = 2,
    parameter int POOL_COLUMNS = 2,
    parameter int COLUMN_STRIDE = 2,
    parameter int ADDRESS_BITS = 6,
    parameter int PLACE_BITS = 4
) (
    input logic clock,
    input logic clear,
    input logic advance,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [ADDRESS_BITS-1:0] out_width,
    input logic [15:0] pad,
    input logic [15:0] column_pad,

    output logic [15:0] row,
    output logic [15:0] column,
    output logic [15:0] row_phase,     // in the stride of its window
    output logic [15:0] column_phase,
    output logic [15:0] tile_row,
    output logic [15:0] tile_column,
    output logic [ADDRESS_BITS-1:0] address,  // group x windows of a row + tile_column
    output logic [PLACE_BITS-1:0] place,      // row_phase x POOL_COLUMNS + column_phase
    output logic last_row,                    // of the map
    output logic last_column,
    output logic last_group,
    output logic last_of_stride               // no row of the map comes in this stride of windows after this one
);
  logic [15:0] group;
  logic [ADDRESS_BITS-1:0] group_address;
  logic [PLACE_BITS-1:0] row_place, first_place;
  always_comb begin  // pad x POOL_COLUMNS, without a multiplier
    first_place = '0;
    for (int bit_of_pad = 0; bit_of_pad < PLACE_BITS; bit_of_pad++)
      if (pad[bit_of_pad]) first_place = first_place + (PLACE_BITS'(POOL_COLUMNS) << bit_of_pad);
  end
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  assign last_row = row == height - 16'd1;
  assign last_of_stride = last_row || row_phase == 16'(POOL_STRIDE - 1);
  assign address = group_address + ADDRESS_BITS'(tile_column);
  assign place = row_place + PLACE_BITS'(column_phase);
  always_ff @(posedge clock) begin
    if (clear) begin
      {row, column, group, tile_row, tile_column} <= '0;
      row_phase <= pad;
      column_phase <= column_pad;
      group_address <= '0;
      row_place <= first_place;
    end else if (advance) begin
      column <= last_column ? '0 : column + 16'd1;
      column_phase <= last_column ? column_pad : (column_phase == 16'(COLUMN_STRIDE - 1)) ? '0 : column_phase + 16'd1;
      if (last_column) tile_column <= '0;
      else if (column_phase == 16'(COLUMN_STRIDE - 1)) tile_column <= tile_column + 16'd1;
      if (last_column) begin
        group <= last_group ? '0 : group + 16'd1;
        group_address <= last_group ? '0 : group_address + ADDRESS_BITS'(out_width);
        if (last_group) begin
          row <= last_row ? '0 : row + 16'd1;
          row_phase <= last_row ? pad : last_of_stride ? '0 : row_phase + 16'd1;
          if (last_row) tile_row <= '0;
          else if (last_of_stride) tile_row <= tile_row + 16'd1;
          if (last_row) row_place <= first_place;
          else row_place <= last_of_stride ? '0 : row_place + PLACE_BITS'(POOL_COLUMNS);
        end
      end
    end
  end
endmodule
