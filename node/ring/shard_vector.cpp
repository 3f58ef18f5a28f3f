#include "node/ring/shard_vector.h"

#include "core/base/index.h"
#include "core/device/kernel_spec.h"
#include "core/plan/segment_program.h"

namespace millrace {

ShardVector::ShardVector(const Plan& plan, const Graph& graph, int64_t user, std::string_view layer, std::string_view tensor) {
  for (const Step& step : compile_segment(plan, graph, user).steps)
    for (const ParameterSlice& slice : parameter_slices_of(graph, step)) {
      if (slice.tensor != tensor || graph.name_of(slice.node) != layer) continue;
      const std::vector<int64_t> indices = slice_indices(slice);
      places_.insert(places_.end(), indices.begin(), indices.end());
    }
}

void ShardVector::extract(std::span<const double> full, int64_t offset, std::span<double> values) const {
  for (size_t i = 0; i < values.size(); ++i) values[i] = item(full, places_[to_size(offset) + i]);
}
void ShardVector::insert(std::span<const double> values, int64_t offset, std::span<double> full) const {
  for (size_t i = 0; i < values.size(); ++i) item(full, places_[to_size(offset) + i]) = values[i];
}

}  // namespace millrace
