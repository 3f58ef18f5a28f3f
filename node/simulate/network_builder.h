// Internal to node/simulate: adds to a Network, and puts readers in order when all is there. Knows no plan.
//
//   NetworkBuilder builder(network);
//   const int32_t rows = builder.stream(/*per_sample=*/14);
//   const int32_t engine = builder.station({.kind = StationKind::kForward, .timed = true, .units = 14, .cycles = 64}, rows);
//   builder.read(engine, {.stream = rows_above, .table = builder.table(needs), .per_cycle = 28, .slack = 3});
//   builder.finish();
#pragma once

#include <map>

#include "node/simulate/network.h"

namespace millrace::simulation {

class NetworkBuilder {
 public:
  explicit NetworkBuilder(Network& network) : network_(network) {}

  int32_t stream(int32_t per_sample);
  int32_t station(const Station& station, int32_t out);
  // In any order; finish() brings together what belongs to one station.
  void read(int32_t station, const Input& input);
  // Equal tables are kept once.
  int32_t table(const RowTable& table);
  int32_t schedule(const std::vector<int64_t>& needs);
  // A cycle's units take these picoseconds in all.
  static void set_duration(Station& station, int64_t picoseconds_of_cycle);

  void finish();

 private:
  void join_readers();

  Network& network_;
  std::vector<std::pair<int32_t, Input>> reads_;
  std::map<RowTable, int32_t> tables_;
  std::map<std::vector<int64_t>, int32_t> schedules_;
};

// The need of an input before the first unit of the run.
void begin_input(const Network& network, Input& input, int64_t cycles);

}  // namespace millrace::simulation
