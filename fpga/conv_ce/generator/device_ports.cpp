#include "fpga/conv_ce/generator/device_ports.h"

#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/conv_ce/generator/outside_fifos.h"

namespace millrace {

PortOfMap port_of_map(const DeviceDesign& design, const std::string& port) {
  for (const MapDesign& map : design.maps) {
    if (map.arrives && (map.stream == port || map.error_stream == port)) return {&map, map.channels};
    for (const MapReader& reader : map.readers)
      if (reader.next && (reader.stream == port || reader.error_stream == port)) return {&map, reader.channels};
  }
  MILLRACE_CHECK(false, "device {} has no map with the port {}", design.index, port);
}

std::vector<std::string> input_streams(const DeviceDesign& design) {
  std::vector<std::string> streams;
  for (const MapDesign& map : design.maps)
    if (map.arrives) streams.push_back(map.stream);
  if (!design.shards.front().first) streams.insert(streams.begin() + 1, "s_partial");
  if (!design.shards.back().owner) streams.emplace_back("s_error");
  for (const MapDesign& map : design.maps)
    for (const MapReader& reader : map.readers)
      if (reader.next && map.error_back) streams.push_back(reader.error_stream);
  return streams;
}

std::vector<std::string> output_streams(const DeviceDesign& design) {
  std::vector<std::string> streams;
  for (const MapDesign& map : design.maps)
    for (const MapReader& reader : map.readers)
      if (reader.next) streams.push_back(reader.stream);
  if (!design.shards.back().owner) streams.emplace_back("m_partial");
  if (!design.shards.front().first) streams.emplace_back("m_raw_error");
  for (const MapDesign& map : design.maps)
    if (map.arrives && map.error_back) streams.push_back(map.error_stream);
  return streams;
}

std::vector<MemoryOutside> memories_outside(const DeviceDesign& design) {
  std::vector<MemoryOutside> memories;
  for (size_t i = 0; i < design.shards.size(); ++i) {
    const ShardDesign& shard = design.shards[i];
    if (!shard.streams) continue;
    const StreamPlaces places = stream_places(design, i);
    const int64_t bits = shard.streams->beat_bits;
    const auto add = [&](const std::string& what, int64_t place, int64_t element_bits, bool writes) {
      const std::string name = fmt::format("shard_{}_{}", i, what);
      memories.push_back({.name = name,
                          .place = place,
                          .beats = streamed_beats(shard.engine, shard.shape, element_bits, bits),
                          .beat_bits = bits,
                          .writes = writes,
                          .file = writes ? "" : fmt::format("vectors/{}.hex", name),
                          .seed = 7 * i + static_cast<size_t>(what[0])});
    };
    add("forward", places.kernels, kElementBits, false);
    if (shard.error_back) add("back", places.error_back_kernels, kElementBits, false);
    add("gradient", places.gradients, kAccumulatorBits, true);
  }
  for (const OutsideFifo& fifo : outside_fifos(design))
    memories.push_back({.name = fifo.name,
                        .place = fifo.place,
                        .beats = fifo.room->samples * fifo.sample_bytes() * 8 / fifo.room->beat_bits,
                        .beat_bits = fifo.room->beat_bits,
                        .writes = true,
                        .file = "",
                        .seed = 311 + memories.size()});
  return memories;
}

}  // namespace millrace
