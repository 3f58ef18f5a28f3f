// What waits for errors in the board's own memory instead of on the chip: outside_fifo.sv in place of deep_fifo.sv.
//
//   for (const OutsideFifo& fifo : outside_fifos(design)) bytes += fifo.bytes_per_sample();
//   give_outside_room(design, {RoomPlace::Kind::kActRam, 0}, /*samples=*/9);
//
// Between FP and the errors of a sample lie as many samples as dense layers, averages and the host make them wait; a chip has room for few.
// Rows leave in the order in which they came, so that bursts there and back suit them: a word is written once and read once. A sample lies
// packed in a place of its own, which begins on a page, behind all that is streamed. Ports are the narrowest that a sample passes in half
// of the engines' period. Act-RAMs, winners, and what norms and activations keep may lie there; maps that wait for a join may not, because
// what they wait for can wait for them, row by row. Pure functions of the design. Internal to fpga/conv_ce.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_check.h"
#include "fpga/conv_ce/generator/ring_rooms.h"

namespace millrace {

struct DeviceDesign;
struct OutsideRoom;

struct OutsideFifo {
  RoomPlace of;
  std::string name;    // in the top level: "shard_3_act_ram"
  std::string layer;   // whose it is
  std::string memory;  // "Act-RAM"
  int64_t word_bits = 0;
  int64_t rows = 0, row_words = 0;  // of a sample
  const OutsideRoom* room = nullptr;
  int64_t place = 0;  // in bytes from the parameters' address

  int64_t sample_beats() const;
  int64_t sample_bytes() const;  // of its place
  double bytes_per_sample() const;
  // Cycles of the port for so many words, either way; a writer rests behind every burst.
  int64_t cycles_of(int64_t words) const;
};

// Those that have room outside, and those that might have.
std::vector<OutsideFifo> outside_fifos(const DeviceDesign& design);
std::vector<OutsideFifo> movable_fifos(const DeviceDesign& design);

WaitsOutside waits_outside(const DeviceDesign& design);
// From the parameters' address, what the device reaches: for the host's buffer.
int64_t bytes_reached(const DeviceDesign& design);

// Whether a port is wide enough.
bool give_outside_room(DeviceDesign& design, const RoomPlace& place, int64_t samples);

}  // namespace millrace
