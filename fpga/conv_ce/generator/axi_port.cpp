#include "fpga/conv_ce/generator/axi_port.h"

#include <fmt/format.h>

#include <bit>
#include <initializer_list>
#include <string_view>

#include "fpga/common/generator/text_template.h"

namespace millrace {

namespace {

constexpr std::string_view kReads = R"sv(
    output logic        $PORT$_arvalid,
    input  logic        $PORT$_arready,
    output logic [63:0] $PORT$_araddr,
    output logic [ 7:0] $PORT$_arlen,
    output logic [ 2:0] $PORT$_arsize,
    output logic [ 1:0] $PORT$_arburst,
    input  logic        $PORT$_rvalid,
    output logic        $PORT$_rready,
    input  logic [$BEAT_TOP$:0] $PORT$_rdata,
    input  logic        $PORT$_rlast,
    input  logic [ 1:0] $PORT$_rresp,
)sv";
constexpr std::string_view kWrites = R"sv(    output logic        $PORT$_awvalid,
    input  logic        $PORT$_awready,
    output logic [63:0] $PORT$_awaddr,
    output logic [ 7:0] $PORT$_awlen,
    output logic [ 2:0] $PORT$_awsize,
    output logic [ 1:0] $PORT$_awburst,
    output logic        $PORT$_wvalid,
    input  logic        $PORT$_wready,
    output logic [$BEAT_TOP$:0] $PORT$_wdata,
    output logic [$STROBE_TOP$:0] $PORT$_wstrb,
    output logic        $PORT$_wlast,
    input  logic        $PORT$_bvalid,
    output logic        $PORT$_bready,
    input  logic [ 1:0] $PORT$_bresp,
)sv";

}  // namespace

std::string axi_port(const std::string& port, int64_t beat_bits, AxiUse use) {
  const TemplateValues values = {{"PORT", port},
                                 {"BEAT_TOP", std::to_string(beat_bits - 1)},
                                 {"STROBE_TOP", fmt::format("{}{}", beat_bits < 128 ? " " : "", beat_bits / 8 - 1)}};
  return filled(kReads, values) + (use == AxiUse::kReads ? "" : filled(kWrites, values));
}

std::string axi_constants(const std::string& port, int64_t beat_bits, AxiUse use) {
  const auto size = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(beat_bits / 8))) - 1;
  std::string text;
  for (const char* way : {"ar", "aw"})
    if (use == AxiUse::kReadsAndWrites || way[1] == 'r')
      text += fmt::format("  assign {0}_{1}size = 3'd{2};\n  assign {0}_{1}burst = 2'b01;\n", port, way, size);
  return text;
}

std::string axi_connections(const std::string& port, AxiUse use) {
  std::string text;
  const auto connect = [&](std::initializer_list<const char*> signals) {
    for (const char* signal : signals) text += fmt::format("{0}      .m_axi_{1}({2}_{1})", text.empty() ? "" : ",\n", signal, port);
  };
  connect({"arvalid", "arready", "araddr", "arlen", "rvalid", "rready", "rdata", "rresp", "rlast"});
  if (use == AxiUse::kReadsAndWrites)
    connect({"awvalid", "awready", "awaddr", "awlen", "wvalid", "wready", "wdata", "wstrb", "wlast", "bvalid", "bready", "bresp"});
  return text;
}

}  // namespace millrace
