// Segment executors of all devices of a plan in one thread, joined by queues: the smallest ring there is. Parameters that the steps of a
// recurrent layer have on the device before them are kept here.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device/unit_steps.h"
#include "core/plan/flow_load.h"
#include "core/plan/schedule.h"
#include "core/reference/interpreter.h"
#include "core/train/executor.h"
#include "core/train/initialize.h"

namespace millrace::testing_support {

class QueuePorts : public FlowPorts {
 public:
  explicit QueuePorts(size_t flows) : queues(flows), moved(flows, 0) {}
  void receive(int64_t flow, Device& device, Tensor& tensor, ChannelRange channels, StepRange steps) override {
    auto& queue = queues[static_cast<size_t>(flow)];
    std::vector<double> all = values_of(device, tensor, channels);
    size_t next = 0;
    for_each_of(tensor, steps, all, [&](double& value) { value = queue.front()[next++]; });
    device.write(tensor, channels, std::span<const double>(all));
    queue.pop_front();
  }
  void send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels, StepRange steps) override {
    std::vector<double> all = values_of(device, tensor, channels), message;
    for_each_of(tensor, steps, all, [&](double& value) { message.push_back(value); });
    moved[static_cast<size_t>(flow)] += static_cast<int64_t>(message.size());
    queues[static_cast<size_t>(flow)].push_back(std::move(message));
  }
  // A row of states goes on to all that share the steps.
  void receive_row(int64_t flow, std::span<double> row) override {
    auto& queue = queues[static_cast<size_t>(flow)];
    std::ranges::copy(queue.front(), row.begin());
    queue.pop_front();
  }
  void send_row(int64_t flow, std::span<const double> row) override {
    const Flow& first = plan->flows[static_cast<size_t>(flow)];
    for (size_t f = 0; f < plan->flows.size(); ++f) {
      const Flow& other = plan->flows[f];
      if (other.tensor != first.tensor || other.channels != first.channels || other.direction != first.direction) continue;
      moved[f] += static_cast<int64_t>(row.size());
      queues[f].emplace_back(row.begin(), row.end());
    }
  }
  static std::vector<double> values_of(Device& device, const Tensor& tensor, ChannelRange channels) {
    std::vector<double> values(static_cast<size_t>(channels.size() * tensor.shape().plane() * tensor.batch()));
    device.read(tensor, channels, std::span<double>(values));
    return values;
  }
  // Of every sample and channel the rows of these steps.
  template <typename Visit>
  static void for_each_of(const Tensor& tensor, StepRange steps, std::vector<double>& values, Visit visit) {
    const auto width = static_cast<size_t>(tensor.shape().width), plane = static_cast<size_t>(tensor.shape().plane());
    for (size_t map = 0; map < values.size(); map += plane)
      for (size_t i = static_cast<size_t>(steps.begin) * width; i < static_cast<size_t>(steps.end) * width; ++i) visit(values[map + i]);
  }
  const Plan* plan = nullptr;
  std::vector<std::deque<std::vector<double>>> queues;
  std::vector<int64_t> moved;
};

// Runs `mini_batches` of the plan with a fresh device each from `make_device`; the same learning rate throughout.
class RingOfExecutors {
 public:
  template <typename MakeDevice>
  RingOfExecutors(const Plan& plan, const Graph& graph, MakeDevice make_device) : plan_(plan), graph_(graph), ports(plan.flows.size()) {
    ports.plan = &plan;
    phases_.resize(static_cast<size_t>(plan.devices()));
    for (int64_t d = 0; d < plan.devices(); ++d) {
      devices_.push_back(make_device());
      segments.push_back(std::make_unique<SegmentExecutor>(plan, graph, d, *devices_.back()));
    }
  }

  // Of the parameters kept here.
  void initialize_remote(uint64_t seed) {
    for (const ParameterHome& home : plan_.homes) {
      if (home.home == home.user) continue;
      const Node& node = graph_.node(graph_.index_of(home.layer));
      const auto parameter = std::ranges::find(node.parameters, home.tensor, &ParameterSpec::tensor);
      std::vector<double> full(static_cast<size_t>(parameter->elements()));
      InitialValues(node.layer, *parameter, fans_of(node.parameters.front()), seed).fill(std::span<double>(full));
      Device& device = *devices_[static_cast<size_t>(home.home)];
      Kept& kept = kept_[{home.layer, home.tensor, home.user}];
      const std::vector<ParameterSlice> slices = slices_of(home.user, home.layer, home.tensor);
      kept.slice = slices.front();
      if (!kept.slice.units.empty()) {
        std::vector<double> part(static_cast<size_t>(kept.slice.elements));
        extract_slice(kept.slice, full, part);
        full = part;
      }
      const auto make = [&] { return device.make_tensor({.shape = {home.count, 1, 1}, .batch = 1}); };
      kept.home = home.home;
      kept.user = home.user;
      kept.values = make();
      kept.gradient = make();
      kept.arriving = make();
      device.write(*kept.values, whole(*kept.values), std::span<const double>(full));
      for (int slot = 0; slot < plan_.optimizer.slots(); ++slot) {
        kept.slots.push_back(make());
        device.zero(*kept.slots.back());
      }
    }
  }

