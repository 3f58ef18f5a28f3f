// An AXI4 master's port of a generated device: declared, its constant signals driven, and connected to the module that speaks it. Text.
//
//   ports += axi_port("m_axi_shard_0_act_ram", 512, AxiUse::kReadsAndWrites);
//   text += axi_constants(name, 512, use) + "... (\n" + axi_connections(name, use) + "\n  );\n";
//
// Beats of eight bytes or more, in bursts with addresses counting up. Internal to fpga/conv_ce.
#pragma once

#include <cstdint>
#include <string>

namespace millrace {

enum class AxiUse { kReads, kReadsAndWrites };

// Behind an empty line, every signal with a comma.
std::string axi_port(const std::string& port, int64_t beat_bits, AxiUse use);
std::string axi_constants(const std::string& port, int64_t beat_bits, AxiUse use);
// To ports m_axi_SIGNAL; without a comma behind the last, and without its end of line.
std::string axi_connections(const std::string& port, AxiUse use);

}  // namespace millrace
