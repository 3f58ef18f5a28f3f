#include "core/reference/interpreter.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

#include "core/base/check.h"
#include "core/device/kernel_spec.h"
#include "core/graph/graph.h"
#include "core/plan/flows.h"
#include "core/plan/schedule.h"
#include "core/plan/validate.h"
#include "core/reference/patch.h"
#include "core/reference/reference_device.h"

namespace millrace {
namespace {

using Values = std::vector<double>;
using TensorPointer = std::unique_ptr<Tensor>;

bool carries_parameters(const Flow& flow) { return flow.stream == Stream::kParameter || flow.stream == Stream::kGradient; }

// A slice of parameters where it is stored: every version still in use, its gradient so far, its optimizer state.
struct StoredSlice {
  std::map<int64_t, Values> versions;
  Values gradient;
  std::vector<Values> slots;
};

// What one device remembers of one micro-batch.
struct Memory {
  Samples samples;
  std::map<int64_t, Patch> outputs;  // by node; kNetworkInput too
  std::map<int64_t, Patch> errors;   // of outputs
  std::map<int64_t, Patch> sums;     // by head node
  std::map<int64_t, Patch> sum_errors;
  std::map<int64_t, TensorPointer> keeps;
};

struct DeviceState {
  std::vector<Action> actions;
  size_t next = 0;
  std::map<int64_t, Memory> memories;  // by s
  bool pass_open = false;
  int64_t pass_version = 0;
};

}  // namespace

class Interpreter::Machine {
 public:
  Machine(Plan plan, InterpreterOptions options, Source source)
      : plan_(std::move(plan)),
        graph_(plan_.model),
        placement_(plan_, graph_),
        options_(std::move(options)),
        source_(std::move(source)),
        device_(make_reference_device(options_.type)),
        stored_(plan_.homes.size()),
        queues_(plan_.flows.size()),
        moved_(plan_.flows.size(), 0),
        devices_(static_cast<size_t>(plan_.devices())) {
    validate(plan_, graph_, "plan");
  }

  void set_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full) {
    const int64_t index = graph_.index_of(layer);
    for (size_t h = 0; h < plan_.homes.size(); ++h) {
      const ParameterHome& home = plan_.homes[h];
      if (home.layer != layer || home.tensor != tensor) continue;
      const Values vector = user_vector(index, tensor, home.user, full);
      StoredSlice& stored = stored_[h];
      stored.versions[0].assign(vector.begin() + home.offset, vector.begin() + home.offset + home.count);
      stored.gradient.assign(static_cast<size_t>(home.count), 0.0);
      stored.slots.assign(static_cast<size_t>(plan_.optimizer.slots()), Values(static_cast<size_t>(home.count), 0.0));
    }
  }

  Values parameter(std::string_view layer, std::string_view tensor) const {
    const int64_t index = graph_.index_of(layer);
    const Node& node = graph_.node(index);
    const ParameterSpec* spec = nullptr;
    for (const ParameterSpec& candidate : node.parameters)
      if (candidate.tensor == tensor) spec = &candidate;
    if (spec == nullptr) fail(ErrorCode::kNotFound, "layer \"{}\" has no parameter \"{}\"", layer, tensor);
    Values full(static_cast<size_t>(spec->elements()));
    if (!spec->trained) {
      const std::vector<TensorPointer>& state = states_.at(index);
      size_t position = 0;
      for (const ParameterSpec& candidate : node.parameters) {
        if (candidate.trained) continue;
        if (candidate.tensor == tensor) device_->read(*state[position], whole(*state[position]), full);
        ++position;
      }
      return full;
    }
    for (const int64_t user : users_of(index, tensor)) {
      const Values vector = current_vector(index, tensor, user, std::nullopt);
      if (!divided(index, tensor)) return vector;
      int64_t offset = 0;
      for (const Block& block : shard_of(index, user).blocks) {
        const ParameterSlice slice = weight_slice(index, block);
        insert_slice(slice, std::span(vector).subspan(static_cast<size_t>(offset), static_cast<size_t>(slice.elements)), full);
        offset += slice.elements;
      }
    }
    return full;
  }

