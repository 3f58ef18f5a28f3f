#include "partitioner/study/full_bypass.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/base/index.h"
#include "core/plan/flows.h"

namespace millrace {

double full_bypass_bits(const Plan& plan, const Graph& graph) {
  // The inputs of the groups whose partial sums cross a link.
  std::vector<std::set<std::string>> bypassed(plan.links.size());
  for (const Flow& flow : plan.flows) {
    if (flow.stream != Stream::kPartial || flow.direction != Direction::kForward) continue;
    for (const Group& group : plan.groups)
      if (group.split == Split::kInputChannels && sum_name(group.layer) == flow.tensor)
        item(bypassed, flow.link).insert(graph.name_of(graph.node(graph.index_of(group.layer)).inputs.front()));
  }
  std::vector<double> bits(plan.links.size());
  for (const Flow& flow : plan.flows) {
    const auto link = to_size(flow.link);
    int64_t elements = flow.elements_per_sample;
    if (flow.stream != Stream::kPartial && bypassed[link].contains(flow.tensor))
      elements = graph.shape_of(tensor_of(graph, flow).node).elements();
    bits[link] += static_cast<double>(elements * bits_of(flow.wire));
  }
  return bits.empty() ? 0 : *std::max_element(bits.begin(), bits.end());
}

}  // namespace millrace
