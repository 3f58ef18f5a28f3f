#include "core/plan/time_chunking.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/assemble.h"

namespace millrace {
namespace {

// Can be done part by part, if its inputs are there part by part. An activation that is fused behind runs with the whole.
bool divisible(const Step& step, const Graph& graph) {
  if (step.kind != StepKind::kApply && step.kind != StepKind::kCompute && step.kind != StepKind::kFinish) return true;
  const Node& node = graph.node(step.node);
  if (step.activation >= 0 || !step.units.empty()) return false;
  if (step.direction >= 0) return node.output.height > 1;  // a product for every step, of either direction
  switch (traits_of(node.layer.operation).chunks) {
    case TimeChunks::kNone: return false;
    case TimeChunks::kAlways: return true;
    case TimeChunks::kOfSequences: break;
  }
  return node.output.width == 1 && node.output.height > 1;
}

// What crosses the link is a record, whose "error" alone exists.
bool of_record(const SegmentProgram& program, const Step& step) {
  if (step.kind == StepKind::kReceive) return item(program.values, step.output).record;
  return step.kind == StepKind::kSend && item(program.values, step.inputs[0]).record;
}

}  // namespace

TimeChunking::TimeChunking(const Plan& plan, const Graph& graph) : graph_(&graph), flows_(plan.flows.size(), false) {
  if (plan.time_chunks <= 1) return;
  const Placement placement(plan, graph);
  for (int64_t device = 0; device < plan.devices(); ++device) {
    const SegmentProgram program = compile_segment(placement, device);
    const std::vector<bool> streamed = steps(program);
    // A record goes the other way, from those that make the steps, so nobody upstream has asked for it yet.
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const int64_t record = program.steps[i].kind == StepKind::kFinish && streamed[i] ? program.steps[i].record : -1;
      for (const Step& step : program.steps)
        if (record >= 0 && step.kind == StepKind::kReceive && step.output == record && step.backward_flow >= 0)
          item(flows_, step.backward_flow) = true;
    }
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      if (step.kind != StepKind::kSend || !streamed[i] || of_record(program, step)) continue;
      if (step.forward_flow >= 0) item(flows_, step.forward_flow) = true;
      if (step.backward_flow >= 0) item(flows_, step.backward_flow) = true;
    }
  }
}

std::vector<bool> TimeChunking::steps(const SegmentProgram& program) const {
  // Values of which some reader makes the error at once.
  std::vector<bool> read_at_once(program.values.size(), false);
  while (true) {
    std::vector<bool> streamed = steps_beside(program, read_at_once);
    bool found = false;
    for (size_t i = 0; i < program.steps.size(); ++i) {
      if (streamed[i] || program.steps[i].kind == StepKind::kGradient) continue;
      for (const int64_t input : program.steps[i].inputs) {
        const auto v = to_size(input);
        if (!program.values[v].error_needed || read_at_once[v]) continue;
        read_at_once[v] = found = true;
      }
    }
    if (!found) return streamed;
  }
}

std::vector<bool> TimeChunking::steps_beside(const SegmentProgram& program, const std::vector<bool>& read_at_once) const {
  std::vector<bool> steps(program.steps.size());
  // A value of several steps (partial sums) is there in parts when all of them are.
  std::vector<bool> values(program.values.size(), true);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const bool receives = step.kind == StepKind::kReceive;
    if (of_record(program, step)) {
      steps[i] = step.backward_flow >= 0 && flow(step.backward_flow);
      continue;
    }
    bool streams = receives ? step.forward_flow >= 0 && flow(step.forward_flow) : divisible(step, *graph_);
    for (const int64_t input : step.inputs) {
      const auto v = to_size(input);
      streams = streams && values[v] && !read_at_once[v];
    }
    steps[i] = streams;
    if (step.output >= 0) item(values, step.output) = item(values, step.output) && streams;
  }
  return steps;
}

std::set<std::string> TimeChunking::layers(const SegmentProgram& program) const {
  const std::vector<bool> streamed = steps(program);
  std::set<std::string> found, whole;
  std::set<int64_t> heads;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    int64_t head = step.node;
    if (step.kind == StepKind::kCompute || step.kind == StepKind::kFinish) {
      heads.insert(head);
    } else {
      // What follows a layer whose steps another device makes.
      if (step.kind != StepKind::kApply) continue;
      head = item(graph_->groups(), graph_->node(step.node).group).head;
      if (head == step.node || !graph_->node(head).computes || heads.contains(head)) continue;
    }
    (streamed[i] ? found : whole).insert(graph_->name_of(head));
  }
  for (const std::string& layer : whole) found.erase(layer);
  return found;
}

ChunkedLayers chunked_layers(const Plan& plan, const Graph& graph) {
  const TimeChunking chunking(plan, graph);
  const Placement placement(plan, graph);
  ChunkedLayers layers;
  for (int64_t device = 0; device < plan.devices(); ++device) layers.push_back(chunking.layers(compile_segment(placement, device)));
  return layers;
}

void check_time_chunks(int64_t chunks, const Graph& graph) {
  int64_t steps = 0;
  for (const Node& node : graph.nodes())
    if (role_of(node.layer.operation) == Role::kRecurrence) steps = std::max(steps, node.output.height);
  if (chunks > 1 && steps == 0)
    fail(ErrorCode::kUsage, "--time-chunks {}: model \"{}\" has no recurrent layer, and so no sequence to take in parts; leave it out",
         chunks, graph.model().name);
  if (chunks > std::max<int64_t>(steps, 1))
    fail(ErrorCode::kUsage, "--time-chunks {}: the longest sequence that model \"{}\" takes has {} steps; choose at most so many", chunks,
         graph.model().name, steps);
}

bool may_pass_in_chunks(const Graph& graph) {
  if (most_time_chunks(graph) < 2) return false;
  const auto groups = static_cast<int64_t>(graph.groups().size());
  PlanRequest request;
  request.cluster = uniform_cluster("any", groups, LinkEntry{.forward_gbps = 1, .backward_gbps = 1});
  std::vector<Cut> cuts;
  for (int64_t g = 1; g < groups; ++g) cuts.push_back({g, 0, 0});
  Plan plan =
      assemble_plan(graph, request, shards_from_cuts(graph, cuts, std::vector<Split>(graph.groups().size(), Split::kInputChannels)));
  plan.time_chunks = 2;
  return TimeChunking(plan, graph).any();
}

int64_t most_time_chunks(const Graph& graph) {
  int64_t steps = 0;
  for (const Node& node : graph.nodes())
    if (role_of(node.layer.operation) == Role::kRecurrence) steps = steps == 0 ? node.output.height : std::min(steps, node.output.height);
  return std::max<int64_t>(steps, 1);
}

}  // namespace millrace
