// Recurrent layers: the input's product for all steps at once, the steps one after the other (recurrent_steps.h), and as
// gradients one product over all steps of all samples (gradient_product.h). Weights are packed once per update.
//
// What does not wait for the step before is made for whole chunks of time; as every sum is made by itself, in one order
// (packed_product.h), results do not depend on the chunks. Gradients are made for the whole sequence.
#include <algorithm>
#include <array>

#include "core/base/index.h"
#include "core/cpu/gradient_product.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/recurrent_steps.h"
#include "core/cpu/vector_math.h"
#include "core/device/sequence.h"
#include "core/device/step_record.h"

namespace millrace::cpu {

namespace {

class RecurrentLayer final : public CpuKernel, public StepRecorder {
 public:
  RecurrentLayer(const SharedEngine& engine, const KernelSpec& spec, const Recurrent& operation)
      : CpuKernel(engine, spec),
        s_(spec, operation),
        plan_(s_),
        gradient_product_(engine->vector_length, std::max(s_.gates * s_.hidden, s_.features),
                          std::max((s_.multiplies_input ? s_.inputs : 0) + s_.features, s_.hidden)),
        valid_(to_size(s_.samples)),
        needs_input_error_(spec.input_error_needed && s_.multiplies_input) {
    const int64_t lanes = engine->vector_length;
    halves_ = engine->halves && lanes == 16 && waits_for_weights();
    const PackedAs as = halves_ ? PackedAs::kHalves : PackedAs::kFloats;
    for (int64_t d = 0; d < s_.directions; ++d) {
      steps_.emplace_back(s_, lanes, as);
      if (s_.multiplies_input) input_.emplace_back(s_.inputs, std::vector<PackedMatrix::Block>{{sums(), 0}}, lanes);
      if (needs_input_error_) input_back_.emplace_back(sums(), std::vector<PackedMatrix::Block>{{s_.inputs, 0}}, lanes);
    }
    ScratchPlan scratch;
    inputs_in_time_ = scratch.add(to_size(s_.steps * s_.samples * s_.inputs) * sizeof(float));
    packed_ = scratch.add(gradient_product_.scratch_bytes());
    reserve(scratch);
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return tensors_of(s_.parameter_shapes()); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return tensors_of(s_.state_shapes()); }
  std::unique_ptr<Tensor> make_keep() override { return make_parameter({plan_.floats(), s_.directions, 1}); }

  void read_record(Tensor& keep, const MicroBatch& batch, std::span<double> record) override {
    const RecordChannels channels(s_);
    const StepRange steps = chunk_of(batch, s_.steps);
    std::ranges::fill(record, 0.0);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const StepLoop loop = loop_of(d, &keep);
      for (int64_t n = 0; n < s_.samples; ++n)
        for (int64_t t = steps.begin; t < std::min(steps.end, valid_steps(spec(), batch, n)); ++t) {
          const auto write = [&](int64_t channel, const float* from, int64_t count) {
            for (int64_t i = 0; i < count; ++i) record[channels.at(s_, d, n, channel + i, t)] = static_cast<double>(from[i]);
          };
          write(channels.taken, loop.h_before(t) + n * s_.features, s_.features);
          if (s_.projects) {
            write(channels.projected, loop.m(t) + n * s_.hidden, s_.hidden);
            write(channels.projection_errors, loop.dp(t) + n * s_.features, s_.features);
          }
          if (s_.cell == CellKind::kGru) write(channels.candidate, loop.record(t) + n * width() + 3 * s_.hidden, s_.hidden);
        }
    }
  }

  // The second direction starts at the end, and an activation behind the layer is applied to whole tensors.
  bool streams() const override { return s_.directions == 1 && !spec().activation; }
  std::string implementation() const override {
    return halves_ ? "packed products, those of steps with weights in bf16, fused cells" : "packed products, fused cells";
  }

