// Recurrent layers: products for all steps at once around the recurrence, which is the engine's. Both directions are the same
// recurrence in their own times (sequence_work.h); chunks of time and truncation divide it into calls that take up each other's states.
//
// A projection P is folded into the state's weights (recurrent_weights.h): the recurrence then runs over what is projected, with one
// product per step as any lstm, and its outputs are one more product for all steps. A state that was carried over is of what comes out,
// which P need not reach: it joins the first step's sums instead.
// In a narrow precision the factors of all products are rounded to it, states and gate errors when they are written; sums, cells, biases
// and errors from step to step stay fp32. A layer whose steps are taken at once in fp32 alone is fp32 throughout, and says so.
// In chunks results are the same up to rounding: what passes from chunk to chunk is summed apart.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/device/recurrent_shape.h"
#include "core/device/sequence.h"
#include "gpu/device/factors.h"
#include "gpu/device/operations.h"
#include "gpu/device/recurrent_memory.h"
#include "gpu/device/recurrent_weights.h"

namespace millrace::gpu {

namespace {

RecurrentCell cell_of(const RecurrentShape& s) {
  switch (s.cell) {
    case CellKind::kLstm: return RecurrentCell::kLstm;
    case CellKind::kGru: return s.reset_after ? RecurrentCell::kGru : RecurrentCell::kCanonicalGru;
    case CellKind::kVanillaRelu: return RecurrentCell::kRelu;
    case CellKind::kVanillaTanh: break;
  }
  return RecurrentCell::kTanh;
}

void refuse_what_does_not_run(const KernelSpec& spec, const RecurrentShape& s) {
  const auto refuse = [&](const std::string& what, const std::string& otherwise) {
    fail(ErrorCode::kUnavailable, "layer \"{}\": {} {} does not run on GPUs; {}, or give its part of the ring to a processor (cpu)",
         spec.layer, name_of(spec.operation), what, otherwise);
  };
  if (s.hard_gates) refuse("with gate_activation HARD_SIGMOID", "train it with SIGMOID");
  if (s.truncation > 0 && s.directions > 1) refuse("of both directions with truncation", "leave the truncation out");
  if (s.steps * s.samples * std::max(s.inputs, s.gates * s.hidden) > std::numeric_limits<int>::max())
    refuse(fmt::format("of {} samples of {} steps", s.samples, s.steps), "take fewer samples at a time or shorter sequences");
}

class RecurrentKernel final : public GpuKernel {
 public:
  RecurrentKernel(const SharedContext& context, const KernelSpec& spec, const Recurrent& operation)
      : GpuKernel(context, spec), s_(spec, operation) {
    refuse_what_does_not_run(spec, s_);
    const Precision wanted = context->options().precision;
    geometry_ = {.cell = cell_of(s_),
                 .samples = s_.samples,
                 .hidden = s_.hidden,
                 .sides = s_.directions,
                 .precision = is_narrow(wanted) ? wanted : Precision::kFloat32};
    translated([&] {
      choice_ = context->engine().choose(geometry_);
      geometry_.precision = choice_.precision;
      const auto reserve = [&](Scratch scratch, int64_t width, std::string_view what) {
        context->reserve(scratch, to_size(rows() * width) * sizeof(float), fmt::format("layer \"{}\": {}", spec.layer, what));
      };
      if (s_.multiplies_input) reserve(Scratch::kFirst, s_.inputs, "inputs in time");
      reserve(Scratch::kResult, s_.directions * s_.hidden, "errors in time");
      reserve(Scratch::kWorkspace, s_.directions * sums(), "gates that give way to their errors");
      if (s_.projects && is_narrow(precision())) reserve(Scratch::kSecond, s_.features, "outputs in sixteen bits");
      weights_.emplace(*context, spec.layer, s_, precision());
    });
    log::info("layer \"{}\": {}; keeps {} KiB of a micro-batch: gates give way to their errors", spec.layer, implementation(),
              keep_shape().elements() * static_cast<int64_t>(sizeof(float)) / 1024);
  }

