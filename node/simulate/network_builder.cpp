#include "node/simulate/network_builder.h"

#include <algorithm>
#include <utility>

#include "core/base/index.h"

namespace millrace::simulation {

int32_t NetworkBuilder::stream(int32_t per_sample) {
  UnitQueue queue;
  queue.per_sample = per_sample;
  network_.streams.push_back(queue);
  return static_cast<int32_t>(network_.streams.size()) - 1;
}

int32_t NetworkBuilder::station(const Station& station, int32_t out) {
  const auto index = static_cast<int32_t>(network_.stations.size());
  network_.stations.push_back(station);
  network_.stations.back().out = out;
  if (out >= 0) item(network_.streams, out).producer = index;
  if (station.done >= 0) item(network_.streams, station.done).producer = index;
  return index;
}

void NetworkBuilder::read(int32_t station, const Input& input) { reads_.emplace_back(station, input); }

int32_t NetworkBuilder::table(const RowTable& table) {
  const auto [place, added] = tables_.try_emplace(table, static_cast<int32_t>(network_.tables.size()));
  if (added) network_.tables.push_back(table);
  return place->second;
}

int32_t NetworkBuilder::schedule(const std::vector<int64_t>& needs) {
  const auto [place, added] = schedules_.try_emplace(needs, static_cast<int32_t>(network_.schedules.size()));
  if (added) network_.schedules.push_back(needs);
  return place->second;
}

void NetworkBuilder::set_duration(Station& station, int64_t picoseconds_of_cycle) {
  station.duration = picoseconds_of_cycle / station.units;
  station.longer = static_cast<int32_t>(picoseconds_of_cycle % station.units);
}

void begin_input(const Network& network, Input& input, int64_t cycles) {
  if (cycles == 0) {
    input.need = kNoLimit;
  } else if (input.schedule >= 0) {
    input.need = item(network.schedules, input.schedule)[0] * input.factor;
  } else {
    input.need = item(network.tables, input.table)[0];
  }
}

void NetworkBuilder::finish() {
  std::stable_sort(reads_.begin(), reads_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [index, read] : reads_) {
    Station& station = item(network_.stations, index);
    if (station.inputs == 0) station.first_input = static_cast<int32_t>(network_.inputs.size());
    ++station.inputs;
    network_.inputs.push_back(read);
    begin_input(network_, network_.inputs.back(), station.cycles);
    if (station.turns < 0) continue;
    Turns& turns = item(network_.turns, station.turns);
    const int64_t role = std::exchange(network_.inputs.back().base, 0);
    TurnWay& way = turns.way(role == kOfForward || role == kRowOfForward || role == kSecondRowOfForward || role == kAtOnceOfForward);
    const auto input = static_cast<int32_t>(network_.inputs.size()) - 1;
    if (role == kRowOfForward || role == kRowOfError || role == kSecondRowOfForward || role == kSecondRowOfError) {
      way.rows[role == kSecondRowOfForward || role == kSecondRowOfError ? 1 : 0].push_back(input);
      continue;
    }
    way.inputs.push_back(input);
    if (role == kOfForward || role == kOfError) way.chunk_inputs.push_back(input);
  }
  join_readers();
}

void NetworkBuilder::join_readers() {
  std::vector<std::vector<Reader>> readers(network_.streams.size());
  for (size_t s = 0; s < network_.stations.size(); ++s) {
    const Station& station = network_.stations[s];
    for (int32_t i = 0; i < station.inputs; ++i) {
      const int32_t input = station.first_input + i;
      item(readers, item(network_.inputs, input).stream).push_back({static_cast<int32_t>(s), input});
    }
  }
  for (size_t i = 0; i < readers.size(); ++i) {
    network_.streams[i].first_reader = static_cast<int32_t>(network_.readers.size());
    network_.streams[i].readers = static_cast<int32_t>(readers[i].size());
    network_.readers.insert(network_.readers.end(), readers[i].begin(), readers[i].end());
  }
}

}  // namespace millrace::simulation
