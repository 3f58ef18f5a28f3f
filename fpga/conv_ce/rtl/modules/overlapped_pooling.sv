// Maximum or average over large windows that overlap: a beat goes into every window that it lies in, so that no window is held. See
// special_function_unit.sv for the arithmetic and the streams.
//
// What a row gives to a window, its part, is gathered in registers, of as many windows as a pixel lies in from left to right. Parts of the
// rows of a window are gathered in a memory of a word per window of a row and group; of these there are as many as a pixel lies in from top
// to bottom. Windows end with their last element on the map. Where several end with a row's last pixel, the others' parts are left for the
// cycles after it; where several end with the map's last row, those are, row of windows by row of windows. No beat comes in meanwhile.
// Windows leave in row - group - column order.
module overlapped_pooling #(
    parameter int LANES = 4,
    parameter int POOL_KERNEL = 9,
    parameter int POOL_STRIDE = 2,
    parameter int POOL_COLUMNS = 9,
    parameter int COLUMN_STRIDE = 2,
    parameter int AVERAGE = 0,
    parameter int ADDRESS_BITS = 6,  // of groups x windows of a row
    parameter int PLACE_BITS = 7,
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
  // Windows that a pixel lies in, from top to bottom and from left to right. The n-th window is gathered in slot n mod as many.
  localparam int ROW_SLOTS = (POOL_KERNEL + POOL_STRIDE - 1) / POOL_STRIDE;
  localparam int COLUMN_SLOTS = (POOL_COLUMNS + COLUMN_STRIDE - 1) / COLUMN_STRIDE;
  localparam int ROW_SLOT_BITS = (ROW_SLOTS > 1) ? $clog2(ROW_SLOTS) : 1;
  localparam int COLUMN_SLOT_BITS = (COLUMN_SLOTS > 1) ? $clog2(COLUMN_SLOTS) : 1;
  localparam int COUNT_BITS = $clog2(POOL_KERNEL * POOL_COLUMNS + 1);
  localparam int SUM_BITS = ELEMENT_BITS + COUNT_BITS;
  // A lane of a part and of a window: a sum; or the place that wins, and its element.
  localparam int COLUMN_BITS = (POOL_COLUMNS > 1) ? $clog2(POOL_COLUMNS) : 1;
  localparam int PART_BITS = (AVERAGE != 0) ? ELEMENT_BITS + $clog2(POOL_COLUMNS + 1) : ELEMENT_BITS + COLUMN_BITS;
  localparam int LANE_BITS = (AVERAGE != 0) ? SUM_BITS : ELEMENT_BITS + PLACE_BITS;
  localparam int BEAT_WIDTH = LANES * ELEMENT_BITS;
  localparam int KEPT_WIDTH = LANES * (PLACE_BITS + 1);
  localparam int FIFO_LOG2 = 3;

  // --- What happens in a cycle: a beat comes in, a part that its row left behind goes on, or a window that the map left behind does.
  logic room_ready, takes, parts_left, takes_left, rows_left, leaves_left, read_too_soon;
  logic [15:0] row, column, group, next_row, next_column, leaving_top, leaving_left;
  logic [ADDRESS_BITS-1:0] group_address, address;
  logic [ROW_SLOT_BITS-1:0] next_row_slot;
  logic [COLUMN_SLOT_BITS-1:0] next_column_slot;
  logic last_row, last_column, last_group, last_part, last_window_row;
  logic [ROW_SLOTS-1:0] row_active, row_first, row_ends;
  logic [COLUMN_SLOTS-1:0] column_active, column_first, column_ends;
  logic part_leaves, whole, row_of_group_ends, row_ends_here, more_rows, sample_ends;
  assign in_tready = room_ready && !clear && !parts_left && !rows_left && !(read_too_soon && column_ends[next_column_slot]);
  assign takes = in_tvalid && in_tready;
  assign takes_left = room_ready && !clear && parts_left && !read_too_soon;
  assign leaves_left = room_ready && !clear && rows_left && !read_too_soon;
  assign last_row = row == height - 16'd1;
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  assign last_part = next_column == out_width - 16'd1;
  assign last_window_row = next_row == out_height - 16'd1;
  assign address = group_address + ADDRESS_BITS'(next_column);
  assign part_leaves = takes_left || (takes && next_column < out_width && column_ends[next_column_slot]);
  assign row_ends_here = row_ends[next_row_slot] && next_row < out_height;
  assign whole = leaves_left || (part_leaves && row_ends_here);
  // A row of a group ends with its last pixel, or with the last part that this left behind.
  assign row_of_group_ends = (takes && last_column && (next_column >= out_width || (part_leaves && last_part))) || (takes_left && last_part);
  assign more_rows = row_ends_here ? !last_window_row : next_row < out_height;
  assign sample_ends = (row_of_group_ends && last_group && last_row && !more_rows)
                    || (leaves_left && last_part && last_group && last_window_row);

  // --- Phases: where a pixel lies in the slot's window, negative where that has not begun.
  logic [ROW_SLOTS*16-1:0] row_phases;
  logic [COLUMN_SLOTS*16-1:0] column_phases;
  logic [ROW_SLOTS*PLACE_BITS-1:0] row_places;  // row_phase x POOL_COLUMNS
  logic [PLACE_BITS-1:0] first_place;
  always_comb begin  // pad x POOL_COLUMNS, without a multiplier
    first_place = '0;
    for (int bit_of_pad = 0; bit_of_pad < PLACE_BITS && bit_of_pad < 16; bit_of_pad++)
      if (pad[bit_of_pad]) first_place = first_place + (PLACE_BITS'(POOL_COLUMNS) << bit_of_pad);
  end
  for (genvar slot = 0; slot < ROW_SLOTS; slot++) begin : g_row_phase
    logic [15:0] phase;
    logic [PLACE_BITS-1:0] place;
    assign row_active[slot] = phase < 16'(POOL_KERNEL);
    assign row_first[slot] = phase == 16'd0 || row == 16'd0;
    assign row_ends[slot] = row_active[slot] && (phase == 16'(POOL_KERNEL - 1) || last_row);
    assign row_phases[slot*16+:16] = phase;
    assign row_places[slot*PLACE_BITS+:PLACE_BITS] = place;
    always_ff @(posedge clock) begin
      if (clear || sample_ends) begin
        phase <= pad - 16'(slot * POOL_STRIDE);
        place <= first_place - PLACE_BITS'(slot * POOL_STRIDE * POOL_COLUMNS);
      end else if (row_of_group_ends && last_group && !last_row) begin
        phase <= (phase == 16'(POOL_KERNEL - 1)) ? 16'(POOL_KERNEL - ROW_SLOTS * POOL_STRIDE) : phase + 16'd1;
        place <= (phase == 16'(POOL_KERNEL - 1)) ? PLACE_BITS'((POOL_KERNEL - ROW_SLOTS * POOL_STRIDE) * POOL_COLUMNS)
                                                 : place + PLACE_BITS'(POOL_COLUMNS);
      end
    end
  end
  for (genvar slot = 0; slot < COLUMN_SLOTS; slot++) begin : g_column_phase
    logic [15:0] phase;
    assign column_active[slot] = phase < 16'(POOL_COLUMNS);
    assign column_first[slot] = phase == 16'd0 || column == 16'd0;
    assign column_ends[slot] = column_active[slot] && (phase == 16'(POOL_COLUMNS - 1) || last_column);
    assign column_phases[slot*16+:16] = phase;
    always_ff @(posedge clock) begin
      if (clear || row_of_group_ends) phase <= column_pad - 16'(slot * COLUMN_STRIDE);
      else if (takes && !last_column)
        phase <= (phase == 16'(POOL_COLUMNS - 1)) ? 16'(POOL_COLUMNS - COLUMN_SLOTS * COLUMN_STRIDE) : phase + 16'd1;
    end
  end

  logic steps_part, wraps_parts;  // on to the next window of a row of them
  assign steps_part = part_leaves || leaves_left;
  assign wraps_parts = row_of_group_ends || (leaves_left && last_part);
  always_ff @(posedge clock) begin
    if (clear) begin
      {row, column, group, next_row, next_column, parts_left, rows_left} <= '0;
      {group_address, next_row_slot, next_column_slot} <= '0;
      leaving_top <= 16'd0 - pad;
      leaving_left <= 16'd0 - column_pad;
    end else begin
      if (takes && !last_column) column <= column + 16'd1;
      if (takes && last_column) parts_left <= !row_of_group_ends;
      if (steps_part) begin
        next_column <= next_column + 16'd1;
        leaving_left <= leaving_left + 16'(COLUMN_STRIDE);
        next_column_slot <= (next_column_slot == COLUMN_SLOT_BITS'(COLUMN_SLOTS - 1)) ? '0 : next_column_slot + COLUMN_SLOT_BITS'(1);
      end
      if (wraps_parts) begin
        {column, next_column, next_column_slot, parts_left} <= '0;
        leaving_left <= 16'd0 - column_pad;
        group <= last_group ? '0 : group + 16'd1;
        group_address <= last_group ? '0 : group_address + ADDRESS_BITS'(out_width);
        if (last_group) begin
          if (!last_row) row <= row + 16'd1;
          rows_left <= last_row && more_rows && !(rows_left && last_window_row);
          if (rows_left || row_ends_here) begin
            next_row <= next_row + 16'd1;
            leaving_top <= leaving_top + 16'(POOL_STRIDE);
            next_row_slot <= (next_row_slot == ROW_SLOT_BITS'(ROW_SLOTS - 1)) ? '0 : next_row_slot + ROW_SLOT_BITS'(1);
          end
        end
      end
      if (sample_ends) begin
        {row, next_row, next_row_slot, rows_left} <= '0;
        leaving_top <= 16'd0 - pad;
      end
    end
  end

  // --- What the parts of this row have come to with this beat.
  logic [COLUMN_SLOTS*LANES*PART_BITS-1:0] gathered, reached;
  logic [LANES*PART_BITS-1:0] part;
  for (genvar slot = 0; slot < COLUMN_SLOTS; slot++) begin : g_part
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
      localparam int AT = (slot * LANES + lane) * PART_BITS;
      logic signed [ELEMENT_BITS-1:0] element;
      assign element = in_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
      if (AVERAGE != 0) begin : g_sum
        logic signed [PART_BITS-1:0] so_far;
        assign so_far = column_first[slot] ? '0 : gathered[AT+:PART_BITS];
        assign reached[AT+:PART_BITS] = so_far + PART_BITS'(element);
      end else begin : g_largest
        // The first of equals wins: a later one must be larger.
        logic signed [ELEMENT_BITS-1:0] best;
        assign best = gathered[AT+:ELEMENT_BITS];
        assign reached[AT+:PART_BITS] = (!column_first[slot] && best >= element) ? gathered[AT+:PART_BITS]
                                                                                 : {column_phases[slot*16+:COLUMN_BITS], element};
      end
    end
  end
  always_ff @(posedge clock) if (takes) gathered <= reached;
  assign part = takes ? reached[next_column_slot*LANES*PART_BITS+:LANES*PART_BITS] : gathered[next_column_slot*LANES*PART_BITS+:LANES*PART_BITS];

  // --- A part goes into the windows that its row lies in: read in the cycle it leaves, written in the next. A word that is
  // written is read a cycle later.
  logic part_1, whole_1, left_1, whole_2, whole_3;
  logic [ADDRESS_BITS-1:0] address_1;
  logic [ROW_SLOT_BITS-1:0] slot_1;
  logic [ROW_SLOTS-1:0] active_1, first_1;
  logic [ROW_SLOTS*PLACE_BITS-1:0] places_1;
  logic [15:0] top_1, window_left_1;
  logic [LANES*PART_BITS-1:0] row_part_1;
  logic [ROW_SLOTS*LANES*LANE_BITS-1:0] words_1, grown;
  logic [LANES*LANE_BITS-1:0] window_2;
  assign read_too_soon = part_1 && address == address_1;
  always_ff @(posedge clock) begin
    {part_1, whole_1, whole_2, whole_3} <= clear ? '0 : {part_leaves, whole, whole_1, whole_2};
    left_1 <= leaves_left;
    address_1 <= address;
    slot_1 <= next_row_slot;
    active_1 <= row_active;
    first_1 <= row_first;
    places_1 <= row_places;
    top_1 <= leaving_top;
    window_left_1 <= leaving_left;
    row_part_1 <= part;
    window_2 <= left_1 ? words_1[slot_1*LANES*LANE_BITS+:LANES*LANE_BITS] : grown[slot_1*LANES*LANE_BITS+:LANES*LANE_BITS];
  end
  for (genvar slot = 0; slot < ROW_SLOTS; slot++) begin : g_window
    logic [LANES*LANE_BITS-1:0] windows[0:(1<<ADDRESS_BITS)-1];
    always_ff @(posedge clock) begin
      if (part_1 && active_1[slot]) windows[address_1] <= grown[slot*LANES*LANE_BITS+:LANES*LANE_BITS];
      words_1[slot*LANES*LANE_BITS+:LANES*LANE_BITS] <= windows[address];
    end
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
      localparam int AT = (slot * LANES + lane) * LANE_BITS;
      if (AVERAGE != 0) begin : g_sum
        logic signed [SUM_BITS-1:0] so_far;
        logic signed [PART_BITS-1:0] of_row;
        assign so_far = first_1[slot] ? '0 : words_1[AT+:SUM_BITS];
        assign of_row = row_part_1[lane*PART_BITS+:PART_BITS];
        assign grown[AT+:LANE_BITS] = so_far + SUM_BITS'(of_row);
      end else begin : g_largest
        logic signed [ELEMENT_BITS-1:0] best, of_row;
        logic [COLUMN_BITS-1:0] column_place;
        assign best = words_1[AT+:ELEMENT_BITS];
        assign {column_place, of_row} = row_part_1[lane*PART_BITS+:PART_BITS];
        assign grown[AT+:LANE_BITS] = (!first_1[slot] && best >= of_row) ? words_1[AT+:LANE_BITS]
            : {places_1[slot*PLACE_BITS+:PLACE_BITS] + PLACE_BITS'(column_place), of_row};
      end
    end
  end

  // --- Windows that are whole: the reciprocal of their count at stage 2, their average at stage 3.
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
        .top(top_1),
        .left(window_left_1),
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
      assign sum = window_2[lane*LANE_BITS+:LANE_BITS];
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
    logic unused_places;
    assign unused_places = &{1'b0, places_1, column_phases};
  end else begin : g_maximum
    for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
      logic signed [ELEMENT_BITS-1:0] best;
      logic [PLACE_BITS-1:0] winner;
      assign {winner, best} = window_2[lane*LANE_BITS+:LANE_BITS];
      always_ff @(posedge clock) begin
        results[lane*ELEMENT_BITS+:ELEMENT_BITS] <= best;
        kept[lane*(PLACE_BITS+1)+:PLACE_BITS+1] <= {winner, best > 0};
      end
    end
    logic unused_count;
    assign unused_count = &{1'b0, count_padding, top_1, window_left_1, column_phases};
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
      .in_valid (whole_3),
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
  assign unused = &{1'b0, fifo_ready, waiting, row_phases};
endmodule
