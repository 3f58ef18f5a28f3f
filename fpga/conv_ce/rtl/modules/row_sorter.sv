// Blocks of rows in, single rows out: behind EB through a stride and behind un-pooling, which make STRIDE rows at once,
// for readers that take rows one by one.
//
// Beats come as row_writer.sv says (block, group, row of the block, column) and leave row by row, in a row group by group, in
// a group column by column. While one block is sent the next comes in, at a beat per cycle each, so the memory holds two
// blocks; rows leave once their whole block is in.
module row_sorter #(
    parameter int WIDTH = 64,         // bits of a beat
    parameter int ROW_BANKS_LOG2 = 2, // at least two blocks of rows
    parameter int ADDRESS_BITS = 6    // of half a row: groups x (columns / 2 rounded up)
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] first_block_rows,
    input logic [15:0] block_rows,

    input  logic             in_tvalid,
    output logic             in_tready,
    input  logic [WIDTH-1:0] in_tdata,

    output logic             out_tvalid,
    input  logic             out_tready,
    output logic [WIDTH-1:0] out_tdata
);
  localparam int FIFO_LOG2 = 2;

  logic write;
  logic [ROW_BANKS_LOG2-1:0] write_row;
  logic [0:0] write_column;
  logic [ADDRESS_BITS-1:0] write_address;
  logic [15:0] rows_written, rows_sent;
  row_writer #(
      .ROW_BANKS_LOG2(ROW_BANKS_LOG2),
      .COLUMN_BANKS_LOG2(1),
      .ADDRESS_BITS(ADDRESS_BITS)
  ) writer (
      .clock,
      .clear,
      .height,
      .width,
      .groups,
      .first_block_rows,
      .block_rows,
      .valid(in_tvalid),
      .ready(in_tready),
      .rows_released(rows_sent),
      .rows_written,
      .write_enable(write),
      .write_row,
      .write_column,
      .write_address
  );

  // --- The next beat of the oldest row.
  logic [15:0] column, group;
  logic [ADDRESS_BITS-1:0] group_address, columns_per_bank;
  logic room, reads, last_column, last_group;
  assign columns_per_bank = ADDRESS_BITS'((width + 16'd1) >> 1);
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  assign reads = room && rows_sent != rows_written;
  always_ff @(posedge clock) begin
    if (clear) begin
      column <= '0;
      group <= '0;
      group_address <= '0;
      rows_sent <= '0;
    end else if (reads) begin
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) begin
        group <= last_group ? '0 : group + 16'd1;
        group_address <= last_group ? '0 : group_address + columns_per_bank;
        if (last_group) rows_sent <= rows_sent + 16'd1;
      end
    end
  end

  logic [WIDTH-1:0] words[0:(2<<(ROW_BANKS_LOG2+ADDRESS_BITS))-1];
  logic [WIDTH-1:0] word;
  logic [ADDRESS_BITS-1:0] read_address;
  logic arrives;
  assign read_address = group_address + ADDRESS_BITS'(column >> 1);
  always_ff @(posedge clock) begin
    if (write) words[{write_row, write_address, write_column}] <= in_tdata;
    word <= words[{rows_sent[ROW_BANKS_LOG2-1:0], read_address, column[0]}];
    arrives <= reads && !clear;
  end

  // --- Out through a FIFO with room for what is on its way.
  logic [FIFO_LOG2:0] waiting;
  logic fifo_ready;
  stream_fifo #(
      .WIDTH(WIDTH),
      .DEPTH_LOG2(FIFO_LOG2)
  ) out_buffer (
      .clock,
      .clear,
      .in_valid (arrives),
      .in_ready (fifo_ready),
      .in_data  (word),
      .out_valid(out_tvalid),
      .out_ready(out_tready),
      .out_data (out_tdata),
      .count    (waiting)
  );
  assign room = waiting + (FIFO_LOG2 + 1)'(arrives) < (FIFO_LOG2 + 1)'(1 << FIFO_LOG2);

  logic unused;
  assign unused = &{1'b0, fifo_ready};
endmodule
