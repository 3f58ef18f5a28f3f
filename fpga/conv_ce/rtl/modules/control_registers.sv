// The host's side of a device: AXI4-Lite registers with the ap_ctrl_hs protocol, and a window into the shards' memories.
//
//   0x00  control       bit 0 start (write 1), bit 1 done (cleared by reading), bit 2 idle, bit 3 ready
//   0x10  samples       of a mini-batch: as many pass before done
//   0x18  memory        shard * 4 + kind: 0 parameters, 1 gradients, 2 bias gradients, 3 scales and offsets
//   0x20  address       of a word in it
//   0x28  element       of that word: gradients 32 bits each, others 16; scales before offsets
//   0x30  data          reading gives the element; writing changes it (parameters, scales and offsets)
//   0x38  parameters    64 bits: where they lie in the memory outside, a multiple of 4096 (memory_mover.sv)
//   0x44  gradients     64 bits: where they go there
//   0x50  transfers     bit 0: bring the parameters in before the mini-batch; bit 1: bring the gradients out behind it
//   0x58  faults        bit 0: the memory answered a read with an error, bit 1: a write; until the next start
// An address register written is one cycle later in force; data is read from it two cycles after that at the earliest,
// which any AXI4-Lite interconnect takes longer than.
module control_registers (
    input logic clock,
    input logic reset_n,

    input  logic        s_axi_awvalid,
    output logic        s_axi_awready,
    input  logic [ 6:0] s_axi_awaddr,
    input  logic        s_axi_wvalid,
    output logic        s_axi_wready,
    input  logic [31:0] s_axi_wdata,
    input  logic [ 3:0] s_axi_wstrb,
    output logic        s_axi_bvalid,
    input  logic        s_axi_bready,
    output logic [ 1:0] s_axi_bresp,
    input  logic        s_axi_arvalid,
    output logic        s_axi_arready,
    input  logic [ 6:0] s_axi_araddr,
    output logic        s_axi_rvalid,
    input  logic        s_axi_rready,
    output logic [31:0] s_axi_rdata,
    output logic [ 1:0] s_axi_rresp,

    output logic        active,    // from start to done
    input  logic        finished,  // all samples have passed, everything is where it belongs
    output logic [15:0] samples,
    output logic [63:0] parameters_address,
    output logic [63:0] gradients_address,
    output logic [ 1:0] transfers,
    input  logic [ 1:0] faults,

    output logic [15:0] memory,
    output logic [23:0] address,
    output logic [15:0] element,
    output logic        data_write,
    output logic [31:0] data_written,
    input  logic [31:0] data_read
);
  logic write_now, read_now, done;
  assign write_now = s_axi_awvalid && s_axi_wvalid && !s_axi_bvalid;
  assign s_axi_awready = write_now;
  assign s_axi_wready = write_now;
  assign s_axi_bresp = 2'b00;
  assign read_now = s_axi_arvalid && !s_axi_rvalid;
  assign s_axi_arready = read_now;
  assign s_axi_rresp = 2'b00;

  always_ff @(posedge clock) begin
    data_write <= 1'b0;
    if (!reset_n) begin
      s_axi_bvalid <= 1'b0;
      s_axi_rvalid <= 1'b0;
      s_axi_rdata <= '0;
      active <= 1'b0;
      done <= 1'b0;
      samples <= 16'd1;
      parameters_address <= '0;
      gradients_address <= '0;
      transfers <= '0;
      memory <= '0;
      address <= '0;
      element <= '0;
      data_written <= '0;
    end else begin
      if (s_axi_bvalid && s_axi_bready) s_axi_bvalid <= 1'b0;
      if (s_axi_rvalid && s_axi_rready) s_axi_rvalid <= 1'b0;
      if (active && finished) begin
        active <= 1'b0;
        done <= 1'b1;
      end
      if (write_now) begin
        s_axi_bvalid <= 1'b1;
        case (s_axi_awaddr)
          7'h00: if (s_axi_wdata[0] && s_axi_wstrb[0]) active <= 1'b1;
          7'h10: samples <= s_axi_wdata[15:0];
          7'h18: memory <= s_axi_wdata[15:0];
          7'h20: address <= s_axi_wdata[23:0];
          7'h28: element <= s_axi_wdata[15:0];
          7'h30: begin
            data_write   <= 1'b1;
            data_written <= s_axi_wdata;
          end
          7'h38: parameters_address[31:0] <= s_axi_wdata;
          7'h3c: parameters_address[63:32] <= s_axi_wdata;
          7'h44: gradients_address[31:0] <= s_axi_wdata;
          7'h48: gradients_address[63:32] <= s_axi_wdata;
          7'h50: transfers <= s_axi_wdata[1:0];
          default: ;
        endcase
      end
      if (read_now) begin
        s_axi_rvalid <= 1'b1;
        case (s_axi_araddr)
          7'h00: begin
            s_axi_rdata <= {28'd0, done, !active, done, active};
            done <= active && finished;
          end
          7'h10: s_axi_rdata <= {16'd0, samples};
          7'h18: s_axi_rdata <= {16'd0, memory};
          7'h20: s_axi_rdata <= {8'd0, address};
          7'h28: s_axi_rdata <= {16'd0, element};
          7'h30: s_axi_rdata <= data_read;
          7'h38: s_axi_rdata <= parameters_address[31:0];
          7'h3c: s_axi_rdata <= parameters_address[63:32];
          7'h44: s_axi_rdata <= gradients_address[31:0];
          7'h48: s_axi_rdata <= gradients_address[63:32];
          7'h50: s_axi_rdata <= {30'd0, transfers};
          7'h58: s_axi_rdata <= {30'd0, faults};
          default: s_axi_rdata <= '0;
        endcase
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, s_axi_wstrb[3:1]};
endmodule