  // The second direction starts at the end, and an activation behind the layer is applied to whole tensors.
  bool streams() const override { return s_.directions == 1 && !spec().activation; }
  std::string implementation() const override {
    const Precision wanted = context().options().precision;
    const std::string how = steps_words();
    if (!is_narrow(wanted) || is_narrow(precision())) return how;
    return fmt::format("{}; in fp32, for no kernel takes all steps in {} at once", how, name_of(wanted));
  }

  void parameters_changed(std::span<const Tensor* const> parameters) override {
    translated([&] {
      weights_->follow(parameters);
      context().end_of_calculation();
    });
  }

 protected:
  std::vector<Shape> parameter_shapes() const override { return s_.parameter_shapes(); }
  std::vector<Shape> state_shapes() const override { return s_.state_shapes(); }
  Shape keep_shape() const override { return {RecurrentMemory(s_, precision(), nullptr, 0).floats(), s_.directions, 1}; }

  void run_forward(const ForwardArguments& arguments) override {
    const StepRange steps = chunk_of(*arguments.batch, s_.steps);
    const int32_t* const valid = valid_.write(context(), spec(), *arguments.batch);
    const GpuTensor& keep = own(arguments.keep);
    for (int64_t d = 0; d < s_.directions; ++d) {
      input_sums(arguments, d, steps, valid);
      if (steps.begin == 0 && steps.size() > 0) take_up(arguments, d);
    }
    recur({.geometry = geometry_, .steps = steps.size()}, steps.begin, arguments.parameters, keep);
    const GpuTensor& output = own(arguments.output);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const RecurrentMemory memory = memory_of(keep, d);
      if (valid != nullptr)
        context().run(ClearEnded{.time = time(d, valid),
                                 .rows = memory.states(0),
                                 .width = s_.hidden,
                                 .begin = steps.begin,
                                 .elements = steps.size() * s_.samples * s_.hidden},
                      {valid_.buffer()}, {&keep.buffer()});
      if (s_.projects) {
        const Factor projection = weights(arguments.parameters, s_.projection(d));
        multiply({.m = steps.size() * s_.samples,
                  .n = s_.features,
                  .k = s_.hidden,
                  .transpose_b = true,
                  .a = memory.states(steps.begin).memory,
                  .b = projection.data,
                  .result = static_cast<float*>(memory.features(steps.begin).memory)},
                 {&keep.buffer(), projection.buffer}, {&keep.buffer()});
      }
      hand_out(d, valid, memory.features(0), keep.buffer(), steps, output, {d * s_.features, (d + 1) * s_.features}, false);
    }
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    const StepRange steps = chunk_of(*arguments.batch, s_.steps);
    const int32_t* const valid = valid_.write(context(), spec(), *arguments.batch);
    const GpuTensor& keep = own(arguments.keep);
    for (int64_t d = 0; d < s_.directions; ++d) {
      take_errors(arguments, d, steps, valid);
      context().run(
          straight_copy(memory_of(keep, d).gates(steps.begin), gates_aside(d, steps.begin), steps.size() * s_.samples * sums(), false),
          {&keep.buffer()}, {&aside()});
    }
    // Parts between the steps that no error passes, from the last.
    for (StepRange part{steps.end, steps.end}; part.begin > steps.begin; part.end = part.begin) {
      part.begin = steps.begin;
      if (s_.truncation > 0) part.begin = std::max(steps.begin, (part.end - 1) / s_.truncation * s_.truncation);
      go_back(arguments.parameters, part, keep);
    }
    if (arguments.input_errors[0] == nullptr) return;
    for (int64_t d = 0; d < s_.directions; ++d) input_errors(arguments, d, steps, valid);
  }

  void run_gradient(const GradientArguments& arguments) override {
    const int32_t* const valid = valid_.write(context(), spec(), *arguments.batch);
    for (int64_t d = 0; d < s_.directions; ++d) {
      if (!arguments.gradients.empty()) gradients(arguments, d, valid);
      if (s_.stateful && arguments.batch->training) commit(arguments, valid);
    }
  }

