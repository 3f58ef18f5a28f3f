// The streams of a device's top level by the names of their ports, and what crosses by them; and its ports to the memory outside. Internal
// to fpga/conv_ce.
//
//   for (const std::string& port : input_streams(design)) const PortOfMap what = port_of_map(design, port);
//
// What each port is for, device_top.h says. Pure functions of the design, which what they return points into.
#pragma once

#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// The map that crosses by a port, there or back, and its channels.
struct PortOfMap {
  const MapDesign* map = nullptr;
  ChannelRange channels;
};
PortOfMap port_of_map(const DeviceDesign& design, const std::string& port);

// Names of the ports the design has.
std::vector<std::string> input_streams(const DeviceDesign& design);
std::vector<std::string> output_streams(const DeviceDesign& design);

// What of the memory outside is behind a port of its own, m_axi_NAME: streamed weights and gradients, and samples that wait there.
struct MemoryOutside {
  std::string name;
  int64_t place = 0;  // in bytes from the parameters' address
  int64_t beats = 0, beat_bits = 0;
  bool writes = false;
  std::string file = {};  // of what a testbench finds there
  size_t seed = 0;        // of a testbench's pauses
  bool pauses = true;
};
std::vector<MemoryOutside> memories_outside(const DeviceDesign& design);

}  // namespace millrace
