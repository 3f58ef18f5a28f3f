// Between streams of unequal width: beats of IN_LANES channels come, beats of OUT_LANES channels leave.
//
// Both orders are row_writer.sv's: block, group of channels, row of the block, column. A group of the wider stream is complete
// only when several of the narrower have gone over the block's pixels, so channels wait here in slots of 2^BANKS_LOG2: channel
// c of a block lies in bank c mod 2^BANKS_LOG2 and slot c / 2^BANKS_LOG2, a place per pixel. Beats of either width then touch
// every bank once, wherever they begin. Four slots let one be read across its end while another is written.
// A beat comes in and one leaves in every cycle as long as the neighbours keep up. Lanes beyond the last channel leave as zero.
module lane_adapter #(
    parameter int IN_LANES = 4,
    parameter int OUT_LANES = 6,
    parameter int BANKS_LOG2 = 3,    // at least one, and as many channels as the wider stream has lanes
    parameter int ADDRESS_BITS = 6,  // of the pixels of a block's rows
    parameter int CHANNEL_BITS = 16,
    parameter int ELEMENT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [CHANNEL_BITS-1:0] channels,
    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] first_block_rows,
    input logic [15:0] block_rows,

    input  logic                             in_tvalid,
    output logic                             in_tready,
    input  logic [IN_LANES*ELEMENT_BITS-1:0] in_tdata,

    output logic                              out_tvalid,
    input  logic                              out_tready,
    output logic [OUT_LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int BANKS = 1 << BANKS_LOG2;
  localparam int FIFO_LOG2 = 2;

  // --- Where the next beat in goes: `channel` is its first, in `slot` at `offset`.
  logic write, write_ends_group, write_ends_block;
  logic [15:0] write_block, write_slot;
  logic [CHANNEL_BITS-1:0] write_channel;
  logic [BANKS_LOG2-1:0] write_offset;
  logic [ADDRESS_BITS-1:0] write_pixel;
  adapter_walk #(
      .LANES(IN_LANES),
      .BANKS_LOG2(BANKS_LOG2),
      .ADDRESS_BITS(ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) writer (
      .clock,
      .clear,
      .channels,
      .height,
      .width,
      .first_block_rows,
      .block_rows,
      .advance(write),
      .block(write_block),
      .channel(write_channel),
      .slot(write_slot),
      .offset(write_offset),
      .pixel(write_pixel),
      .ends_group(write_ends_group),
      .ends_block(write_ends_block)
  );

  // --- The next beat out.
  logic step, read, read_ends_group, read_ends_block;
  logic [15:0] read_block, read_slot;
  logic [CHANNEL_BITS-1:0] read_channel;
  logic [BANKS_LOG2-1:0] read_offset;
  logic [ADDRESS_BITS-1:0] read_pixel;
  adapter_walk #(
      .LANES(OUT_LANES),
      .BANKS_LOG2(BANKS_LOG2),
      .ADDRESS_BITS(ADDRESS_BITS),
      .CHANNEL_BITS(CHANNEL_BITS)
  ) reader (
      .clock,
      .clear,
      .channels,
      .height,
      .width,
      .first_block_rows,
      .block_rows,
      .advance(read),
      .block(read_block),
      .channel(read_channel),
      .slot(read_slot),
      .offset(read_offset),
      .pixel(read_pixel),
      .ends_group(read_ends_group),
      .ends_block(read_ends_block)
  );

  // A beat may reach into the slot behind its own; of the block that is being written, whole groups can be read.
  logic [15:0] slots_ahead;
  logic [CHANNEL_BITS-1:0] last_wanted, channels_left;
  assign slots_ahead = write_slot + 16'd1 - read_slot;
  assign in_tready = !clear && slots_ahead < 16'd4;
  assign write = in_tvalid && in_tready;
  assign channels_left = channels - read_channel;
  assign last_wanted = (channels_left < CHANNEL_BITS'(OUT_LANES)) ? channels : read_channel + CHANNEL_BITS'(OUT_LANES);
  assign read = step && !clear && (read_block != write_block || last_wanted <= write_channel);

  // --- The banks. Of a beat that reaches into the next slot the banks before its offset are there.
  logic [BANKS*ELEMENT_BITS-1:0] in_lanes, bank_words;
  assign in_lanes = (BANKS * ELEMENT_BITS)'(in_tdata);
  for (genvar bank = 0; bank < BANKS; bank++) begin : g_bank
    logic [ELEMENT_BITS-1:0] words[0:(4<<ADDRESS_BITS)-1];
    logic [ELEMENT_BITS-1:0] word;
    logic [BANKS_LOG2-1:0] lane;
    logic [1:0] in_slot, out_slot;
    logic in_beat;
    assign lane = BANKS_LOG2'(bank) - write_offset;
    assign in_beat = 16'(lane) < 16'(IN_LANES) && write_channel + CHANNEL_BITS'(lane) < channels;
    assign in_slot = write_slot[1:0] + 2'(16'(bank) < 16'(write_offset));
    assign out_slot = read_slot[1:0] + 2'(16'(bank) < 16'(read_offset));
    always_ff @(posedge clock) begin
      if (write && in_beat) words[{in_slot, write_pixel}] <= in_lanes[lane*ELEMENT_BITS+:ELEMENT_BITS];
      word <= words[{out_slot, read_pixel}];
    end
    assign bank_words[bank*ELEMENT_BITS+:ELEMENT_BITS] = word;
  end

  logic arrives;
  logic [BANKS_LOG2-1:0] offset_read;
  logic [CHANNEL_BITS-1:0] left_read;
  always_ff @(posedge clock) begin
    arrives <= read && !clear;
    offset_read <= read_offset;
    left_read <= channels_left;
  end
  logic [OUT_LANES*ELEMENT_BITS-1:0] beat;
  for (genvar out_lane = 0; out_lane < OUT_LANES; out_lane++) begin : g_lane
    logic [BANKS_LOG2-1:0] bank;
    assign bank = offset_read + BANKS_LOG2'(out_lane);
    assign beat[out_lane*ELEMENT_BITS+:ELEMENT_BITS] = (CHANNEL_BITS'(out_lane) < left_read) ? bank_words[bank*ELEMENT_BITS+:ELEMENT_BITS] : '0;
  end

  // --- Out through a FIFO with room for what is on its way.
  logic [FIFO_LOG2:0] waiting;
  logic fifo_ready;
  stream_fifo #(
      .WIDTH(OUT_LANES * ELEMENT_BITS),
      .DEPTH_LOG2(FIFO_LOG2)
  ) out_buffer (
      .clock,
      .clear,
      .in_valid (arrives),
      .in_ready (fifo_ready),
      .in_data  (beat),
      .out_valid(out_tvalid),
      .out_ready(out_tready),
      .out_data (out_tdata),
      .count    (waiting)
  );
  assign step = waiting + (FIFO_LOG2 + 1)'(arrives) < (FIFO_LOG2 + 1)'(1 << FIFO_LOG2);

  logic unused;
  assign unused = &{1'b0, fifo_ready, write_ends_group, write_ends_block, read_ends_group, read_ends_block, write_slot, read_slot};
endmodule