  void parameters_changed(std::span<const Tensor* const> parameters) override {
    const ComputeScope scope(threads());
    for (int64_t d = 0; d < s_.directions; ++d) {
      const auto at = [&](size_t index) { return own(parameters[index]).data(); };
      StepWeights& weights = fast_item(steps_, d);
      weights.pack(threads(), at(s_.hidden_weight(d)), s_.projects ? at(s_.projection(d)) : nullptr);
      gather_biases(at(s_.input_bias(d)), at(s_.hidden_bias(d)), weights.bias);
      if (!s_.multiplies_input) continue;
      const float* const w = at(s_.input_weight(d));
      PackedMatrix& input = fast_item(input_, d);
      run_team(threads(), [&](const Team& team) {
        input.pack(w, s_.inputs, 1, input.share(team.thread, team.threads));
        if (!needs_input_error_) return;
        PackedMatrix& back = fast_item(input_back_, d);
        back.pack(w, 1, s_.inputs, back.share(team.thread, team.threads));
      });
    }
  }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const StepRange steps = chunk_of(*arguments.batch, s_.steps);
    measure_samples(*arguments.batch);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const StepLoop loop = loop_of(d, arguments.keep);
      if (arguments.batch->chunk == 0) take_up(arguments, loop);
      input_sums(d, own(arguments.inputs[0]).data(), steps, loop);
      loop.forward(step_threads(), steps, valid_, own(arguments.output).data());
    }
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    const StepRange steps = chunk_of(*arguments.batch, s_.steps);
    measure_samples(*arguments.batch);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const StepLoop loop = loop_of(d, arguments.keep);
      loop.back(step_threads(), steps, valid_, own(arguments.output_error).data());
      if (arguments.input_errors[0] == nullptr) continue;
      const bool adds = d > 0 || arguments.adds[0] != 0;
      float* const dx = own(arguments.input_errors[0]).data();
      if (s_.multiplies_input)
        input_errors(d, steps, loop, adds, dx);
      else
        hand_out_errors(d, steps, loop, arguments.adds[0] != 0, dx);
    }
  }

  void run_gradient(const GradientArguments& arguments) override {
    measure_samples(*arguments.batch);
    for (int64_t d = 0; d < s_.directions; ++d) {
      const StepLoop loop = loop_of(d, arguments.keep);
      if (!arguments.gradients.empty()) gradients(arguments, d, loop);
      if (s_.stateful && arguments.batch->training) commit(arguments, loop);
    }
  }

 private:
  // Threads meet at every step; a small one is over before they have.
  int step_threads() const {
    constexpr int64_t kWorthwhile = int64_t{1} << 18;
    return sums() * s_.features * s_.samples >= kWorthwhile ? threads() : 1;
  }
  // Whether reading a step's weights takes longer than multiplying with them: one row, or a few where the weights stay in no near cache.
  // Elsewhere halves only cost the instructions that make floats of them.
  bool waits_for_weights() const {
    constexpr int64_t kNear = int64_t{2} << 20;  // bytes
    return s_.samples <= (sums() * s_.features * static_cast<int64_t>(sizeof(float)) > kNear ? 4 : 1);
  }
  int64_t sums() const { return s_.gates * s_.hidden; }
  int64_t width() const { return s_.record * s_.hidden; }
  int64_t rows() const { return s_.steps * s_.samples; }

  std::vector<std::unique_ptr<Tensor>> tensors_of(const std::vector<Shape>& shapes) const {
    std::vector<std::unique_ptr<Tensor>> tensors;
    for (const Shape& shape : shapes) tensors.push_back(make_parameter(shape));
    return tensors;
  }
  StepLoop loop_of(int64_t d, Tensor* keep) const { return {s_, d, fast_item(steps_, d), plan_, own(keep).data() + d * plan_.floats()}; }
  void measure_samples(const MicroBatch& batch) {
    for (int64_t n = 0; n < s_.samples; ++n) fast_item(valid_, n) = valid_steps(spec(), batch, n);
  }

  // Both biases join where their sums do; that of gru's U h' + b, behind which the reset comes, stands alone.
  void gather_biases(const float* of_input, const float* of_hidden, std::vector<float>& bias) const {
    const bool apart = s_.cell == CellKind::kGru && s_.reset_after;
    const int64_t together = apart ? 2 * s_.hidden : sums();
    for (int64_t i = 0; i < sums(); ++i) fast_item(bias, i) = i < together ? of_input[i] + of_hidden[i] : of_input[i];
    if (apart) std::copy_n(of_hidden + together, s_.hidden, bias.begin() + sums());
  }

  // Row (t, n) of a tensor [sample][step][width].
  RowSteps in_time(int64_t wide) const { return {s_.samples, wide, s_.steps * wide}; }

  void take_up(const ForwardArguments& arguments, const StepLoop& loop) const {
    const MicroBatch& batch = *arguments.batch;
    const int64_t sample = s_.first_sample(batch);
    for (int64_t n = 0; n < s_.samples; ++n) {
      const bool carried = s_.stateful && batch.training && (batch.fresh.empty() || fast_item(batch.fresh, n) == 0);
      const auto start = [&](float* to, size_t state, int64_t wide) {
        if (carried)
          std::copy_n(own(arguments.state[state]).data() + (sample + n) * wide, wide, to + n * wide);
        else
          std::fill_n(to + n * wide, wide, 0.0f);
      };
      start(loop.h_before(loop.first_step()), 0, s_.features);
      if (s_.has_cell_state()) start(loop.c_before(loop.first_step()), 1, s_.hidden);
    }
  }

  void commit(const GradientArguments& arguments, const StepLoop& loop) const {
    const int64_t sample = s_.first_sample(*arguments.batch);
    std::copy_n(loop.h(loop.last_step()), s_.samples * s_.features, own(arguments.state[0]).data() + sample * s_.features);
    if (s_.has_cell_state())
      std::copy_n(loop.c(loop.last_step()), s_.samples * s_.hidden, own(arguments.state[1]).data() + sample * s_.hidden);
  }

  void input_sums(int64_t d, const float* x, StepRange steps, const StepLoop& loop) const {
    const float* const bias = fast_item(steps_, d).bias.data();
    const int64_t count = steps.size() * s_.samples;
    if (s_.multiplies_input) {
      const PackedMatrix& w = fast_item(input_, d);
      const ConstRows from{x + steps.begin * s_.inputs, in_time(s_.inputs)};
      const Rows to{loop.record(steps.begin), RowSteps::plain(width())};
      return run_team(threads(), [&](const Team& team) {
        multiply_packed(from, count, w, w.share(team.thread, team.threads), to, Into::kOverwrite, bias);
      });
    }
    const RowSteps from = in_time(s_.inputs);
    parallel_for(threads(), count, [&](int64_t row) {
      float* const to = loop.record(steps.begin) + row * width();
      std::copy_n(x + steps.begin * s_.inputs + from.offset(row) + d * sums(), sums(), to);
      add_to(to, bias, sums());
    });
  }

  void input_errors(int64_t d, StepRange steps, const StepLoop& loop, bool adds, float* dx) const {
    const PackedMatrix& w = fast_item(input_back_, d);
    const ConstRows from{loop.record(steps.begin), RowSteps::plain(width())};
    const Rows to{dx + steps.begin * s_.inputs, in_time(s_.inputs)};
    run_team(threads(), [&](const Team& team) {
      multiply_packed(from, steps.size() * s_.samples, w, w.share(team.thread, team.threads), to, adds ? Into::kAdd : Into::kOverwrite);
    });
  }

  // Without an input product the errors of the sums are those of the input.
  void hand_out_errors(int64_t d, StepRange steps, const StepLoop& loop, bool adds, float* dx) const {
    const RowSteps to = in_time(s_.inputs);
    parallel_for(threads(), steps.size() * s_.samples, [&](int64_t row) {
      const float* const errors = loop.record(steps.begin) + row * width();
      float* const target = dx + steps.begin * s_.inputs + to.offset(row) + d * sums();
      if (adds)
        add_to(target, errors, sums());
      else
        std::copy_n(errors, sums(), target);
    });
  }

  // x by step and sample; zeros behind a sample's end, where anything may lie.
  const float* gather_inputs(const float* x) const {
    const bool full = std::ranges::all_of(valid_, [&](int64_t steps) { return steps == s_.steps; });
    if (s_.samples == 1 && full) return x;
    float* const in_time_order = scratch<float>(inputs_in_time_);
    const RowSteps from = in_time(s_.inputs);
    parallel_for(threads(), rows(), [&](int64_t row) {
      float* const to = in_time_order + row * s_.inputs;
      if (row / s_.samples < fast_item(valid_, row % s_.samples))
        std::copy_n(x + from.offset(row), s_.inputs, to);
      else
        std::fill_n(to, s_.inputs, 0.0f);
    });
    return in_time_order;
  }

  void gradients(const GradientArguments& arguments, int64_t d, const StepLoop& loop) const {
    using Side = GradientProduct::Side;
    using Right = GradientProduct::Right;
    const auto gradient = [&](size_t index) { return own(arguments.gradients[index]).data(); };
    const bool adds = arguments.adds;
    const auto multiply = [&](const Side& left, std::span<const Right> rights) {
      gradient_product_.run(threads(), left, rows(), rights, adds, scratch<float>(packed_));
    };
    const float* const errors = loop.record(0);
    const float* const states = loop.h_before(0);  // from there on each step's
    float* const hidden = gradient(s_.hidden_weight(d));
    float* const hidden_bias = gradient(s_.hidden_bias(d));
    const int64_t plain = s_.cell == CellKind::kGru ? 2 * s_.hidden : sums();
    const Right of_states{.from = {states, s_.features}, .columns = s_.features, .left = plain, .to = hidden, .stride = s_.features};
    if (s_.multiplies_input) {
      const Side x{gather_inputs(own(arguments.inputs[0]).data()), s_.inputs};
      const Right of_inputs{.from = x, .columns = s_.inputs, .left = sums(), .to = gradient(s_.input_weight(d)), .stride = s_.inputs};
      multiply({errors, width()}, std::array{of_inputs, of_states});
    } else {
      multiply({errors, width()}, std::array{of_states});
    }
    sum_columns(errors, sums(), adds, gradient(s_.input_bias(d)));
    sum_columns(errors, plain, adds, hidden_bias);
    if (s_.cell == CellKind::kGru) {
      const float* const candidate = errors + (s_.reset_after ? 3 : 2) * s_.hidden;
      const Side factor = s_.reset_after ? Side{states, s_.hidden} : Side{errors + 3 * s_.hidden, width()};
      multiply({candidate, width()},
               std::array{
                   Right{.from = factor, .columns = s_.hidden, .left = s_.hidden, .to = hidden + plain * s_.hidden, .stride = s_.hidden}});
      sum_columns(candidate, s_.hidden, adds, hidden_bias + plain);
    }
    if (s_.projects)
      multiply({loop.dp(0), s_.features}, std::array{Right{.from = {loop.m(0), s_.hidden},
                                                           .columns = s_.hidden,
                                                           .left = s_.features,
                                                           .to = gradient(s_.projection(d)),
                                                           .stride = s_.hidden}});
  }

  // Over all steps of all samples, in their order.
  void sum_columns(const float* errors, int64_t columns, bool adds, float* sums) const {
    constexpr int64_t kTogether = 64;
    parallel_for(threads(), (columns + kTogether - 1) / kTogether, [&](int64_t part) {
      const int64_t first = part * kTogether, count = std::min(kTogether, columns - first);
      if (!adds) std::fill_n(sums + first, count, 0.0f);
      add_rows(sums + first, errors + first, rows(), width(), count);
    });
  }

  RecurrentShape s_;
  KeepPlan plan_;
  std::vector<StepWeights> steps_;  // by direction
  std::vector<PackedMatrix> input_, input_back_;
  GradientProduct gradient_product_;
  std::vector<int64_t> valid_;  // steps by sample, of the call under way
  bool needs_input_error_;
  bool halves_ = false;                     // the weights of steps are rounded to bf16 for F and E
  size_t inputs_in_time_ = 0, packed_ = 0;  // scratch
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Recurrent& operation) {
  return std::make_unique<RecurrentLayer>(engine, spec, operation);
}

}  // namespace millrace::cpu
