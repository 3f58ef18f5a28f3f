// Puts arriving chunks of x where the walk will read them: for every block with columns of x the chunks of all vectors of the batch, into
// one of two slots, which is free again when the block is done with. They come in the order of the jobs, vector by vector.
module input_loader (
    input logic clock,
    input logic reset_n,
    input logic restart,

    input logic [15:0] batches,
    input logic [15:0] input_jobs,   // blocks of x alone
    input logic [31:0] job_words,    // chunks of such a block, for all vectors
    input logic [31:0] last_words,   // of the last of them
    input logic [31:0] walk_words,   // of what shares blocks with h; may be 0
    input logic [15:0] slot_words,

    input  logic [15:0] used,    // slots that are done with
    output logic [15:0] loaded,  // slots that are full

    input  logic        in_valid,
    output logic        in_ready,
    output logic        write,
    output logic [15:0] write_place
);
  logic [15:0] batch, job, started, place;
  logic [31:0] left;
  logic filling, second, walk, ended;
  assign walk = job == input_jobs;
  assign ended = batch == batches || (input_jobs == 16'd0 && walk_words == 32'd0);
  assign in_ready = filling;
  assign write = in_valid && in_ready;
  assign write_place = place;
  always_ff @(posedge clock) begin
    if (!reset_n || restart) begin
      {batch, job, started, loaded} <= '0;
      {filling, second} <= '0;
    end else if (!filling) begin
      if (!ended && 16'(started - used) < 16'd2) begin
        filling <= 1'b1;
        left <= walk ? walk_words : (job + 16'd1 == input_jobs) ? last_words : job_words;
        place <= second ? slot_words : 16'd0;
        second <= !second;
        started <= started + 16'd1;
        if (walk || (job + 16'd1 == input_jobs && walk_words == 32'd0)) begin
          job   <= '0;
          batch <= batch + 16'd1;
        end else job <= job + 16'd1;
      end
    end else if (write) begin
      place <= place + 16'd1;
      left  <= left - 32'd1;
      if (left == 32'd1) begin
        filling <= 1'b0;
        loaded  <= loaded + 16'd1;
      end
    end
  end
endmodule
