// The way back through large windows that do not overlap: every element of the map before lies in one window at most, and gets
// what that window's word has for it. See unpooling_unit.sv, which makes the words.
//
//   maximum   a word has per lane the place that won and its error
//   average   a word has per lane the product of the error with the reciprocal, which is rounded and saturated here
//
// Words come row - group - column, and are kept for as long as their window's rows leave: one row of windows leaves while the
// next comes in. Rows leave one by one, row - group - column, at a beat per cycle.
module tiled_unpooling #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 2,
    parameter int POOL_STRIDE = 2,    // at least POOL_KERNEL
    parameter int POOL_COLUMNS = 2,
    parameter int COLUMN_STRIDE = 2,  // at least POOL_COLUMNS
    parameter int AVERAGE = 0,
    parameter int ADDRESS_BITS = 6,   // of groups x windows of a row
    parameter int PLACE_BITS = 4,
    parameter int ELEMENT_BITS = 16,
    parameter int LANE_BITS = 20
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] groups,
    input logic [15:0] pad,
    input logic [15:0] column_pad,

    input  logic                       word_valid,
    output logic                       word_ready,
    input  logic [LANES*LANE_BITS-1:0] word,

    output logic                          raw_error_tvalid,
    input  logic                          raw_error_tready,
    output logic [LANES*ELEMENT_BITS-1:0] raw_error_tdata
);
  logic [LANES*LANE_BITS-1:0] words[0:(2<<ADDRESS_BITS)-1];

  // --- Rows of windows come into one half after the other.
  logic write_half, read_half, takes, row_of_windows, half_read;
  logic [1:0] halves_full;
  logic [15:0] written_column, written_group;
  logic [ADDRESS_BITS-1:0] write_address;
  logic last_written;
  assign word_ready = !halves_full[write_half] && !clear;
  assign takes = word_valid && word_ready;
  assign last_written = written_column == out_width - 16'd1;
  assign row_of_windows = takes && last_written && written_group == groups - 16'd1;
  always_ff @(posedge clock) begin
    if (takes) words[{write_half, write_address}] <= word;
    if (clear) begin
      {written_column, written_group, write_half} <= '0;
      write_address <= '0;
    end else if (takes) begin
      write_address <= row_of_windows ? '0 : write_address + ADDRESS_BITS'(1);
      written_column <= last_written ? '0 : written_column + 16'd1;
      if (last_written) written_group <= row_of_windows ? '0 : written_group + 16'd1;
      if (row_of_windows) write_half <= !write_half;
    end
  end

  // --- The next element of the map before.
  logic [15:0] row, column, row_phase, column_phase, tile_row, tile_column;
  logic [ADDRESS_BITS-1:0] address;
  logic [PLACE_BITS-1:0] place;
  logic has_windows, ready, advance, last_row, last_column, last_group, last_of_stride, in_window;
  tile_walk #(
      .POOL_STRIDE(POOL_STRIDE),
      .POOL_COLUMNS(POOL_COLUMNS),
      .COLUMN_STRIDE(COLUMN_STRIDE),
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(PLACE_BITS)
  ) walk (
      .clock,
      .clear,
      .advance,
      .height,
      .width,
      .groups,
      .out_width(ADDRESS_BITS'(out_width)),
      .pad,
      .column_pad,
      .row,
      .column,
      .row_phase,
      .column_phase,
      .tile_row,
      .tile_column,
      .address,
      .place,
      .last_row,
      .last_column,
      .last_group,
      .last_of_stride
  );
  assign has_windows = tile_row < out_height;
  assign ready = (!has_windows || halves_full[read_half]) && !clear;
  assign advance = ready && (!raw_error_tvalid || raw_error_tready);
  assign half_read = advance && last_column && last_group && last_of_stride && has_windows;
  assign in_window = has_windows && tile_column < out_width && row_phase < 16'(POOL_KERNEL) && column_phase < 16'(POOL_COLUMNS);
  always_ff @(posedge clock) begin
    if (clear) {read_half, halves_full, raw_error_tvalid} <= '0;
    else begin
      halves_full <= (halves_full | {row_of_windows && write_half, row_of_windows && !write_half})
                   & ~{half_read && read_half, half_read && !read_half};
      if (half_read) read_half <= !read_half;
      if (advance) raw_error_tvalid <= 1'b1;
      else if (raw_error_tready) raw_error_tvalid <= 1'b0;
    end
  end

  logic [LANES*LANE_BITS-1:0] read_word;
  assign read_word = words[{read_half, address}];
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic [ELEMENT_BITS-1:0] element;
    if (AVERAGE != 0) begin : g_divided
      round_to_element #(
          .VALUE_BITS(LANE_BITS),
          .ELEMENT_BITS(ELEMENT_BITS),
          .OUTPUT_BITS(ELEMENT_BITS)
      ) rounding (
          .value(read_word[lane*LANE_BITS+:LANE_BITS]),
          .shift(5'd17),
          .element
      );
    end else begin : g_won
      assign element = (read_word[(lane+1)*LANE_BITS-1-:PLACE_BITS] == place) ? read_word[lane*LANE_BITS+:ELEMENT_BITS] : '0;
    end
    always_ff @(posedge clock) if (advance) raw_error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= in_window ? element : '0;
  end
  logic unused;
  assign unused = &{1'b0, row, column, last_row, place};
endmodule
