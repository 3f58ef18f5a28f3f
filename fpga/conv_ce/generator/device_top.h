// The SystemVerilog that belongs to one device alone: its top level, and the testbench around it. Internal to fpga/conv_ce.
//
//   write(folder / "millrace_device_3.sv", device_top(design));
//   write(folder / "testbench.sv", device_testbench(design, vectors));
//
// Ports of the top level, all streams AXI4-Stream of `lanes` elements a beat:
//   s_activation     of the first shard's layer, from the first channel held here on
//   m_activation     the channels after those held here, or the finished output
//   s_partial        partial sums of the devices before, where the first shard continues a group
//   m_partial        partial sums for the next device, where the last shard does not end its group
//   s_error          of the finished output, or of the raw sum where the next device ends the group
//   s_input_error    of the channels that the next devices hold, where the group goes on there
//   m_raw_error      of the raw sum, for the devices before in the group
//   m_input_error    of s_activation's channels, unless nobody needs them
//   s_passing_N, m_passing_N              maps that pass shards on their way to later ones (device_maps.h)
//   m_passing_error_N, s_passing_error_N  their errors
//   s_axi_control    control_registers.sv, where fpga/conv_ce/registers/register_map.h has them
//   m_axi_gmem       AXI4, to the memory outside (memory_mover.sv)
//   m_axi_shard_N_*  likewise, of weights that are streamed, and of samples that wait there (memories_outside)
// Where a layer is divided by outputs, partial sums and errors of the raw sum are those of all outputs up to the device's, row by
// row; m_activation is the whole input.
// A pure function of its arguments.
#pragma once

#include <string>

#include "fpga/conv_ce/generator/device_ports.h"
#include "fpga/conv_ce/generator/device_vectors.h"
#include "fpga/conv_ce/registers/register_map.h"

namespace millrace {

// Where the testbench's memory outside has what the device moves: bytes, and how many words of 64 bits there are.
struct MemoryPlaces {
  int64_t parameters = 0;
  int64_t result = 0;  // a header, and behind it the gradients
  int64_t words = 0;
};
MemoryPlaces memory_places(const DeviceDesign& design);

std::string device_top(const DeviceDesign& design);
std::string device_testbench(const DeviceDesign& design, const DeviceVectors& vectors);
// A testbench's memory behind such a port: wires and the module, and what connects the device; names begin with `prefix`.
struct PortMemory {
  std::string module, connections;
};
PortMemory port_memory(const DeviceDesign& design, const MemoryOutside& memory, const std::string& prefix = "");
// What the host sends for the testbench's mini-batch.
xrt::PhaseRegisters test_run(const DeviceDesign& design, int64_t samples);

// Of the pooling behind a shard's sum, and of its way back: a convolution over its window, as far as memories go.
EngineParallelism pooling_parallelism(const ShardDesign& shard);
EngineMemories pooling_memories(const ShardDesign& shard);

}  // namespace millrace
