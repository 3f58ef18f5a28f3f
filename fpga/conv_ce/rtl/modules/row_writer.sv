// Takes a stream of pixels into a window_memory, as far as its banks are free.
//
// Beats come row by row, in a row group of channels by group of channels, in a group column by column. Where a producer
// makes several rows at once, rows come in blocks: block, group, row of the block, column; the first block of a sample may
// have fewer rows than the others, and the last one ends with the sample.
// `rows_written` counts whole rows and blocks over all samples, modulo 2^16; `rows_released` says how many of them nobody
// needs any more. Samples follow each other without a gap.
module row_writer #(
    parameter int ROW_BANKS_LOG2 = 2,
    parameter int COLUMN_BANKS_LOG2 = 2,
    parameter int ADDRESS_BITS = 6,
    parameter int CHANNEL_BITS = 16  // of the groups
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [CHANNEL_BITS-1:0] groups,
    input logic [15:0] first_block_rows,
    input logic [15:0] block_rows,

    input  logic valid,
    output logic ready,

    input  logic [15:0] rows_released,
    output logic [15:0] rows_written,

    output logic                         write_enable,
    output logic [   ROW_BANKS_LOG2-1:0] write_row,
    output logic [COLUMN_BANKS_LOG2-1:0] write_column,
    output logic [     ADDRESS_BITS-1:0] write_address
);
  logic [CHANNEL_BITS-1:0] group;
  logic [15:0] column, row_in_block, row;  // `row`: of the sample, where the block begins
  logic [ADDRESS_BITS-1:0] group_address;
  logic [15:0] rows_left, rows_wanted, rows_here;
  logic [ADDRESS_BITS-1:0] columns_per_bank;
  logic last_column, last_row, last_group, last_block;

  assign columns_per_bank = ADDRESS_BITS'((width + 16'((1 << COLUMN_BANKS_LOG2) - 1)) >> COLUMN_BANKS_LOG2);
  assign rows_left = height - row;
  assign rows_wanted = (row == 16'd0) ? first_block_rows : block_rows;
  assign rows_here = (rows_wanted < rows_left) ? rows_wanted : rows_left;

  assign last_column = column == width - 16'd1;
  assign last_row = row_in_block == rows_here - 16'd1;
  assign last_group = group == groups - CHANNEL_BITS'(1);
  assign last_block = rows_here == rows_left;

  // A block starts when banks for all of its rows are free. Rows at a sample's end that no window reaches are released
  // before they come: the count below is then negative.
  logic [15:0] rows_held;
  assign rows_held = rows_written + rows_here - rows_released;
  assign ready = !clear && (rows_held <= 16'(1 << ROW_BANKS_LOG2) || rows_held[15]);

  assign write_enable = valid && ready;
  assign write_row = ROW_BANKS_LOG2'(rows_written + row_in_block);
  assign write_column = column[COLUMN_BANKS_LOG2-1:0];
  assign write_address = group_address + ADDRESS_BITS'(column >> COLUMN_BANKS_LOG2);

  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      row_in_block <= '0;
      group <= '0;
      row <= '0;
      group_address <= '0;
      rows_written <= '0;
    end else if (valid && ready) begin
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) begin
        row_in_block <= last_row ? '0 : row_in_block + 16'd1;
        if (last_row) begin
          group <= last_group ? '0 : group + CHANNEL_BITS'(1);
          group_address <= last_group ? '0 : group_address + columns_per_bank;
          if (last_group) begin
            rows_written <= rows_written + rows_here;
            row <= last_block ? '0 : row + rows_here;
          end
        end
      end
    end
  end
endmodule
