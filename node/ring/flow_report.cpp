#include "node/ring/flow_report.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/files.h"
#include "core/plan/flow_load.h"
#include "core/plan/schedule.h"

namespace millrace {

std::vector<int64_t> planned_elements(const Plan& plan, int64_t mini_batches, int64_t evaluation_micro_batches) {
  std::map<int64_t, int64_t> passes;  // by user; evaluations take one for each of their micro-batches
  std::vector<int64_t> planned;
  for (const Flow& flow : plan.flows) {
    if (flow.stream == Stream::kGradient) {
      planned.push_back(flow.elements_per_pass * plan.micro_batches() * mini_batches);
    } else if (flow.stream == Stream::kParameter) {
      const int64_t user = user_of(flow, plan);
      const auto [found, fresh] = passes.try_emplace(user, evaluation_micro_batches);
      if (fresh) found->second += parameter_passes(schedule_spec(plan, user, mini_batches));
      planned.push_back(flow.elements_per_pass * found->second);
    } else {
      planned.push_back(flow.elements_per_sample * plan.mini_batch * mini_batches);
    }
  }
  return planned;
}

bool write_flow_report(const std::filesystem::path& path, const Plan& plan, int64_t mini_batches, const std::vector<int64_t>& planned,
                       const std::vector<int64_t>& moved) {
  using json = nlohmann::ordered_json;
  json flows = json::array();
  bool equal = true;
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    equal = equal && planned[f] == moved[f];
    flows.push_back({{"link", flow.link},
                     {"direction", flow.direction == Direction::kForward ? "forward" : "backward"},
                     {"stream", name_of(flow.stream)},
                     {"tensor", flow.tensor},
                     {"elements_planned", planned[f]},
                     {"elements_moved", moved[f]}});
  }
  write_atomically(path, json{{"mini_batches", mini_batches}, {"as_planned", equal}, {"flows", flows}}.dump(1) + "\n");
  return equal;
}

}  // namespace millrace
