// The steps of recurrent layers on the functional model of chained elements (fpga/pe_chain): forward and back to the bit as the hardware,
// with sums of W x that come from another device, and a record for the gradients that another device makes.
#include <algorithm>

#include "core/base/error.h"
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
  StepErrors errors;
};

class StepsKeep final : public Tensor {
 public:
  StepsKeep(const RecurrentShape& shape, int64_t words, int64_t word_bytes)
      : Tensor({{words, shape.steps, 1}, shape.samples}),
        sequences(static_cast<size_t>(shape.directions * shape.samples)),
        word_bytes_(word_bytes) {}
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

  void forward(const ForwardArguments& arguments) override {
    if (!arithmetic_->has_parameters()) take_parameters(arguments.parameters);
    const std::vector<double> sums = values_of(host_, *host_of(arguments.inputs[0]));
    std::vector<double> output(static_cast<size_t>(spec_.output.elements() * shape_.samples), activated(0));
    StepState carried;
    const MicroBatch& batch = *arguments.batch;
    if (shape_.stateful && batch.training) {
      carried.hidden = values_of(host_, *host_of(arguments.state[0]));
      if (shape_.has_cell_state()) carried.cell = values_of(host_, *host_of(arguments.state[1]));
    }
    StepsOfSample unkept;
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) {
        StepsOfSample& own = arguments.keep == nullptr ? unkept : sequence(*arguments.keep, d, n);
        const bool continues = !carried.hidden.empty() && (batch.fresh.empty() || batch.fresh[static_cast<size_t>(n)] == 0);
        own.end = continues ? state_of(carried, shape_.first_sample(batch) + n) : zero_state();
        run(d, n, valid_steps(spec_, batch, n), sums, own, output);
      }
    set_values(host_, *host_of(arguments.output), output);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    if (!arithmetic_->has_parameters()) take_parameters(arguments.parameters);  // of a pass of its own
    const std::vector<double> y = values_of(host_, *host_of(arguments.output)), dy = values_of(host_, *host_of(arguments.output_error));
    Tensor* const target = host_of(arguments.input_errors[0]);
    std::vector<double> errors(static_cast<size_t>(spec_.inputs[0].elements() * shape_.samples));
    if (target != nullptr && arguments.adds[0] != 0) errors = values_of(host_, *target);
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) {
        StepsOfSample& own = sequence(*arguments.keep, d, n);
        const int64_t valid = valid_steps(spec_, *arguments.batch, n);
        back(d, n, valid, arguments.batch->error_scale, y, dy, own);
        hand_out(d, n, valid, own, errors);
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
    std::ranges::fill(record, 0.0);
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) {
        const StepsOfSample& own = sequence(keep, d, n);
        const int64_t valid = valid_steps(spec_, batch, n);
        const auto write = [&](int64_t channel, int64_t count, const std::vector<double>& from) {
          for (int64_t i = 0; i < valid; ++i)
            for (int64_t j = 0; j < count; ++j)
              record[channels.at(shape_, d, n, channel + j, step_of(d, valid, i))] = from[static_cast<size_t>(i * count + j)];
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
    return static_cast<StepsKeep&>(keep).sequences[static_cast<size_t>(direction * shape_.samples + sample)];
  }
  static int64_t step_of(int64_t direction, int64_t valid, int64_t i) { return direction == 0 ? i : valid - 1 - i; }

  StepState zero_state() const {
    return {std::vector<double>(static_cast<size_t>(shape_.features)),
            std::vector<double>(static_cast<size_t>(shape_.has_cell_state() ? shape_.hidden : 0))};
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
    return static_cast<size_t>((n * spec_.inputs[0].channels + channel) * shape_.steps + step);
  }
  size_t output_place(int64_t d, int64_t n, int64_t feature, int64_t step) const {
    return static_cast<size_t>((n * spec_.output.channels + d * shape_.features + feature) * shape_.steps + step);
  }
  // Visits every step, unit and gate: its place here, [step][unit][gate], and in a tensor of sums.
  template <typename Visit>
  void for_each_sum(int64_t d, int64_t n, int64_t valid, Visit visit) const {
    size_t own = 0;
    for (int64_t i = 0; i < valid; ++i)
      for (int64_t unit = 0; unit < shape_.hidden; ++unit)
        for (int64_t gate = 0; gate < shape_.gates; ++gate) visit(own++, sum_place(d, n, gate, unit, step_of(d, valid, i)));
  }

  void run(int64_t d, int64_t n, int64_t valid, const std::vector<double>& sums, StepsOfSample& own, std::vector<double>& output) {
    const int64_t features = shape_.features;
    std::vector<double> here(static_cast<size_t>(valid * shape_.gates * shape_.hidden));
    for_each_sum(d, n, valid, [&](size_t at, size_t place) { here[at] = sums[place]; });
    own.taken = own.end.hidden;
    const std::vector<double> h = arithmetic_->forward(d, here, valid, own.end, own.kept);
    if (valid > 0) own.taken.insert(own.taken.end(), h.begin(), h.end() - features);
    for (int64_t i = 0; i < valid; ++i)
      for (int64_t j = 0; j < features; ++j)
        output[output_place(d, n, j, step_of(d, valid, i))] = activated(h[static_cast<size_t>(i * features + j)]);
  }

  double activated(double value) {
    if (!spec_.activation) return value;
    return arithmetic_->given_out(ActivationMath<double>(*spec_.activation)(value));
  }

  // Runs that end where errors are cut, the last first.
  void back(int64_t d, int64_t n, int64_t valid, double error_scale, const std::vector<double>& y, const std::vector<double>& dy,
            StepsOfSample& own) {
    const int64_t features = shape_.features;
    own.errors = {};
    for (int64_t end = valid; end > 0;) {
      int64_t begin = end - 1;
      while (begin > 0 && !shape_.cuts_before(d, step_of(d, valid, begin))) --begin;
      std::vector<double> errors;
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < features; ++j) {
          const size_t place = output_place(d, n, j, step_of(d, valid, i));
          errors.push_back(spec_.activation ? dy[place] * ActivationMath<double>(*spec_.activation).derivative(y[place]) : dy[place]);
        }
      const StepErrors made = arithmetic_->back(d, errors, {begin, end}, own.kept, error_scale);
      const auto before = [](const std::vector<double>& rows, std::vector<double>& all) {
        all.insert(all.begin(), rows.begin(), rows.end());
      };
      before(made.sums, own.errors.sums);
      before(made.candidates, own.errors.candidates);
      before(made.features, own.errors.features);
      end = begin;
    }
  }

  // To the errors of W x.
  void hand_out(int64_t d, int64_t n, int64_t valid, const StepsOfSample& own, std::vector<double>& errors) const {
    for_each_sum(d, n, valid, [&](size_t at, size_t place) { errors[place] += own.errors.sums[at]; });
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
