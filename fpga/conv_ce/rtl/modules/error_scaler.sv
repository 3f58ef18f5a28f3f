// The way back through a scale per channel, which a folded batch norm is: error of the raw sum = round(error * scale * 2^-shift),
// saturated. Beats come and leave row by row or in blocks of rows, as row_writer.sv says; a beat per cycle.
// Scales come from an image, or are written while `clear` is high: a word holds LANES elements of one channel group.
module error_scaler #(
    parameter int LANES = 4,
    parameter int GROUP_ADDRESS_BITS = 4,
    parameter int ELEMENT_BITS = 16,
    parameter SCALES_IMAGE = ""  // a file of words in hexadecimal
) (
    input logic clock,
    input logic clear,

    input logic [15:0] height,
    input logic [15:0] width,
    input logic [15:0] groups,
    input logic [15:0] first_block_rows,
    input logic [15:0] block_rows,
    input logic [ 4:0] shift,

    input logic                          parameter_write_enable,
    input logic [GROUP_ADDRESS_BITS-1:0] parameter_write_address,
    input logic [LANES*ELEMENT_BITS-1:0] parameter_write_scales,

    input  logic                          error_tvalid,
    output logic                          error_tready,
    input  logic [LANES*ELEMENT_BITS-1:0] error_tdata,

    output logic                          out_tvalid,
    input  logic                          out_tready,
    output logic [LANES*ELEMENT_BITS-1:0] out_tdata
);
  localparam int VALUE_BITS = 2 * ELEMENT_BITS;

  // --- Which group a beat belongs to.
  logic [15:0] column, row_in_block, group, row;  // `row`: of the sample, where the block begins
  logic [15:0] rows_left, rows_wanted, rows_here;
  logic accepts, last_column, last_row, last_group;
  assign rows_left = height - row;
  assign rows_wanted = (row == 16'd0) ? first_block_rows : block_rows;
  assign rows_here = (rows_wanted < rows_left) ? rows_wanted : rows_left;
  assign last_column = column == width - 16'd1;
  assign last_row = row_in_block == rows_here - 16'd1;
  assign last_group = group == groups - 16'd1;
  assign accepts = error_tvalid && error_tready;
  always_ff @(posedge clock) begin
    if (clear) begin
      {column, row_in_block, group, row} <= '0;
    end else if (accepts) begin
      column <= last_column ? '0 : column + 16'd1;
      if (last_column) begin
        row_in_block <= last_row ? '0 : row_in_block + 16'd1;
        if (last_row) begin
          group <= last_group ? '0 : group + 16'd1;
          if (last_group) row <= (rows_here == rows_left) ? '0 : row + rows_here;
        end
      end
    end
  end

  logic [LANES*ELEMENT_BITS-1:0] scales[0:(1<<GROUP_ADDRESS_BITS)-1];
  logic [LANES*ELEMENT_BITS-1:0] scale_word;
  always_ff @(posedge clock) if (parameter_write_enable) scales[parameter_write_address] <= parameter_write_scales;
  if (SCALES_IMAGE != "") begin : g_scales_image
    initial $readmemh(SCALES_IMAGE, scales);
  end
  assign scale_word = scales[GROUP_ADDRESS_BITS'(group)];

  // --- Two steps that stand still together: the product, then its rounding.
  logic product_valid, advance;
  assign advance = !out_tvalid || out_tready;
  assign error_tready = advance && !clear;
  always_ff @(posedge clock) begin
    if (clear) {product_valid, out_tvalid} <= '0;
    else if (advance) {product_valid, out_tvalid} <= {accepts, product_valid};
  end
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic signed [ELEMENT_BITS-1:0] error, scale, rounded;
    logic signed [VALUE_BITS-1:0] product;
    assign error = error_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS];
    assign scale = scale_word[lane*ELEMENT_BITS+:ELEMENT_BITS];
    round_to_element #(
        .VALUE_BITS(VALUE_BITS),
        .ELEMENT_BITS(ELEMENT_BITS),
        .OUTPUT_BITS(ELEMENT_BITS)
    ) rounding (
        .value(product),
        .shift,
        .element(rounded)
    );
    always_ff @(posedge clock) begin
      if (advance) begin
        product <= error * scale;
        out_tdata[lane*ELEMENT_BITS+:ELEMENT_BITS] <= rounded;
      end
    end
  end
endmodule
