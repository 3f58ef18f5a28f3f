// The maps of a device in its top level (device_maps.h): who hands which stream to whom, forward and back. Internal to fpga/conv_ce.
//
//   text += map_wires(design);                       // before anything that reads or makes a map
//   text += join_text(design, 0);
//   text += map_text(design);                        // forks, what waits, and sums of errors
//
// A map's streams are map_N_valid, _ready, _data and map_N_error_..; those of its reader R map_N_to_R_.. and map_N_from_R_...
// Heights are expressions over INPUT_ROWS, so that maps can be cropped in simulation. Pure functions of the design.
#pragma once

#include <string>

#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// "map_3", "map_3_to_0" and "map_3_from_0": without _valid, _ready and _data.
std::string map_name(size_t map);
std::string reader_name(size_t map, size_t reader);
std::string reader_error_name(size_t map, size_t reader);
// The name of the stream that a station reads, and of the errors that it gives.
struct StationStreams {
  std::string in, in_error;    // of its operand
  std::string out, out_error;  // "" where it makes no map
};
StationStreams streams_of(const DeviceDesign& design, const Station& station, size_t operand = 0);

// Height of a map, in rows: a name of the top level.
std::string height_of(const DeviceDesign& design, const MapDesign& map);

// "  assign a_valid = b_valid; ..": beats of `from` go on as `to`.
std::string connected(const std::string& to, const std::string& from);

std::string map_wires(const DeviceDesign& design);
std::string join_text(const DeviceDesign& design, size_t join);
std::string map_text(const DeviceDesign& design);

}  // namespace millrace
