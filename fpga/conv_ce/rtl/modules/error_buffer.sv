// The error buffer behind EB: takes the blocks of STRIDE x COLUMN_STRIDE pixels that EB makes, gives them out row by row.
//
// Sweeps fill one of four slots after the other while earlier ones are sent. Within a slot, the pixel of phase (a, b) and step q of the row lies in
// memory a * COLUMN_STRIDE + b at place q. Of a sample's first block only rows from `first_phase` on exist, of its last one only
// rows up to `last_phase`; every row begins at column phase `first_phase`, or COLUMN_FIRST_PHASE where that is given.
module error_buffer #(
    parameter int STRIDE = 1,
    parameter int COLUMN_STRIDE = STRIDE,
    parameter int COLUMN_FIRST_PHASE = -1,
    parameter int WORD_BITS = 64,
    parameter int COLUMN_ADDRESS_BITS = 6
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,        // pixels of a row that is sent
    input logic [15:0] first_phase,  // 0 to STRIDE - 1
    input logic [15:0] last_phase,

    output logic                               room,        // for one more sweep
    input  logic                               reserve,     // which begins now
    input  logic                               write_enable,
    input  logic [    COLUMN_ADDRESS_BITS-1:0] write_place,
    input  logic [STRIDE*COLUMN_STRIDE*WORD_BITS-1:0] write_words,
    input  logic                               sweep_done,  // with its last write
    input  logic                               first_block,
    input  logic                               last_block,

    output logic                 out_tvalid,
    input  logic                 out_tready,
    output logic [WORD_BITS-1:0] out_tdata
);
  localparam int PHASES = STRIDE * COLUMN_STRIDE;
  localparam int FIFO_LOG2 = 2;

  // Slots in use: reserved by a sweep under way or not yet sent. With two, a sweep would wait for the pipeline of the one
  // before the last.
  logic [2:0] slots_reserved, slots_full;
  logic [1:0] write_slot, read_slot;
  logic [3:0] slot_is_first, slot_is_last;
  logic slot_sent;
  assign room = !slots_reserved[2];
  always_ff @(posedge clock) begin
    if (clear) begin
      slots_reserved <= '0;
      slots_full <= '0;
      write_slot <= '0;
      read_slot <= '0;
    end else begin
      slots_reserved <= slots_reserved + 3'(reserve) - 3'(slot_sent);
      slots_full <= slots_full + 3'(sweep_done) - 3'(slot_sent);
      if (sweep_done) write_slot <= write_slot + 2'd1;
      if (slot_sent) read_slot <= read_slot + 2'd1;
    end
    if (sweep_done) begin
      slot_is_first[write_slot] <= first_block;
      slot_is_last[write_slot]  <= last_block;
    end
  end

  // --- Where the next pixel to be sent lies.
  logic [15:0] row_phase, column_phase, column, place, next_row_phase, begin_row_phase, end_row_phase;
  logic row_begins, last_column, step, reads;
  logic [15:0] first_column_phase;
  assign first_column_phase = (COLUMN_FIRST_PHASE < 0) ? first_phase : 16'(COLUMN_FIRST_PHASE);
  assign begin_row_phase = slot_is_first[read_slot] ? first_phase : 16'd0;
  assign end_row_phase = slot_is_last[read_slot] ? last_phase : 16'(STRIDE - 1);
  // The first row of a slot is only known when the slot is full.
  assign next_row_phase = row_begins ? begin_row_phase : row_phase;
  assign last_column = column == width - 16'd1;
  assign reads = step && (slots_full != 3'd0);
  assign slot_sent = reads && last_column && next_row_phase == end_row_phase;
  always_ff @(posedge clock) begin
    if (clear) begin
      row_begins <= 1'b1;
      row_phase <= '0;
      column_phase <= first_column_phase;
      column <= '0;
      place <= '0;
    end else if (reads) begin
      row_begins <= slot_sent;
      row_phase <= last_column ? next_row_phase + 16'd1 : next_row_phase;
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) begin
        column_phase <= first_column_phase;
        place <= '0;
      end else if (column_phase == 16'(COLUMN_STRIDE - 1)) begin
        column_phase <= '0;
        place <= place + 16'd1;
      end else begin
        column_phase <= column_phase + 16'd1;
      end
    end
  end

  // --- The memories, and the choice among their outputs a cycle later.
  logic [PHASES*WORD_BITS-1:0] phase_words;
  for (genvar phase = 0; phase < PHASES; phase++) begin : g_phase
    logic [WORD_BITS-1:0] words[0:(4<<COLUMN_ADDRESS_BITS)-1];
    logic [WORD_BITS-1:0] word;
    always_ff @(posedge clock) begin
      if (write_enable) words[{write_slot, write_place}] <= write_words[phase*WORD_BITS+:WORD_BITS];
      word <= words[{read_slot, COLUMN_ADDRESS_BITS'(place)}];
    end
    assign phase_words[phase*WORD_BITS+:WORD_BITS] = word;
  end
  logic arrives;
  logic [15:0] phase_read;
  always_ff @(posedge clock) begin
    arrives <= reads && !clear;
    phase_read <= 16'(next_row_phase * 16'(COLUMN_STRIDE)) + column_phase;
  end

  // --- Out through a FIFO with room for what is on its way.
  logic [FIFO_LOG2:0] waiting;
  logic fifo_ready;
  stream_fifo #(
      .WIDTH(WORD_BITS),
      .DEPTH_LOG2(FIFO_LOG2)
  ) out_buffer (
      .clock,
      .clear,
      .in_valid (arrives),
      .in_ready (fifo_ready),
      .in_data  (phase_words[phase_read*WORD_BITS+:WORD_BITS]),
      .out_valid(out_tvalid),
      .out_ready(out_tready),
      .out_data (out_tdata),
      .count    (waiting)
  );
  assign step = waiting + (FIFO_LOG2 + 1)'(arrives) < (FIFO_LOG2 + 1)'(1 << FIFO_LOG2);

  logic unused;
  assign unused = &{1'b0, fifo_ready};
endmodule
