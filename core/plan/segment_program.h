// The plan compiled for one device: values (tensors it holds, by channel range) and steps (what it does to them).
//
//   const SegmentProgram program = compile_segment(plan, graph, device);
//   fmt::print("{}", text_of(program));
//
// F runs the steps in order; E runs them in reverse, each adding to the errors of its inputs; G visits the compute
// steps in reverse. Order of the steps is order of the consumers, so the reverse walk sums the errors of a fan-out in
// descending consumer order, downstream first, as core/plan/flows.h promises.
//
//   receive  a flow from upstream fills channels of a value        (E: the value's error leaves upstream)
//   load     the network's input, on device 0
//   compute  one block of a shard: output (+)= block(input)        (E: EB; G: PG)
//   finish   bias after the sum, where it was not fused; of a recurrent layer divided by kind its steps
//   apply    a layer that follows the sum
//   send     channels of a value leave downstream                  (E: their error arrives and starts the value's error)
//   gradient of the steps of a recurrent layer that the next device makes, of their record                  (G alone)
// Where devices share the steps of a recurrent layer, what lies before their finish step runs before the first step of F and behind the
// last of E, what lies behind it the other way round; between them states cross, step by step. What only passes by crosses before. A record
// is a value whose "error" alone exists: E of the steps fills it in and `receive` sends it upstream, to a `send` that takes it.
//
// An activation that alone consumes a compute, finish or apply step is fused into it: `activation` is its node, and
// the step's output is the activation's. Device independent; the executor, the interpreter and the simulator read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/placement.h"

namespace millrace {

struct Value {
  int64_t node = kNetworkInput;  // whose output
  bool sum = false;              // its raw sum, before bias
  bool record = false;           // what the gradients of its steps need of them
  ChannelRange channels;         // of the full tensor
  Shape shape;                   // of this range
  bool error_needed = false;
  // The error's first contribution does not cover the whole range, so it must be zeroed before E.
  bool zero_error_first = false;
  // Likewise for a raw sum before F.
  bool zero_first = false;
};

enum class StepKind { kReceive, kLoad, kCompute, kFinish, kApply, kSend, kGradient };

// Flows of states, as indices into Plan::flows.
struct StateFlows {
  std::vector<int64_t> in;   // of the others' units
  std::vector<int64_t> out;  // of one's own, to either side
};

struct Step {
  StepKind kind = StepKind::kApply;
  int64_t node = kNetworkInput;
  int64_t activation = -1;      // fused activation's node, -1: none
  std::vector<int64_t> inputs;  // values; receive and load have none, send has one, gradient the sum
  int64_t output = -1;          // value; send has none
  Block block;                  // compute only
  int64_t direction = -1;       // compute: x W alone, of this direction of a recurrent layer divided by kind; block.outputs lie in it
  int64_t record = -1;          // finish: the value that E hands out besides the sum's error; gradient: what G reads
  bool adds = false;            // compute: adds to what the output already holds
  bool bias = false;            // compute: bias fused; finish: always
  ChannelRange units;           // finish: the cells whose steps it makes, of steps that devices share; else empty
  std::vector<StateFlows> states, errors;  // of such steps: what crosses at every step of F, and of E, row after row (state_rows_of)
  std::vector<uint8_t> error_adds;         // per input, 0 or 1: E adds to the input's error, else it overwrites that range
  ChannelRange channels;                   // receive and send: of the full tensor
  int64_t forward_flow = -1;               // index into Plan::flows
  int64_t backward_flow = -1;              // -1: no error crosses
};

struct SegmentProgram {
  int64_t device = 0;
  std::vector<Value> values;
  std::vector<Step> steps;
};

SegmentProgram compile_segment(const Plan& plan, const Graph& graph, int64_t device);
// For many devices of a large ring: one placement for all.
SegmentProgram compile_segment(const Placement& placement, int64_t device);
// The step that makes steps which devices share; -1: none does.
int64_t shared_step_of(const SegmentProgram& program);
// There: what the step moves crosses before the first shared step of F (of E), else behind the last.
bool crosses_first(const SegmentProgram& program, int64_t step, bool forward);
std::string text_of(const SegmentProgram& program, const Graph& graph);

}  // namespace millrace