  void run(int64_t mini_batches) {
    scores_.assign(static_cast<size_t>(mini_batches), Score{});
    for (int64_t d = 0; d < plan_.devices(); ++d)
      devices_[static_cast<size_t>(d)].actions = actions_of(schedule_spec(plan_, d, mini_batches));
    for (bool moved = true; moved;) {
      moved = false;
      // The lowest-numbered device whose next action has its inputs.
      for (int64_t d = 0; d < plan_.devices() && !moved; ++d) {
        DeviceState& state = devices_[static_cast<size_t>(d)];
        if (state.next >= state.actions.size() || !ready(d, state.actions[state.next])) continue;
        perform(d, state.actions[state.next]);
        ++state.next;
        moved = true;
      }
    }
    for (size_t d = 0; d < devices_.size(); ++d)
      if (devices_[d].next < devices_[d].actions.size())
        fail(ErrorCode::kMismatch, "device {} waits forever before {}", d, text_of(devices_[d].actions[devices_[d].next]));
    for (size_t f = 0; f < queues_.size(); ++f)
      if (!queues_[f].empty())
        fail(ErrorCode::kMismatch, "{} messages of flow {} ({}) were sent and never received", queues_[f].size(), f, plan_.flows[f].tensor);
  }

  const std::vector<int64_t>& moved() const { return moved_; }
  const std::vector<Score>& scores() const { return scores_; }

