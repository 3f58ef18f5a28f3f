#include "fpga/conv_ce/generator/device_ports.h"

#include "core/base/check.h"

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

}  // namespace millrace