 private:
  std::string steps_words() const {
    if (!choice_.at_once_forward && !choice_.at_once_back) return "step by step, " + choice_.forward;
    const auto words = [](bool at_once, const std::string& how) { return (at_once ? "all steps at once, " : "step by step, ") + how; };
    return fmt::format("FP {}; EB {}", words(choice_.at_once_forward, choice_.forward), words(choice_.at_once_back, choice_.back));
  }
  Precision precision() const { return choice_.precision; }
  RecurrentMemory memory_of(const GpuTensor& keep, int64_t d) const { return {s_, precision(), keep.data(), d}; }
  int64_t sums() const { return s_.gates * s_.hidden; }
  int64_t rows() const { return s_.steps * s_.samples; }
  OwnTime time(int64_t d, const int32_t* valid) const {
    return {.valid = valid, .samples = s_.samples, .steps = s_.steps, .reversed = d == 1};
  }
  const Buffer& inputs_in_time() const { return context().scratch(Scratch::kFirst); }
  const Buffer& errors_in_time() const { return context().scratch(Scratch::kResult); }
  const Buffer& aside() const { return context().scratch(Scratch::kWorkspace); }
  float* gates_aside(int64_t d, int64_t t) const { return aside().as<float>() + (d * rows() + t * s_.samples) * sums(); }
  // Of the states, [direction][step][sample][unit].
  float* state_errors(int64_t d, int64_t t) const { return errors_in_time().as<float>() + (d * rows() + t * s_.samples) * s_.hidden; }

  void multiply(Gemm gemm, Context::Buffers reads, Context::Buffers writes) const {
    gemm.precision = precision();
    context().compute(reads, writes, [&] { context().engine().gemm(gemm); });
  }
  // A matrix of the layer as a factor.
  Factor weights(std::span<const Tensor* const> parameters, size_t which) const { return weights_->factor(parameters, which); }
  // Of a projected lstm, outputs and their errors as a factor.
  Factor features_as_factor(const float* features, int64_t rows, const GpuTensor& keep) const {
    if (!is_narrow(precision())) return {features, &keep.buffer()};
    const Buffer& rounded = context().scratch(Scratch::kSecond);
    narrow(context(), precision(), features, keep.buffer(), rounded, rows * s_.features);
    return {rounded.as<void>(), &rounded};
  }

  // Into a direction's own time.
  void take_in(int64_t d, const int32_t* valid, const GpuTensor& from, ChannelRange channels, StepRange steps, StoredFloats to,
               const Buffer& target) const {
    context().run(IntoOwnTime{.time = time(d, valid),
                              .from = from.data(),
                              .to = to,
                              .channels = from.shape().channels,
                              .first = channels.begin,
                              .width = channels.size(),
                              .begin = steps.begin,
                              .elements = steps.size() * s_.samples * channels.size()},
                  {&from.buffer(), valid_.buffer()}, {&target});
  }
  void hand_out(int64_t d, const int32_t* valid, ConstFloats from, const Buffer& source, StepRange steps, const GpuTensor& to,
                ChannelRange channels, bool adds) const {
    context().run(OutOfOwnTime{.time = time(d, valid),
                               .from = from,
                               .to = to.data(),
                               .channels = to.shape().channels,
                               .first = channels.begin,
                               .width = channels.size(),
                               .begin = steps.begin,
                               .end = steps.end,
                               .adds = adds,
                               .elements = steps.size() * s_.samples * channels.size()},
                  {&source, valid_.buffer()}, {&to.buffer()});
  }