 private:
  double round(double value) const {
    return options_.type == ElementType::kFloat32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
  auto rounder() const {
    return [this](double value) { return round(value); };
  }

  // ---- parameters --------------------------------------------------------------------------------------------------

  bool divided(int64_t node, std::string_view tensor) const {
    const Operation& operation = graph_.node(node).layer.operation;
    return tensor == "weight" && (std::holds_alternative<Conv2d>(operation) || std::holds_alternative<Dense>(operation));
  }
  const Shard& shard_of(int64_t node, int64_t device) const {
    for (const int64_t s : placement_.group_of(node).shards)
      if (plan_.shards[static_cast<size_t>(s)].device == device) return plan_.shards[static_cast<size_t>(s)];
    MILLRACE_CHECK(false, "device {} has no shard of node {}", device, node);
    return plan_.shards[0];
  }
  std::vector<int64_t> users_of(int64_t node, std::string_view tensor) const {
    if (!divided(node, tensor)) return {placement_.owner_of(node)};
    std::vector<int64_t> users;
    for (const int64_t s : placement_.group_of(node).shards) users.push_back(plan_.shards[static_cast<size_t>(s)].device);
    return users;
  }
  ParameterSlice weight_slice(int64_t node, const Block& block) const {
    ParameterSlice slice;
    slice.node = node;
    slice.tensor = "weight";
    slice.dimensions = graph_.node(node).parameters[0].dimensions;
    slice.block = block;
    slice.divided = true;
    slice.elements = weight_elements(graph_, node, block);
    return slice;
  }
  // The parameter vector of one user, cut out of the full tensor.
  Values user_vector(int64_t node, std::string_view tensor, int64_t user, std::span<const double> full) const {
    if (!divided(node, tensor)) return {full.begin(), full.end()};
    Values vector;
    for (const Block& block : shard_of(node, user).blocks) {
      const ParameterSlice slice = weight_slice(node, block);
      Values part(static_cast<size_t>(slice.elements));
      extract_slice(slice, full, part);
      vector.insert(vector.end(), part.begin(), part.end());
    }
    return vector;
  }
  template <typename Visit>
  void for_each_home(int64_t node, std::string_view tensor, int64_t user, Visit visit) const {
    for (size_t h = 0; h < plan_.homes.size(); ++h)
      if (plan_.homes[h].user == user && plan_.homes[h].tensor == tensor && plan_.homes[h].layer == graph_.name_of(node)) visit(h);
  }
  // The user's vector as stored at its homes, in one version or the newest.
  Values current_vector(int64_t node, std::string_view tensor, int64_t user, std::optional<int64_t> version) const {
    Values vector;
    for_each_home(node, tensor, user, [&](size_t h) {
      const auto& versions = stored_[h].versions;
      MILLRACE_CHECK(!versions.empty(), "{}.{} was never set", graph_.name_of(node), tensor);
      const auto found = version ? versions.find(*version) : std::prev(versions.end());
      MILLRACE_CHECK(found != versions.end(), "{}.{} has no version {}", graph_.name_of(node), tensor, version.value_or(-1));
      const size_t offset = static_cast<size_t>(plan_.homes[h].offset);
      vector.resize(std::max(vector.size(), offset + found->second.size()));
      std::copy(found->second.begin(), found->second.end(), vector.begin() + static_cast<ptrdiff_t>(offset));
    });
    return vector;
  }
  void add_gradient(int64_t node, std::string_view tensor, int64_t user, const Values& gradient) {
    for_each_home(node, tensor, user, [&](size_t h) {
      const ParameterHome& home = plan_.homes[h];
      for (int64_t i = 0; i < home.count; ++i) {
        double& sum = stored_[h].gradient[static_cast<size_t>(i)];
        sum = round(sum + gradient[static_cast<size_t>(home.offset + i)]);
      }
    });
  }
  // Remote parameters arrive in passes: an E and the F after it share one when they use the same version.
  void count_parameter_pass(int64_t device, const Action& action) {
    DeviceState& state = devices_[static_cast<size_t>(device)];
    const bool joins = action.kind == ActionKind::kForward && state.pass_open && state.pass_version == action.version;
    state.pass_open = action.kind == ActionKind::kErrorBack;
    state.pass_version = action.version;
    if (!joins) count_parameters(device, Stream::kParameter);
  }
  void count_parameters(int64_t user, Stream stream) {
    for (size_t f = 0; f < plan_.flows.size(); ++f) {
      const Flow& flow = plan_.flows[f];
      if (flow.stream != stream) continue;
      const int64_t shard = stream == Stream::kParameter ? flow.consumer_shard : flow.producer_shard;
      if (plan_.shards[static_cast<size_t>(shard)].device == user) moved_[f] += flow.channels.size();
    }
  }

  // ---- messages ----------------------------------------------------------------------------------------------------

  template <typename Visit>
  void for_each_flow(int64_t link, Direction direction, Visit visit) const {
    for (size_t f = 0; f < plan_.flows.size(); ++f)
      if (plan_.flows[f].link == link && plan_.flows[f].direction == direction && !carries_parameters(plan_.flows[f])) visit(f);
  }
  bool is_sum(const Flow& flow) const { return flow.tensor.ends_with(":sum"); }
  int64_t node_of(const Flow& flow) const {
    const std::string_view name = flow.tensor;
    if (name == kInputName) return kNetworkInput;
    return graph_.index_of(is_sum(flow) ? name.substr(0, name.size() - 4) : name);
  }
  void send(size_t flow, const Patch& from) {
    Values message = from.take(plan_.flows[flow].channels, plan_.flows[flow].tensor);
    moved_[flow] += static_cast<int64_t>(message.size());
    queues_[flow].push_back(std::move(message));
  }
  Values receive(size_t flow) {
    Values message = std::move(queues_[flow].front());
    queues_[flow].pop_front();
    return message;
  }

  bool ready(int64_t device, const Action& action) const {
    bool all = true;
    const auto arrived = [&](size_t f) { all = all && !queues_[f].empty(); };
    if (action.kind == ActionKind::kForward) {
      for_each_flow(device - 1, Direction::kForward, arrived);
      // The loss must have run downstream before E: its flows tell; on the last device nothing is waited for.
    }
    if (action.kind == ActionKind::kErrorBack) for_each_flow(device, Direction::kBackward, arrived);
    return all;
  }

  // ---- actions -----------------------------------------------------------------------------------------------------

  void perform(int64_t device, const Action& action) {
    switch (action.kind) {
      case ActionKind::kForward: count_parameter_pass(device, action); return forward(device, action);
      case ActionKind::kErrorBack: count_parameter_pass(device, action); return error_back(device, action);
      case ActionKind::kParameterGradient: count_parameters(device, Stream::kGradient); return gradient(device, action);
      case ActionKind::kUpdate: return update(device, action.index);
      case ActionKind::kValidate: fail(ErrorCode::kUsage, "the interpreter does not evaluate");
    }
  }

  MicroBatch micro_batch_of(const Memory& memory, int64_t s) const {
    MicroBatch batch;
    batch.index = s;
    batch.epoch = memory.samples.epoch;
    batch.seed = options_.seed;
    batch.sample_ids = memory.samples.ids;
    batch.labels = memory.samples.labels;
    batch.error_scale = 1.0 / static_cast<double>(plan_.mini_batch);
    return batch;
  }
  Patch& patch(std::map<int64_t, Patch>& held, int64_t key, const Shape& shape) {
    return held.try_emplace(key, shape, plan_.micro_batch).first->second;
  }
  Patch& output(Memory& memory, int64_t node) { return patch(memory.outputs, node, graph_.shape_of(node)); }
  Patch& error(Memory& memory, int64_t node) { return patch(memory.errors, node, graph_.shape_of(node)); }
  Patch& sum(Memory& memory, int64_t head) { return patch(memory.sums, head, sum_shape(graph_.node(head))); }
  Patch& sum_error(Memory& memory, int64_t head) { return patch(memory.sum_errors, head, sum_shape(graph_.node(head))); }

  void forward(int64_t device, const Action& action) {
    Memory& memory = devices_[static_cast<size_t>(device)].memories[action.index];
    memory.samples = source_(action.index);
    for_each_flow(device - 1, Direction::kForward, [&](size_t f) {
      const int64_t node = node_of(plan_.flows[f]);
      Patch& target = is_sum(plan_.flows[f]) ? sum(memory, node) : output(memory, node);
      target.put(plan_.flows[f].channels, receive(f), rounder());
    });
    if (device == 0) output(memory, kNetworkInput).put({0, graph_.model().input.channels}, memory.samples.pixels, rounder());
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      const LayerGroup& layers = graph_.groups()[g];
      const bool member = holds(device, static_cast<int64_t>(g));
      if (!member) continue;
      const bool owner = placement_.last_device_of_group(static_cast<int64_t>(g)) == device;
      if (graph_.node(layers.head).computes) {
        forward_blocks(device, layers.head, memory, action);
        if (owner) finish(layers.head, memory, action);
      } else {
        apply(layers.head, memory, action);
      }
      if (owner)
        for (const int64_t node : layers.after) apply(node, memory, action);
    }
    for_each_flow(device, Direction::kForward, [&](size_t f) {
      const int64_t node = node_of(plan_.flows[f]);
      send(f, is_sum(plan_.flows[f]) ? sum(memory, node) : output(memory, node));
    });
  }

