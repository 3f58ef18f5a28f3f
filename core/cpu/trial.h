// One kernel with tensors full of numbers, ready to run any of its phases against the clock. Internal to core/cpu.
//
//   Trial trial(make_device(threads, table), spec);
//   trial.seconds(Phase::kForward, threads);                  // once packs weights and fills caches
//   double fastest = trial.seconds(Phase::kForward, threads);
#pragma once

#include <time.h>

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"

namespace millrace::cpu {

// Seconds of a POSIX clock.
double read_clock(clockid_t clock);
// What to time work on so many threads with: on one the processor's own time, which other programs do not lengthen.
clockid_t clock_for(int threads);

class Trial {
 public:
  Trial(std::unique_ptr<Device> device, const KernelSpec& spec);

  std::string implementation() const { return kernel_->implementation(); }
  double seconds(Phase phase, int threads);
  // The same with what the kernel does about parameters that have changed, as in the first micro-batch after an update.
  double seconds_after_update(Phase phase, int threads);

 private:
  void fill(Tensor& tensor);
  std::unique_ptr<Tensor> filled(const Shape& shape, int64_t batch);
  void run(Phase phase);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Tensor> input_, output_, output_error_, input_error_;
  std::vector<std::unique_ptr<Tensor>> parameters_, gradients_;
  std::vector<const Tensor*> parameter_pointers_;
  std::vector<Tensor*> gradient_pointers_;
};

}  // namespace millrace::cpu
