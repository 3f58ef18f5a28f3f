// The steps of some cells of a recurrent layer, where several devices share them: step by step, with what the others' cells gave out.
//
//   auto* steps = dynamic_cast<UnitSteps*>(&kernel);
//   steps->begin_forward(arguments);
//   for (int64_t i = 0; i < T; ++i) {
//     steps->forward_step(i, row);                     // of its own cells: to the others
//     steps->take_states(units, theirs);               // and what they sent
//   }
//   steps->end_forward(arguments);                     // the output, of all cells
//
// and back alike, from the last step to the first. A row is [sample][direction][vector][cell]: one vector of h, of errors error_vectors_of
// (core/plan/parts.h): one for each gate's sum, of a gru the error of U h + b of the candidate behind them. Both directions go in step: the
// second takes its last step first. Samples that have ended pass their state on.
// KernelSpec::units says which cells. Parameters are theirs: in F rows of the recurrent weights, [gate][cell][feature], in E as many
// columns, [gate][every cell][cell]; biases of these cells. Gradients are made elsewhere, of a record that the first device hands out
// (step_record.h). UnitStepsKernel does all that for any device that gives it the arithmetic of one step.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/device/recurrent_shape.h"
#include "core/device/step_record.h"

namespace millrace {

class UnitSteps {
 public:
  UnitSteps() = default;
  UnitSteps(const UnitSteps&) = delete;
  UnitSteps& operator=(const UnitSteps&) = delete;
  virtual ~UnitSteps() = default;

  virtual void begin_forward(const ForwardArguments& arguments) = 0;
  virtual void forward_step(int64_t step, std::span<double> row) = 0;
  virtual void take_states(const ChannelRange& units, std::span<const double> row) = 0;
  virtual void end_forward(const ForwardArguments& arguments) = 0;

  virtual void begin_back(const ErrorBackArguments& arguments) = 0;
  virtual void back_step(int64_t step, std::span<double> row) = 0;  // step 0 is the last of the sequence
  virtual void take_errors(const ChannelRange& units, std::span<const double> row) = 0;
  virtual void end_back(const ErrorBackArguments& arguments) = 0;
};

// Of weights [gate][cell][feature] of a layer of so many cells, the columns of some: [gate][cell][these].
template <typename T>
std::vector<T> columns_of(std::span<const T> weights, int64_t cells, const ChannelRange& units) {
  std::vector<T> columns;
  for (size_t row = 0; row < weights.size(); row += to_size(cells))
    columns.insert(columns.end(), weights.begin() + static_cast<ptrdiff_t>(row) + units.begin,
                   weights.begin() + static_cast<ptrdiff_t>(row) + units.end);
  return columns;
}

// One step of one sample and direction, in a device's own numbers, which doubles hold exactly.
class UnitArithmetic {
 public:
  struct Kept {
    Kept() = default;
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    virtual ~Kept() = default;
  };
  UnitArithmetic() = default;
  UnitArithmetic(const UnitArithmetic&) = delete;
  UnitArithmetic& operator=(const UnitArithmetic&) = delete;
  virtual ~UnitArithmetic() = default;

  // Of a direction; biases matter in F alone.
  virtual void take(int64_t direction, bool back, std::span<const double> weight, std::span<const double> input_bias,
                    std::span<const double> hidden_bias) = 0;
  // `sums` [gate][own cell] of x W, `state` of all cells; `cell` of one's own moves on, `made` is h of these.
  virtual std::unique_ptr<Kept> forward(int64_t direction, std::span<const double> sums, std::span<const double> state,
                                        std::span<double> cell, std::span<double> made) = 0;
  // `errors` [vector][cell] of the step behind, of all cells; without `product` they do not reach this step. `made` is [vector][own cell].
  virtual void back(int64_t direction, const Kept& kept, std::span<const double> output_errors, std::span<const double> errors,
                    bool product, std::span<double> carried, double error_scale, std::span<double> made) = 0;
  // A state that comes from outside, as the arithmetic holds it.
  virtual double held(double hidden) { return hidden; }
};

// How the kernel reaches a device's tensors.
struct TensorAccess {
  std::function<std::unique_ptr<Tensor>(const TensorSpec&)> make;
  std::function<std::vector<double>(const Tensor&)> read;
  std::function<void(Tensor&, std::span<const double>)> write;
};

// `name` is the kernel's implementation(); `word_bytes` what a number takes of the device's memory.
std::unique_ptr<Kernel> make_unit_steps(const KernelSpec& spec, std::unique_ptr<UnitArithmetic> arithmetic, TensorAccess access,
                                        std::string name, int64_t word_bytes);

}  // namespace millrace
