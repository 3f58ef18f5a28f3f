// Brings the kernels of the next sweep into the tiles while this one runs.
//
// The parameter memory holds LOAD_WORDS words per sweep; FP and EB walk the same memory in different orders, which the
// steps between the sweeps of the inner and of the outer loop say. Every row reads it again. A word appears one cycle
// after its address.
// Outer sweeps come in classes of `class_sweeps`; behind a class the outer step counts from the last sweep's place. One class is none.
// Where words come from the memory outside, one by one in the order of the walk (parameter_streamer.sv), it waits while `word_ready` is low.
// `take` says that a sweep has begun, whose kernels the tiles then make their own; `kernels_ready` that it may.
// A sweep thus lasts LOAD_WORDS + 1 cycles at least.
module weight_loader #(
    parameter int LOAD_WORDS = 1,
    parameter int ADDRESS_BITS = 10,
    parameter int CHANNEL_BITS = 16  // of the sweeps
) (
    input logic clock,
    input logic clear,

    input logic [CHANNEL_BITS-1:0] inner_sweeps,
    input logic [CHANNEL_BITS-1:0] outer_sweeps,
    input logic [CHANNEL_BITS-1:0] class_sweeps,
    input logic [ADDRESS_BITS-1:0] inner_step,
    input logic [ADDRESS_BITS-1:0] outer_step,

    input  logic take,
    output logic kernels_ready,

    input  logic                    word_ready,
    output logic                    read_enable,
    output logic [ADDRESS_BITS-1:0] read_address,
    output logic                    load_enable,  // the word asked for before arrives
    output logic [            15:0] load_index    // which of the sweep's words it is
);
  logic [CHANNEL_BITS-1:0] inner, outer;
  logic [15:0] index;
  logic [ADDRESS_BITS-1:0] sweep_address, outer_address, next_outer_address;
  logic [CHANNEL_BITS-1:0] outer_of_class;
  logic asks, last_inner, last_outer, last_of_class;

  assign asks = !clear && !kernels_ready && word_ready;
  assign read_enable = asks;
  assign read_address = sweep_address + ADDRESS_BITS'(index);
  assign last_inner = inner == inner_sweeps - CHANNEL_BITS'(1);
  assign last_outer = outer == outer_sweeps - CHANNEL_BITS'(1);
  assign last_of_class = outer_of_class == class_sweeps - CHANNEL_BITS'(1);
  assign next_outer_address = last_outer ? '0 : (last_of_class ? sweep_address : outer_address) + outer_step;

  always_ff @(posedge clock) begin
    load_enable <= asks;
    load_index  <= index;
    if (clear) begin
      inner <= '0;
      outer <= '0;
      outer_of_class <= '0;
      index <= '0;
      sweep_address <= '0;
      outer_address <= '0;
      kernels_ready <= 1'b0;
    end else if (asks) begin
      index <= index + 16'd1;
      if (index == 16'(LOAD_WORDS - 1)) begin
        index <= '0;
        kernels_ready <= 1'b1;
        inner <= last_inner ? '0 : inner + CHANNEL_BITS'(1);
        sweep_address <= last_inner ? next_outer_address : sweep_address + inner_step;
        if (last_inner) begin
          outer <= last_outer ? '0 : outer + CHANNEL_BITS'(1);
          outer_of_class <= last_of_class ? '0 : outer_of_class + CHANNEL_BITS'(1);
          outer_address <= next_outer_address;
        end
      end
    end else if (take) begin
      kernels_ready <= 1'b0;
    end
  end
endmodule
