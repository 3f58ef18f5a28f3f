// What crosses the links of a ring by kind, counted on plans of a few devices, since it depends on the cut alone.
// Internal to partitioner/baseline.
//
//   KindTraffic traffic(graph, units, request);
//   traffic.seconds(entry, cut, /*remote=*/true);            // of a sample, on that link where the ring is cut there
//
// `remote`: the device before the cut keeps the parameters of the steps behind it (core/plan/parts.h). Borrows graph and units.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "core/plan/assemble.h"
#include "partitioner/baseline/kind_units.h"

namespace millrace::by_kind {

class KindTraffic {
 public:
  KindTraffic(const Graph& graph, const std::vector<Unit>& units, const PlanRequest& request);

  // Forward and back, of a sample.
  const std::pair<double, double>& bits(size_t cut, bool remote) const { return (remote ? remote_bits_ : bits_)[cut]; }
  double seconds(const LinkEntry& entry, size_t cut, bool remote) const;
  // What a link between two boards that share the steps `unit` takes, by the cells before it: base and slope, seconds of a sample.
  std::vector<std::pair<double, double>> lines_between(size_t unit, const LinkEntry& entry);

 private:
  std::pair<double, double> bits_behind_steps(size_t cut) const;
  void count_link(const PlanRequest& two, size_t cut, std::pair<double, double>& bits) const;
  std::pair<double, double> bits_between(size_t unit, int64_t before, int64_t cells) const;

  const Graph& graph_;
  const std::vector<Unit>& units_;
  const PlanRequest request_;
  std::vector<std::pair<double, double>> bits_, remote_bits_;             // by cut
  std::map<size_t, std::vector<std::pair<double, double>>> shared_bits_;  // by unit: with one cell before the link, and with one behind
};

}  // namespace millrace::by_kind
