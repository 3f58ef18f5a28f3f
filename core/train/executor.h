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
// Where devices share the steps of a recurrent layer (core/plan/parts.h), F and E of a micro-batch have PHASES, one for each step and one
// more, which the caller takes one by one: phase p takes the others' rows of step p - 1, if there is one, and makes and sends the row of
// step p; the first does what comes before the steps, the last what follows them.
// Stateful layers carry their state over when G commits it, in ascending s, like running statistics.
// Alignment stash holds several weight versions: F and E say which they use, update() makes one more out of one.
// Parameters that live on another device, whole or in part, are the caller's: it writes them before F and E (write_remote),
// takes each micro-batch's gradient away after G (read_remote_gradient), and updates them where they live. Likewise the gradients that are
// made here of another device's steps (read_gradient_of_record).
// Where the plan says so (core/plan/recomputation.h), what a recurrent layer keeps is made again by its F right before its E, in a place
// that all such layers share; G of these layers comes with E.
// Not thread safe.
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
  // `steps`: rows, all but where time is taken in chunks.
  virtual void receive(int64_t flow, Device& device, Tensor& tensor, ChannelRange channels, StepRange steps) = 0;
  virtual void send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels, StepRange steps) = 0;
  // Rows of states, of steps that several devices share.
  virtual void receive_row(int64_t flow, std::span<double> row);
  virtual void send_row(int64_t flow, std::span<const double> row);
  // Called between kernels, so that messages travel while the device computes.
  virtual void progress() {}
};

struct SegmentMemory {
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t activation_bytes = 0;
  int64_t error_bytes = 0;
  int64_t total() const { return parameter_bytes + gradient_bytes + optimizer_bytes + activation_bytes + error_bytes; }
  SegmentMemory& operator+=(const SegmentMemory& other) {
    parameter_bytes += other.parameter_bytes;
    gradient_bytes += other.gradient_bytes;
    optimizer_bytes += other.optimizer_bytes;
    activation_bytes += other.activation_bytes;
    error_bytes += other.error_bytes;
    return *this;
  }
};

// What a stateful layer hands from one mini-batch to the next: "hidden" or "cell", [sample of the mini-batch][feature].
struct CarriedState {
  std::string layer;
  std::string tensor;
  std::vector<int64_t> dimensions;
  ChannelRange columns;  // those that this device keeps
};

// A trained tensor of a step whose parameters live elsewhere: the elements from `offset` on of its shard's vector
// (core/documents/plan.h, ParameterHome).
struct RemoteParameter {
  std::string layer;
  std::string tensor;
  int64_t offset = 0;
  int64_t elements = 0;
  bool returns = true;  // its gradient is made here
};

// A trained tensor whose gradient is made here of a record, while another device uses it (core/plan/parts.h): whole.
struct GradientOfRecord {
  std::string layer;
  std::string tensor;
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
  void forward(const MicroBatch& batch, std::span<const float> pixels, FlowPorts* ports = nullptr, Score* score = nullptr,
               int64_t version = 0, int64_t phase = 0);
  void error_back(const MicroBatch& batch, FlowPorts* ports = nullptr, int64_t version = 0, int64_t phase = 0);
  void parameter_gradient(const MicroBatch& batch);
  // Makes version + 1 out of version.
  void update(const UpdateArguments& arguments, int64_t version = 0);

  // Messages that F (or E) of this part of a micro-batch takes and makes, as indices of Plan::flows.
  struct Messages {
    std::vector<int64_t> in, out;
    std::vector<int64_t> rows;  // of states, beside `in`
  };
  Messages forward_messages(int32_t chunk, int32_t chunks, int64_t phase = 0) const;
  Messages error_messages(int32_t chunk, int32_t chunks, int64_t phase = 0) const;
  // Phases of F, and of E, of this part of a micro-batch.
  int64_t phases(int32_t chunk, int32_t chunks) const;

  const std::vector<RemoteParameter>& remote_parameters() const { return remote_; }
  void write_remote(size_t index, ConstHostNumbers values);
  // After the last of them was written.
  void remote_parameters_written();
  void read_remote_gradient(size_t index, HostNumbers values);

  const std::vector<GradientOfRecord>& gradients_of_records() const { return of_records_; }
  // Of the last G.
  std::span<const double> gradient_of_record(size_t index) const;

  // The gradients of all parameters that are not remote, and what batch norms gathered of their statistics, one after the other in a fixed
  // order: what replicas add up before an update.
  int64_t gradient_elements() const;
  void read_gradients(HostNumbers values);
  void write_gradients(ConstHostNumbers values);