  bool holds(int64_t device, int64_t group) const {
    for (const int64_t s : plan_.groups[static_cast<size_t>(group)].shards)
      if (plan_.shards[static_cast<size_t>(s)].device == device) return true;
    return false;
  }

  void error_back(int64_t device, const Action& action) {
    Memory& memory = devices_[static_cast<size_t>(device)].memories.at(action.index);
    for_each_flow(device, Direction::kBackward, [&](size_t f) {
      const int64_t node = node_of(plan_.flows[f]);
      Patch& target = is_sum(plan_.flows[f]) ? sum_error(memory, node) : error(memory, node);
      target.put(plan_.flows[f].channels, receive(f), rounder());
    });
    for (auto g = static_cast<int64_t>(plan_.groups.size()) - 1; g >= 0; --g) {
      if (!holds(device, g)) continue;
      const LayerGroup& layers = graph_.groups()[static_cast<size_t>(g)];
      if (placement_.last_device_of_group(g) == device) {
        for (auto node = layers.after.rbegin(); node != layers.after.rend(); ++node) apply_back(*node, memory, action);
        if (!graph_.node(layers.head).computes) {
          apply_back(layers.head, memory, action);
          continue;
        }
        // The bias passes the error on unchanged.
        if (graph_.node(layers.head).error_needed) {
          const Patch& finished = error(memory, layers.head);
          sum_error(memory, layers.head).put(finished.whole(), finished.take(finished.whole(), graph_.name_of(layers.head)), rounder());
        }
      }
      blocks_back(device, layers.head, memory, action);
    }
    for_each_flow(device - 1, Direction::kBackward, [&](size_t f) {
      const int64_t node = node_of(plan_.flows[f]);
      send(f, is_sum(plan_.flows[f]) ? sum_error(memory, node) : error(memory, node));
    });
  }

  void gradient(int64_t device, const Action& action) {
    Memory& memory = devices_[static_cast<size_t>(device)].memories.at(action.index);
    for (auto g = static_cast<int64_t>(plan_.groups.size()) - 1; g >= 0; --g) {
      if (!holds(device, g)) continue;
      const LayerGroup& layers = graph_.groups()[static_cast<size_t>(g)];
      if (placement_.last_device_of_group(g) == device) {
        for (auto node = layers.after.rbegin(); node != layers.after.rend(); ++node) apply_gradient(*node, memory, action);
        if (graph_.node(layers.head).computes) finish_gradient(layers.head, memory, action);
      }
      if (graph_.node(layers.head).computes) blocks_gradient(device, layers.head, memory, action);
    }
    devices_[static_cast<size_t>(device)].memories.erase(action.index);
  }

