// Walks an engine over a sample: row, outer channel group, inner channel group, column. One sweep is one walk over the
// columns; the engine's weights stay in place for it.
//
// `advance` takes one step. A row may be taken when `rows_written` covers the last row of its window; rows before its
// window are released. The window of a row begins at row * stride - pad, that of a column at column * stride - pad.
// The outer groups come in classes of `class_groups`, each of which walks over inner groups of its own, `inner_groups` of them: where the
// channels of a layer come in groups that do not mix. Without them there is one class, of all outer groups.
// Samples follow each other without a gap; row counts are modulo 2^16.
module sweep_sequencer #(
    parameter int WINDOW_ROWS = 3,
    parameter int ADDRESS_BITS = 6,
    parameter int COLUMN_STRIDE = 0,  // 0: as that of rows
    parameter int CHANNEL_BITS = 16   // of the groups
) (
    input logic clock,
    input logic clear,

    input logic [            15:0] height,         // of the feature map the window moves on
    input logic [            15:0] rows,           // steps of the window
    input logic [            15:0] columns,
    input logic [CHANNEL_BITS-1:0] outer_groups,
    input logic [CHANNEL_BITS-1:0] class_groups,
    input logic [CHANNEL_BITS-1:0] inner_groups,
    input logic [            15:0] stride,
    input logic [            15:0] first_top,      // signed: where the first window begins
    input logic [            15:0] first_left,
    input logic [ADDRESS_BITS-1:0] group_step,     // between the addresses of two groups of the map

    input  logic        advance,
    input  logic [15:0] rows_written,
    output logic [15:0] rows_released,
    output logic        row_ready,

    output logic [            15:0] sample_first_row,  // its number among all rows
    output logic [            15:0] top,
    output logic [            15:0] left,
    output logic [            15:0] row,
    output logic [            15:0] column,
    output logic [CHANNEL_BITS-1:0] outer,
    output logic [ADDRESS_BITS-1:0] inner_address,
    output logic                    first_inner,
    output logic                    last_inner,
    output logic                    first_column,
    output logic                    last_column,
    output logic                    last_sweep_of_row,
    output logic                    last_row
);
  logic [ADDRESS_BITS-1:0] class_address, behind_inner;  // where the inner groups of this class begin, and end
  logic [CHANNEL_BITS-1:0] outer_of_class;
  logic last_of_class;
  assign behind_inner = inner_address + group_step;
  assign last_of_class = outer_of_class == class_groups - CHANNEL_BITS'(1);
  logic [CHANNEL_BITS-1:0] inner;
  logic [15:0] bottom, rows_needed, rows_behind;

  assign first_inner = inner == '0;
  assign last_inner = inner == inner_groups - CHANNEL_BITS'(1);
  assign first_column = column == 16'd0;
  assign last_column = column == columns - 16'd1;
  assign last_sweep_of_row = last_inner && outer == outer_groups - CHANNEL_BITS'(1);
  assign last_row = row == rows - 16'd1;

  // Rows of this sample that the window reaches, and rows that it has left behind; both within the feature map.
  assign bottom = top + 16'(WINDOW_ROWS);
  assign rows_needed = bottom[15] ? 16'd0 : (bottom < height) ? bottom : height;
  assign rows_behind = top[15] ? 16'd0 : (top < height) ? top : height;
  assign row_ready = !clear && (rows_written - (sample_first_row + rows_needed)) < 16'h8000;
  assign rows_released = sample_first_row + rows_behind;

  always_ff @(posedge clock) begin
    if (clear) begin
      sample_first_row <= '0;
      top <= first_top;
      left <= first_left;
      row <= '0;
      column <= '0;
      outer <= '0;
      inner <= '0;
      inner_address <= '0;
      class_address <= '0;
      outer_of_class <= '0;
    end else if (advance) begin
      column <= last_column ? '0 : column + 16'd1;
      left <= last_column ? first_left : left + ((COLUMN_STRIDE == 0) ? stride : 16'(COLUMN_STRIDE));
      if (last_column) begin
        inner <= last_inner ? '0 : inner + CHANNEL_BITS'(1);
        inner_address <= behind_inner;
        if (last_inner) begin
          outer <= last_sweep_of_row ? '0 : outer + CHANNEL_BITS'(1);
          outer_of_class <= last_of_class ? '0 : outer_of_class + CHANNEL_BITS'(1);
          inner_address <= last_sweep_of_row ? '0 : last_of_class ? behind_inner : class_address;
          if (last_of_class) class_address <= last_sweep_of_row ? '0 : behind_inner;
        end
        if (last_sweep_of_row) begin
          row <= last_row ? '0 : row + 16'd1;
          top <= last_row ? first_top : top + stride;
          if (last_row) sample_first_row <= sample_first_row + height;
        end
      end
    end
  end
endmodule
