// Segment executors of all devices of a plan in one thread, joined by queues: the smallest ring there is.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "core/plan/schedule.h"
#include "core/reference/interpreter.h"
#include "core/train/executor.h"

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
    return full;
  }

 private:
  bool ready(size_t d, const Action& action) const {
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
    switch (action.kind) {
      case ActionKind::kForward: segment.forward(batch, pixels, &ports, &score); break;
      case ActionKind::kErrorBack: segment.error_back(batch, &ports); break;
      case ActionKind::kParameterGradient: segment.parameter_gradient(batch); break;
      case ActionKind::kUpdate: {
        UpdateArguments arguments;
        arguments.optimizer = plan_.optimizer;
        arguments.learning_rate = learning_rate;
        arguments.step = action.index + 1;
        segment.update(arguments);
        break;
      }
      case ActionKind::kValidate: break;
    }
  }

  const Plan& plan_;
  const Graph& graph_;
  std::vector<std::unique_ptr<Device>> devices_;

 public:
  std::vector<std::unique_ptr<SegmentExecutor>> segments;
  QueuePorts ports;
  Score score;
};

}  // namespace millrace::testing_support
