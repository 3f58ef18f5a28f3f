// Recurrent layers on the functional model of fpga/recurrence: forward to the bit as the hardware, back through what it kept.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/activation_math.h"
#include "core/device/sequence.h"
#include "core/reference/recurrent_record.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/emulated/emulated_kernels.h"
#include "fpga/emulated/emulated_tensor.h"
#include "fpga/emulated/recurrent_parameters.h"
#include "fpga/recurrence/arithmetic/recurrence_engine.h"

namespace millrace::emulated {

namespace {

// F is the functional model. What it kept is written where the host's kernel keeps its own, so that E and G of the host go back through
// the gates, cells and states of fixed point: straight through every rounding, with the slopes of sigmoid and tanh where they came out.
class FixedRecurrentKernel final : public Kernel {
 public:
  FixedRecurrentKernel(const KernelSpec& spec, const Recurrent& cell, Device& host, LayerArithmetic& counters, const LayerFormats& book,
                       TanhForm smooth, RecurrenceEngine& engine)
      : spec_(spec),
        cell_(cell),
        host_(host),
        counters_(counters),
        engine_(engine),
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
    std::vector<double> output(to_size(spec_.output.elements() * shape_.samples), activated(0));
    std::vector<double> kept;
    if (arguments.keep != nullptr) kept.resize(to_size(shape_.directions * shape_.samples * record_.places() * record_.size()));
    std::vector<double> hidden, cells;
    if (shape_.stateful && arguments.batch->training) {
      hidden = values_of(host_, *host_of(arguments.state[0]));
      if (shape_.has_cell_state()) cells = values_of(host_, *host_of(arguments.state[1]));
    }
    for (int64_t direction = 0; direction < shape_.directions; ++direction) {
      const FixedRecurrent& layer = fast_item(layers_, direction);
      RecurrentState state = zero_state(layer, shape_.samples);
      std::vector<int64_t> lengths;
      for (int64_t sample = 0; sample < shape_.samples; ++sample) {
        lengths.push_back(valid_steps(spec_, *arguments.batch, sample));
        if (!hidden.empty() && !is_fresh(*arguments.batch, sample))
          take_up(hidden, cells, shape_.first_sample(*arguments.batch) + sample, sample, state);
      }
      run(direction, layer, lengths, x, state, output, arguments.keep != nullptr ? &kept : nullptr);
    }
    set_values(host_, *host_of(arguments.output), output);
    if (arguments.keep != nullptr) set_values(host_, *host_of(arguments.keep), kept);
  }

  void error_back(const ErrorBackArguments& arguments) override {
    on_host(arguments, [&](const ErrorBackArguments& inner) { kernel_->error_back(inner); });
  }

  void parameter_gradient(const GradientArguments& arguments) override {
    on_host(arguments, [&](const GradientArguments& inner) { kernel_->parameter_gradient(inner); });
  }

  std::string implementation() const override { return "functional model of fpga/recurrence, back on the host"; }

 private:
  void take_parameters(std::span<const Tensor* const> parameters) {
    for (int64_t d = 0; d < shape_.directions; ++d) {
      const RecurrentParameters p = recurrent_parameters(host_, shape_, d, parameters);
      layers_.push_back(fixed_recurrent(cell_, shape_.multiplies_input ? shape_.inputs : 0,
                                        {p.input_weight, p.hidden_weight, p.input_bias, p.hidden_bias, p.projection}, formats_, forms_,
                                        counters_.weights));
    }
  }

  // x W that another device made, in the accumulators' bits.
  int32_t accumulated(double sum) {
    const double scaled = std::nearbyint(std::ldexp(sum, formats_.accumulator())), most = std::numeric_limits<int32_t>::max();
    if (!(std::fabs(scaled) <= most)) ++counters_.inputs.saturated;
    return std::isnan(scaled) ? 0 : static_cast<int32_t>(std::clamp(scaled, -most - 1, most));
  }

  static bool is_fresh(const MicroBatch& batch, int64_t sample) { return !batch.fresh.empty() && fast_item(batch.fresh, sample) != 0; }

  // The state of the mini-batch's `sample` as that of stream `stream`.
  void take_up(std::span<const double> hidden, std::span<const double> cells, int64_t sample, int64_t stream, RecurrentState& state) {
    for (int64_t j = 0; j < shape_.features; ++j)
      fast_item(state.hidden, stream * shape_.features + j) =
          quantized(fast_item(hidden, sample * shape_.features + j), {formats_.hidden}, counters_.outputs);
    if (state.cell.empty()) return;
    for (int64_t j = 0; j < shape_.hidden; ++j)
      fast_item(state.cell, stream * shape_.hidden + j) =
          static_cast<int32_t>(std::llrint(std::ldexp(fast_item(cells, sample * shape_.hidden + j), kCellFraction)));
  }

