// The parameter vector of a shard (core/documents/plan.h, ParameterHome) inside the full tensor of its layer.
//
//   const ShardVector vector(plan, graph, home.user, home.layer, home.tensor);
//   vector.extract(full, home.offset, values);            // values.size() elements from offset on
//   vector.insert(values, home.offset, full);
//
// Owns an index per element.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

class ShardVector {
 public:
  ShardVector(const Plan& plan, const Graph& graph, int64_t user, std::string_view layer, std::string_view tensor);

  void extract(std::span<const double> full, int64_t offset, std::span<double> values) const;
  void insert(std::span<const double> values, int64_t offset, std::span<double> full) const;

 private:
  std::vector<int64_t> places_;  // in the full tensor
};

}  // namespace millrace