  void run(int64_t mini_batches, uint64_t seed, double learning_rate, const Interpreter::Source& source) {
    std::vector<std::vector<Action>> lists;
    for (int64_t d = 0; d < plan_.devices(); ++d) lists.push_back(actions_of(schedule_spec(plan_, d, mini_batches)));
    std::vector<size_t> next(lists.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t d = 0; d < lists.size(); ++d)
        while (next[d] < lists[d].size() && ready(d, lists[d][next[d]])) {
          perform(d, lists[d][next[d]], seed, learning_rate, source);
          moved = true;
          const Action& done = lists[d][next[d]];
          const bool passes = done.kind == ActionKind::kForward || done.kind == ActionKind::kErrorBack;
          if (passes && ++phases_[d] < segments[d]->phases(chunk_of(done), chunks_of(done))) continue;
          phases_[d] = 0;
          ++next[d];
        }
    }
    left_ = 0;
    for (size_t d = 0; d < lists.size(); ++d) left_ += static_cast<int64_t>(lists[d].size() - next[d]);
  }

  // Of every list the actions that were not run.
  int64_t left() const { return left_; }

  std::vector<double> parameter(const std::string& layer, const ParameterSpec& spec) {
    std::vector<double> full(static_cast<size_t>(spec.elements()));
    for (auto& segment : segments) segment->read_parameter(layer, spec.tensor, full);
    for (const auto& [name, kept] : kept_) {
      if (std::get<0>(name) != layer || std::get<1>(name) != spec.tensor) continue;
      const std::vector<double> values = values_of(kept);
      if (kept.slice.units.empty()) return values;
      insert_slice(kept.slice, values, full);
    }
    return full;
  }

 private:
  struct Kept {
    int64_t home = 0, user = 0;
    ParameterSlice slice;
    std::unique_ptr<Tensor> values, gradient, arriving;
    std::vector<std::unique_ptr<Tensor>> slots;
    int64_t gradients = 0, version = 0;
  };

  std::vector<double> values_of(const Kept& kept) const {
    std::vector<double> values(static_cast<size_t>(kept.values->elements()));
    devices_[static_cast<size_t>(kept.home)]->read(*kept.values, whole(*kept.values), std::span<double>(values));
    return values;
  }
  std::vector<ParameterSlice> slices_of(int64_t user, const std::string& layer, const std::string& tensor) const {
    std::vector<ParameterSlice> slices;
    for (const Step& step : segments[static_cast<size_t>(user)]->program().steps)
      for (const ParameterSlice& slice : parameter_slices_of(graph_, step))
        if (slice.tensor == tensor && graph_.name_of(slice.node) == layer) slices.push_back(slice);
    return slices;
  }

  // A pass for every F and E; columns for E of shared steps.
  void lend(size_t d, bool back) {
    const std::vector<RemoteParameter>& remote = segments[d]->remote_parameters();
    for (size_t i = 0; i < remote.size(); ++i) {
      const Kept& kept = kept_.at({remote[i].layer, remote[i].tensor, static_cast<int64_t>(d)});
      std::vector<double> values = values_of(kept);
      if (back && !kept.slice.units.empty() && remote[i].tensor.starts_with("weight")) {
        const Node& node = graph_.node(graph_.index_of(remote[i].layer));
        const ParameterSpec& spec = *std::ranges::find(node.parameters, remote[i].tensor, &ParameterSpec::tensor);
        const std::vector<double> full = parameter(remote[i].layer, spec);
        // As large a part of the columns as of the rows.
        const ChannelRange& rows = kept.slice.units;
        const int64_t each = spec.dimensions[1], of = kept.slice.cells;
        values = columns_of(std::span<const double>(full), each, {rows.begin * each / of, rows.end * each / of});
      }
      segments[d]->write_remote(i, std::span<const double>(values));
    }
    if (!remote.empty()) segments[d]->remote_parameters_written();
    for (size_t f = 0; f < plan_.flows.size(); ++f)
      if (plan_.flows[f].stream == Stream::kParameter && user_of(plan_.flows[f], plan_) == static_cast<int64_t>(d))
        ports.moved[f] += plan_.flows[f].elements_per_pass;
  }
  void keep_gradients(size_t d) {
    const std::vector<GradientOfRecord>& made = segments[d]->gradients_of_records();
    for (size_t i = 0; i < made.size(); ++i) {
      for (auto& [name, kept] : kept_) {
        if (std::get<0>(name) != made[i].layer || std::get<1>(name) != made[i].tensor) continue;
        std::vector<double> part(static_cast<size_t>(kept.values->elements()));
        if (kept.slice.units.empty())
          std::ranges::copy(segments[d]->gradient_of_record(i), part.begin());
        else
          extract_slice(kept.slice, segments[d]->gradient_of_record(i), part);
        Tensor& target = kept.gradients++ == 0 ? *kept.gradient : *kept.arriving;
        devices_[d]->write(target, whole(target), std::span<const double>(part));
        if (kept.gradients > 1) devices_[d]->copy_channels(target, whole(target), *kept.gradient, 0, true);
      }
    }
  }
  void update_kept(size_t d, const UpdateArguments& arguments) {
    for (auto& [name, kept] : kept_) {
      if (kept.home != static_cast<int64_t>(d)) continue;
      std::vector<Tensor*> slots;
      for (const auto& slot : kept.slots) slots.push_back(slot.get());
      devices_[d]->update(arguments, *kept.values, *kept.gradient, slots);
      kept.gradients = 0;
      ++kept.version;
    }
  }

  // Chunks of time; one where the list has none.
  static int32_t chunk_of(const Action& action) { return std::max(action.chunk, 0); }
  int32_t chunks_of(const Action& action) const { return action.chunk < 0 ? 1 : static_cast<int32_t>(plan_.time_chunks); }

  bool ready(size_t d, const Action& action) const {
    const bool passes = action.kind == ActionKind::kForward || action.kind == ActionKind::kErrorBack;
    for (const auto& [name, kept] : kept_)
      if (passes && kept.user == static_cast<int64_t>(d) && kept.version < action.version) return false;
    if (!passes) return true;
    const SegmentExecutor::Messages messages = action.kind == ActionKind::kForward
                                                   ? segments[d]->forward_messages(chunk_of(action), chunks_of(action), phases_[d])
                                                   : segments[d]->error_messages(chunk_of(action), chunks_of(action), phases_[d]);
    const auto here = [&](int64_t flow) { return !ports.queues[static_cast<size_t>(flow)].empty(); };
    return std::ranges::all_of(messages.in, here) && std::ranges::all_of(messages.rows, here);
  }
  void perform(size_t d, const Action& action, uint64_t seed, double learning_rate, const Interpreter::Source& source) {
    const Samples samples = source(action.index);
    const std::vector<float> pixels(samples.pixels.begin(), samples.pixels.end());
    MicroBatch batch;
    batch.index = action.index;
    batch.epoch = samples.epoch;
    batch.seed = seed;
    batch.sample_ids = samples.ids;
    batch.labels = samples.labels;
    batch.error_scale = 1.0 / static_cast<double>(plan_.mini_batch);
    batch.lengths = samples.lengths;
    batch.chunk = chunk_of(action);
    batch.chunks = chunks_of(action);
    SegmentExecutor& segment = *segments[d];
    const int64_t phase = phases_[d];
    const bool back = action.kind == ActionKind::kErrorBack;
    if (phase == 0 && ((action.kind == ActionKind::kForward && batch.chunk == 0) || (back && batch.chunk + 1 == batch.chunks)))
      lend(d, back);
    switch (action.kind) {
      case ActionKind::kForward: segment.forward(batch, pixels, &ports, &score, 0, phase); break;
      case ActionKind::kErrorBack: segment.error_back(batch, &ports, 0, phase); break;
      case ActionKind::kParameterGradient:
        segment.parameter_gradient(batch);
        if (batch.chunk == 0) keep_gradients(d);
        break;
      case ActionKind::kUpdate: {
        UpdateArguments arguments;
        arguments.optimizer = plan_.optimizer;
        arguments.learning_rate = learning_rate;
        arguments.step = action.index + 1;
        segment.update(arguments);
        update_kept(d, arguments);
        break;
      }
      case ActionKind::kValidate: break;
    }
  }

  const Plan& plan_;
  const Graph& graph_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::tuple<std::string, std::string, int64_t>, Kept> kept_;
  std::vector<int64_t> phases_;  // of the next actions
  int64_t left_ = 0;

 public:
  std::vector<std::unique_ptr<SegmentExecutor>> segments;
  QueuePorts ports;
  Score score;
};

}  // namespace millrace::testing_support
