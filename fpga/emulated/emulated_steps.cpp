// The steps of recurrent layers on the functional model of chained elements (fpga/pe_chain): forward and back to the bit as the hardware,
// with sums of W x that come from another device, and a record for the gradients that another device makes.
#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/activation_math.h"
#include "core/device/sequence.h"
#include "core/device/step_record.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"
#include "fpga/emulated/recurrent_parameters.h"
#include "fpga/emulated/step_arithmetic.h"

namespace millrace::emulated {

namespace {

// One sample and direction, steps in the order they are taken.
struct StepsOfSample {
  StepKept kept;
  std::vector<double> taken;  // h as each step took it
  StepState end;
  StepErrors errors;     // of all steps; those that E has reached are made
  StepBackState behind;  // between two parts in time of E
};

class StepsKeep final : public Tensor {
 public:
  StepsKeep(const RecurrentShape& shape, int64_t words, int64_t word_bytes)
      : Tensor({{words, shape.steps, 1}, shape.samples}), sequences(to_size(shape.directions * shape.samples)), word_bytes_(word_bytes) {}
  int64_t bytes() const override { return word_bytes_ * elements(); }  // of the board

  std::vector<StepsOfSample> sequences;  // [direction][sample]

 private:
  int64_t word_bytes_;
};

class StepsKernel final : public Kernel, public StepRecorder {
 public:
  StepsKernel(const KernelSpec& spec, Device& host, std::unique_ptr<StepArithmetic> arithmetic, int64_t word_bytes)
      : spec_(spec),
        host_(host),
        shape_(spec, std::get<Recurrent>(spec.operation)),
        arithmetic_(std::move(arithmetic)),
        word_bytes_(word_bytes),
        kernel_(host.make_kernel(spec)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return wrapped_all(kernel_->make_parameters()); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return wrapped_all(kernel_->make_gradients()); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return wrapped_all(kernel_->make_state()); }
  std::unique_ptr<Tensor> make_keep() override {
    const int64_t words = shape_.directions * (shape_.hidden * record_words(shape_.cell) + shape_.features);
    return std::make_unique<StepsKeep>(shape_, words, word_bytes_);
  }
  void parameters_changed(std::span<const Tensor* const> parameters) override {
    kernel_->parameters_changed(hosts_of(parameters));
    arithmetic_->forget();
  }

  // The second direction starts at the end.
  bool streams() const override { return shape_.directions == 1 && !spec_.activation; }

  void forward(const ForwardArguments& arguments) override {
    if (!arithmetic_->has_parameters()) take_parameters(arguments.parameters);
    const std::vector<double> sums = values_of(host_, *host_of(arguments.inputs[0]));
    const MicroBatch& batch = *arguments.batch;
    const StepRange part = chunk_of(batch, shape_.steps);
    MILLRACE_CHECK(batch.chunks == 1 || arguments.keep != nullptr, "{}: chunk {} without what it keeps", spec_.layer, batch.chunk);
    std::vector<double> output = batch.chunk > 0 ? values_of(host_, *host_of(arguments.output))
                                                 : std::vector<double>(to_size(spec_.output.elements() * shape_.samples), activated(0));
    StepState carried;
    if (shape_.stateful && batch.training && batch.chunk == 0) {
      carried.hidden = values_of(host_, *host_of(arguments.state[0]));
      if (shape_.has_cell_state()) carried.cell = values_of(host_, *host_of(arguments.state[1]));
    }
    StepsOfSample unkept;
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) {
        StepsOfSample& own = arguments.keep == nullptr ? unkept : sequence(*arguments.keep, d, n);
        if (batch.chunk == 0) {
          const bool continues = !carried.hidden.empty() && (batch.fresh.empty() || fast_item(batch.fresh, n) == 0);
          own.end = continues ? state_of(carried, shape_.first_sample(batch) + n) : zero_state();
          own.kept = arithmetic_->nothing_kept();
          own.taken.clear();
        }
        run(d, n, valid_steps(spec_, batch, n), part, sums, own, output);
      }
    set_values(host_, *host_of(arguments.output), output);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    if (!arithmetic_->has_parameters()) take_parameters(arguments.parameters);  // of a pass of its own
    const std::vector<double> y = values_of(host_, *host_of(arguments.output)), dy = values_of(host_, *host_of(arguments.output_error));
    Tensor* const target = host_of(arguments.input_errors[0]);
    const MicroBatch& batch = *arguments.batch;
    const StepRange part = chunk_of(batch, shape_.steps);
    std::vector<double> errors(to_size(spec_.inputs[0].elements() * shape_.samples));
    if (target != nullptr && (arguments.adds[0] != 0 || batch.chunks > 1)) errors = values_of(host_, *target);
    if (arguments.adds[0] == 0)
      for (size_t row = 0; row < errors.size(); row += to_size(shape_.steps))
        std::fill_n(errors.begin() + static_cast<std::ptrdiff_t>(row) + part.begin, part.size(), 0.0);
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) {
        StepsOfSample& own = sequence(*arguments.keep, d, n);
        const int64_t valid = valid_steps(spec_, batch, n);
        if (part.end == shape_.steps) begin_back(valid, own);
        back(d, n, valid, part, batch.error_scale, y, dy, own);
        hand_out(d, n, valid, part, own, errors);
      }
    if (target != nullptr) set_values(host_, *target, errors);
  }

