// Words of WORD_BITS out of beats of BEAT_BITS, both multiples of UNIT_BITS, packed without gaps: a pass of `words` words begins with a beat, and
// what its last beat has beyond the last word is dropped. A word a cycle where the beats bring it.
module word_unpacker #(
    parameter int BEAT_BITS = 512,
    parameter int WORD_BITS = 144,
    parameter int UNIT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [31:0] words,  // of a pass
    input logic [31:0] beats,

    input  logic                 beat_valid,
    output logic                 beat_ready,
    input  logic [BEAT_BITS-1:0] beat,

    output logic                 word_valid,
    input  logic                 word_ready,
    output logic [WORD_BITS-1:0] word
);
  localparam int BEAT = BEAT_BITS / UNIT_BITS, WORD = WORD_BITS / UNIT_BITS;
  localparam int PLACE_BITS = $clog2(BEAT + WORD + 1);
  logic [BEAT_BITS+WORD_BITS-1:0] held, shifted, added;
  logic [PLACE_BITS-1:0] count, count_left;  // units held
  logic [31:0] words_left, beats_left;
  logic takes, comes, ends;
  assign word_valid = count >= PLACE_BITS'(WORD);
  assign word = held[WORD_BITS-1:0];
  assign takes = word_valid && word_ready;
  assign ends = takes && words_left == 32'd1;
  assign count_left = count - (takes ? PLACE_BITS'(WORD) : '0);
  assign shifted = takes ? {{WORD_BITS{1'b0}}, held[BEAT_BITS+WORD_BITS-1:WORD_BITS]} : held;
  assign beat_ready = !clear && beats_left != 32'd0 && count_left <= PLACE_BITS'(WORD);
  assign comes = beat_valid && beat_ready;
  assign added = {{WORD_BITS{1'b0}}, beat} << (UNIT_BITS * 32'(count_left));
  always_ff @(posedge clock) begin
    if (clear || ends) begin
      count <= '0;
      held <= '0;
      words_left <= words;
      beats_left <= beats;
    end else begin
      held <= shifted | (comes ? added : '0);
      count <= count_left + (comes ? PLACE_BITS'(BEAT) : '0);
      if (takes) words_left <= words_left - 32'd1;
      if (comes) beats_left <= beats_left - 32'd1;
    end
  end
endmodule
