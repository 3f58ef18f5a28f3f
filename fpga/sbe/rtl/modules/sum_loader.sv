// Takes sums of 32 bits that somebody else made, x W of every vector, and puts them into the store where the walk begins its visits. They
// come as UNITS units with all their gates a transfer, vector after vector (step by step, stream by stream), group after group; a group's
// are gathered and written as one word. A place is written again when its sums of the batch before have left for the tail.
module sum_loader #(
    parameter int LANES = 8,
    parameter int GATES = 4,
    parameter int UNITS = 1
) (
    input logic clock,
    input logic reset_n,
    input logic restart,

    input logic [15:0] batches,
    input logic [15:0] streams,
    input logic [15:0] steps,
    input logic [15:0] groups,
    input logic [15:0] group_words,       // of UNITS units
    input logic [15:0] last_group_words,

    input  logic [15:0] done,    // visits whose sums have left for the tail
    output logic [15:0] loaded,  // visits whose sums are there

    input  logic                        in_valid,
    output logic                        in_ready,
    input  logic [UNITS*GATES*32-1:0]   in_sums,
    output logic                        write,
    output logic [          15:0]       write_place,
    output logic [LANES*32-1:0]         write_word
);
  localparam int WORDS = LANES / GATES / UNITS;
  logic [15:0] batch, step, stream, group, word, place, accepted, visits;
  logic ends_visit, ends_vector, ends_step, ends_batch, take;
  assign ends_visit = word + 16'd1 == ((group + 16'd1 == groups) ? last_group_words : group_words);
  assign ends_vector = ends_visit && group + 16'd1 == groups;
  assign ends_step = ends_vector && stream + 16'd1 == streams;
  assign ends_batch = ends_step && step + 16'd1 == steps;
  assign in_ready = batch != batches && (batch == 16'd0 || 16'(accepted - done) < visits);
  assign take = in_valid && in_ready;

  logic [UNITS*GATES*32-1:0] gathered[0:WORDS-1];
  genvar w;
  for (w = 0; w < WORDS; w++) begin : g_word
    always_ff @(posedge clock) if (take && word == 16'(w)) gathered[w] <= in_sums;
    assign write_word[w*UNITS*GATES*32+:UNITS*GATES*32] = gathered[w];
  end
  always_ff @(posedge clock) begin
    if (!reset_n || restart) begin
      {batch, step, stream, group, word, place, accepted, visits, loaded} <= '0;
      write <= 1'b0;
    end else begin
      write <= take && ends_visit;
      write_place <= place;
      if (write) loaded <= loaded + 16'd1;
      if (take) begin
        word <= ends_visit ? 16'd0 : word + 16'd1;
        if (ends_visit) begin
          group <= ends_vector ? 16'd0 : group + 16'd1;
          place <= ends_batch ? 16'd0 : place + 16'd1;
          accepted <= accepted + 16'd1;
          if (batch == 16'd0) visits <= visits + 16'd1;
        end
        if (ends_vector) stream <= ends_step ? 16'd0 : stream + 16'd1;
        if (ends_step) step <= ends_batch ? 16'd0 : step + 16'd1;
        if (ends_batch) batch <= batch + 16'd1;
      end
    end
  end
endmodule
