// Segment executors of all devices of a plan in one thread, joined by queues: the smallest ring there is. Parameters that the steps of a
// recurrent layer have on the device before them are kept here.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/flow_load.h"
#include "core/plan/schedule.h"
#include "core/reference/interpreter.h"
#include "core/train/executor.h"
#include "core/train/initialize.h"

namespace millrace::testing_support {

class QueuePorts : public FlowPorts {
 public:
  explicit QueuePorts(size_t flows) : queues(flows), moved(flows, 0) {}
  void receive(int64_t flow, Device& device, Tensor& tensor, ChannelRange channels, StepRange) override {
    auto& queue = queues[static_cast<size_t>(flow)];
    device.write(tensor, channels, std::span<const double>(queue.front()));
    queue.pop_front();
  }
  void send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels, StepRange) override {
    std::vector<double> message(static_cast<size_t>(channels.size() * tensor.shape().plane() * tensor.batch()));
    device.read(tensor, channels, std::span<double>(message));
    moved[static_cast<size_t>(flow)] += static_cast<int64_t>(message.size());
    queues[static_cast<size_t>(flow)].push_back(std::move(message));
  }
  std::vector<std::deque<std::vector<double>>> queues;
  std::vector<int64_t> moved;
};

// Runs `mini_batches` of the plan with a fresh device each from `make_device`; the same learning rate throughout.
class RingOfExecutors {
 public:
  template <typename MakeDevice>
  RingOfExecutors(const Plan& plan, const Graph& graph, MakeDevice make_device) : plan_(plan), graph_(graph), ports(plan.flows.size()) {
    for (int64_t d = 0; d < plan.devices(); ++d) {
      devices_.push_back(make_device());
      segments.push_back(std::make_unique<SegmentExecutor>(plan, graph, d, *devices_.back()));
    }
  }

  // Of the parameters kept here.
  void initialize_lent(uint64_t seed) {
    for (const ParameterHome& home : plan_.homes) {
      if (home.home == home.user) continue;
      const Node& node = graph_.node(graph_.index_of(home.layer));
      const auto parameter = std::ranges::find(node.parameters, home.tensor, &ParameterSpec::tensor);
      std::vector<double> full(static_cast<size_t>(parameter->elements()));
      InitialValues(node.layer, *parameter, fans_of(node.parameters.front()), seed).fill(std::span<double>(full));
      Device& device = *devices_[static_cast<size_t>(home.home)];
      Kept& kept = kept_[{home.layer, home.tensor}];
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
          perform(d, lists[d][next[d]++], seed, learning_rate, source);
          moved = true;
        }
    }
  }

  std::vector<double> parameter(const std::string& layer, const ParameterSpec& spec) {
    std::vector<double> full(static_cast<size_t>(spec.elements()));
    for (auto& segment : segments) segment->read_parameter(layer, spec.tensor, full);
    if (const auto kept = kept_.find({layer, spec.tensor}); kept != kept_.end())
      devices_[static_cast<size_t>(kept->second.home)]->read(*kept->second.values, whole(*kept->second.values), std::span<double>(full));
    return full;
  }

 private:
  struct Kept {
    int64_t home = 0, user = 0;
    std::unique_ptr<Tensor> values, gradient, arriving;
    std::vector<std::unique_ptr<Tensor>> slots;
    int64_t gradients = 0, version = 0;
  };

  // A pass for every F and E.
  void lend(size_t d) {
    const std::vector<LentParameter>& lent = segments[d]->lent_parameters();
    for (size_t i = 0; i < lent.size(); ++i) {
      const Kept& kept = kept_.at({lent[i].layer, lent[i].tensor});
      std::vector<double> values(static_cast<size_t>(kept.values->elements()));
      devices_[static_cast<size_t>(kept.home)]->read(*kept.values, whole(*kept.values), std::span<double>(values));
      segments[d]->write_lent(i, std::span<const double>(values));
    }
    if (!lent.empty()) segments[d]->lent_parameters_written();
    for (size_t f = 0; f < plan_.flows.size(); ++f)
      if (plan_.flows[f].stream == Stream::kParameter && user_of(plan_.flows[f], plan_) == static_cast<int64_t>(d))
        ports.moved[f] += plan_.flows[f].elements_per_pass;
  }
  void keep_gradients(size_t d) {
    const std::vector<GradientOfRecord>& made = segments[d]->gradients_of_records();
    for (size_t i = 0; i < made.size(); ++i) {
      Kept& kept = kept_.at({made[i].layer, made[i].tensor});
      Tensor& target = kept.gradients++ == 0 ? *kept.gradient : *kept.arriving;
      devices_[d]->write(target, whole(target), segments[d]->gradient_of_record(i));
      if (kept.gradients > 1) devices_[d]->copy_channels(target, whole(target), *kept.gradient, 0, true);
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

  bool ready(size_t d, const Action& action) const {
    const bool passes = action.kind == ActionKind::kForward || action.kind == ActionKind::kErrorBack;
    for (const auto& [name, kept] : kept_)
      if (passes && kept.user == static_cast<int64_t>(d) && kept.version < action.version) return false;
    for (const Step& step : segments[d]->program().steps) {
      int64_t flow = -1;
      if (action.kind == ActionKind::kForward && step.kind == StepKind::kReceive) flow = step.forward_flow;
      if (action.kind == ActionKind::kErrorBack && step.kind == StepKind::kSend) flow = step.backward_flow;
      if (flow >= 0 && ports.queues[static_cast<size_t>(flow)].empty()) return false;
    }
    return true;
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
    SegmentExecutor& segment = *segments[d];
    if (action.kind == ActionKind::kForward || action.kind == ActionKind::kErrorBack) lend(d);
    switch (action.kind) {
      case ActionKind::kForward: segment.forward(batch, pixels, &ports, &score); break;
      case ActionKind::kErrorBack: segment.error_back(batch, &ports); break;
      case ActionKind::kParameterGradient:
        segment.parameter_gradient(batch);
        keep_gradients(d);
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
  std::map<std::pair<std::string, std::string>, Kept> kept_;

 public:
  std::vector<std::unique_ptr<SegmentExecutor>> segments;
  QueuePorts ports;
  Score score;
};

}  // namespace millrace::testing_support
