// Recurrent layers on the functional model of fpga/recurrence: forward to the bit as the hardware, back through what it kept.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/device/activation_math.h"
#include "core/device/sequence.h"
#include "core/reference/recurrent_record.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"
#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

namespace millrace::emulated {

namespace {

// F is the functional model. What it kept is written where the host's kernel keeps its own, so that E and G of the host go back through
// the gates, cells and states of fixed point: straight through every rounding, with the slopes of sigmoid and tanh where they came out.
class FixedRecurrentKernel final : public Kernel {
 public:
  FixedRecurrentKernel(const KernelSpec& spec, const Recurrent& cell, Device& host, LayerArithmetic& counters, const LayerFormats& book,
                       TanhForm smooth)
      : spec_(spec),
        cell_(cell),
        host_(host),
        counters_(counters),
        shape_(spec, cell),
        record_(shape_),
        formats_(recurrent_formats_of(book, spec.layer, cell)),
        forms_(gate_forms_of(cell, smooth)),
        kernel_(host.make_kernel(spec)) {
    counters_.formats.activation = {formats_.input};
    counters_.formats.weight = {formats_.weight};
    counters_.formats.sum = {formats_.hidden};
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return wrapped_all(kernel_->make_parameters()); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return wrapped_all(kernel_->make_gradients()); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return wrapped_all(kernel_->make_state()); }
  std::unique_ptr<Tensor> make_keep() override { return std::make_unique<EmulatedTensor>(kernel_->make_keep()); }
  void parameters_changed(std::span<const Tensor* const> parameters) override {
    kernel_->parameters_changed(hosts_of(parameters));
    layers_.clear();
  }

  void forward(const ForwardArguments& arguments) override {
    if (layers_.empty()) take_parameters(arguments.parameters);
    const std::vector<double> x = values_of(host_, *host_of(arguments.inputs[0]));
    std::vector<double> output(static_cast<size_t>(spec_.output.elements() * shape_.samples), activated(0));
    std::vector<double> kept(static_cast<size_t>(shape_.directions * shape_.samples * record_.places() * record_.size()));
    std::vector<double> hidden, cells;
    if (shape_.stateful && arguments.batch->training) {
      hidden = values_of(host_, *host_of(arguments.state[0]));
      if (shape_.has_cell_state()) cells = values_of(host_, *host_of(arguments.state[1]));
    }
    for (int64_t direction = 0; direction < shape_.directions; ++direction)
      for (int64_t sample = 0; sample < shape_.samples; ++sample) {
        const FixedRecurrent& layer = layers_[static_cast<size_t>(direction)];
        RecurrentState state = zero_state(layer, 1);
        if (!hidden.empty() && !is_fresh(*arguments.batch, sample))
          take_up(hidden, cells, shape_.first_sample(*arguments.batch) + sample, state);
        Sample one{direction, sample, valid_steps(spec_, *arguments.batch, sample)};
        run(one, layer, x, state, output, kept);
      }
    set_values(host_, *host_of(arguments.output), output);
    if (arguments.keep != nullptr) set_values(host_, *host_of(arguments.keep), kept);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    const auto inputs = hosts_of(arguments.inputs);
    const auto errors = hosts_of(arguments.input_errors);
    const auto parameters = hosts_of(arguments.parameters);
    ErrorBackArguments inner = arguments;
    inner.inputs = inputs;
    inner.output = host_of(arguments.output);
    inner.output_error = host_of(arguments.output_error);
    inner.input_errors = errors;
    inner.parameters = parameters;
    inner.keep = host_of(arguments.keep);
    kernel_->error_back(inner);
  }

  void parameter_gradient(const GradientArguments& arguments) override {
    const auto inputs = hosts_of(arguments.inputs);
    const auto gradients = hosts_of(arguments.gradients);
    const auto state = hosts_of(arguments.state);
    GradientArguments inner = arguments;
    inner.inputs = inputs;
    inner.output_error = host_of(arguments.output_error);
    inner.gradients = gradients;
    inner.state = state;
    inner.keep = host_of(arguments.keep);
    kernel_->parameter_gradient(inner);
  }

  std::string implementation() const override { return "functional model of fpga/recurrence, back on the host"; }