  // The parameters this device uses get their next version, at their homes.
  void update(int64_t device, int64_t mini_batch) {
    for (size_t h = 0; h < plan_.homes.size(); ++h) {
      const ParameterHome& home = plan_.homes[h];
      if (home.user != device) continue;
      StoredSlice& stored = stored_[h];
      Values next = stored.versions.at(mini_batch);
      if (graph_.node(graph_.index_of(home.layer)).trained) step(stored, next, mini_batch);
      stored.versions[mini_batch + 1] = std::move(next);
      const int64_t oldest = mini_batch + 1 - versions_held(schedule_spec(plan_, device, 1));
      stored.versions.erase(stored.versions.begin(), stored.versions.lower_bound(oldest));
      std::fill(stored.gradient.begin(), stored.gradient.end(), 0.0);
    }
  }
  void step(StoredSlice& stored, Values& next, int64_t mini_batch) {
    const Shape flat{static_cast<int64_t>(next.size()), 1, 1};
    const TensorPointer parameter = tensor_of(flat, 1, next);
    const TensorPointer sum_of_gradients = tensor_of(flat, 1, stored.gradient);
    std::vector<TensorPointer> slots;
    std::vector<Tensor*> slot_pointers;
    for (const Values& slot : stored.slots) {
      slots.push_back(tensor_of(flat, 1, slot));
      slot_pointers.push_back(slots.back().get());
    }
    UpdateArguments arguments;
    arguments.optimizer = plan_.optimizer;
    arguments.learning_rate = options_.learning_rate(mini_batch);
    arguments.step = mini_batch + 1;
    device_->update(arguments, *parameter, *sum_of_gradients, slot_pointers);
    device_->read(*parameter, whole(*parameter), next);
    for (size_t i = 0; i < slots.size(); ++i) device_->read(*slots[i], whole(*slots[i]), stored.slots[i]);
  }

  // ---- kernels -----------------------------------------------------------------------------------------------------

  TensorPointer tensor_of(const Shape& shape, int64_t batch, const Values& values) {
    TensorPointer tensor = device_->make_tensor({shape, batch});
    device_->write(*tensor, {0, shape.channels}, std::span<const double>(values));
    return tensor;
  }
  Values values_of(const Tensor& tensor) {
    Values values(static_cast<size_t>(tensor.elements()));
    device_->read(tensor, whole(tensor), values);
    return values;
  }

  // One layer, or one block of it, alone and unfused.
  Kernel& kernel_for(const Step& like, std::span<const Shape> inputs, const Shape& output_shape) {
    const auto key = std::make_tuple(like.kind, like.node, like.block.inputs.begin, like.block.inputs.end, like.block.outputs.begin,
                                     like.block.outputs.end);
    auto& kernel = kernels_[key];
    if (kernel) return *kernel;
    SegmentProgram program;
    Step step = like;
    for (const Shape& shape : inputs) {
      step.inputs.push_back(static_cast<int64_t>(program.values.size()));
      program.values.push_back({.node = 0, .channels = {0, shape.channels}, .shape = shape});
    }
    step.output = static_cast<int64_t>(program.values.size());
    program.values.push_back({.node = like.node, .channels = {0, output_shape.channels}, .shape = output_shape});
    kernel = device_->make_kernel(kernel_spec_of(graph_, program, step, plan_.micro_batch));
    return *kernel;
  }
  Kernel& block_kernel(int64_t node, const Block& block) {
    const Shape input = graph_.shape_of(graph_.node(node).inputs[0]);
    Step step;
    step.kind = StepKind::kCompute;
    step.node = node;
    step.block = block;
    return kernel_for(step, std::array{Shape{block.inputs.size(), input.height, input.width}}, block_output(node, block));
  }
  Shape block_output(int64_t node, const Block& block) const {
    Shape shape = sum_shape(graph_.node(node));
    shape.channels = block.outputs.size();
    return shape;
  }
  Kernel& layer_kernel(StepKind kind, int64_t node) {
    std::vector<Shape> inputs;
    if (kind == StepKind::kFinish) inputs = {graph_.shape_of(node)};
    if (kind == StepKind::kApply)
      for (const int64_t input : graph_.node(node).inputs) inputs.push_back(graph_.shape_of(input));
    Step step;
    step.kind = kind;
    step.node = node;
    step.bias = kind == StepKind::kFinish;
    return kernel_for(step, inputs, graph_.shape_of(node));
  }

  // Parameter tensors of a kernel from host values, in the kernel's order.
  std::vector<TensorPointer> load_parameters(Kernel& kernel, const std::vector<Values>& values) {
    std::vector<TensorPointer> tensors = kernel.make_parameters();
    MILLRACE_CHECK(tensors.size() == values.size(), "kernel wants {} parameters, {} are there", tensors.size(), values.size());
    for (size_t i = 0; i < tensors.size(); ++i) device_->write(*tensors[i], whole(*tensors[i]), std::span<const double>(values[i]));
    kernel.parameters_changed(pointers<const Tensor>(tensors));
    return tensors;
  }
  template <typename T>
  static std::vector<T*> pointers(const std::vector<TensorPointer>& tensors) {
    std::vector<T*> raw;
    for (const TensorPointer& tensor : tensors) raw.push_back(tensor.get());
    return raw;
  }

