#include "core/plan/flow_load.h"

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

int64_t elements_at_once(const Flow& flow) { return carries_parameters(flow) ? flow.elements_per_pass : flow.elements_per_sample; }

int64_t elements_of_message(const Flow& flow, const Plan& plan) {
  return carries_parameters(flow) ? flow.elements_per_pass : flow.elements_per_sample * plan.micro_batch;
}

int64_t elements_per_mini_batch(const Flow& flow, const Plan& plan) {
  return flow.elements_per_sample * plan.mini_batch + flow.elements_per_pass * flow.passes_per_mini_batch;
}

int64_t bits_per_mini_batch(const Flow& flow, const Plan& plan) { return elements_per_mini_batch(flow, plan) * bits_of(flow.wire); }

double bits_per_sample(const Flow& flow, const Plan& plan) {
  const double passes = static_cast<double>(flow.elements_per_pass) * static_cast<double>(flow.passes_per_mini_batch);
  return static_cast<double>(bits_of(flow.wire)) *
         (static_cast<double>(flow.elements_per_sample) + passes / static_cast<double>(plan.mini_batch));
}

int64_t user_of(const Flow& flow, const Plan& plan) {
  MILLRACE_CHECK(flow.home >= 0, "a flow of {} has no home", flow.tensor);
  return item(plan.homes, flow.home).user;
}

LinkLoad load_of(const Plan& plan, int64_t link, Direction direction) {
  LinkLoad load;
  for (const Flow& flow : plan.flows) {
    if (flow.link != link || flow.direction != direction) continue;
    load.elements_per_mini_batch += elements_per_mini_batch(flow, plan);
    load.bits_per_mini_batch += bits_per_mini_batch(flow, plan);
  }
  return load;
}

std::vector<int64_t> lane_loads(const Plan& plan) {
  std::vector<int64_t> loads(2 * plan.links.size());
  for (const Flow& flow : plan.flows)
    loads[2 * to_size(flow.link) + (flow.direction == Direction::kBackward ? 1 : 0)] += bits_per_mini_batch(flow, plan);
  return loads;
}

}  // namespace millrace
