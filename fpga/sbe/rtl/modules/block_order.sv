// Which block of weights comes next, for the whole run: what is pinned once, if it is asked for; then for every batch the blocks of x and
// those of h, which come once, or for each step again. Blocks have `block_chunks` chunks but for the last one; what is pinned has
// `pinned_chunks`. `restart` begins again; `next` goes on; `ended` when nothing is left.
module block_order (
    input logic clock,
    input logic restart,
    input logic next,

    input logic [15:0] batches,
    input logic [15:0] blocks,         // streamed ones
    input logic [15:0] input_blocks,   // of these, without columns of h
    input logic [15:0] walks,          // times the blocks of h come in a batch
    input logic [15:0] block_chunks,
    input logic [15:0] last_chunks,
    input logic        loads_pinned,
    input logic [15:0] pinned_chunks,
    input logic [63:0] address,        // of the first block; the others follow at `stride`
    input logic [63:0] stride,
    input logic [63:0] pinned_address,

    output logic        ended,
    output logic        pinned,
    output logic [15:0] chunks,
    output logic [63:0] begins
);
  logic [15:0] batch, block, walk;
  logic [63:0] place, walk_place;
  logic in_pinned;
  assign pinned = in_pinned;
  assign chunks = in_pinned ? pinned_chunks : (block + 16'd1 == blocks) ? last_chunks : block_chunks;
  assign begins = in_pinned ? pinned_address : place;
  assign ended = !in_pinned && (batch == batches || blocks == 16'd0);
  always_ff @(posedge clock) begin
    if (restart) begin
      in_pinned <= loads_pinned;
      {batch, block, walk} <= '0;
      place <= address;
      walk_place <= address;
    end else if (next) begin
      if (in_pinned) in_pinned <= 1'b0;
      else begin
        if (block == input_blocks) walk_place <= place;
        if (block + 16'd1 != blocks) begin
          block <= block + 16'd1;
          place <= place + stride;
        end else if (blocks != input_blocks && walk + 16'd1 != walks) begin
          walk  <= walk + 16'd1;
          block <= input_blocks;
          place <= (block == input_blocks) ? place : walk_place;
        end else begin
          walk  <= '0;
          block <= '0;
          place <= address;
          batch <= batch + 16'd1;
        end
      end
    end
  end
endmodule