  // Visits the blocks of this device's shard with their slice of the shard's parameter vector.
  template <typename Visit>
  void for_each_block(int64_t device, int64_t node, bool reverse, Visit visit) const {
    const std::vector<Block>& blocks = shard_of(node, device).blocks;
    std::vector<int64_t> offsets;
    int64_t offset = 0;
    for (const Block& block : blocks) {
      offsets.push_back(offset);
      offset += weight_elements(graph_, node, block);
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      const size_t b = reverse ? blocks.size() - 1 - i : i;
      visit(blocks[b], offsets[b], weight_elements(graph_, node, blocks[b]));
    }
  }
  static Values part(const Values& vector, int64_t offset, int64_t count) {
    return {vector.begin() + offset, vector.begin() + offset + count};
  }

  void forward_blocks(int64_t device, int64_t node, Memory& memory, const Action& action) {
    const Values vector = current_vector(node, "weight", device, action.version);
    const MicroBatch batch = micro_batch_of(memory, action.index);
    const int64_t input = graph_.node(node).inputs[0];
    for_each_block(device, node, false, [&](const Block& block, int64_t offset, int64_t count) {
      Kernel& kernel = block_kernel(node, block);
      const auto parameters = load_parameters(kernel, {part(vector, offset, count)});
      const Patch& source = output(memory, input);
      const TensorPointer x = tensor_of(source.shape_of(block.inputs), plan_.micro_batch, source.take(block.inputs, graph_.name_of(input)));
      const TensorPointer y = device_->make_tensor({block_output(node, block), plan_.micro_batch});
      const std::array<const Tensor*, 1> inputs = {x.get()};
      const auto weights = pointers<const Tensor>(parameters);
      kernel.forward({.inputs = inputs, .output = y.get(), .parameters = weights, .state = {}, .batch = &batch});
      sum(memory, node).put(block.outputs, values_of(*y), rounder());
    });
  }

  void blocks_back(int64_t device, int64_t node, Memory& memory, const Action& action) {
    const int64_t input = graph_.node(node).inputs[0];
    if (!graph_.node(node).input_error_needed) return;
    const Values vector = current_vector(node, "weight", device, action.version);
    const MicroBatch batch = micro_batch_of(memory, action.index);
    for_each_block(device, node, true, [&](const Block& block, int64_t offset, int64_t count) {
      Kernel& kernel = block_kernel(node, block);
      const auto parameters = load_parameters(kernel, {part(vector, offset, count)});
      const Patch& source = output(memory, input);
      const TensorPointer x = tensor_of(source.shape_of(block.inputs), plan_.micro_batch, source.take(block.inputs, graph_.name_of(input)));
      const TensorPointer dy =
          tensor_of(block_output(node, block), plan_.micro_batch, sum_error(memory, node).take(block.outputs, "error"));
      const TensorPointer y = device_->make_tensor({block_output(node, block), plan_.micro_batch});
      const TensorPointer dx = device_->make_tensor({source.shape_of(block.inputs), plan_.micro_batch});
      const std::array<const Tensor*, 1> inputs = {x.get()};
      const std::array<Tensor*, 1> errors = {dx.get()};
      const std::array<uint8_t, 1> adds = {0};
      const auto weights = pointers<const Tensor>(parameters);
      kernel.error_back({.inputs = inputs,
                         .output = y.get(),
                         .output_error = dy.get(),
                         .input_errors = errors,
                         .adds = adds,
                         .parameters = weights,
                         .batch = &batch});
      error(memory, input).put(block.inputs, values_of(*dx), rounder());
    });
  }

  void blocks_gradient(int64_t device, int64_t node, Memory& memory, const Action& action) {
    if (!graph_.node(node).trained) return;
    const MicroBatch batch = micro_batch_of(memory, action.index);
    const int64_t input = graph_.node(node).inputs[0];
    Values vector;
    for_each_block(device, node, false, [&](const Block& block, int64_t, int64_t) {
      Kernel& kernel = block_kernel(node, block);
      const Patch& source = output(memory, input);
      const TensorPointer x = tensor_of(source.shape_of(block.inputs), plan_.micro_batch, source.take(block.inputs, graph_.name_of(input)));
      const TensorPointer dy =
          tensor_of(block_output(node, block), plan_.micro_batch, sum_error(memory, node).take(block.outputs, "error"));
      const Values gradient = kernel_gradients(kernel, {x.get()}, *dy, {}, nullptr, batch).front();
      vector.insert(vector.end(), gradient.begin(), gradient.end());
    });
    add_gradient(node, "weight", device, vector);
  }

