// What crosses from a device that makes a recurrent layer's steps to the one that makes their gradients, and what that one does with it.
//
//   dynamic_cast<StepRecorder*>(kernel)->read_record(keep, batch, record);      // behind E of the steps
//   StepGradient gradient(spec, ElementType::kFloat32);                        // spec: of the steps, KernelSpec::finish
//   gradient.make(record, sum_errors, batch);
//   gradient.values(p);                                                        // of parameter p, in the order kernels list them
//
// A record is [sample][channel][step], its channels direction by direction as core/plan/parts.h says. Gradients are those that the steps'
// own kernel would make, summed in the reference's order: by direction, sample and step. They are made on the host, in plain loops.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/device/recurrent_shape.h"

namespace millrace {

// A kernel of steps that can hand out a record.
class StepRecorder {
 public:
  StepRecorder() = default;
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;
  virtual ~StepRecorder() = default;
  // Of the micro-batch whose E made the errors in `keep`, or of the part of it that `batch` is about; what lies outside is zero.
  virtual void read_record(Tensor& keep, const MicroBatch& batch, std::span<double> record) = 0;
};

// Where a direction's channels begin.
struct RecordChannels {
  explicit RecordChannels(const RecurrentShape& shape);

  int64_t taken = 0;                               // h as the step took it
  int64_t projected = -1, projection_errors = -1;  // of a layer that projects
  int64_t candidate = -1;                          // of a gru
  int64_t each = 0;                                // of a direction

  // The place in a record of a channel of a direction, for one sample and step.
  size_t at(const RecurrentShape& shape, int64_t direction, int64_t sample, int64_t channel, int64_t step) const {
    return to_size(((sample * shape.directions + direction) * each + channel) * shape.steps + step);
  }
};

class StepGradient {
 public:
  // Sums in single precision, or in double where `type` is kFloat64.
  StepGradient(const KernelSpec& spec, ElementType type);

  // Instead of what was there. `sum_errors` is [sample][sum][step].
  void make(std::span<const double> record, std::span<const double> sum_errors, const MicroBatch& batch);
  const std::vector<double>& values(size_t parameter) const { return gradients_[parameter]; }
  size_t parameters() const { return gradients_.size(); }

 private:
  template <typename T>
  void make_as(std::span<const double> record, std::span<const double> sum_errors, const MicroBatch& batch);

  KernelSpec spec_;
  RecurrentShape shape_;
  RecordChannels channels_;
  bool wide_;
  std::vector<std::vector<double>> gradients_;
};

}  // namespace millrace