  // All samples of the micro-batch side by side; `kept` is null where nothing goes back.
  void run(int64_t direction, const FixedRecurrent& layer, const std::vector<int64_t>& lengths, std::span<const double> x,
           RecurrentState& state, std::vector<double>& output, std::vector<double>* kept) {
    const int64_t steps = shape_.steps, inputs = shape_.inputs, samples = shape_.samples;
    const auto step_of = [&](int64_t sample, int64_t i) { return direction == 0 ? i : fast_item(lengths, sample) - 1 - i; };
    std::vector<int16_t> elements(shape_.multiplies_input ? to_size(samples * steps * inputs) : 0);
    std::vector<int32_t> sums(shape_.multiplies_input ? 0 : to_size(samples * steps * layer.rows()));
    for (int64_t sample = 0; sample < samples; ++sample)
      for (int64_t i = 0; i < fast_item(lengths, sample); ++i) {
        const auto input = [&](int64_t j) { return fast_item(x, (sample * inputs + j) * steps + step_of(sample, i)); };
        for (int64_t j = 0; shape_.multiplies_input && j < inputs; ++j)
          fast_item(elements, (sample * steps + i) * inputs + j) = quantized(input(j), {formats_.input}, counters_.inputs);
        for (int64_t row = 0; !shape_.multiplies_input && row < layer.rows(); ++row)  // gate by gate they come, unit by unit they go
          fast_item(sums, (sample * steps + i) * layer.rows() + row) =
              accumulated(input(direction * layer.rows() + row % layer.gates() * layer.hidden + row / layer.gates()));
      }
    const auto record_at = [&](int64_t sample, int64_t step) { return kept->data() + record_.at(direction, sample, step); };
    const auto keep_state = [&](int64_t sample, int64_t step) {
      double* const record = record_at(sample, step);
      for (int64_t j = 0; j < shape_.features; ++j)
        record[record_.h() + j] = real_value(fast_item(state.hidden, sample * shape_.features + j), formats_.hidden);
      for (int64_t j = 0; j < shape_.hidden && !state.cell.empty(); ++j)
        record[record_.c() + j] = real_value(fast_item(state.cell, sample * shape_.hidden + j), kCellFraction);
    };
    // The state before a stream's first step, and behind its last.
    for (int64_t sample = 0; sample < samples && kept != nullptr; ++sample) {
      if (direction == 0) keep_state(sample, -1);
      for (int64_t t = fast_item(lengths, sample); t <= steps && direction == 1; ++t) keep_state(sample, t);
    }
    RecurrentTrace trace;
    RecurrentCounters counted;
    const std::vector<int16_t> h =
        engine_.forward(layer, {.streams = samples, .steps = steps, .first_step = 0, .lengths = lengths, .sums = sums}, elements, state,
                        counted, kept != nullptr ? &trace : nullptr);
    counters_.sums += counted.sums;
    counters_.cells += counted.cells;
    counters_.outputs += counted.outputs;
    for (int64_t sample = 0; sample < samples; ++sample) {
      const int64_t valid = fast_item(lengths, sample);
      for (int64_t i = 0; i < valid; ++i) take_step(direction, layer, sample, i, step_of(sample, i), h, trace, output, kept);
      for (int64_t t = valid; t <= steps && direction == 0 && kept != nullptr; ++t) keep_state(sample, t);
    }
  }

  // Step i of a stream, which is step t of the sequence, is what goes out, and what is kept for the way back.
  void take_step(int64_t direction, const FixedRecurrent& layer, int64_t sample, int64_t i, int64_t t, std::span<const int16_t> h,
                 const RecurrentTrace& trace, std::vector<double>& output, std::vector<double>* kept) {
    const int64_t steps = shape_.steps, features = shape_.features, place = sample * steps + i;
    double* const record = kept == nullptr ? nullptr : kept->data() + record_.at(direction, sample, t);
    for (int64_t j = 0; j < features; ++j) {
      const double value = real_value(fast_item(h, place * features + j), formats_.hidden);
      if (record != nullptr) record[record_.h() + j] = value;
      const int64_t channel = direction * features + j;
      fast_item(output, (sample * spec_.output.channels + channel) * steps + t) = activated(value);
    }
    if (record != nullptr) keep_gates(layer, trace, place, record);
  }

  // Of an activation that is fused behind the layer; its slope comes from what it gives out.
  double activated(double value) {
    if (!spec_.activation) return value;
    const double made = ActivationMath<double>(*spec_.activation)(value);
    return real_value(quantized(made, {formats_.hidden}, counters_.outputs), formats_.hidden);
  }

  void keep_gates(const FixedRecurrent& layer, const RecurrentTrace& trace, int64_t vector, double* record) const {
    const int64_t units = layer.hidden, each = shape_.record;
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t place = vector * units + unit;
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
          record[record_.c() + unit] = real_value(fast_item(trace.cells, place), kCellFraction);
          if (layer.projection > 0) record[record_.projected() + unit] = real_value(fast_item(trace.units, place), kGateFraction);
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
  RecurrenceEngine& engine_;
  RecurrentShape shape_;
  reference::RecurrentRecord record_;
  CellFormats formats_;
  GateForms forms_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<FixedRecurrent> layers_;  // by direction; empty: parameters have changed
};

}  // namespace

std::unique_ptr<Kernel> make_fixed_recurrent(const KernelSpec& spec, const Recurrent& cell, Device& host, LayerArithmetic& counters,
                                             const LayerFormats& book, TanhForm smooth, RecurrenceEngine& engine) {
  if (spec.adds_to_output)
    fail(ErrorCode::kUnavailable, "layer \"{}\": boards add up a recurrent layer's products themselves; leave it whole on one device",
         spec.layer);
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    fail(ErrorCode::kUnavailable, "layer \"{}\": boards compute a GRU whose reset gate comes after the recurrent product; set reset_after",
         spec.layer);
  return std::make_unique<FixedRecurrentKernel>(spec, cell, host, counters, book, smooth, engine);
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
