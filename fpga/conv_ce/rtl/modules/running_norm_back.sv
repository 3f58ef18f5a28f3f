// The way back through a batch norm that is trained with running statistics, and the sums that the next statistics are made of:
//   error of x = round((error * scale - ((x - centre) * slope >> slope_shift) - level) * 2^-shift), saturated
// per channel, and over the mini-batch, in SUM_BITS, the sums of x - centre, of its squares, of the errors, and of errors * (x - centre).
// Both streams come row - group - column and are waited for together; a beat per cycle. The first row behind `clear` replaces the sums.
// Constants are written while `clear` is high: a word holds LANES elements of one channel group. A word of sums has per lane the four, in
// that order, the first lowest; a group's are there four cycles after its last beat.
module running_norm_back #(
    parameter int LANES = 4,
    parameter int GROUP_ADDRESS_BITS = 4,
    parameter int ELEMENT_BITS = 16,
    parameter int LEVEL_BITS = 32,
    parameter int SUM_BITS = 64
) (
    input logic clock,
    input logic clear,

    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [ 4:0] shift,
    input logic [ 4:0] slope_shift,

    input logic                          parameter_write_enable,
    input logic [GROUP_ADDRESS_BITS-1:0] parameter_write_address,
    input logic [LANES*ELEMENT_BITS-1:0] parameter_write_scales,
    input logic [LANES*ELEMENT_BITS-1:0] parameter_write_centres,
    input logic [LANES*ELEMENT_BITS-1:0] parameter_write_slopes,
    input logic [  LANES*LEVEL_BITS-1:0] parameter_write_levels,

    input  logic                          x_tvalid,
    output logic                          x_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] x_tdata,

    input  logic                          error_tvalid,
    output logic                          error_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] error_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata,

    input  logic [GROUP_ADDRESS_BITS-1:0] read_address,
    output logic [  LANES*4*SUM_BITS-1:0] read_word  // one cycle later
);
  localparam int DISTANCE_BITS = ELEMENT_BITS + 1;
  localparam int VALUE_BITS = 2 * ELEMENT_BITS + 4;
  localparam int WORD = (3 * ELEMENT_BITS + LEVEL_BITS) * LANES;

  // --- Which group a beat belongs to.
  logic [15:0] column, group;
  logic advance, accepts, last_column, last_group, first_row;  // `first_row`: behind `clear`
  assign advance = !out_tvalid || out_tready;
  assign accepts = x_tvalid && error_tvalid && advance && !clear;
  assign x_tready = error_tvalid && advance && !clear;
  assign error_tready = x_tvalid && advance && !clear;
  assign last_column = column == width - 16'd1;
  assign last_group = group == groups - 16'd1;
  always_ff @(posedge clock) begin
    if (clear) begin
      {column, group} <= '0;
      first_row <= 1'b1;
    end else if (accepts) begin
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) group <= last_group ? '0 : group + 16'd1;
      if (last_column && last_group) first_row <= 1'b0;
    end
  end

  logic [WORD-1:0] constants[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [WORD-1:0] constant;
  logic [LANES*ELEMENT_BITS-1:0] scales, centres, slopes;
  logic [LANES*LEVEL_BITS-1:0] levels;
  always_ff @(posedge clock)
    if (parameter_write_enable)
      constants[parameter_write_address] <= {parameter_write_levels, parameter_write_slopes, parameter_write_centres, parameter_write_scales};
  assign constant = constants[GROUP_ADDRESS_BITS'(group)];
  assign {levels, slopes, centres, scales} = constant;

  // --- Four steps that stand still together: the distance, products, their difference with the sums, and rounding.
  logic [2:0] valid;
  logic [1:0] starts;  // of a group's sums
  logic [2*GROUP_ADDRESS_BITS-1:0] places;
  logic [GROUP_ADDRESS_BITS-1:0] place;
  assign place = places[GROUP_ADDRESS_BITS+:GROUP_ADDRESS_BITS];
  always_ff @(posedge clock) begin
    if (clear) begin
      valid <= '0;
      out_tvalid <= 1'b0;
    end else if (advance) begin
      valid <= {valid[1:0], accepts};
      out_tvalid <= valid[2];
    end
    if (advance) begin
      starts <= {starts[0], first_row && column == 16'd0};
      places <= {places[GROUP_ADDRESS_BITS-1:0], GROUP_ADDRESS_BITS'(group)};
    end
  end

  logic [LANES*4*SUM_BITS-1:0] sums[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [LANES*4*SUM_BITS-1:0] sum_before, sum_after;
  assign sum_before = starts[1] ? '0 : sums[place];
  always_ff @(posedge clock) begin
    if (advance && valid[1]) sums[place] <= sum_after;
    read_word <= sums[read_address];
  end

  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [DISTANCE_BITS-1:0] distance, distance_2;
    logic signed [ELEMENT_BITS-1:0] error, error_2, scale, slope, rounded;
    logic signed [LEVEL_BITS-1:0] level, level_2;
    logic signed [2*ELEMENT_BITS-1:0] weighed;
    logic signed [DISTANCE_BITS+ELEMENT_BITS-1:0] sloped, expected, product;
    logic signed [2*DISTANCE_BITS-1:0] square;
    logic signed [VALUE_BITS-1:0] value;
    assign expected = sloped >>> slope_shift;
    always_ff @(posedge clock) begin
      if (advance) begin
        distance <= DISTANCE_BITS'($signed(x_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS])) -
            DISTANCE_BITS'($signed(centres[lane*ELEMENT_BITS+:ELEMENT_BITS]));
        error <= error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
        scale <= scales[lane*ELEMENT_BITS+:ELEMENT_BITS];
        slope <= slopes[lane*ELEMENT_BITS+:ELEMENT_BITS];
        level <= levels[lane*LEVEL_BITS+:LEVEL_BITS];

        weighed <= error * scale;
        sloped <= distance * slope;
        square <= distance * distance;
        product <= error * distance;
        {distance_2, error_2, level_2} <= {distance, error, level};

        value <= VALUE_BITS'(weighed) - VALUE_BITS'(expected) - VALUE_BITS'(level_2);
        out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= rounded;
      end
    end
    localparam int AT = lane * 4 * SUM_BITS;
    assign sum_after[AT+:SUM_BITS] = sum_before[AT+:SUM_BITS] + SUM_BITS'(distance_2);
    assign sum_after[AT+SUM_BITS+:SUM_BITS] = sum_before[AT+SUM_BITS+:SUM_BITS] + SUM_BITS'(square);
    assign sum_after[AT+2*SUM_BITS+:SUM_BITS] = sum_before[AT+2*SUM_BITS+:SUM_BITS] + SUM_BITS'(error_2);
    assign sum_after[AT+3*SUM_BITS+:SUM_BITS] = sum_before[AT+3*SUM_BITS+:SUM_BITS] + SUM_BITS'(product);
    round_to_element #(
        .VALUE_BITS(VALUE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value,
        .shift,
        .element(rounded)
    );
  end
endmodule
