// The host's side of a device: AXI4-Lite registers with the ap_ctrl_hs protocol, and a window into the shards' memories.
//
//   0x00  control       bit 0 start (write 1), bit 1 done (cleared by reading), bit 2 idle, bit 3 ready
//   0x10  samples       of a mini-batch: as many pass before done
//   0x18  memory        shard * 4 + kind: 0 parameters, 1 gradients, 2 bias gradients, 3 scales and offsets
//   0x20  address       of a word in it
//   0x28  element       of that word: gradients 32 bits each, others 16; scales before offsets
//   0x30  data          reading gives the element; writing changes it (parameters, scales and offsets)
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

    output logic        running,   // from start to done
    input  logic        finished,  // all samples have passed
    output logic [15:0] samples,

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
      running <= 1'b0;
      done <= 1'b0;
      samples <= 16'd1;
      memory <= '0;
      address <= '0;
      element <= '0;
      data_written <= '0;
    end else begin
      if (s_axi_bvalid && s_axi_bready) s_axi_bvalid <= 1'b0;
      if (s_axi_rvalid && s_axi_rready) s_axi_rvalid <= 1'b0;
      if (running && finished) begin
        running <= 1'b0;
        done <= 1'b1;
      end
      if (write_now) begin
        s_axi_bvalid <= 1'b1;
        case (s_axi_awaddr)
          7'h00: if (s_axi_wdata[0] && s_axi_wstrb[0]) running <= 1'b1;
          7'h10: samples <= s_axi_wdata[15:0];
          7'h18: memory <= s_axi_wdata[15:0];
          7'h20: address <= s_axi_wdata[23:0];
          7'h28: element <= s_axi_wdata[15:0];
          7'h30: begin
            data_write   <= 1'b1;
            data_written <= s_axi_wdata;
          end
          default: ;
        endcase
      end
      if (read_now) begin
        s_axi_rvalid <= 1'b1;
        case (s_axi_araddr)
          7'h00: begin
            s_axi_rdata <= {28'd0, done, !running, done, running};
            done <= running && finished;
          end
          7'h10: s_axi_rdata <= {16'd0, samples};
          7'h18: s_axi_rdata <= {16'd0, memory};
          7'h20: s_axi_rdata <= {8'd0, address};
          7'h28: s_axi_rdata <= {16'd0, element};
          7'h30: s_axi_rdata <= data_read;
          default: s_axi_rdata <= '0;
        endcase
      end
    end
  end

  logic unused;
  assign unused = &{1'b0, s_axi_wstrb[3:1]};
endmodule
