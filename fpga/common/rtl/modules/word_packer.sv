// Beats of BEAT_BITS out of words of WORD_BITS, both multiples of UNIT_BITS, without gaps: what word_unpacker.sv takes apart. The last beat of a
// pass of `words` words is filled up with zeros.
module word_packer #(
    parameter int BEAT_BITS = 512,
    parameter int WORD_BITS = 288,
    parameter int UNIT_BITS = 16
) (
    input logic clock,
    input logic clear,

    input logic [31:0] words,  // of a pass

    input  logic                 word_valid,
    output logic                 word_ready,
    input  logic [WORD_BITS-1:0] word,

    output logic                 beat_valid,
    input  logic                 beat_ready,
    output logic [BEAT_BITS-1:0] beat
);
  localparam int BEAT = BEAT_BITS / UNIT_BITS, WORD = WORD_BITS / UNIT_BITS;
  localparam int PLACE_BITS = $clog2(BEAT + WORD + 1);
  logic [BEAT_BITS+WORD_BITS-1:0] held, shifted, added;
  logic [PLACE_BITS-1:0] count, count_left;  // units held
  logic [31:0] words_left;
  logic sends, comes;
  assign beat_valid = count >= PLACE_BITS'(BEAT) || (words_left == 32'd0 && count != '0);
  assign beat = held[BEAT_BITS-1:0];
  assign sends = beat_valid && beat_ready;
  assign count_left = !sends ? count : (count > PLACE_BITS'(BEAT)) ? count - PLACE_BITS'(BEAT) : '0;
  assign shifted = sends ? {{BEAT_BITS{1'b0}}, held[BEAT_BITS+WORD_BITS-1:BEAT_BITS]} : held;
  assign word_ready = !clear && words_left != 32'd0 && count_left <= PLACE_BITS'(BEAT);
  assign comes = word_valid && word_ready;
  assign added = {{BEAT_BITS{1'b0}}, word} << (UNIT_BITS * 32'(count_left));
  always_ff @(posedge clock) begin
    if (clear) begin
      count <= '0;
      held <= '0;
      words_left <= words;
    end else begin
      held <= shifted | (comes ? added : '0);
      count <= count_left + (comes ? PLACE_BITS'(WORD) : '0);
      if (comes) words_left <= words_left - 32'd1;
      else if (words_left == 32'd0 && count_left == '0) words_left <= words;
    end
  end
endmodule