  // x W and the biases, of the steps.
  void input_sums(const ForwardArguments& arguments, int64_t d, StepRange steps, const int32_t* valid) {
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& keep = own(arguments.keep);
    float* const to = memory_of(keep, d).gates(steps.begin);
    if (s_.multiplies_input) {
      const Factor weight = weights(arguments.parameters, s_.input_weight(d));
      const StoredFloats in_time{inputs_in_time().as<void>(), precision()};
      take_in(d, valid, input, {0, s_.inputs}, steps, in_time, inputs_in_time());
      multiply({.m = steps.size() * s_.samples,
                .n = sums(),
                .k = s_.inputs,
                .transpose_b = true,
                .a = in_time.from(steps.begin * s_.samples * s_.inputs).memory,
                .b = weight.data,
                .result = to},
               {&inputs_in_time(), weight.buffer}, {&keep.buffer()});
    } else {
      take_in(d, valid, input, {d * sums(), (d + 1) * sums()}, steps, memory_of(keep, d).gates(0), keep.buffer());
    }
    const Buffer& bias = weights_->bias(d);
    context().run(AddBias{.values = to, .bias = bias.as<float>(), .channels = sums(), .elements = steps.size() * s_.samples * sums()},
                  {&bias}, {&keep.buffer()});
  }

  // The states before the first step.
  void take_up(const ForwardArguments& arguments, int64_t d) {
    const MicroBatch& batch = *arguments.batch;
    const GpuTensor& keep = own(arguments.keep);
    const RecurrentMemory memory = memory_of(keep, d);
    const bool carried = s_.stateful && batch.training;
    const int32_t* fresh = nullptr;
    if (carried && !batch.fresh.empty()) {
      fresh_.assign(batch.fresh.begin(), batch.fresh.end());
      fresh = fresh_numbers_.write(context(), std::span<const int32_t>(fresh_), "layer \"" + spec().layer + "\": who starts from zero");
    }
    const auto start = [&](StoredFloats to, size_t state, int64_t width, bool takes) {
      const GpuTensor* const from = takes ? &own(arguments.state[state]) : nullptr;
      context().run(StartStates{.carried = takes ? from->data() + s_.first_sample(batch) * width : nullptr,
                                .fresh = fresh,
                                .to = to,
                                .width = width,
                                .elements = s_.samples * width},
                    {takes ? &from->buffer() : nullptr, fresh_numbers_.buffer()}, {&keep.buffer()});
    };
    start(memory.states(-1), 0, s_.hidden, carried && !s_.projects);
    if (s_.has_cell_state()) start(memory.cells(-1), 1, s_.hidden, carried);
    if (!s_.projects) return;
    start(memory.features(-1), 0, s_.features, carried);
    if (!carried) return;
    const Factor weight = weights(arguments.parameters, s_.hidden_weight(d));
    const Factor features = features_as_factor(static_cast<const float*>(memory.features(-1).memory), s_.samples, keep);
    multiply({.m = s_.samples,
              .n = sums(),
              .k = s_.features,
              .transpose_b = true,
              .a = features.data,
              .b = weight.data,
              .result = memory.gates(0),
              .adds = true},
             {features.buffer, weight.buffer}, {&keep.buffer()});
  }

  // The engine's call about steps from `begin` on.
  void recur(Recurrence call, int64_t begin, std::span<const Tensor* const> parameters, const GpuTensor& keep) const {
    const Buffer *matrices[2] = {}, *biases[2] = {};
    for (int64_t d = 0; d < s_.directions; ++d) {
      const RecurrentMemory memory = memory_of(keep, d);
      RecurrentSide& side = call.side[d];
      const GpuTensor& bias = own(parameters[s_.hidden_bias(d)]);
      matrices[d] = s_.projects ? &weights_->folded(d) : weights(parameters, s_.hidden_weight(d)).buffer;
      biases[d] = &bias.buffer();
      side.weights = matrices[d]->as<void>();
      if (biases_apart(s_)) side.candidate_bias = bias.data() + 2 * s_.hidden;
      side.gates = call.back ? gates_aside(d, begin) : memory.gates(begin);
      side.states = memory.states(begin).memory;
      side.first_state = memory.states(begin - 1).memory;
      if (s_.has_cell_state()) {
        side.cells = memory.cells(begin);
        side.first_cell = memory.cells(begin - 1);
      }
      if (s_.cell == CellKind::kGru) side.candidate = memory.candidate(begin);
      if (s_.cell == CellKind::kGru && !s_.reset_after) side.reset_states = memory.reset_states(begin).memory;
    }
    context().compute(
        {matrices[0], matrices[1], biases[0], biases[1], call.back ? &errors_in_time() : nullptr, call.back ? &aside() : nullptr},
        {&keep.buffer()}, [&] { context().engine().recurrence(call); });
  }

