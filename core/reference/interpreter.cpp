#include "core/reference/interpreter.h"

#include <map>

#include "core/base/index.h"
#include "core/plan/schedule.h"
#include "core/reference/interpreter_context.h"
#include "core/reference/interpreter_layers.h"
#include "core/reference/interpreter_messages.h"
#include "core/reference/interpreter_parameters.h"

namespace millrace {

using namespace interpreting;

// Walks the action lists of all devices.
class Interpreter::Machine {
 public:
  Machine(Plan plan, InterpreterOptions options, Source source)
      : context_(std::move(plan), std::move(options)),
        source_(std::move(source)),
        parameters_(context_),
        queues_(context_),
        layers_(context_, parameters_),
        devices_(to_size(context_.plan.devices())) {}

  void set_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full) {
    parameters_.set(layer, tensor, full);
  }

  Values parameter(std::string_view layer, std::string_view tensor) const {
    const int64_t node = context_.graph.index_of(layer);
    for (const ParameterSpec& spec : context_.graph.node(node).parameters)
      if (spec.tensor == tensor) return spec.trained ? parameters_.full(node, tensor, spec.elements()) : layers_.statistic(node, tensor);
    fail(ErrorCode::kNotFound, "layer \"{}\" has no parameter \"{}\"", layer, tensor);
  }

  void run(int64_t mini_batches) {
    scores_.assign(to_size(mini_batches), Score{});
    for (int64_t d = 0; d < context_.plan.devices(); ++d)
      item(devices_, d).actions = actions_of(schedule_spec(context_.plan, d, mini_batches));
    for (bool moved = true; moved;) {
      moved = false;
      // The lowest-numbered device whose next action has its inputs.
      for (int64_t d = 0; d < context_.plan.devices() && !moved; ++d) {
        DeviceState& state = item(devices_, d);
        if (state.next >= state.actions.size()) continue;
        const Action& action = state.actions[state.next];
        if (completes(action)) {
          if (!ready(d, action)) continue;
          perform(d, action);
        }
        ++state.next;
        moved = true;
      }
    }
    for (size_t d = 0; d < devices_.size(); ++d)
      if (devices_[d].next < devices_[d].actions.size())
        fail(ErrorCode::kMismatch, "device {} waits forever before {}", d, text_of(devices_[d].actions[devices_[d].next]));
    queues_.check_empty();
  }

  const std::vector<int64_t>& moved() const { return queues_.moved(); }
  const std::vector<Score>& scores() const { return scores_; }

 private:
  struct DeviceState {
    std::vector<Action> actions;
    size_t next = 0;
    std::map<int64_t, Memory> memories;  // by s
  };

  // Of a micro-batch taken in chunks of time the last part: sequences are whole here. Forward that is the last steps', back the first.
  bool completes(const Action& action) const {
    if (action.chunk < 0) return true;
    return action.chunk == (action.kind == ActionKind::kForward ? context_.plan.time_chunks - 1 : 0);
  }

  // F waits for what comes from upstream, E for the errors from downstream; on the last device E waits for nothing.
  bool ready(int64_t device, const Action& action) const {
    if (action.kind == ActionKind::kForward) return queues_.ready(device - 1, Direction::kForward);
    if (action.kind == ActionKind::kErrorBack) return queues_.ready(device, Direction::kBackward);
    return true;
  }

