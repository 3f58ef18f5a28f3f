// Rows of a feature map, of which any window is read in one cycle: FPDeep's line buffer.
//
// A word holds the channels of one group side by side at one pixel. Pixel (row, column) lies in bank
// (row mod 2^ROW_BANKS_LOG2, column mod 2^COLUMN_BANKS_LOG2), so that the WINDOW_ROWS x WINDOW_COLUMNS pixels of a window
// lie in different banks wherever the window stands; neither a stride nor the start of a row costs a cycle.
// Within a bank the address is that of the channel group plus column / 2^COLUMN_BANKS_LOG2.
// Pixels outside the feature map read as zero, and `in_map` says so.
// The window appears two cycles after its place was given: banks, then rotation.
module window_memory #(
    parameter int WORD_BITS = 64,
    parameter int WINDOW_ROWS = 3,
    parameter int WINDOW_COLUMNS = 3,
    parameter int ROW_BANKS_LOG2 = 2,
    parameter int COLUMN_BANKS_LOG2 = 2,
    parameter int ADDRESS_BITS = 6
) (
    input logic clock,

    input logic                         write_enable,
    input logic [   ROW_BANKS_LOG2-1:0] write_row,
    input logic [COLUMN_BANKS_LOG2-1:0] write_column,
    input logic [     ADDRESS_BITS-1:0] write_address,
    input logic [        WORD_BITS-1:0] write_word,

    input logic [              15:0] height,
    input logic [              15:0] width,
    input logic [ROW_BANKS_LOG2-1:0] first_row_bank,  // where row 0 of this sample lies
    input logic [              15:0] top,             // signed: the window's first row
    input logic [              15:0] left,            // signed: the window's first column
    input logic [  ADDRESS_BITS-1:0] group_address,

    output logic [WINDOW_ROWS*WINDOW_COLUMNS*WORD_BITS-1:0] window,
    output logic [          WINDOW_ROWS*WINDOW_COLUMNS-1:0] in_map
);
  localparam int ROW_BANKS = 1 << ROW_BANKS_LOG2;
  localparam int COLUMN_BANKS = 1 << COLUMN_BANKS_LOG2;

  logic [ROW_BANKS*COLUMN_BANKS*WORD_BITS-1:0] bank_words;

  for (genvar column_bank = 0; column_bank < COLUMN_BANKS; column_bank++) begin : g_column
    // The column of the window that lies in this bank, and where.
    logic [COLUMN_BANKS_LOG2-1:0] offset;
    logic [15:0] column;
    logic [ADDRESS_BITS-1:0] read_address;
    assign offset = COLUMN_BANKS_LOG2'(column_bank) - left[COLUMN_BANKS_LOG2-1:0];
    assign column = left + 16'(offset);
    assign read_address = group_address + ADDRESS_BITS'(column >> COLUMN_BANKS_LOG2);

    for (genvar row_bank = 0; row_bank < ROW_BANKS; row_bank++) begin : g_row
      logic [WORD_BITS-1:0] words[0:(1<<ADDRESS_BITS)-1];
      logic [WORD_BITS-1:0] word;
      always_ff @(posedge clock) begin
        if (write_enable && write_row == ROW_BANKS_LOG2'(row_bank) && write_column == COLUMN_BANKS_LOG2'(column_bank))
          words[write_address] <= write_word;
        word <= words[read_address];
      end
      assign bank_words[(row_bank*COLUMN_BANKS+column_bank)*WORD_BITS+:WORD_BITS] = word;
    end
  end

  // What the rotation needs to know, beside the banks' output registers. A negative place is a huge unsigned one.
  logic [ROW_BANKS_LOG2-1:0] top_bank;
  logic [COLUMN_BANKS_LOG2-1:0] left_bank;
  logic [WINDOW_ROWS-1:0] row_inside;
  logic [WINDOW_COLUMNS-1:0] column_inside;
  always_ff @(posedge clock) begin
    top_bank  <= first_row_bank + top[ROW_BANKS_LOG2-1:0];
    left_bank <= left[COLUMN_BANKS_LOG2-1:0];
  end
  for (genvar row = 0; row < WINDOW_ROWS; row++) begin : g_row_inside
    always_ff @(posedge clock) row_inside[row] <= (top + 16'(row)) < height;
  end
  for (genvar column = 0; column < WINDOW_COLUMNS; column++) begin : g_column_inside
    always_ff @(posedge clock) column_inside[column] <= (left + 16'(column)) < width;
  end

  localparam int PLACES = WINDOW_ROWS * WINDOW_COLUMNS;
  localparam int BANK_BITS = ROW_BANKS_LOG2 + COLUMN_BANKS_LOG2;
  logic [PLACES-1:0] is_inside;
  logic [PLACES*BANK_BITS-1:0] bank;
  for (genvar row = 0; row < WINDOW_ROWS; row++) begin : g_window_row
    for (genvar column = 0; column < WINDOW_COLUMNS; column++) begin : g_window_column
      localparam int PLACE = row * WINDOW_COLUMNS + column;
      logic [ROW_BANKS_LOG2-1:0] row_bank;
      logic [COLUMN_BANKS_LOG2-1:0] column_bank;
      assign row_bank = top_bank + ROW_BANKS_LOG2'(row);
      assign column_bank = left_bank + COLUMN_BANKS_LOG2'(column);
      assign is_inside[PLACE] = row_inside[row] && column_inside[column];
      assign bank[PLACE*BANK_BITS+:BANK_BITS] = {row_bank, column_bank};
    end
  end
  // Registered whole: event by event simulation then takes its many readers once a cycle, not once a place.
  always_ff @(posedge clock) begin : take_window
    logic [PLACES*WORD_BITS-1:0] taken;
    for (int place = 0; place < PLACES; place++)
      taken[place*WORD_BITS+:WORD_BITS] = is_inside[place] ? bank_words[bank[place*BANK_BITS+:BANK_BITS]*WORD_BITS+:WORD_BITS] : '0;
    window <= taken;
    in_map <= is_inside;
  end
endmodule
