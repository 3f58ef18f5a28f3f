// The order of a mini-batch: parameters come in from the memory outside, the engines run, gradients go out, and a header says
// how it went; and the AXI4 master that moves them, through the same window into the device's memories that the host has.
//
// From `active` on: with `loads`, parameters, scales and offsets are read, 16 bits each, four per beat, in LOAD_TABLE's order
// (region_walker.sv), contiguous from parameters_address; then `running` is high until `computed`; with `stores`, gradients
// and bias gradients are written, 32 bits each, two per beat, in STORE_TABLE's order, behind the header's place at
// result_address. The header is written last: IDENTITY, `run`, the status and zeros, HEADER_BEATS beats. Then `finished` until
// `active` falls. A run with a `refusal` writes its header alone. At result_address 0 nothing is written.
// Both addresses are multiples of 4096 bytes. Bursts are of up to 16 beats of 64 bits; one at a time.
// `faults`: a read (0) or a write (1) was answered with an error; they stay until the next start.
// With no LOADS nothing is read, and with no STORES the header alone is written; the table is then one region of zeros.
// A parameter takes a cycle, a gradient three.
module memory_mover #(
    parameter int LOADS = 1,
    parameter logic [(LOADS > 0 ? LOADS : 1)*56-1:0] LOAD_TABLE = '0,
    parameter int LOAD_ELEMENTS = 1,  // of all regions together
    parameter int STORES = 1,
    parameter logic [(STORES > 0 ? STORES : 1)*56-1:0] STORE_TABLE = '0,
    parameter int STORE_ELEMENTS = 1,
    // Of the register map.
    parameter int HEADER_BEATS = 16,
    parameter logic [31:0] IDENTITY = '0,
    parameter logic [31:0] STATUS_DONE = '0,
    parameter logic [31:0] STATUS_BAD_ADDRESS = '0
) (
    input logic clock,
    input logic reset_n,

    input  logic        active,
    input  logic        loads,
    input  logic        stores,
    input  logic [31:0] refusal,
    input  logic [31:0] run,
    input  logic [63:0] parameters_address,
    input  logic [63:0] result_address,
    output logic        running,
    input  logic        computed,
    output logic        finished,
    output logic [ 1:0] faults,

    // The window into the device's memories, while `moving`.
    output logic        moving,
    output logic [15:0] memory,
    output logic [23:0] address,
    output logic [15:0] element,
    output logic        data_write,
    output logic [15:0] data_written,
    input  logic [31:0] data_read,     // two cycles after its place

    output logic        m_axi_arvalid,
    input  logic        m_axi_arready,
    output logic [63:0] m_axi_araddr,
    output logic [ 7:0] m_axi_arlen,
    input  logic        m_axi_rvalid,
    output logic        m_axi_rready,
    input  logic [63:0] m_axi_rdata,
    input  logic [ 1:0] m_axi_rresp,
    output logic        m_axi_awvalid,
    input  logic        m_axi_awready,
    output logic [63:0] m_axi_awaddr,
    output logic [ 7:0] m_axi_awlen,
    output logic        m_axi_wvalid,
    input  logic        m_axi_wready,
    output logic [63:0] m_axi_wdata,
    output logic [ 7:0] m_axi_wstrb,
    output logic        m_axi_wlast,
    input  logic        m_axi_bvalid,
    output logic        m_axi_bready,
    input  logic [ 1:0] m_axi_bresp
);
  localparam int BURST = 16;
  localparam logic [31:0] LOAD_BEATS = 32'((LOAD_ELEMENTS + 3) / 4);
  localparam logic [31:0] STORE_BEATS = 32'((STORE_ELEMENTS + 1) / 2);

  localparam logic [63:0] HEADER_BYTES = 64'(HEADER_BEATS * 8);

  localparam logic [2:0] IDLE = 3'd0, LOADING = 3'd1, RUNNING = 3'd2, STORING = 3'd3, REPORTING = 3'd4, DONE = 3'd5;
  logic [2:0] state, last;
  logic idle;
  logic loaded, stored, reports, reported;
  assign reports = result_address != 64'd0;
  assign last = reports ? REPORTING : DONE;
  assign idle = state == IDLE;
  assign running = state == RUNNING;
  assign finished = state == DONE;
  assign moving = state == LOADING || state == STORING;
  always_ff @(posedge clock) begin
    if (!reset_n) state <= IDLE;
    else begin
      case (state)
        IDLE: if (active) state <= (refusal != 32'd0) ? last : (loads && LOADS > 0) ? LOADING : RUNNING;
        LOADING: if (loaded) state <= RUNNING;
        RUNNING: if (computed) state <= (stores && STORES > 0 && reports) ? STORING : last;
        STORING: if (stored) state <= REPORTING;
        REPORTING: if (reported) state <= DONE;
        default: if (!active) state <= IDLE;
      endcase
    end
  end

  // --- In: a burst is asked for when the one before is in; of every beat four elements leave, the lowest first.
  logic [31:0] read_beats_left, read_offset;
  assign read_offset = (LOAD_BEATS - read_beats_left) << 3;
  logic [7:0] burst_beats_left;
  logic [63:0] held;
  logic [2:0] held_elements;
  logic load_last, load_done;
  logic [15:0] load_memory, load_element;
  logic [23:0] load_address;
  region_walker #(
      .REGIONS(LOADS > 0 ? LOADS : 1),
      .TABLE(LOAD_TABLE)
  ) load_walker (
      .clock,
      .restart(idle),
      .advance(data_write),
      .memory(load_memory),
      .address(load_address),
      .element(load_element),
      .last(load_last)
  );
  assign data_write = state == LOADING && held_elements != 3'd0 && !load_done;
  assign data_written = held[15:0];
  assign loaded = load_done && burst_beats_left == 8'd0;
  assign m_axi_rready = burst_beats_left != 8'd0 && held_elements <= 3'd1;
  always_ff @(posedge clock) begin
    if (!reset_n || idle) begin
      m_axi_arvalid <= 1'b0;
      m_axi_araddr <= parameters_address;
      m_axi_arlen <= '0;
      read_beats_left <= LOAD_BEATS;
      burst_beats_left <= '0;
      held_elements <= '0;
      load_done <= 1'b0;
    end else if (state == LOADING) begin
      if (m_axi_arvalid && m_axi_arready) begin
        m_axi_arvalid <= 1'b0;
        burst_beats_left <= m_axi_arlen + 8'd1;
      end else if (!m_axi_arvalid && burst_beats_left == 8'd0 && read_beats_left != 32'd0) begin
        m_axi_arvalid <= 1'b1;
        m_axi_arlen <= (read_beats_left >= 32'(BURST)) ? 8'(BURST - 1) : 8'(read_beats_left - 32'd1);
        m_axi_araddr <= parameters_address + 64'(read_offset);
      end
      if (data_write) begin
        held <= {16'd0, held[63:16]};
        held_elements <= held_elements - 3'd1;
        if (load_last) load_done <= 1'b1;
      end
      if (m_axi_rvalid && m_axi_rready) begin
        held <= m_axi_rdata;
        held_elements <= 3'd4;
        burst_beats_left <= burst_beats_left - 8'd1;
        read_beats_left <= read_beats_left - 32'd1;
      end
    end
  end

  // --- Out: of every element the place is held for two cycles, then it is there; two make a beat.
  logic [31:0] write_beats_left, write_offset;
  assign write_offset = (STORE_BEATS - write_beats_left) << 3;
  logic [7:0] beats_until_last;
  logic [1:0] wait_cycles;
  logic [31:0] first_of_two;
  logic second, in_burst, awaits_answer, all_fetched, fetches, takes;
  logic header_asked;
  logic [7:0] header_beat;
  logic [31:0] status;
  assign status = (refusal != 32'd0) ? refusal : (faults != 2'b00) ? STATUS_BAD_ADDRESS : STATUS_DONE;
  logic store_last;
  logic [15:0] store_memory, store_element;
  logic [23:0] store_address;
  region_walker #(
      .REGIONS(STORES > 0 ? STORES : 1),
      .TABLE(STORE_TABLE)
  ) store_walker (
      .clock,
      .restart(idle),
      .advance(takes),
      .memory(store_memory),
      .address(store_address),
      .element(store_element),
      .last(store_last)
  );
  assign fetches = state == STORING && in_burst && !m_axi_wvalid && !all_fetched;
  assign takes = fetches && wait_cycles == 2'd2;
  assign stored = all_fetched && write_beats_left == 32'd0 && !awaits_answer;
  assign m_axi_bready = awaits_answer;
  always_ff @(posedge clock) begin
    if (!reset_n || idle) begin
      m_axi_awvalid <= 1'b0;
      m_axi_awaddr <= result_address;
      m_axi_awlen <= '0;
      m_axi_wvalid <= 1'b0;
      m_axi_wlast <= 1'b0;
      m_axi_wstrb <= '0;
      write_beats_left <= STORE_BEATS;
      beats_until_last <= '0;
      wait_cycles <= '0;
      second <= 1'b0;
      in_burst <= 1'b0;
      awaits_answer <= 1'b0;
      all_fetched <= 1'b0;
      header_asked <= 1'b0;
      header_beat <= '0;
      reported <= 1'b0;
    end else if (state == STORING) begin
      if (m_axi_awvalid && m_axi_awready) begin
        m_axi_awvalid <= 1'b0;
        in_burst <= 1'b1;
        beats_until_last <= m_axi_awlen;
      end else if (!m_axi_awvalid && !in_burst && !awaits_answer && write_beats_left != 32'd0) begin
        m_axi_awvalid <= 1'b1;
        m_axi_awlen <= (write_beats_left >= 32'(BURST)) ? 8'(BURST - 1) : 8'(write_beats_left - 32'd1);
        m_axi_awaddr <= result_address + HEADER_BYTES + 64'(write_offset);
      end
      if (fetches) wait_cycles <= takes ? 2'd0 : wait_cycles + 2'd1;
      if (takes) begin
        all_fetched <= store_last;
        first_of_two <= data_read;
        second <= !second;
        if (second || store_last) begin
          m_axi_wvalid <= 1'b1;
          m_axi_wdata <= second ? {data_read, first_of_two} : {32'd0, data_read};
          m_axi_wstrb <= second ? 8'hff : 8'h0f;
          m_axi_wlast <= beats_until_last == 8'd0;
        end
      end
      if (m_axi_wvalid && m_axi_wready) begin
        m_axi_wvalid <= 1'b0;
        beats_until_last <= beats_until_last - 8'd1;
        write_beats_left <= write_beats_left - 32'd1;
        if (m_axi_wlast) begin
          in_burst <= 1'b0;
          awaits_answer <= 1'b1;
        end
      end
      if (m_axi_bvalid && m_axi_bready) awaits_answer <= 1'b0;
    end else if (state == REPORTING) begin
      if (m_axi_awvalid && m_axi_awready) begin
        m_axi_awvalid <= 1'b0;
        in_burst <= 1'b1;
      end else if (!header_asked) begin
        header_asked <= 1'b1;
        m_axi_awvalid <= 1'b1;
        m_axi_awaddr <= result_address;
        m_axi_awlen <= 8'(HEADER_BEATS - 1);
      end
      if (in_burst && !m_axi_wvalid) begin
        m_axi_wvalid <= 1'b1;
        m_axi_wdata <= (header_beat == 8'd0) ? {run, IDENTITY} : (header_beat == 8'd1) ? {32'd0, status} : 64'd0;
        m_axi_wstrb <= 8'hff;
        m_axi_wlast <= header_beat == 8'(HEADER_BEATS - 1);
      end
      if (m_axi_wvalid && m_axi_wready) begin
        m_axi_wvalid <= 1'b0;
        header_beat <= header_beat + 8'd1;
        if (m_axi_wlast) begin
          in_burst <= 1'b0;
          awaits_answer <= 1'b1;
        end
      end
      if (m_axi_bvalid && m_axi_bready) begin
        awaits_answer <= 1'b0;
        reported <= 1'b1;
      end
    end
  end

  assign {memory, address, element} =
      (state == STORING) ? {store_memory, store_address, store_element} : {load_memory, load_address, load_element};

  always_ff @(posedge clock) begin
    if (!reset_n || (idle && active)) faults <= '0;
    else begin
      if (m_axi_rvalid && m_axi_rready && m_axi_rresp != 2'b00) faults[0] <= 1'b1;
      if (m_axi_bvalid && m_axi_bready && m_axi_bresp != 2'b00) faults[1] <= 1'b1;
    end
  end
endmodule