  // The errors of the states that come from the output.
  void take_errors(const ErrorBackArguments& arguments, int64_t d, StepRange steps, const int32_t* valid) {
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& keep = own(arguments.keep);
    const ChannelRange channels{d * s_.features, (d + 1) * s_.features};
    if (!s_.projects) return take_in(d, valid, error, channels, steps, state_errors(d, 0), errors_in_time());
    const RecurrentMemory memory = memory_of(keep, d);
    const Factor projection = weights(arguments.parameters, s_.projection(d));
    take_in(d, valid, error, channels, steps, memory.feature_errors(0), keep.buffer());
    const Factor errors = features_as_factor(memory.feature_errors(steps.begin), steps.size() * s_.samples, keep);
    multiply({.m = steps.size() * s_.samples,
              .n = s_.hidden,
              .k = s_.features,
              .a = errors.data,
              .b = projection.data,
              .result = state_errors(d, steps.begin)},
             {errors.buffer, projection.buffer}, {&errors_in_time()});
  }

  // Steps that nothing cuts, all of them behind the chunk's beginning.
  void go_back(std::span<const Tensor* const> parameters, StepRange part, const GpuTensor& keep) const {
    Recurrence call{.geometry = geometry_, .back = true, .steps = part.size()};
    const bool ends = part.end == s_.steps || s_.cuts_before(0, part.end);  // nothing comes from behind
    for (int64_t d = 0; d < s_.directions; ++d) {
      const RecurrentMemory memory = memory_of(keep, d);
      RecurrentSide& side = call.side[d];
      side.state_errors = state_errors(d, part.begin);
      side.gate_errors = memory.gate_errors(part.begin).memory;
      if (biases_apart(s_)) side.input_errors = memory.input_errors(part.begin).memory;
      side.later_errors = ends ? nullptr : memory.gate_errors(part.end).memory;
      side.carry = memory.carry();
      if (ends)
        context().compute({}, {&keep.buffer()},
                          [&] { context().engine().fill_zero(side.carry, to_size(s_.samples * s_.hidden) * sizeof(float)); });
    }
    recur(call, part.begin, parameters, keep);
    if (!s_.projects) return;
    // What comes out also goes into the next step: the errors that its projection's gradient wants.
    for (int64_t d = 0; d < s_.directions; ++d) {
      const RecurrentMemory memory = memory_of(keep, d);
      const Factor weight = weights(parameters, s_.hidden_weight(d));
      multiply({.m = (part.size() - (ends ? 1 : 0)) * s_.samples,
                .n = s_.features,
                .k = sums(),
                .a = memory.gate_errors(part.begin + 1).memory,
                .b = weight.data,
                .result = memory.feature_errors(part.begin),
                .adds = true},
               {weight.buffer}, {&keep.buffer()});
    }
  }

  void input_errors(const ErrorBackArguments& arguments, int64_t d, StepRange steps, const int32_t* valid) {
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    const GpuTensor& keep = own(arguments.keep);
    const RecurrentMemory memory = memory_of(keep, d);
    const bool adds = arguments.adds[0] != 0;
    if (!s_.multiplies_input)
      return hand_out(d, valid, memory.input_errors(0), keep.buffer(), steps, input_error, {d * sums(), (d + 1) * sums()}, adds);
    const Factor weight = weights(arguments.parameters, s_.input_weight(d));
    float* const in_time = inputs_in_time().as<float>();
    multiply({.m = steps.size() * s_.samples,
              .n = s_.inputs,
              .k = sums(),
              .a = memory.input_errors(steps.begin).memory,
              .b = weight.data,
              .result = in_time + steps.begin * s_.samples * s_.inputs},
             {&keep.buffer(), weight.buffer}, {&inputs_in_time()});
    hand_out(d, valid, in_time, inputs_in_time(), steps, input_error, {0, s_.inputs}, d > 0 || adds);
  }

