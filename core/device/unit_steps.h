// The steps of some cells of a recurrent layer, where several devices share them: step by step, with what the others' cells gave out.
//
//   auto* steps = dynamic_cast<UnitSteps*>(&kernel);
//   steps->begin_forward(arguments);
//   for (int64_t i = 0; i < T * rows; ++i) {           // rows of a step: 1, of a layer that projects 2
//     steps->forward_row(i, row);                      // of its own cells: to the others
//     steps->take_states(i, channels, theirs);         // and what they sent
//   }
//   steps->end_forward(arguments);                     // the output, of all cells
//
// and back alike, from the last step to the first. A row is [sample][direction][vector][channel]: one vector of h, of errors
// error_vectors_of (core/plan/parts.h): one for each gate's sum, of a gru the error of U h + b of the candidate behind them. A layer that
// projects gives two rows a step: what is projected of its own cells, then h of its own features; back errors of h of its features, then
// those of its cells' sums. Both directions go in step: the second takes its last step first. Samples that have ended pass their state on.
// KernelSpec::units says which cells. Parameters are theirs: in F rows of the recurrent weights, [gate][cell][feature], and of a
// projection, [own feature][every cell]; in E as many columns, [gate][every cell][own feature] and [every feature][cell]; biases of these
// cells. Gradients are made elsewhere, of a record that the first device hands out (step_record.h). UnitStepsKernel does all that for any
// device that gives it the arithmetic of one step.
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
  virtual void forward_row(int64_t index, std::span<double> row) = 0;
  virtual void take_states(int64_t index, const ChannelRange& channels, std::span<const double> row) = 0;
  virtual void end_forward(const ForwardArguments& arguments) = 0;

  virtual void begin_back(const ErrorBackArguments& arguments) = 0;
  virtual void back_row(int64_t index, std::span<double> row) = 0;  // the first are of the sequence's last step
  virtual void take_errors(int64_t index, const ChannelRange& channels, std::span<const double> row) = 0;
  virtual void end_back(const ErrorBackArguments& arguments) = 0;
};

// Of weights [row][column], rows of so many, the columns of some: [row][these].
template <typename T>
std::vector<T> columns_of(std::span<const T> weights, int64_t each, const ChannelRange& these) {
  std::vector<T> columns;
  for (size_t row = 0; row < weights.size(); row += to_size(each))
    columns.insert(columns.end(), weights.begin() + static_cast<ptrdiff_t>(row) + these.begin,
                   weights.begin() + static_cast<ptrdiff_t>(row) + these.end);
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

  // Of a direction; biases matter in F alone, a projection is empty where there is none.
  struct Weights {
    std::span<const double> hidden, input_bias, hidden_bias, projection;
  };
  virtual void take(int64_t direction, bool back, const Weights& weights) = 0;
  // `sums` [gate][own cell] of x W, `state` is h; `cell` of one's own moves on, `made` is what these give out.
  virtual std::unique_ptr<Kept> forward(int64_t direction, std::span<const double> sums, std::span<const double> state,
                                        std::span<double> cell, std::span<double> made) = 0;
  // `errors` [vector][cell] of the step behind, of all cells; without `product` they do not reach this step. `made` is [vector][own cell].
  virtual void back(int64_t direction, const Kept& kept, std::span<const double> output_errors, std::span<const double> errors,
                    bool product, std::span<double> carried, double error_scale, std::span<double> made) = 0;
  // Of a layer that projects, whose steps back are these two instead. `made` is h of one's own features, of what all cells gave out.
  virtual void project(int64_t direction, std::span<const double> units, std::span<double> made) = 0;
  // `made` are errors of h of one's own features, `output_errors` theirs; the rest as of back().
  virtual void back_features(int64_t direction, std::span<const double> output_errors, std::span<const double> errors, bool product,
                             double error_scale, std::span<double> made) = 0;
  // From errors of h of all features.
  virtual void back_units(int64_t direction, const Kept& kept, std::span<const double> feature_errors, std::span<double> carried,
                          double error_scale, std::span<double> made) = 0;
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
