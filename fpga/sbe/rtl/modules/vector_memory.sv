// The vectors that are multiplied: inputs chunk by chunk as they came, and both halves of the state, of which one is read while the
// other is written. A chunk appears a cycle after its place. States are written UNITS at a time and read COLUMNS at a time; one is a
// multiple of the other.
module vector_memory #(
    parameter int COLUMNS = 1,
    parameter int UNITS = 1,
    parameter int INPUT_DEPTH = 64,
    parameter int STATE_DEPTH = 64  // words of the wider of COLUMNS and UNITS, of one half
) (
    input logic clock,

    input logic                  input_write,
    input logic [          15:0] input_write_place,
    input logic [COLUMNS*16-1:0] input_chunk,
    input logic [          15:0] input_place,

    input logic                state_write,
    input logic                state_write_half,
    input logic [        15:0] state_write_place,  // where the stream begins, in words
    input logic [        15:0] state_write_word,   // of UNITS units, of the stream
    input logic [UNITS*16-1:0] state_units,
    input logic                state_half,
    input logic [        15:0] state_place,
    input logic [        15:0] state_chunk,        // of the stream

    input  logic                  takes_state,  // with the places
    input  logic                  takes_zeros,
    output logic [COLUMNS*16-1:0] chunk
);
  localparam int WIDTH = (COLUMNS > UNITS) ? COLUMNS : UNITS;
  localparam int BANKS = WIDTH / UNITS;
  localparam int PARTS = WIDTH / COLUMNS;
  localparam int INPUT_BITS = (INPUT_DEPTH > 1) ? $clog2(INPUT_DEPTH) : 1;
  localparam int STATE_BITS = $clog2(2 * STATE_DEPTH);
  localparam logic [15:0] HALF = 16'(STATE_DEPTH);

  (* ram_style = "block" *) logic [COLUMNS*16-1:0] inputs[0:INPUT_DEPTH-1];
  logic [COLUMNS*16-1:0] of_input;
  always_ff @(posedge clock) begin
    if (input_write) inputs[input_write_place[INPUT_BITS-1:0]] <= input_chunk;
    of_input <= inputs[input_place[INPUT_BITS-1:0]];
  end

  logic [15:0] write_place, read_place, part;
  assign write_place = (state_write_half ? HALF : 16'd0) + state_write_place + state_write_word / 16'(BANKS);
  assign read_place = (state_half ? HALF : 16'd0) + state_place + state_chunk / 16'(PARTS);
  logic [WIDTH*16-1:0] word;
  genvar b;
  for (b = 0; b < BANKS; b++) begin : g_bank
    (* ram_style = "block" *) logic [UNITS*16-1:0] states[0:2*STATE_DEPTH-1];
    logic [UNITS*16-1:0] units;
    always_ff @(posedge clock) begin
      if (state_write && state_write_word % 16'(BANKS) == 16'(b)) states[write_place[STATE_BITS-1:0]] <= state_units;
      units <= states[read_place[STATE_BITS-1:0]];
    end
    assign word[b*UNITS*16+:UNITS*16] = units;
  end

  logic took_state, took_zeros;
  always_ff @(posedge clock) begin
    part <= state_chunk % 16'(PARTS);
    took_state <= takes_state;
    took_zeros <= takes_zeros;
  end
  logic [COLUMNS*16-1:0] of_state;
  always_comb begin
    of_state = word[COLUMNS*16-1:0];
    for (int i = 1; i < PARTS; i++) if (part == 16'(i)) of_state = word[i*COLUMNS*16+:COLUMNS*16];
  end
  assign chunk = !took_state ? of_input : took_zeros ? '0 : of_state;
  logic unused;
  assign unused = &{1'b0, input_write_place, input_place, write_place, read_place, part};
endmodule
