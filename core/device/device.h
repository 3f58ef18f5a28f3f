// What a device must be able to do to take part in the ring. A device kind is added by implementing Device, Tensor and
// Kernel (and CostModel, cost_model.h); deploy registers it by an explicit call.
//
//   std::unique_ptr<Device> device = make_cpu_device({.threads = 1});
//   auto kernel = device->make_kernel(spec);
//   auto x = device->make_tensor({.shape = spec.inputs[0], .batch = spec.micro_batch});
//   device->write(*x, whole(*x), host);  kernel->forward(arguments);  device->synchronize();
//
// Vocabulary: input, output, input_error, output_error, gradient; a tensor holds `batch` samples of a shape in a layout
// that only its device knows. Host data is always canonical: [sample][channel][row][column], parameters as
// [output][input][kernel row][kernel column].
// Of a sequence a row is a time step. Samples shorter than the tensor say so in MicroBatch::lengths: recurrent layers,
// embedding, batch norm, last step and the CTC loss then leave the rows behind a sample's last one out and give them
// outputs and errors of zero; other layers treat all rows alike, and the softmax loss goes by its labels.
// Calls may be asynchronous; read() and synchronize() wait. A device is used from one thread at a time.
// Everything numeric depends on the arguments alone, never on a timing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/host_numbers.h"
#include "core/documents/plan.h"
#include "core/graph/data_form.h"  // kNoLabel
#include "core/graph/graph.h"
#include "core/graph/step_map.h"

namespace millrace {

struct TensorSpec {
  Shape shape;
  int64_t batch = 1;
};

class Tensor {
 public:
  explicit Tensor(const TensorSpec& spec) : spec_(spec) {}
  virtual ~Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  const Shape& shape() const { return spec_.shape; }
  int64_t batch() const { return spec_.batch; }
  int64_t elements() const { return spec_.shape.elements() * spec_.batch; }
  // Memory taken on the device, padding included.
  virtual int64_t bytes() const = 0;

 private:
  TensorSpec spec_;
};

// Rows of a tensor, which are the time steps of a sequence; half open.
struct StepRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const StepRange&) const = default;
};

inline ChannelRange whole(const Tensor& tensor) { return {0, tensor.shape().channels}; }

// The samples an action works on.
struct MicroBatch {
  int64_t index = 0;  // s
  int64_t epoch = 0;
  bool training = true;
  uint64_t seed = 0;                    // of the run; dropout draws from (seed, layer; sample, epoch, element)
  std::span<const int64_t> sample_ids;  // one per sample
  // Read by the loss only, [sample][label]. Softmax: one per position (row and column) of the scores, kNoLabel where
  // there is nothing to say. CTC: the sample's labels in order, then kNoLabel, as many for each sample.
  std::span<const int32_t> labels;
  double error_scale = 1;  // 1 / (mini_batch * replicas)
  // Sequences. Valid rows of the network's input, one per sample; empty: all rows of all samples.
  std::span<const int32_t> lengths = {};
  // 1: stateful layers start this sample from zero; 0, or empty: from where the sample at the same place of the mini-batch
  // before ended. Evaluation always starts from zero.
  std::span<const uint8_t> fresh = {};
  // The time steps this call is about: part `chunk` of `chunks`. F takes them ascending, E descending.
  int32_t chunk = 0;
  int32_t chunks = 1;
  // Softmax: a share of every label that goes to all classes alike, as in PyTorch. Evaluation leaves it at 0.
  double label_smoothing = 0;
};

// What the loss layer found out, added up.
struct Score {
  double loss = 0;  // sum over samples
  int64_t correct = 0;
  int64_t samples = 0;

  Score& operator+=(const Score& other) {
    loss += other.loss;
    correct += other.correct;
    samples += other.samples;
    return *this;
  }
};

struct KernelSpec {
  std::string layer;
  Operation operation;        // compute kernels: channel counts are those of the block
  std::vector<Shape> inputs;  // of the slices this kernel reads
  Shape output;
  int64_t micro_batch = 1;
  int64_t micro_batches = 1;             // of a mini-batch: stateful layers keep a state for each
  StepMap steps;                         // from MicroBatch::lengths to the valid rows of inputs[0]
  bool adds_to_output = false;           // compute: output += (result, summed on its own first)
  bool bias = false;                     // compute: add the bias; the parameters then are {weight, bias}
  bool finish = false;                   // only the bias (and activation) of a compute layer: input is the raw sum,
                                         // parameters are {bias}. Of a recurrent layer: all but the input product; the
                                         // raw sum is x W of all gates, and the parameters are those without weight_ih
  ChannelRange units;                    // finish of a recurrent layer: steps of these cells alone (unit_steps.h); empty: of all
  std::optional<Activation> activation;  // fused behind the operation; its derivative is taken from the output
  bool input_error_needed = true;
  bool trained = true;    // PG will be called
  bool in_parts = false;  // compute: a product for every step of a sequence; F and E may ask for some of them (Kernel::streams)
};

