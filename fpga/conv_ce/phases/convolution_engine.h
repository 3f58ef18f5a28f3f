// Where the phases of an FPGA device's convolutions are computed: on the host, or behind a runtime on a device of its own.
//
//   const std::unique_ptr<ConvolutionEngine> engine = make_host_convolution_engine();
//   const std::vector<int16_t> sums = engine->forward(phase, data, weight_tensor, counters);
//   std::shared_ptr<GradientSum> sum = engine->make_gradient_sum(phase.convolution, /*bias=*/true, counters.gradients);
//   sum->add(phase, input, error);
//   const std::vector<int32_t> weight_gradient = sum->read(0);       // waits
//
// Every engine gives phase_model.h's numbers, bit by bit. Engines may keep what they were given: `owner` names the tensor that
// parameters belong to, so that an engine with memory of its own need not be sent them again; it compares and never
// believes. GradientSum::add may return before the work is done; the counters it was made with are complete after read().
// An engine outlives its gradient sums and is used from one thread.
#pragma once

#include <memory>
#include <string>

#include "fpga/conv_ce/phases/phase_model.h"

namespace millrace {

// Gradients of a shard's weights (part 0) and biases (part 1), summed up where the engine is.
class GradientSum {
 public:
  virtual ~GradientSum() = default;
  // Before the first add; zero otherwise.
  virtual void set(std::span<const int32_t> weight, std::span<const int32_t> bias) = 0;
  virtual void add(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error) = 0;
  virtual std::vector<int32_t> read(size_t part) = 0;
};

// The gradient of one parameter: accumulators that an engine has, or values.
struct GradientSource {
  GradientSum* sum = nullptr;
  size_t part = 0;
  int fraction_bits = 0;
  std::span<const float> values = {};  // where there is no sum
};

class ConvolutionEngine {
 public:
  virtual ~ConvolutionEngine() = default;

  // "conv_ce, 16 bits fixed point"
  virtual std::string description() const = 0;

  virtual std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, const void* owner, PhaseCounters& counters) = 0;
  virtual std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                          const void* owner, ArithmeticCounters& counters) = 0;
  virtual std::shared_ptr<GradientSum> make_gradient_sum(const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters) = 0;
  virtual void update(const UpdateRun& update, const void* owner, std::span<float> weights, const GradientSource& gradient,
                      std::span<float> first_slot, std::span<float> second_slot, ArithmeticCounters& counters) = 0;
};

std::unique_ptr<ConvolutionEngine> make_host_convolution_engine();

}  // namespace millrace