  // Of the gradients summed so far, in a fixed order.
  double squared_gradient_norm();
  // The scores of the last forward in this mode: micro_batch x scores, canonical. Fails when they are on another device.
  void read_scores(bool training, std::span<float> scores);
  // The first layer in order whose output of micro-batch s is not finite, "" when all are.
  std::string first_non_finite(int64_t s);

  // Full canonical tensors; only the part this device uses is written or read. False when it uses nothing of it, or when it
  // is remote. Written: every version; read: the newest.
  bool write_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full);
  // One version alone.
  bool write_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full, int64_t version);
  // What follows is the version that was made last.
  void set_newest_version(int64_t version) { newest_version_ = version; }
  bool read_parameter(std::string_view layer, std::string_view tensor, std::span<double> full);
  bool write_slot(std::string_view layer, std::string_view tensor, int slot, std::span<const double> full);
  bool read_slot(std::string_view layer, std::string_view tensor, int slot, std::span<double> full);
  // Until use_own_weights(), this version's kernels see the averages of weights that the optimizer keeps in its last slot.
  void use_averages(int64_t version);
  void use_own_weights();
  bool uses_averages() const { return !own_weights_.empty(); }
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

  void make_run(const Step& step, int64_t versions);
  void make_gradient_run(const Step& step);
  Tensor* shared_keep(std::unique_ptr<Tensor> keep);
  void hand_out_record(size_t step, Slot& slot, ErrorSet& errors, const MicroBatch& batch);
  void gradient_from_record(size_t step, ErrorSet& errors, const MicroBatch& batch);
  void find_remote();
  void find_streams();
  Messages messages(bool forward, bool first, bool last, int64_t phase) const;
  bool runs_in(size_t step, bool forward, int64_t phase) const;
  void forward_phase(size_t step, Slot& slot, const MicroBatch& batch, FlowPorts& ports, int64_t phase);
  template <typename Take>
  void take_rows(const std::vector<StateFlows>& flows, int64_t phase, FlowPorts& ports, Take take);
  void make_row(const Step& step, bool errors, int64_t phase);
  void back_phase(size_t step, Slot& slot, ErrorSet& errors, const MicroBatch& batch, FlowPorts& ports, int64_t phase);
  StepRange steps_of(const Step& step, size_t index, int64_t value, const MicroBatch& batch) const;
  Tensor* find_carried(const CarriedState& state);
  Slot& slot_for(const MicroBatch& batch);
  ErrorSet& errors_for(int64_t s);
  std::unique_ptr<Slot> make_slot() const;
  std::unique_ptr<ErrorSet> make_errors() const;
  std::vector<const Tensor*> inputs_of(size_t step, const Slot& slot) const;
  void copy_part(const Tensor& from, ChannelRange channels, Tensor& to, int64_t begin, bool adds, const MicroBatch& batch);
  void run_kernel(size_t step, Slot& slot, const MicroBatch& batch, Score* score, int64_t version);
  void back_kernel(size_t step, Slot& slot, ErrorSet& errors, const MicroBatch& batch, int64_t version);
  Tensor* keep_of(size_t step, Slot& slot) const;
  void gradient_kernel(size_t step, Slot& slot, ErrorSet& errors, const MicroBatch& batch, bool adds);
  // visit(weights, average): of every trained tensor that is not remote.
  template <typename Visit>
  void for_each_averaged(int64_t version, Visit visit);
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
  std::vector<std::unique_ptr<Tensor>> shared_keeps_;
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t shared_ = kNone;    // the step that makes some cells' steps
  int64_t shared_rows_ = 0;  // of states, of a sequence in F or in E
  std::vector<double> row_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<std::unique_ptr<ErrorSet>> errors_;
  std::unique_ptr<Slot> evaluation_;
  std::vector<RemoteParameter> remote_;
  struct LentPlace {
    size_t step = 0;
    size_t position = 0;  // among the step's trained parameters
  };
  std::vector<LentPlace> remote_places_;
  std::vector<GradientOfRecord> of_records_;
  std::vector<LentPlace> record_places_;
  std::vector<double> record_, record_errors_;    // on their way
  std::vector<std::vector<double>> own_weights_;  // of the version whose averages are in use, in the order of runs
  int64_t averaged_version_ = 0;
  int64_t gradients_summed_ = 0;
  int64_t newest_version_ = 0;
};

}  // namespace millrace