  std::vector<Values> kernel_gradients(Kernel& kernel, const std::vector<const Tensor*>& inputs, const Tensor& output_error,
                                       const std::vector<TensorPointer>& state, Tensor* keep, const MicroBatch& batch) {
    const std::vector<TensorPointer> gradients = kernel.make_gradients();
    for (const TensorPointer& gradient : gradients) device_->zero(*gradient);
    const auto targets = pointers<Tensor>(gradients);
    const auto states = pointers<Tensor>(state);
    kernel.parameter_gradient(
        {.inputs = inputs, .output_error = &output_error, .gradients = targets, .state = states, .keep = keep, .batch = &batch});
    std::vector<Values> values;
    for (const TensorPointer& gradient : gradients) values.push_back(values_of(*gradient));
    return values;
  }

  bool has_bias(int64_t node) const {
    const auto& parameters = graph_.node(node).parameters;
    return parameters.size() > 1 && parameters[1].tensor == "bias";
  }

  void finish(int64_t node, Memory& memory, const Action& action) {
    const Patch& raw = sum(memory, node);
    Values values = raw.take(raw.whole(), sum_name(graph_.name_of(node)));
    if (has_bias(node)) {
      const Values bias = current_vector(node, "bias", placement_.owner_of(node), action.version);
      const int64_t plane = raw.shape().plane();
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = round(values[i] + bias[static_cast<size_t>(static_cast<int64_t>(i) / plane % raw.shape().channels)]);
    }
    output(memory, node).put(raw.whole(), values, rounder());
  }

  void finish_gradient(int64_t node, Memory& memory, const Action& action) {
    if (!graph_.node(node).trained || !has_bias(node)) return;
    const MicroBatch batch = micro_batch_of(memory, action.index);
    Kernel& kernel = layer_kernel(StepKind::kFinish, node);
    const Patch& raw_error = sum_error(memory, node);
    const TensorPointer dy = tensor_of(raw_error.shape(), plan_.micro_batch, raw_error.take(raw_error.whole(), "error"));
    const Patch& raw = sum(memory, node);
    const TensorPointer x = tensor_of(raw.shape(), plan_.micro_batch, raw.take(raw.whole(), "sum"));
    add_gradient(node, "bias", placement_.owner_of(node), kernel_gradients(kernel, {x.get()}, *dy, {}, nullptr, batch).front());
  }

  std::vector<Values> layer_parameters(int64_t node, int64_t version) const {
    std::vector<Values> values;
    for (const ParameterSpec& parameter : graph_.node(node).parameters)
      if (parameter.trained) values.push_back(current_vector(node, parameter.tensor, placement_.owner_of(node), version));
    return values;
  }
  std::vector<TensorPointer>& state_of(int64_t node, Kernel& kernel) {
    auto [found, fresh] = states_.try_emplace(node);
    if (!fresh) return found->second;
    found->second = kernel.make_state();
    size_t position = 0;
    for (const ParameterSpec& parameter : graph_.node(node).parameters) {
      if (parameter.trained) continue;
      Tensor& tensor = *found->second[position++];
      const Values start(static_cast<size_t>(parameter.elements()), parameter.tensor == "running_var" ? 1.0 : 0.0);
      device_->write(tensor, whole(tensor), std::span<const double>(start));
    }
    return found->second;
  }
  std::vector<TensorPointer> layer_inputs(int64_t node, Memory& memory) {
    std::vector<TensorPointer> inputs;
    for (const int64_t input : graph_.node(node).inputs) {
      const Patch& source = output(memory, input);
      inputs.push_back(tensor_of(source.shape(), plan_.micro_batch, source.take(source.whole(), graph_.name_of(input))));
    }
    return inputs;
  }

