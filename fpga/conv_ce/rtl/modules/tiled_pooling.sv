// Maximum or average over large windows that do not overlap, a global average among them: a beat per cycle goes into what its
// window has come to, so that no window is held. See special_function_unit.sv for the arithmetic and the streams.
//
// A row of a window is gathered in registers; between rows it waits in a memory of a word per window of a row and group.
// A window leaves with the last of its elements on the map, in row - group - column order.
module tiled_pooling #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 2,
    parameter int POOL_STRIDE = 2,    // at least POOL_KERNEL
    parameter int POOL_COLUMNS = 2,
    parameter int COLUMN_STRIDE = 2,  // at least POOL_COLUMNS
    parameter int AVERAGE = 0,
    parameter int ADDRESS_BITS = 6,   // of groups x windows of a row
    parameter int PLACE_BITS = 4,
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] out_height,
    input logic [15:0] out_width,
    input logic [15:0] pad,         // less than POOL_KERNEL, as column_pad is less than POOL_COLUMNS
    input logic [15:0] column_pad,
    input logic        count_padding,

    input  logic                          in_tvalid,
    output logic                          in_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] in_tdata,

    output logic                            out_tvalid,
    input  logic                            out_tready,
    output logic [  LANES*ELEMENT_BITS-1:0] out_tdata,
    output logic [LANES*(PLACE_BITS+1)-1:0] kept_tdata
);
  localparam int COUNT_BITS = $clog2(POOL_KERNEL * POOL_COLUMNS + 1);
  localparam int SUM_BITS = ELEMENT_BITS + COUNT_BITS;
  localparam int LANE_BITS = (AVERAGE != 0) ? SUM_BITS : ELEMENT_BITS + PLACE_BITS;  // a sum; or the place that wins, and its element
  localparam int BEAT_WIDTH = LANES * ELEMENT_BITS;
  localparam int KEPT_WIDTH = LANES * (PLACE_BITS + 1);
  localparam int FIFO_LOG2 = 3;

  // --- Where a beat lies: in which window, and where in it.
  logic accepts, room_ready;
  logic [15:0] row, column, row_phase, column_phase, tile_row, tile_column;
  logic [ADDRESS_BITS-1:0] address;
  logic [PLACE_BITS-1:0] place;
  logic last_row_of_map, last_column_of_map, last_group, last_of_stride, in_window, first_row, last_row, first_column, last_column;
  assign in_tready = room_ready && !clear;
  assign accepts = in_tvalid && in_tready;
  tile_walk #(
      .POOL_STRIDE(POOL_STRIDE),
      .POOL_COLUMNS(POOL_COLUMNS),
      .COLUMN_STRIDE(COLUMN_STRIDE),
      .ADDRESS_BITS(ADDRESS_BITS),
      .PLACE_BITS(PLACE_BITS)
  ) walk (
      .clock,
      .clear,
      .advance(accepts),
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
      .last_row(last_row_of_map),
      .last_column(last_column_of_map),
      .last_group,
      .last_of_stride
  );
  assign in_window = row_phase < 16'(POOL_KERNEL) && column_phase < 16'(POOL_COLUMNS) && tile_row < out_height && tile_column < out_width;
  assign first_row = row_phase == '0 || row == '0;
  assign last_row = row_phase == 16'(POOL_KERNEL - 1) || last_row_of_map;
  assign first_column = column_phase == '0 || column == '0;
  assign last_column = column_phase == 16'(POOL_COLUMNS - 1) || last_column_of_map;

  // --- What the window has come to with this beat.
  logic [LANES*LANE_BITS-1:0] between_rows[0:(1<<ADDRESS_BITS)-1];
  logic [LANES*LANE_BITS-1:0] stored, gathered, reached;
  assign stored = first_column ? between_rows[address] : gathered;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_gather
    logic signed [ELEMENT_BITS-1:0] element;
    assign element = in_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    if (AVERAGE != 0) begin : g_sum
      logic signed [SUM_BITS-1:0] so_far;
      assign so_far = (first_row && first_column) ? '0 : stored[lane*LANE_BITS+:LANE_BITS];
      assign reached[lane*LANE_BITS+:LANE_BITS] = so_far + SUM_BITS'(element);
    end else begin : g_largest
      // The first of equals wins: a later one must be larger.
      logic signed [ELEMENT_BITS-1:0] best;
      logic stays;
      assign best = stored[lane*LANE_BITS+:ELEMENT_BITS];
      assign stays = !(first_row && first_column) && best >= element;
      assign reached[lane*LANE_BITS+:LANE_BITS] = stays ? stored[lane*LANE_BITS+:LANE_BITS] : {place, element};
    end
  end
  always_ff @(posedge clock) begin
    if (accepts) gathered <= reached;
    if (accepts && in_window && last_column && !last_row) between_rows[address] <= reached;
  end

  // --- Windows that are whole: the reciprocal of their count at stage 1, their average at stage 2.
  logic whole_1, whole_2, whole;
  logic [LANES*LANE_BITS-1:0] reached_1;
  assign whole = accepts && in_window && last_column && last_row;
  always_ff @(posedge clock) begin
    {whole_1, whole_2} <= clear ? '0 : {whole, whole_1};
    reached_1 <= reached;
  end
  logic [BEAT_WIDTH-1:0] results;
  logic [KEPT_WIDTH-1:0] kept;
  if (AVERAGE != 0) begin : g_average
    logic [COUNT_BITS-1:0] count, counted;
    logic [17:0] reciprocal;
    logic signed [18:0] factor;
    window_count #(
        .POOL_KERNEL(POOL_KERNEL),
        .POOL_COLUMNS(POOL_COLUMNS),
        .COUNT_BITS(COUNT_BITS)
    ) counting (
        .height,
        .width,
        .top(row - row_phase),
        .left(column - column_phase),
        .pad,
        .column_pad,
        .count_padding,
        .count(counted)
    );
    always_ff @(posedge clock) count <= counted;
    reciprocal_of #(
        .WINDOW(POOL_KERNEL * POOL_COLUMNS)
    ) dividing (
        .count,
        .reciprocal
    );
    assign factor = {1'b0, reciprocal};
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
      logic signed [SUM_BITS-1:0] sum;
      logic signed [SUM_BITS+18:0] product;
      logic [ELEMENT_BITS-1:0] rounded;
      assign sum = reached_1[lane*LANE_BITS+:LANE_BITS];
      assign product = sum * factor;
      round_to_element #(
          .VALUE_BITS(SUM_BITS + 19),
          .ELEMENT_BITS(ELEMENT_BITS),
          .OUTPUT_BITS(ELEMENT_BITS)
      ) rounding (
          .value(product),
          .shift(5'd17),
          .element(rounded)
      );
      always_ff @(posedge clock) results[lane*ELEMENT_BITS+:ELEMENT_BITS] <= rounded;
    end
    assign kept = '0;
    logic unused_place;
    assign unused_place = &{1'b0, place};
  end else begin : g_maximum
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
      logic signed [ELEMENT_BITS-1:0] best;
      logic [PLACE_BITS-1:0] winner;
      assign {winner, best} = reached_1[lane*LANE_BITS+:LANE_BITS];
      always_ff @(posedge clock) begin
        results[lane*ELEMENT_BITS+:ELEMENT_BITS] <= best;
        kept[lane*(PLACE_BITS+1)+:PLACE_BITS+1] <= {winner, best > 0};
      end
    end
    logic unused_count;
    assign unused_count = &{1'b0, count_padding};
  end

  // --- Out, with room reserved when a window is whole.
  logic [FIFO_LOG2:0] waiting, promised;
  logic fifo_ready, leave;
  stream_fifo #(
      .WIDTH(BEAT_WIDTH + KEPT_WIDTH),
      .DEPTH_LOG2(FIFO_LOG2)
  ) out_buffer (
      .clock,
      .clear,
      .in_valid (whole_2),
      .in_ready (fifo_ready),
      .in_data  ({kept, results}),
      .out_valid(out_tvalid),
      .out_ready(out_tready),
      .out_data ({kept_tdata, out_tdata}),
      .count    (waiting)
  );
  assign leave = out_tvalid && out_tready;
  assign room_ready = !promised[FIFO_LOG2];
  always_ff @(posedge clock) begin
    if (clear) promised <= '0;
    else if (whole && !leave) promised <= promised + (FIFO_LOG2 + 1)'(1);
    else if (leave && !whole) promised <= promised - (FIFO_LOG2 + 1)'(1);
  end

  logic unused;
  assign unused = &{1'b0, fifo_ready, waiting, last_group, last_of_stride};
endmodule
