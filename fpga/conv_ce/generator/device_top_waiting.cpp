#include "fpga/conv_ce/generator/device_top_waiting.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "fpga/conv_ce/generator/axi_port.h"
#include "fpga/conv_ce/generator/outside_fifos.h"

namespace millrace {

namespace {

constexpr std::string_view kOnChip = R"sv(  deep_fifo #(
      .WIDTH($WIDTH_OF_WORD$),
$ULTRA$      .DEPTH($DEPTH$)
  ) $p$$NAME$ (
      .clock(ap_clk),
      .clear,
$STREAMS$  );
)sv";

constexpr std::string_view kOutside = R"sv(  logic $p$$NAME$_busy;
  logic [1:0] $p$$NAME$_fault;
  localparam int $P$$NAME_LARGE$_WORDS = $ROWS_OF_SAMPLE$ * $ROW_WORDS$;
  localparam int $P$$NAME_LARGE$_BEATS = ($P$$NAME_LARGE$_WORDS * $WORD_BITS$ + $PORT_BITS$ - 1) / $PORT_BITS$;
  outside_fifo #(
      .WIDTH($WIDTH_OF_WORD$),
      .SAMPLES($ROOM$),
      .PLACE_BYTES($PLACE_BYTES$),
      .BEAT_BITS($PORT_BITS$)
  ) $p$$NAME$ (
      .clock(ap_clk),
      .clear,
      .address(parameters_address + 64'd$PLACE$),
      .words(32'($P$$NAME_LARGE$_WORDS)),
      .beats(32'($P$$NAME_LARGE$_BEATS)),
      .room(32'($P$$NAME_LARGE$_BEATS * $ROOM$)),
      .samples(32'(samples)),
      .busy($p$$NAME$_busy),
      .fault($p$$NAME$_fault),
$CONNECTIONS$,
$STREAMS$  );
$CONSTANTS$)sv";

constexpr std::string_view kStreams = R"sv(      .in_tvalid($IN$_valid),
      .in_tready($IN$_ready),
      .in_tdata($IN_DATA$),
      .out_tvalid($OUT$_valid),
      .out_tready($OUT$_ready),
      .out_tdata($OUT_DATA$)
)sv";

std::string port_of(const OutsideFifo& fifo) { return "m_axi_" + fifo.name; }

}  // namespace

std::string waiting_memory(const DeviceDesign& design, size_t unit, const WaitingText& text, const TemplateValues& values) {
  TemplateValues own = values;
  for (const auto& [name, part] : {std::pair("NAME", text.name), std::pair("WIDTH_OF_WORD", text.width), std::pair("ULTRA", text.ultra),
                                   std::pair("DEPTH", text.depth), std::pair("ROWS_OF_SAMPLE", text.rows), std::pair("IN", text.in),
                                   std::pair("IN_DATA", text.in_data), std::pair("OUT", text.out), std::pair("OUT_DATA", text.out_data)})
    own[name] = filled(part, values);
  own["STREAMS"] = filled(kStreams, own);
  const std::vector<OutsideFifo> outside = outside_fifos(design);
  const auto fifo = std::ranges::find(outside, fmt::format("shard_{}_{}", unit, text.name), &OutsideFifo::name);
  if (fifo == outside.end()) return filled(kOnChip, own);
  own["NAME_LARGE"] = own["NAME"];
  std::ranges::transform(own["NAME_LARGE"], own["NAME_LARGE"].begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  own["ROW_WORDS"] = std::to_string(fifo->row_words);
  own["ROOM"] = std::to_string(fifo->room->samples);
  own["PLACE"] = std::to_string(fifo->place);
  own["PLACE_BYTES"] = std::to_string(fifo->sample_bytes());
  own["WORD_BITS"] = std::to_string(fifo->word_bits);
  own["PORT_BITS"] = std::to_string(fifo->room->beat_bits);
  own["CONNECTIONS"] = axi_connections(port_of(*fifo), AxiUse::kReadsAndWrites);
  own["CONSTANTS"] = axi_constants(port_of(*fifo), fifo->room->beat_bits, AxiUse::kReadsAndWrites);
  return filled(kOutside, own);
}

std::string outside_ports(const DeviceDesign& design) {
  std::string text;
  for (const OutsideFifo& fifo : outside_fifos(design)) text += axi_port(port_of(fifo), fifo.room->beat_bits, AxiUse::kReadsAndWrites);
  return text;
}

std::string outside_busy(const DeviceDesign& design) {
  std::string text;
  for (const OutsideFifo& fifo : outside_fifos(design)) text += fmt::format("{}{}_busy", text.empty() ? "" : " || ", fifo.name);
  return text;
}

std::string outside_faults(const DeviceDesign& design) {
  std::string text;
  for (const OutsideFifo& fifo : outside_fifos(design)) text += fmt::format("{}{}_fault", text.empty() ? "" : " | ", fifo.name);
  return text;
}

}  // namespace millrace