  void perform(int64_t device, const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward: queues_.count_parameter_pass(device, action); return forward(device, action);
      case ActionKind::kErrorBack: queues_.count_parameter_pass(device, action); return error_back(device, action);
      case ActionKind::kParameterGradient: queues_.count_pass(device, Stream::kGradient); return gradient(device, action);
      case ActionKind::kUpdate: layers_.commit_statistics(device, action.index); return parameters_.update(device, action.index);
      case ActionKind::kValidate: fail(ErrorCode::kUsage, "the interpreter does not evaluate");
    }
  }

  Memory& memory_of(int64_t device, int64_t s) { return item(devices_, device).memories.at(s); }
  bool is_last(int64_t device, size_t group) const {
    return context_.placement.last_device_of_group(static_cast<int64_t>(group)) == device;
  }
  // What follows the head is there: on its last device, or on one of its own.
  bool ends(int64_t device, size_t group) const {
    return item(context_.plan.shards, context_.plan.groups[group].shards.back()).device == device;
  }
  // What cannot be divided runs as any whole layer does.
  bool computes(size_t group) const { return context_.graph.node(context_.graph.groups()[group].head).divides; }
  bool by_kind(size_t group) const { return context_.divided_by_kind(context_.graph.groups()[group].head); }
  bool whole(size_t group) const { return !computes(group) && !by_kind(group); }

  void forward(int64_t device, const Action& action) {
    auto& memories = item(devices_, device).memories;
    Memory& memory = memories.try_emplace(action.index, context_, source_(action.index)).first->second;
    queues_.receive_all(device - 1, Direction::kForward, memory);
    if (device == 0) {
      Patch& input = memory.output(kNetworkInput);
      input.put(input.whole(), memory.samples().pixels, context_.rounder());
    }
    Score score;
    for (size_t g = 0; g < context_.plan.groups.size(); ++g) {
      if (!context_.holds(device, static_cast<int64_t>(g))) continue;
      const LayerGroup& group = context_.graph.groups()[g];
      if (whole(g)) layers_.apply(group.head, memory, action, score);
      if (computes(g)) layers_.forward_blocks(device, group.head, memory, action);
      if (by_kind(g)) layers_.products(device, group.head, memory, action);
      if (is_last(device, g) && computes(g)) layers_.finish(group.head, memory, action);
      if (is_last(device, g) && by_kind(g)) steps(group.head, memory, action);
      if (!ends(device, g)) continue;
      for (const int64_t node : group.after) layers_.apply(node, memory, action, score);
    }
    item(scores_, action.index / context_.plan.micro_batches()) += score;
    queues_.send_all(device, Direction::kForward, memory);
  }

  void error_back(int64_t device, const Action& action) {
    Memory& memory = memory_of(device, action.index);
    queues_.receive_all(device, Direction::kBackward, memory);
    for (size_t g = context_.plan.groups.size(); g-- > 0;) {
      if (!context_.holds(device, static_cast<int64_t>(g))) continue;
      const LayerGroup& group = context_.graph.groups()[g];
      if (ends(device, g))
        for (auto node = group.after.rbegin(); node != group.after.rend(); ++node) layers_.apply_back(*node, memory, action);
      if (is_last(device, g)) {
        if (computes(g)) layers_.finish_back(group.head, memory);
        if (by_kind(g)) steps_back(group.head, memory, action);
      }
      if (computes(g)) layers_.blocks_back(device, group.head, memory, action);
      if (by_kind(g)) layers_.products_back(device, group.head, memory, action);
      if (whole(g)) layers_.apply_back(group.head, memory, action);
    }
    queues_.send_all(device - 1, Direction::kBackward, memory);
  }

  // Steps that several devices share are made at once on the last of them, of the sums that the first has.
  void steps(int64_t head, Memory& memory, const Action& action) {
    const std::vector<int64_t> devices = context_.steps_devices(head);
    if (devices.size() > 1) memory.sum(head) = memory_of(devices.front(), action.index).sum(head);
    layers_.steps(head, memory, action);
    for (const char* const row : {":m", ":h"}) queues_.count_states(head, row);
  }
  void steps_back(int64_t head, Memory& memory, const Action& action) {
    layers_.steps_back(head, memory, action);
    for (const char* const row : {":dh", ":delta"}) queues_.count_states(head, row);
    const std::vector<int64_t> devices = context_.steps_devices(head);
    if (devices.size() < 2) return;
    layers_.steps_gradient(head, memory, action);  // at once: the others' updates do not wait for this device's G
    Memory& first = memory_of(devices.front(), action.index);
    first.sum_error(head) = memory.sum_error(head);
    first.record(head) = memory.record(head);
  }

  void gradient(int64_t device, const Action& action) {
    Memory& memory = memory_of(device, action.index);
    for (size_t g = context_.plan.groups.size(); g-- > 0;) {
      if (!context_.holds(device, static_cast<int64_t>(g))) continue;
      const LayerGroup& group = context_.graph.groups()[g];
      if (ends(device, g))
        for (auto node = group.after.rbegin(); node != group.after.rend(); ++node) layers_.apply_gradient(*node, memory, action);
      if (is_last(device, g)) {
        if (computes(g)) layers_.finish_gradient(group.head, memory, action);
        if (by_kind(g) && context_.steps_devices(group.head).size() < 2) layers_.steps_gradient(group.head, memory, action);
      }
      if (computes(g)) layers_.blocks_gradient(device, group.head, memory, action);
      if (by_kind(g)) layers_.products_gradient(device, group.head, memory, action);
      if (whole(g)) layers_.apply_gradient(group.head, memory, action);
    }
    item(devices_, device).memories.erase(action.index);
  }

  const Context context_;
  Source source_;
  ParameterStore parameters_;
  FlowQueues queues_;
  LayerRunner layers_;
  std::vector<Score> scores_;
  std::vector<DeviceState> devices_;
};

Interpreter::Interpreter(Plan plan, InterpreterOptions options, Source source)
    : machine_(std::make_unique<Machine>(std::move(plan), std::move(options), std::move(source))) {}
Interpreter::~Interpreter() = default;
void Interpreter::set_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full) {
  machine_->set_parameter(layer, tensor, full);
}
std::vector<double> Interpreter::parameter(std::string_view layer, std::string_view tensor) const {
  return machine_->parameter(layer, tensor);
}
void Interpreter::run(int64_t mini_batches) { machine_->run(mini_batches); }
const std::vector<int64_t>& Interpreter::moved() const { return machine_->moved(); }
const std::vector<Score>& Interpreter::scores() const { return machine_->scores(); }

}  // namespace millrace