// Pointers are borrowed for the duration of the call (of the enqueued work, for asynchronous devices).
struct ForwardArguments {
  std::span<const Tensor* const> inputs;
  Tensor* output = nullptr;
  std::span<const Tensor* const> parameters;  // trained ones, as Kernel::parameters() lists them
  std::span<Tensor* const> state;             // untrained ones (running statistics)
  Tensor* keep = nullptr;                     // what this micro-batch's E and G need besides inputs and output
  const MicroBatch* batch = nullptr;
  Score* score = nullptr;  // loss kernels only
};
struct ErrorBackArguments {
  std::span<const Tensor* const> inputs;
  const Tensor* output = nullptr;
  Tensor* output_error = nullptr;         // in: of the output; out: before the fused activation. Unused by the loss.
  std::span<Tensor* const> input_errors;  // null where not needed
  std::span<const uint8_t> adds;          // per input, 0 or 1: add to what is there
  std::span<const Tensor* const> parameters;
  Tensor* keep = nullptr;
  const MicroBatch* batch = nullptr;
};
struct GradientArguments {
  std::span<const Tensor* const> inputs;
  const Tensor* output_error = nullptr;  // as E left it
  std::span<Tensor* const> gradients;    // gradient (+)= this micro-batch's; in ascending s
  bool adds = true;                      // false: the first of a mini-batch, overwrite
  std::span<Tensor* const> state;        // running statistics are committed or gathered here, in ascending s
  Tensor* keep = nullptr;
  const MicroBatch* batch = nullptr;
};

// One operation on one device. FP, EB and PG are separate calls; E of a micro-batch comes before its G.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // New tensors in the layout this kernel wants, contents undefined. `trained` first to last as parameters_of lists.
  virtual std::vector<std::unique_ptr<Tensor>> make_parameters() = 0;
  // As make_parameters, for gradients and optimizer slots: the same layout, so that updates are elementwise.
  virtual std::vector<std::unique_ptr<Tensor>> make_gradients() { return make_parameters(); }
  virtual std::vector<std::unique_ptr<Tensor>> make_state() { return {}; }
  // Null when nothing needs keeping.
  virtual std::unique_ptr<Tensor> make_keep() { return nullptr; }
  // Can be called part by part in time (MicroBatch::chunk): F and E of a part leave alone what lies outside it, and results
  // do not depend on how many parts there are. Gradients are made once, when E has reached the first part.
  virtual bool streams() const { return false; }
  // To be called after parameters changed, before the next forward or error_back (packing of weights).
  virtual void parameters_changed(std::span<const Tensor* const> parameters) { (void)parameters; }

  virtual void forward(const ForwardArguments& arguments) = 0;
  virtual void error_back(const ErrorBackArguments& arguments) = 0;
  virtual void parameter_gradient(const GradientArguments& arguments) { (void)arguments; }
  // What G gathered in the state since the last update becomes the statistics of the next version (batch norm, Statistics::kRunning).
  virtual void commit_statistics(std::span<Tensor* const> state) { (void)state; }

  // "jit_avx512 direct", "winograd", "plain loops": for `--explain`, traces and tests.
  virtual std::string implementation() const = 0;
};

struct UpdateArguments {
  OptimizerSettings optimizer;
  double learning_rate = 0;
  double gradient_scale = 1;                         // from clipping by global norm
  std::optional<double> value_limit = std::nullopt;  // clipping by value
  int64_t step = 1;                                  // 1-based, for Adam's correction
  bool decay = true;                                 // weight decay applies
};

class Device {
 public:
  virtual ~Device() = default;

  // "cpu (oneDNN 2.6.3, avx512_core, 1 thread)"
  virtual std::string description() const = 0;
  virtual ElementType compute_type() const = 0;

  // Fails with kUnavailable, saying what is missing, for an operation the device cannot do.
  virtual std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) = 0;
  virtual std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) = 0;

  // Channels [begin, end) of all samples, canonical order. Parameters: whole(tensor).
  virtual void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) = 0;
  virtual void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) = 0;

  // Rows [begin, end) of those channels alone: of a sequence, a part in time.
  virtual void write_rows(Tensor& tensor, ChannelRange channels, StepRange rows, ConstHostNumbers host);
  virtual void read_rows(const Tensor& tensor, ChannelRange channels, StepRange rows, HostNumbers host);

  virtual void zero(Tensor& tensor) = 0;
  // Between tensors of one kernel's layout.
  virtual void copy(const Tensor& from, Tensor& to);
  // to[to_begin ...) (+)= from[channels): how slices are taken and errors are gathered.
  virtual void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) = 0;
  // Rows [begin, end) of them alone.
  virtual void copy_rows(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, StepRange rows, bool add);

  // Elementwise over tensors of one kernel's layout.
  virtual void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) = 0;
  virtual double squared_norm(const Tensor& tensor) = 0;
  virtual bool all_finite(const Tensor& tensor) = 0;

  virtual void synchronize() {}
};

}  // namespace millrace