 private:
  struct Sample {
    int64_t direction = 0, index = 0, steps = 0;
    int64_t step_of(int64_t i) const { return direction == 0 ? i : steps - 1 - i; }
  };

  void take_parameters(std::span<const Tensor* const> parameters) {
    for (int64_t d = 0; d < shape_.directions; ++d) {
      const auto values = [&](size_t index) {
        const Tensor& tensor = *host_of(parameters[index]);
        std::vector<float> floats(static_cast<size_t>(tensor.elements()));
        host_.read(tensor, whole(tensor), std::span<float>(floats));
        return floats;
      };
      const std::vector<float> input_weight = values(shape_.input_weight(d)), hidden_weight = values(shape_.hidden_weight(d)),
                               input_bias = values(shape_.input_bias(d)), hidden_bias = values(shape_.hidden_bias(d)),
                               projection = shape_.projects ? values(shape_.projection(d)) : std::vector<float>{};
      layers_.push_back(fixed_recurrent(cell_, shape_.inputs, {input_weight, hidden_weight, input_bias, hidden_bias, projection}, formats_,
                                        forms_, counters_.weights));
    }
  }

  static bool is_fresh(const MicroBatch& batch, int64_t sample) {
    return !batch.fresh.empty() && batch.fresh[static_cast<size_t>(sample)] != 0;
  }

  void take_up(std::span<const double> hidden, std::span<const double> cells, int64_t sample, RecurrentState& state) {
    for (size_t j = 0; j < state.hidden.size(); ++j)
      state.hidden[j] = quantized(hidden[static_cast<size_t>(sample * shape_.features) + j], {formats_.hidden}, counters_.outputs);
    for (size_t j = 0; j < state.cell.size(); ++j)
      state.cell[j] = static_cast<int32_t>(std::llrint(std::ldexp(cells[static_cast<size_t>(sample * shape_.hidden) + j], kCellFraction)));
  }

  void run(const Sample& sample, const FixedRecurrent& layer, std::span<const double> x, RecurrentState& state, std::vector<double>& output,
           std::vector<double>& kept) {
    const int64_t steps = shape_.steps, inputs = shape_.inputs, features = shape_.features;
    std::vector<int16_t> elements(static_cast<size_t>(sample.steps * inputs));
    for (int64_t i = 0; i < sample.steps; ++i)
      for (int64_t j = 0; j < inputs; ++j)
        elements[static_cast<size_t>(i * inputs + j)] =
            quantized(x[static_cast<size_t>((sample.index * inputs + j) * steps + sample.step_of(i))], {formats_.input}, counters_.inputs);
    const auto keep_state = [&](double* record) {
      for (int64_t j = 0; j < features; ++j) record[record_.h() + j] = real_value(state.hidden[static_cast<size_t>(j)], formats_.hidden);
      for (size_t j = 0; j < state.cell.size(); ++j)
        record[record_.c() + static_cast<int64_t>(j)] = real_value(state.cell[j], kCellFraction);
    };
    // The state before a stream's first step, and behind its last.
    const int64_t before = sample.direction == 0 ? -1 : sample.steps;
    const auto record_at = [&](int64_t step) { return kept.data() + record_.at(sample.direction, sample.index, step); };
    keep_state(record_at(before));
    if (sample.direction == 1)
      for (int64_t t = sample.steps; t <= steps; ++t) keep_state(record_at(t));
    RecurrentTrace trace;
    RecurrentCounters counted;
    const std::vector<int16_t> h =
        direct_forward(layer, {.streams = 1, .steps = sample.steps, .first_step = 0, .lengths = {}}, elements, state, counted, &trace);
    counters_.sums += counted.sums;
    counters_.cells += counted.cells;
    counters_.outputs += counted.outputs;
    for (int64_t i = 0; i < sample.steps; ++i) {
      const int64_t t = sample.step_of(i);
      double* const record = record_at(t);
      for (int64_t j = 0; j < features; ++j) {
        const double value = real_value(h[static_cast<size_t>(i * features + j)], formats_.hidden);
        record[record_.h() + j] = value;
        const int64_t channel = sample.direction * features + j;
        output[static_cast<size_t>((sample.index * spec_.output.channels + channel) * steps + t)] = activated(value);
      }
      keep_gates(layer, trace, i, record);
    }
    if (sample.direction == 0)
      for (int64_t t = sample.steps; t <= steps; ++t) keep_state(record_at(t));
  }