  // Nothing but the state to carry on: gradients are another device's.
  void parameter_gradient(const GradientArguments& arguments) override {
    MILLRACE_CHECK(arguments.gradients.empty(), "{}: chained elements make no gradients", spec_.layer);
    if (!shape_.stateful || !arguments.batch->training) return;
    const auto write = [&](size_t state, int64_t wide, auto part) {
      Tensor& tensor = *host_of(arguments.state[state]);
      std::vector<double> values = values_of(host_, tensor);
      for (int64_t n = 0; n < shape_.samples; ++n)
        std::ranges::copy(sequence(*arguments.keep, 0, n).end.*part, values.begin() + (shape_.first_sample(*arguments.batch) + n) * wide);
      set_values(host_, tensor, values);
    };
    write(0, shape_.features, &StepState::hidden);
    if (shape_.has_cell_state()) write(1, shape_.hidden, &StepState::cell);
  }

  void read_record(Tensor& keep, const MicroBatch& batch, std::span<double> record) override {
    const RecordChannels channels(shape_);
    const StepRange part = chunk_of(batch, shape_.steps);
    std::ranges::fill(record, 0.0);
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) {
        const StepsOfSample& own = sequence(keep, d, n);
        const int64_t valid = valid_steps(spec_, batch, n);
        const auto write = [&](int64_t channel, int64_t count, const std::vector<double>& from) {
          for (int64_t i = part.begin; i < std::min(part.end, valid); ++i)
            for (int64_t j = 0; j < count; ++j)
              record[channels.at(shape_, d, n, channel + j, step_of(d, valid, i))] = fast_item(from, i * count + j);
        };
        write(channels.taken, shape_.features, own.taken);
        if (shape_.projects) {
          write(channels.projected, shape_.hidden, arithmetic_->projected(own.kept));
          write(channels.projection_errors, shape_.features, own.errors.features);
        }
        if (shape_.cell == CellKind::kGru) write(channels.candidate, shape_.hidden, own.errors.candidates);
      }
  }

  std::string implementation() const override { return "functional model of fpga/pe_chain, forward and back"; }

 private:
  StepsOfSample& sequence(Tensor& keep, int64_t direction, int64_t sample) const {
    return fast_item(static_cast<StepsKeep&>(keep).sequences, direction * shape_.samples + sample);
  }
  static int64_t step_of(int64_t direction, int64_t valid, int64_t i) { return direction == 0 ? i : valid - 1 - i; }

  StepState zero_state() const {
    return {std::vector<double>(to_size(shape_.features)), std::vector<double>(to_size(shape_.has_cell_state() ? shape_.hidden : 0))};
  }
  StepState state_of(const StepState& all, int64_t sample) {
    const auto row = [&](const std::vector<double>& from, int64_t wide) {
      if (from.empty()) return std::vector<double>{};
      return std::vector<double>(from.begin() + sample * wide, from.begin() + (sample + 1) * wide);
    };
    return arithmetic_->held({row(all.hidden, shape_.features), row(all.cell, shape_.hidden)});
  }

  void take_parameters(std::span<const Tensor* const> parameters) {
    for (int64_t d = 0; d < shape_.directions; ++d) {
      const RecurrentParameters p = recurrent_parameters(host_, shape_, d, parameters);
      arithmetic_->take({p.hidden_weight, p.input_bias, p.hidden_bias, p.projection});
    }
  }

  size_t sum_place(int64_t d, int64_t n, int64_t gate, int64_t unit, int64_t step) const {
    const int64_t channel = (d * shape_.gates + gate) * shape_.hidden + unit;
    return to_size((n * spec_.inputs[0].channels + channel) * shape_.steps + step);
  }
  size_t output_place(int64_t d, int64_t n, int64_t feature, int64_t step) const {
    return to_size((n * spec_.output.channels + d * shape_.features + feature) * shape_.steps + step);
  }
  // Visits every unit and gate of these steps: its place there, [step][unit][gate], and in a tensor of sums.
  template <typename Visit>
  void for_each_sum(int64_t d, int64_t n, int64_t valid, StepRange steps, Visit visit) const {
    size_t own = 0;
    for (int64_t i = steps.begin; i < steps.end; ++i)
      for (int64_t unit = 0; unit < shape_.hidden; ++unit)
        for (int64_t gate = 0; gate < shape_.gates; ++gate) visit(own++, sum_place(d, n, gate, unit, step_of(d, valid, i)));
  }

  // Of a part in time those that the sample has, in the order in which they are taken.
  static StepRange within(StepRange part, int64_t valid) { return {std::min(part.begin, valid), std::min(part.end, valid)}; }

  void run(int64_t d, int64_t n, int64_t valid, StepRange part, const std::vector<double>& sums, StepsOfSample& own,
           std::vector<double>& output) {
    const StepRange steps = within(part, valid);
    if (steps.size() == 0) return;
    const int64_t features = shape_.features;
    std::vector<double> here(to_size(steps.size() * shape_.gates * shape_.hidden));
    for_each_sum(d, n, valid, steps, [&](size_t at, size_t place) { here[at] = sums[place]; });
    own.taken.insert(own.taken.end(), own.end.hidden.begin(), own.end.hidden.end());
    const std::vector<double> h = arithmetic_->forward(d, here, steps.size(), own.end, own.kept);
    own.taken.insert(own.taken.end(), h.begin(), h.end() - features);
    for (int64_t i = 0; i < steps.size(); ++i)
      for (int64_t j = 0; j < features; ++j)
        output[output_place(d, n, j, step_of(d, valid, steps.begin + i))] = activated(fast_item(h, i * features + j));
  }

  double activated(double value) {
    if (!spec_.activation) return value;
    return arithmetic_->given_out(ActivationMath<double>(*spec_.activation)(value));
  }

  void begin_back(int64_t valid, StepsOfSample& own) const {
    own.behind = {};
    own.errors.sums.assign(to_size(valid * shape_.gates * shape_.hidden), 0);
    own.errors.candidates.assign(to_size(shape_.cell == CellKind::kGru ? valid * shape_.hidden : 0), 0);
    own.errors.features.assign(to_size(shape_.projects ? valid * shape_.features : 0), 0);
  }

  // Runs that end where errors are cut, or a part in time ends; the last first.
  void back(int64_t d, int64_t n, int64_t valid, StepRange part, double error_scale, const std::vector<double>& y,
            const std::vector<double>& dy, StepsOfSample& own) {
    const int64_t features = shape_.features;
    const StepRange steps = within(part, valid);
    for (int64_t end = steps.end; end > steps.begin;) {
      const auto cut = [&](int64_t i) { return shape_.cuts_before(d, step_of(d, valid, i)); };
      int64_t begin = end - 1;
      while (begin > steps.begin && !cut(begin)) --begin;
      std::vector<double> errors;
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < features; ++j) {
          const size_t place = output_place(d, n, j, step_of(d, valid, i));
          errors.push_back(spec_.activation ? dy[place] * ActivationMath<double>(*spec_.activation).derivative(y[place]) : dy[place]);
        }
      const StepErrors made = arithmetic_->back(d, errors, {begin, end}, own.kept, own.behind, error_scale);
      const auto place = [&](const std::vector<double>& rows, std::vector<double>& all) {
        const auto width = static_cast<std::ptrdiff_t>(rows.size()) / (end - begin);
        std::ranges::copy(rows, all.begin() + begin * width);
      };
      place(made.sums, own.errors.sums);
      place(made.candidates, own.errors.candidates);
      place(made.features, own.errors.features);
      if (begin == 0 || cut(begin)) own.behind = {};
      end = begin;
    }
  }

  // To the errors of W x.
  void hand_out(int64_t d, int64_t n, int64_t valid, StepRange part, const StepsOfSample& own, std::vector<double>& errors) const {
    const StepRange steps = within(part, valid);
    const auto first = to_size(steps.begin * shape_.gates * shape_.hidden);
    for_each_sum(d, n, valid, steps, [&](size_t at, size_t place) { errors[place] += own.errors.sums[first + at]; });
  }

  KernelSpec spec_;
  Device& host_;
  RecurrentShape shape_;
  std::unique_ptr<StepArithmetic> arithmetic_;
  int64_t word_bytes_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

std::unique_ptr<Kernel> make_steps(const KernelSpec& spec, bool fixed, Device& host, LayerArithmetic& counters, const LayerFormats& book,
                                   TanhForm smooth, ChainEngine& engine) {
  const auto& cell = std::get<Recurrent>(spec.operation);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable, "layer \"{}\": boards compute a GRU whose reset gate comes after the recurrent product; set reset_after",
         spec.layer);
  return std::make_unique<StepsKernel>(
      spec, host, fixed ? make_fixed_arithmetic(spec, counters, book, smooth, engine) : make_float_arithmetic(spec), fixed ? 2 : 4);
}

}  // namespace millrace::emulated