  void apply(int64_t node, Memory& memory, const Action& action) {
    Kernel& kernel = layer_kernel(StepKind::kApply, node);
    const MicroBatch batch = micro_batch_of(memory, action.index);
    const auto inputs = layer_inputs(node, memory);
    const auto parameters = load_parameters(kernel, layer_parameters(node, action.version));
    const auto input_pointers = pointers<const Tensor>(inputs);
    const auto weights = pointers<const Tensor>(parameters);
    const auto state = pointers<Tensor>(state_of(node, kernel));
    const TensorPointer y = device_->make_tensor({graph_.shape_of(node), plan_.micro_batch});
    TensorPointer keep = kernel.make_keep();
    Score score;
    kernel.forward({.inputs = input_pointers,
                    .output = y.get(),
                    .parameters = weights,
                    .state = state,
                    .keep = keep.get(),
                    .batch = &batch,
                    .score = &score});
    memory.keeps[node] = std::move(keep);
    output(memory, node).put({0, graph_.shape_of(node).channels}, values_of(*y), rounder());
    if (node != graph_.loss()) return;
    Score& total = scores_[static_cast<size_t>(action.index / plan_.micro_batches())];
    total.loss += score.loss;
    total.correct += score.correct;
    total.samples += score.samples;
  }

  void apply_back(int64_t node, Memory& memory, const Action& action) {
    const Node& layer = graph_.node(node);
    if (!layer.input_error_needed) return;
    Kernel& kernel = layer_kernel(StepKind::kApply, node);
    const MicroBatch batch = micro_batch_of(memory, action.index);
    const auto inputs = layer_inputs(node, memory);
    const auto parameters = load_parameters(kernel, layer_parameters(node, action.version));
    const Patch& result = output(memory, node);
    const TensorPointer y = tensor_of(result.shape(), plan_.micro_batch, result.take(result.whole(), layer.layer.name));
    TensorPointer dy = device_->make_tensor({result.shape(), plan_.micro_batch});
    if (node != graph_.loss()) {
      const Patch& result_error = error(memory, node);
      dy = tensor_of(result.shape(), plan_.micro_batch, result_error.take(result.whole(), layer.layer.name + "'s error"));
    }
    std::vector<TensorPointer> errors;
    std::vector<Tensor*> error_pointers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool needed = layer.inputs[i] != kNetworkInput && graph_.node(layer.inputs[i]).error_needed;
      errors.push_back(needed ? device_->make_tensor({layer.input_shapes[i], plan_.micro_batch}) : nullptr);
      error_pointers.push_back(errors.back().get());
    }
    const std::vector<uint8_t> adds(inputs.size(), 0);
    const auto input_pointers = pointers<const Tensor>(inputs);
    const auto weights = pointers<const Tensor>(parameters);
    kernel.error_back({.inputs = input_pointers,
                       .output = y.get(),
                       .output_error = dy.get(),
                       .input_errors = error_pointers,
                       .adds = adds,
                       .parameters = weights,
                       .keep = memory.keeps.at(node).get(),
                       .batch = &batch});
    for (size_t i = 0; i < inputs.size(); ++i)
      if (errors[i]) error(memory, layer.inputs[i]).put({0, layer.input_shapes[i].channels}, values_of(*errors[i]), rounder());
  }

  void apply_gradient(int64_t node, Memory& memory, const Action& action) {
    const Node& layer = graph_.node(node);
    if (layer.parameters.empty()) return;
    Kernel& kernel = layer_kernel(StepKind::kApply, node);
    const MicroBatch batch = micro_batch_of(memory, action.index);
    const auto inputs = layer_inputs(node, memory);
    const Patch& result_error = error(memory, node);
    const TensorPointer dy =
        layer.error_needed ? tensor_of(result_error.shape(), plan_.micro_batch, result_error.take(result_error.whole(), layer.layer.name))
                           : device_->make_tensor({graph_.shape_of(node), plan_.micro_batch});
    const std::vector<Values> gradients =
        kernel_gradients(kernel, pointers<const Tensor>(inputs), *dy, state_of(node, kernel), memory.keeps.at(node).get(), batch);
    if (!layer.trained) return;
    size_t position = 0;
    for (const ParameterSpec& parameter : layer.parameters)
      if (parameter.trained) add_gradient(node, parameter.tensor, placement_.owner_of(node), gradients[position++]);
  }

  Plan plan_;
  Graph graph_;
  Placement placement_;
  InterpreterOptions options_;
  Source source_;
  std::unique_ptr<Device> device_;
  std::vector<StoredSlice> stored_;  // by home
  std::vector<std::deque<Values>> queues_;
  std::vector<int64_t> moved_;
  std::vector<Score> scores_;
  std::vector<DeviceState> devices_;
  std::map<std::tuple<StepKind, int64_t, int64_t, int64_t, int64_t, int64_t>, std::unique_ptr<Kernel>> kernels_;
  std::map<int64_t, std::vector<TensorPointer>> states_;  // running statistics, by node
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
