// Reads the plan's flows by itself, name by name, without what core/plan makes of them for the others: an oracle that shared it would
// share its mistakes.
#include "core/reference/interpreter_messages.h"

#include <algorithm>

#include "core/base/index.h"

namespace millrace::interpreting {
namespace {

bool carries_parameters(const Flow& flow) { return flow.stream == Stream::kParameter || flow.stream == Stream::kGradient; }

}  // namespace

FlowQueues::FlowQueues(const Context& context)
    : context_(context),
      queues_(context.plan.flows.size()),
      moved_(context.plan.flows.size(), 0),
      passes_(to_size(context.plan.devices())) {}

template <typename Visit>
void FlowQueues::for_each_flow(int64_t link, Direction direction, Visit visit) const {
  const std::vector<Flow>& flows = context_.plan.flows;
  for (size_t f = 0; f < flows.size(); ++f)
    if (flows[f].link == link && flows[f].direction == direction && !carries_parameters(flows[f]) && flows[f].stream != Stream::kState)
      visit(f, flows[f]);
}

// Forward a flow carries the tensor it names, backward that tensor's error.
Patch& FlowQueues::patch_of(const Flow& flow, Memory& memory) const {
  const bool forward = flow.direction == Direction::kForward;
  if (flow.tensor == kInputName) return memory.output(kNetworkInput);
  if (flow.stream == Stream::kRecord)
    return memory.record(context_.graph.index_of(std::string_view(flow.tensor).substr(0, flow.tensor.find(':'))));
  const std::string_view suffix = ":sum";
  if (!flow.tensor.ends_with(suffix)) {
    const int64_t node = context_.graph.index_of(flow.tensor);
    return forward ? memory.output(node) : memory.error(node);
  }
  const int64_t head = context_.graph.index_of(std::string_view(flow.tensor).substr(0, flow.tensor.size() - suffix.size()));
  return forward ? memory.sum(head) : memory.sum_error(head);
}

bool FlowQueues::ready(int64_t link, Direction direction) const {
  bool all = true;
  for_each_flow(link, direction, [&](size_t f, const Flow&) { all = all && !queues_[f].empty(); });
  return all;
}

void FlowQueues::send_all(int64_t link, Direction direction, Memory& memory) {
  for_each_flow(link, direction, [&](size_t f, const Flow& flow) {
    Values message = patch_of(flow, memory).take(flow.channels, flow.tensor);
    moved_[f] += static_cast<int64_t>(message.size());
    queues_[f].push_back(std::move(message));
  });
}

void FlowQueues::receive_all(int64_t link, Direction direction, Memory& memory) {
  for_each_flow(link, direction, [&](size_t f, const Flow& flow) {
    patch_of(flow, memory).put(flow.channels, queues_[f].front(), context_.rounder());
    queues_[f].pop_front();
  });
}

void FlowQueues::count_pass(int64_t user, Stream stream) {
  const Plan& plan = context_.plan;
  for (size_t f = 0; f < plan.flows.size(); ++f) {
    const Flow& flow = plan.flows[f];
    if (flow.stream != stream) continue;
    const int64_t shard = stream == Stream::kParameter ? flow.consumer_shard : flow.producer_shard;
    if (item(plan.shards, shard).device == user) moved_[f] += flow.channels.size();
  }
}

void FlowQueues::count_parameter_pass(int64_t user, const Action& action) {
  OpenPass& pass = item(passes_, user);
  const bool joins = action.kind == ActionKind::kForward && pass.open && pass.version == action.version;
  pass = {.open = action.kind == ActionKind::kErrorBack && !loads_alone(user), .version = action.version};
  if (!joins) count_pass(user, Stream::kParameter);
}

bool FlowQueues::loads_alone(int64_t user) const {
  for (size_t g = 0; g < context_.plan.groups.size(); ++g) {
    const int64_t head = context_.graph.groups()[g].head;
    if (const std::vector<int64_t> devices = context_.steps_devices(head);
        context_.lends_steps(head) && std::ranges::find(devices, user) != devices.end())
      return true;
  }
  return false;
}

void FlowQueues::count_states(int64_t head, std::string_view ending) {
  const std::string name = context_.graph.name_of(head) + std::string(ending);
  for (size_t f = 0; f < context_.plan.flows.size(); ++f)
    if (context_.plan.flows[f].tensor == name) moved_[f] += context_.plan.flows[f].elements_per_sample * context_.plan.micro_batch;
}

void FlowQueues::check_empty() const {
  for (size_t f = 0; f < queues_.size(); ++f)
    if (!queues_[f].empty())
      fail(ErrorCode::kMismatch, "{} messages of flow {} ({}) were sent and never received", queues_[f].size(), f,
           context_.plan.flows[f].tensor);
}

}  // namespace millrace::interpreting
