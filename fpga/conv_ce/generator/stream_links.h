// The streams of a ring's devices, joined from device to device. Internal to fpga/conv_ce.
//
//   const size_t input = link_devices(devices, ports, timing);      // the network's
//
// Between two boards streams have the names of ports. A device without a design takes micro-batches: once all rows of one are in, they
// leave together after F, E and G of a micro-batch, since the other way may have come first; it has room for two of them each way. What it
// makes and takes is whatever its neighbours want and give. Streams at the ends stay open.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/ring_designs.h"
#include "fpga/conv_ce/generator/row_timing.h"

namespace millrace {

using StreamsOfPorts = std::map<std::string, size_t>;

// `ports`: by device; of those without a design, none.
size_t link_devices(const std::vector<PlacedDesign>& devices, const std::vector<StreamsOfPorts>& ports, RowTiming& timing);

}  // namespace millrace
