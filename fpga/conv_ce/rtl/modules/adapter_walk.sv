// Where a beat of LANES channels lies among lane_adapter.sv's banks and slots, beat after beat: block, group of channels, row of
// the block, column.
//
// A block's channels follow each other without a gap and begin in a slot of their own. `block` counts blocks over all samples
// and `slot` slots, modulo 2^16; samples follow each other without a gap.
module adapter_walk #(
    parameter int LANES = 4,
    parameter int BANKS_LOG2 = 3,
    parameter int ADDRESS_BITS = 6,
    parameter int CHANNEL_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [CHANNEL_BITS-1:0] channels,
    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] first_block_rows,
    input logic [15:0] block_rows,

    input  logic                    advance,
    output logic [            15:0] block,
    output logic [CHANNEL_BITS-1:0] channel,  // of the block: the beat's first
    output logic [            15:0] slot,
    output logic [  BANKS_LOG2-1:0] offset,   // of that channel in its slot
    output logic [ADDRESS_BITS-1:0] pixel,
    output logic                    ends_group,
    output logic                    ends_block
);
  logic [15:0] column, row_in_block, row;  // `row`: of the sample, where the block begins
  logic [15:0] rows_left, rows_wanted, rows_here, lanes_here, next_offset;
  logic last_column, last_group, last_block;

  assign rows_left = height - row;
  assign rows_wanted = (row == 16'd0) ? first_block_rows : block_rows;
  assign rows_here = (rows_wanted < rows_left) ? rows_wanted : rows_left;
  assign last_block = rows_here == rows_left;
  assign last_column = column == width - 16'd1;
  assign ends_group = last_column && row_in_block == rows_here - 16'd1;
  assign last_group = channels - channel <= CHANNEL_BITS'(LANES);
  assign ends_block = ends_group && last_group;
  assign lanes_here = last_group ? 16'(channels - channel) : 16'(LANES);
  assign next_offset = 16'(offset) + lanes_here;

  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      row_in_block <= '0;
      row <= '0;
      block <= '0;
      channel <= '0;
      slot <= '0;
      offset <= '0;
      pixel <= '0;
    end else if (advance) begin
      column <= last_column ? '0 : column + 16'd1;
      pixel <= ends_group ? '0 : pixel + ADDRESS_BITS'(1);
      if (last_column) row_in_block <= ends_group ? '0 : row_in_block + 16'd1;
      if (ends_block) begin
        block <= block + 16'd1;
        row <= last_block ? '0 : row + rows_here;
        channel <= '0;
        offset <= '0;
        slot <= slot + ((next_offset > 16'(1 << BANKS_LOG2)) ? 16'd2 : 16'd1);
      end else if (ends_group) begin
        channel <= channel + CHANNEL_BITS'(LANES);
        offset <= BANKS_LOG2'(next_offset);
        if (next_offset >= 16'(1 << BANKS_LOG2)) slot <= slot + 16'd1;
      end
    end
  end
endmodule
