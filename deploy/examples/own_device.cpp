// A kind of device of one's own in a ring: it computes as the CPU engine does, keeps its weights in bfloat16, and is half as fast.
//
//   own_device
//
// Shows: a Device, a CostModel that lets the planner give it less to do, and a ring in which it takes part. A device with arithmetic
// of its own makes its own tensors and kernels (core/device/dispatch.h); this one hands on what it does not change.
#include <bit>
#include <cstdio>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/cpu/cpu_device.h"
#include "core/train/task.h"
#include "node/ring/ring_trainer.h"
#include "partitioner/choice/planner.h"

using namespace millrace;

namespace {

// 1. What it does.
class Bfloat16Weights final : public Device {
 public:
  explicit Bfloat16Weights(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  // After an update the weights are what fits into 16 bits. Some updates then are too small to count.
  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    device_->update(arguments, parameter, gradient, slots);
    values_.resize(to_size(parameter.elements()));
    read(parameter, whole(parameter), std::span<float>(values_));
    for (float& value : values_) value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x8000u) & 0xffff0000u);
    write(parameter, whole(parameter), std::span<const float>(values_));
  }

  std::string description() const override { return device_->description() + ", weights in bfloat16"; }
  ElementType compute_type() const override { return device_->compute_type(); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override { return device_->make_kernel(spec); }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return device_->make_tensor(spec); }
  void write(Tensor& to, ChannelRange channels, ConstHostNumbers host) override { device_->write(to, channels, host); }
  void read(const Tensor& from, ChannelRange channels, HostNumbers host) override { device_->read(from, channels, host); }
  void zero(Tensor& tensor) override { device_->zero(tensor); }
  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    device_->copy_channels(from, channels, to, to_begin, add);
  }
  double squared_norm(const Tensor& tensor) override { return device_->squared_norm(tensor); }
  bool all_finite(const Tensor& tensor) override { return device_->all_finite(tensor); }
  void synchronize() override { device_->synchronize(); }

 private:
  std::unique_ptr<Device> device_;
  std::vector<float> values_;
};

// 2. What it takes: every answer of the CPU's, at half the speed. Constants say where they come from.
class HalfAsFast final : public CostModel {
 public:
  std::string device() const override { return "own"; }
  ShardDemand demand_of(const ShardQuestion& question) const override {
    ShardDemand demand = cpu_->demand_of(question);
    demand.seconds *= 2;
    return demand;
  }
  ShardCost cost_of(const ShardQuestion& question) const override {
    ShardCost cost = cpu_->cost_of(question);
    cost.seconds_per_sample *= 2;
    for (PhaseEngine& phase : cost.phases) phase.picoseconds_per_unit *= 2;
    return cost;
  }
  std::span<const NamedAmount> capacities() const override { return cpu_->capacities(); }
  size_t parameter_memory() const override { return cpu_->parameter_memory(); }
  std::vector<Constant> constants() const override {
    std::vector<Constant> all = cpu_->constants();
    all.push_back({.name = "slowdown", .value = 2, .origin = "fitted"});
    return all;
  }

 private:
  std::unique_ptr<CostModel> cpu_ = make_cpu_cost_model();
};

}  // namespace

int main() try {
  // 3. A ring of a processor and the new device.
  Job job;
  job.model = "digits-cnn";
  job.data = "digits";
  job.cluster = "cpu+own";
  job.epochs = 5;
  const auto cpu = make_cpu_cost_model();
  const HalfAsFast own;
  const TrainingTask task = prepare_task(job, [&](const Graph& graph, const Job& asked) {
    PlanTask question;
    question.graph = &graph;
    question.cluster = find_cluster(asked.cluster);
    question.models = {cpu.get(), &own};
    question.options.alignment = asked.alignment;
    question.options.mini_batch = asked.mini_batch;
    question.options.optimizer = asked.optimizer;
    Outcome outcome = make_plan(question);
    if (!outcome.feasible) fail(ErrorCode::kInfeasible, "no plan: {}", outcome.reason.text);
    for (const DeviceFigures& device : outcome.summary.devices)
      std::printf("device %d takes part in %zu layers, %.0f us per image (modelled)\n", static_cast<int>(device.index),
                  device.segment.size(), 1e6 * device.seconds_per_image);
    return outcome.plan;
  });

  // 4. The plan's second device is the new one.
  const TrainingOutcome outcome = train_alone(task, [](int64_t index) -> std::unique_ptr<Device> {
    auto device = make_cpu_device({.threads = 1});
    if (index == 0) return device;
    return std::make_unique<Bfloat16Weights>(std::move(device));
  });
  std::printf("test accuracy %.2f%%, loss %.4f\n", 100 * outcome.test.accuracy, outcome.test.loss);
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
