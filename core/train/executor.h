// Runs one device's segment: F, E, G and U of micro-batches on a Device, with every tensor allocated once.
//
//   SegmentExecutor segment(plan, graph, /*device_index=*/0, *device);
//   segment.initialize(seed);
//   segment.forward(batch, pixels, ports);
//   segment.error_back(batch, ports);
//   segment.parameter_gradient(batch);
//   segment.update(arguments);
//
// The caller owns plan, graph and device, which must outlive the executor, and follows the schedule (core/plan/schedule.h).
// What a micro-batch needs between its F and its G lives in slot s modulo the window, so the schedule's window is the
// memory's bound. Errors live in a set of their own, reused as soon as G is done.
// Recurrent layers can be taken in chunks of time (MicroBatch::chunk): forward() once per chunk ascending, error_back() and
// parameter_gradient() descending, as Action::chunk has them. Layers that need the whole sequence run with the last chunk
// of F and the first of E; gradients are made with the last G. Results do not depend on the chunks.
// Stateful layers carry their state over when G commits it, in ascending s, like running statistics.
// Not thread safe. Limits: chunks on one device alone; one weight version (no stash over several devices), parameters at home with their
// user.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "core/device/kernel_spec.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/segment_program.h"

namespace millrace {

// How the messages of a segment travel; the transport behind it is not the executor's business.
class FlowPorts {
 public:
  virtual ~FlowPorts() = default;
  // Channels are those of the tensor on the device, not of the full tensor.
  virtual void receive(int64_t flow, Device& device, Tensor& tensor, ChannelRange channels) = 0;
  virtual void send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels) = 0;
};

struct SegmentMemory {
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t error_bytes = 0;
  int64_t total() const { return parameter_bytes + gradient_bytes + optimizer_bytes + activation_bytes + error_bytes; }
};

// What a stateful layer hands from one mini-batch to the next: "hidden" or "cell", [sample of the mini-batch][feature].
struct CarriedState {
  std::string layer;
  std::string tensor;
  std::vector<int64_t> dimensions;
};

class SegmentExecutor {
 public:
  SegmentExecutor(const Plan& plan, const Graph& graph, int64_t device_index, Device& device);
  ~SegmentExecutor();
  SegmentExecutor(const SegmentExecutor&) = delete;
  SegmentExecutor& operator=(const SegmentExecutor&) = delete;

  const SegmentProgram& program() const { return program_; }

  // Every parameter from (seed, layer, tensor, element), running statistics at their start, optimizer and carried state zero.
  void initialize(uint64_t seed);

  // `pixels` is read on the device that loads the network's input; canonical, micro_batch samples.
  // `score` collects what the loss says. batch.training == false uses a slot of its own, and no E may follow.
  void forward(const MicroBatch& batch, std::span<const float> pixels, FlowPorts* ports = nullptr, Score* score = nullptr);
  void error_back(const MicroBatch& batch, FlowPorts* ports = nullptr);
  void parameter_gradient(const MicroBatch& batch);
  void update(const UpdateArguments& arguments);

  // Of the gradients summed so far, in a fixed order.
  double squared_gradient_norm();
  // The scores of the last forward in this mode: micro_batch x scores, canonical. Fails when they are on another device.
  void read_scores(bool training, std::span<float> scores);
  // The first layer in order whose output of micro-batch s is not finite, "" when all are.
  std::string first_non_finite(int64_t s);

  // Full canonical tensors; only the part this device uses is written or read. False when it uses nothing of it.
  bool write_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full);
  bool read_parameter(std::string_view layer, std::string_view tensor, std::span<double> full);
  bool write_slot(std::string_view layer, std::string_view tensor, int slot, std::span<const double> full);
  bool read_slot(std::string_view layer, std::string_view tensor, int slot, std::span<double> full);
  // Gradients as summed so far (tests, traces).
  bool read_gradient(std::string_view layer, std::string_view tensor, std::span<double> full);
  // Of the last E with this s; false when the value is fused away or has no error.
  bool read_output(int64_t s, std::string_view layer, std::span<double> full);

  std::vector<CarriedState> carried_states() const;
  void read_carried(const CarriedState& state, std::span<double> values);
  void write_carried(const CarriedState& state, std::span<const double> values);

  SegmentMemory memory() const;
  // One line per kernel: layer and implementation.
  std::vector<std::string> implementations() const;

 private:
  struct StepRun;
  struct Slot;
  struct ErrorSet;

  void find_streams();
  void refuse_chunks_between_devices(const MicroBatch& batch) const;
  Tensor* find_carried(const CarriedState& state);
  Slot& slot_for(const MicroBatch& batch);
  ErrorSet& errors_for(int64_t s);
  std::unique_ptr<Slot> make_slot() const;
  std::unique_ptr<ErrorSet> make_errors() const;
  std::vector<const Tensor*> inputs_of(size_t step, const Slot& slot) const;
  void run_kernel(size_t step, Slot& slot, const MicroBatch& batch, Score* score);
  void back_kernel(size_t step, Slot& slot, ErrorSet& errors, const MicroBatch& batch);
  template <typename Visit>
  bool for_each_slice(std::string_view layer, std::string_view tensor, Visit visit);
  template <typename Select>
  bool write_slices(std::string_view layer, std::string_view tensor, std::span<const double> full, Select select);
  template <typename Select>
  bool read_slices(std::string_view layer, std::string_view tensor, std::span<double> full, Select select);

  const Plan& plan_;
  const Graph& graph_;
  Device& device_;
  SegmentProgram program_;
  std::vector<StepRun> runs_;  // one per step
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<ErrorSet>> errors_;
  std::unique_ptr<Slot> evaluation_;
  int64_t gradients_summed_ = 0;
};

}  // namespace millrace