  // One product each over all steps of all samples.
  void gradients(const GradientArguments& arguments, int64_t d, const int32_t* valid) {
    const GpuTensor& keep = own(arguments.keep);
    const RecurrentMemory memory = memory_of(keep, d);
    const auto product = [&](const ConstFloats& errors, const Buffer& of_errors, int64_t first, int64_t width, int64_t row,
                             const void* factor, const Buffer& of_factor, int64_t columns, size_t gradient) {
      const GpuTensor& target = own(arguments.gradients[gradient]);
      multiply({.m = width,
                .n = columns,
                .k = rows(),
                .transpose_a = true,
                .a = errors.from(first).memory,
                .b = factor,
                .result = target.data() + first * columns,
                .row_a = row,
                .adds = arguments.adds},
               {&of_errors, &of_factor}, {&target.buffer()});
    };
    const auto sum = [&](const ConstFloats& errors, size_t gradient) {
      const GpuTensor& target = own(arguments.gradients[gradient]);
      context().reduce(
          ChannelSum{.values = errors, .sums = target.data(), .plane = 1, .adds = arguments.adds, .groups = sums(), .length = rows()},
          {&keep.buffer()}, {&target.buffer()});
    };
    const Buffer& kept = keep.buffer();
    const ConstFloats errors = memory.gate_errors(0);
    if (s_.multiplies_input) {
      const StoredFloats in_time{inputs_in_time().as<void>(), precision()};
      take_in(d, valid, own(arguments.inputs[0]), {0, s_.inputs}, {0, s_.steps}, in_time, inputs_in_time());
      product(memory.input_errors(0), kept, 0, sums(), sums(), in_time.memory, inputs_in_time(), s_.inputs, s_.input_weight(d));
    }
    sum(memory.input_errors(0), s_.input_bias(d));
    sum(errors, s_.hidden_bias(d));
    const bool resets = s_.cell == CellKind::kGru && !s_.reset_after;  // the candidate's product is one with r h'
    Factor before{memory.features(-1).memory, &kept};
    if (s_.projects) before = features_as_factor(static_cast<const float*>(before.data), rows(), keep);
    product(errors, kept, 0, resets ? 2 * s_.hidden : sums(), sums(), before.data, *before.buffer, s_.features, s_.hidden_weight(d));
    if (resets)
      product(errors, kept, 2 * s_.hidden, s_.hidden, sums(), memory.reset_states(0).memory, kept, s_.hidden, s_.hidden_weight(d));
    if (!s_.projects) return;
    const Factor of_features = features_as_factor(memory.feature_errors(0), rows(), keep);
    product(ConstFloats{of_features.data, precision()}, *of_features.buffer, 0, s_.features, s_.features, memory.states(0).memory, kept,
            s_.hidden, s_.projection(d));
  }

  void commit(const GradientArguments& arguments, const int32_t* valid) const {
    const GpuTensor& keep = own(arguments.keep);
    const RecurrentMemory memory = memory_of(keep, 0);
    const auto end = [&](const ConstFloats& states, size_t state, int64_t width) {
      const GpuTensor& to = own(arguments.state[state]);
      context().run(EndStates{.time = time(0, valid),
                              .states = states,
                              .to = to.data() + s_.first_sample(*arguments.batch) * width,
                              .width = width,
                              .elements = s_.samples * width},
                    {&keep.buffer(), valid_.buffer()}, {&to.buffer()});
    };
    end(memory.features(-1), 0, s_.features);
    if (s_.has_cell_state()) end(memory.cells(-1), 1, s_.hidden);
  }

  RecurrentShape s_;
  RecurrenceGeometry geometry_;
  RecurrenceChoice choice_;
  ValidRows valid_;
  std::vector<int32_t> fresh_;
  UploadedNumbers fresh_numbers_;
  std::optional<RecurrentWeights> weights_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Recurrent& operation) {
  return std::make_unique<RecurrentKernel>(context, spec, operation);
}

}  // namespace millrace::gpu