  // Of an activation that is fused behind the layer; its slope comes from what it gives out.
  double activated(double value) {
    if (!spec_.activation) return value;
    const double made = ActivationMath<double>(*spec_.activation)(value);
    return real_value(quantized(made, {formats_.hidden}, counters_.outputs), formats_.hidden);
  }

  void keep_gates(const FixedRecurrent& layer, const RecurrentTrace& trace, int64_t step, double* record) const {
    const int64_t units = layer.hidden, each = shape_.record;
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t place = step * units + unit;
      const int16_t* const sums = trace.sums.data() + place * each;
      const auto keep = [&](int64_t gate, double value) { record[gate * units + unit] = value; };
      const auto gate = [&](int16_t sum) { return real_value(sigmoid_of(forms_.sigmoid, sum), kGateFraction); };
      const auto bounded = [&](int16_t sum) { return real_value(tanh_of(forms_.tanh, sum), kGateFraction); };
      switch (layer.cell) {
        case CellKind::kLstm:
          keep(0, gate(sums[0]));
          keep(1, gate(sums[1]));
          keep(2, bounded(sums[2]));
          keep(3, gate(sums[3]));
          record[record_.c() + unit] = real_value(trace.cells[static_cast<size_t>(place)], kCellFraction);
          if (layer.projection > 0) record[record_.projected() + unit] = real_value(trace.units[static_cast<size_t>(place)], kGateFraction);
          break;
        case CellKind::kGru: {
          ArithmeticCounters counted_already;
          const int64_t r = sigmoid_of(forms_.sigmoid, sums[0]);
          const int16_t argument = rounded_to_element((int64_t{sums[2]} << kGateFraction) + r * sums[3], kGateFraction, counted_already);
          keep(0, real_value(r, kGateFraction));
          keep(1, gate(sums[1]));
          keep(2, bounded(argument));
          keep(3, real_value(sums[3], kSumFraction));
          break;
        }
        case CellKind::kVanillaRelu:
        case CellKind::kVanillaTanh: keep(0, record[record_.h() + unit]); break;
      }
    }
  }

  KernelSpec spec_;
  Recurrent cell_;
  Device& host_;
  LayerArithmetic& counters_;
  RecurrentShape shape_;
  reference::RecurrentRecord record_;
  CellFormats formats_;
  GateForms forms_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<FixedRecurrent> layers_;  // by direction; empty: parameters have changed
};

}  // namespace

std::unique_ptr<Kernel> make_fixed_recurrent(const KernelSpec& spec, const Recurrent& cell, Device& host, LayerArithmetic& counters,
                                             const LayerFormats& book, TanhForm smooth) {
  if (spec.finish || spec.adds_to_output)
    fail(ErrorCode::kUnavailable, "layer \"{}\": boards make a recurrent layer's products with x themselves; leave it whole on one device",
         spec.layer);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable, "layer \"{}\": boards compute a GRU whose reset gate comes after the recurrent product; set reset_after",
         spec.layer);
  return std::make_unique<FixedRecurrentKernel>(spec, cell, host, counters, book, smooth);
}

}  // namespace millrace::emulated

namespace millrace {

CellFormats recurrent_formats_of(const LayerFormats& book, const std::string& layer, const Recurrent& cell) {
  const auto found = book.find(layer);
  if (found == book.end()) {
    // What no tangent bounds may be larger.
    const int hidden = cell.cell == CellKind::kVanillaRelu ? 11 : cell.projection > 0 ? 12 : 13;
    return {.input = 12, .weight = 13, .hidden = hidden, .projection = 13};
  }
  const EngineFormats& own = found->second;
  return {.input = own.activation.fraction_bits,
          .weight = own.weight.fraction_bits,
          .hidden = std::min(own.sum.fraction_bits, kGateFraction),
          .projection = own.weight.fraction_bits};
}

}  // namespace millrace
