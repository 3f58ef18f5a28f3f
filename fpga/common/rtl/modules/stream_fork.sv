// One stream to two readers: a beat is taken when both have it, whichever is first.
module stream_fork (
    input logic clock,
    input logic clear,

    input  logic in_tvalid,
    output logic in_tready,

    output logic first_tvalid,
    input  logic first_tready,
    output logic second_tvalid,
    input  logic second_tready
);
  logic first_has_it, second_has_it;
  assign first_tvalid = in_tvalid && !first_has_it;
  assign second_tvalid = in_tvalid && !second_has_it;
  assign in_tready = (first_has_it || first_tready) && (second_has_it || second_tready);
  always_ff @(posedge clock) begin
    if (clear || (in_tvalid && in_tready)) begin
      first_has_it  <= 1'b0;
      second_has_it <= 1'b0;
    end else begin
      if (first_tvalid && first_tready) first_has_it <= 1'b1;
      if (second_tvalid && second_tready) second_has_it <= 1'b1;
    end
  end
endmodule
