// Recurrent layers, step by step and product by product. What a cell keeps of its steps lies in `keep`; E turns a copy of it
// into the errors of the sums, of which G makes the gradients.
#include "core/base/index.h"
#include "core/device/cell_math.h"
#include "core/device/recurrent_shape.h"
#include "core/device/sequence.h"
#include "core/device/step_record.h"
#include "core/reference/operations.h"
#include "core/reference/recurrent_record.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

// to[rows] += w[rows][columns] x[columns]
template <typename T>
void add_product(const T* w, int64_t rows, int64_t columns, const T* x, T* to) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) to[row] += w[row * columns + column] * x[column];
}
// to[columns] += x[rows] w[rows][columns]
template <typename T>
void add_transposed_product(const T* w, int64_t rows, int64_t columns, const T* x, T* to) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) to[column] += x[row] * w[row * columns + column];
}
// w[rows][columns] += y[rows] x[columns]
template <typename T>
void add_outer_product(const T* y, int64_t rows, const T* x, int64_t columns, T* w) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) w[row * columns + column] += y[row] * x[column];
}
template <typename T>
void add(const T* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

template <typename T>
class RecurrentLayer final : public ReferenceKernel<T>, public StepRecorder {
 public:
  RecurrentLayer(const KernelSpec& spec, const Recurrent& operation) : ReferenceKernel<T>(spec), s_(spec, operation), record_(s_) {}

  void read_record(Tensor& kept, const MicroBatch& batch, std::span<double> record) override {
    const auto& keep = own<T>(static_cast<const Tensor*>(&kept));
    const RecordChannels channels(s_);
    const StepRange steps = chunk_of(batch, s_.steps);
    std::ranges::fill(record, 0.0);
    for_each_step(batch, [&](int64_t d, int64_t n, int64_t t) {
      if (t < steps.begin || t >= steps.end) return;
      const Row now = at(keep, d, n, t);
      const auto write = [&](int64_t channel, const T* from, int64_t count) {
        for (int64_t i = 0; i < count; ++i) record[channels.at(s_, d, n, channel + i, t)] = static_cast<double>(from[i]);
      };
      write(channels.taken, at(keep, d, n, s_.before(d, t)).h, s_.features);
      if (s_.projects) {
        write(channels.projected, now.m, s_.hidden);
        write(channels.projection_errors, now.dh, s_.features);
      }
      if (s_.cell == CellKind::kGru) write(channels.candidate, (s_.reset_after ? now.errors : now.gates) + 3 * s_.hidden, s_.hidden);
    });
  }

  // The second direction starts at the end.
  bool streams() const override { return s_.directions == 1 && !this->spec().activation; }

 protected:
  std::vector<Shape> parameter_shapes() const override { return s_.parameter_shapes(); }
  std::vector<Shape> state_shapes() const override { return s_.state_shapes(); }
  Shape keep_shape() const override { return {s_.directions * s_.samples, record_.places() * record_.size(), 1}; }

  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const MicroBatch& batch = *arguments.batch;
    const auto& input = own<T>(arguments.inputs[0]);
    auto& keep = own<T>(arguments.keep);
    const StepRange steps = chunk_of(batch, s_.steps);
    if (batch.chunk == 0) std::ranges::fill(keep.values(), T{0});
    for (int64_t d = 0; d < s_.directions; ++d)
      for (int64_t n = 0; n < s_.samples; ++n) {
        const int64_t valid = valid_steps(this->spec(), batch, n);
        const int64_t first = d == 0 ? 0 : s_.steps - 1;
        if (s_.stateful && batch.training && batch.chunk == 0) take_up(arguments, n, at(keep, d, n, s_.before(d, first)));
        for (int64_t i = steps.begin; i < steps.end; ++i) {
          const int64_t t = d == 0 ? i : s_.steps - 1 - i;
          const Row before = at(keep, d, n, s_.before(d, t));
          Row now = at(keep, d, n, t);
          if (t >= valid) {
            now.pass_on(before, s_);
            continue;
          }
          input_sums(arguments, input, d, n, t, now);
          advance(arguments, d, before, now);
          for (int64_t j = 0; j < s_.features; ++j) output.at(n, d * s_.features + j, t, 0) = now.h[j];
        }
      }
  }

  // The errors of all sums, for E and for G.
  void before_input_errors(const ErrorBackArguments& arguments) override {
    const auto& output_error = own<T>(arguments.output_error);
    auto& keep = own<T>(arguments.keep);
    const StepRange steps = chunk_of(*arguments.batch, s_.steps);
    for (int64_t d = 0; d < s_.directions; ++d)
      for (int64_t n = 0; n < s_.samples; ++n) {
        const int64_t valid = valid_steps(this->spec(), *arguments.batch, n);
        std::vector<T> dh(to_size(s_.features)), dc(to_size(s_.hidden));
        Row carry = at(keep, d, n, s_.steps);  // from chunk to chunk, where one direction keeps nothing else
        if (steps.end < s_.steps) {
          std::copy_n(carry.h, s_.features, dh.data());
          std::copy_n(carry.c, s_.hidden, dc.data());
        }
        for (int64_t i = s_.steps - steps.end; i < s_.steps - steps.begin; ++i) {
          const int64_t t = d == 0 ? s_.steps - 1 - i : i;
          const Row before = at(keep, d, n, s_.before(d, t));
          Row now = at(keep, d, n, t);
          std::copy_n(now.gates, s_.record * s_.hidden, now.errors);
          if (t >= valid) continue;  // errors pass by
          for (int64_t j = 0; j < s_.features; ++j) fast_item(dh, j) += output_error.at(n, d * s_.features + j, t, 0);
          go_back(arguments, d, before, now, dh, dc);
          if (!s_.cuts_before(d, t)) continue;
          std::ranges::fill(dh, T{0});
          std::ranges::fill(dc, T{0});
        }
        if (steps.begin == 0) continue;
        std::ranges::copy(dh, carry.h);
        std::ranges::copy(dc, carry.c);
      }
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& keep = own<T>(static_cast<const Tensor*>(arguments.keep));
    std::vector<T> dx(to_size(s_.inputs));
    for_each_step(*arguments.batch, [&](int64_t d, int64_t n, int64_t t) {
      const T* errors = at(keep, d, n, t).errors;
      if (!s_.multiplies_input) {
        for (int64_t g = 0; g < sum_rows(); ++g) input_error.at(n, d * sum_rows() + g, t, 0) += errors[g];
        return;
      }
      std::ranges::fill(dx, T{0});
      add_transposed_product(values(arguments.parameters[s_.input_weight(d)]), sum_rows(), s_.inputs, errors, dx.data());
      for (int64_t j = 0; j < s_.inputs; ++j) input_error.at(n, j, t, 0) += fast_item(dx, j);
    });
  }

  void add_gradients(const GradientArguments& arguments) override {
    const auto& keep = own<T>(static_cast<const Tensor*>(arguments.keep));
    const auto& input = own<T>(arguments.inputs[0]);
    const auto gradient = [&](size_t index) { return own<T>(arguments.gradients[index]).values().data(); };
    std::vector<T> x(to_size(s_.inputs));
    for_each_step(*arguments.batch, [&](int64_t d, int64_t n, int64_t t) {
      const Row now = at(keep, d, n, t);
      const Row before = at(keep, d, n, s_.before(d, t));
      for (int64_t j = 0; j < s_.inputs; ++j) fast_item(x, j) = input.at(n, j, t, 0);
      if (s_.multiplies_input) add_outer_product(now.errors, sum_rows(), x.data(), s_.inputs, gradient(s_.input_weight(d)));
      add(now.errors, sum_rows(), gradient(s_.input_bias(d)));
      hidden_gradients(before, now, gradient(s_.hidden_weight(d)), gradient(s_.hidden_bias(d)));
      if (s_.projects) add_outer_product(now.dh, s_.features, now.m, s_.hidden, gradient(s_.projection(d)));
    });
    if (s_.stateful && arguments.batch->training) commit(arguments, keep);
  }

 private:
  // One step of one sample and direction.
  struct Row {
    T* gates;   // RecurrentShape's record; errors: of the same sums
    T* errors;  // of the record
    T* h;
    T* c;  // lstm
    T* m;  // projected: the output before the projection, and the error of h behind it
    T* dh;

    void pass_on(const Row& from, const RecurrentShape& s) {
      std::copy_n(from.h, s.features, h);
      std::copy_n(from.c, s.hidden, c);
    }
  };

  int64_t sum_rows() const { return s_.gates * s_.hidden; }

  Row at(const ReferenceTensor<T>& keep, int64_t d, int64_t n, int64_t t) const {
    T* const base = const_cast<T*>(keep.values().data()) + record_.at(d, n, t);
    return {.gates = base,
            .errors = base + record_.errors(),
            .h = base + record_.h(),
            .c = base + record_.c(),
            .m = base + record_.projected(),
            .dh = base + record_.projection_errors()};
  }
  static const T* values(const Tensor* tensor) { return own<T>(tensor).values().data(); }

  template <typename Visit>
  void for_each_step(const MicroBatch& batch, Visit visit) const {
    for (int64_t d = 0; d < s_.directions; ++d)
      for (int64_t n = 0; n < s_.samples; ++n)
        for (int64_t t = 0; t < valid_steps(this->spec(), batch, n); ++t) visit(d, n, t);
  }

  void take_up(const ForwardArguments& arguments, int64_t n, Row start) const {
    const MicroBatch& batch = *arguments.batch;
    if (!batch.fresh.empty() && fast_item(batch.fresh, n) != 0) return;
    const int64_t sample = s_.first_sample(batch) + n;
    std::copy_n(values(arguments.state[0]) + sample * s_.features, s_.features, start.h);
    if (s_.has_cell_state()) std::copy_n(values(arguments.state[1]) + sample * s_.hidden, s_.hidden, start.c);
  }

  void commit(const GradientArguments& arguments, const ReferenceTensor<T>& keep) const {
    for (int64_t n = 0; n < s_.samples; ++n) {
      const int64_t sample = s_.first_sample(*arguments.batch) + n;
      const Row last = at(keep, 0, n, s_.steps - 1);
      std::copy_n(last.h, s_.features, own<T>(arguments.state[0]).values().data() + sample * s_.features);
      if (s_.has_cell_state()) std::copy_n(last.c, s_.hidden, own<T>(arguments.state[1]).values().data() + sample * s_.hidden);
    }
  }

  // What does not depend on the step before.
  void input_sums(const ForwardArguments& arguments, const ReferenceTensor<T>& input, int64_t d, int64_t n, int64_t t, Row now) const {
    if (!s_.multiplies_input) {
      for (int64_t g = 0; g < sum_rows(); ++g) now.gates[g] = input.at(n, d * sum_rows() + g, t, 0);
    } else {
      std::vector<T> x(to_size(s_.inputs));
      for (int64_t j = 0; j < s_.inputs; ++j) fast_item(x, j) = input.at(n, j, t, 0);
      add_product(values(arguments.parameters[s_.input_weight(d)]), sum_rows(), s_.inputs, x.data(), now.gates);
    }
    add(values(arguments.parameters[s_.input_bias(d)]), sum_rows(), now.gates);
  }

  void advance(const ForwardArguments& arguments, int64_t d, const Row& before, Row now) const {
    if (s_.hard_gates) return advance(HardGate<T>{static_cast<T>(s_.gate_slope)}, arguments, d, before, now);
    advance(SigmoidGate<ExactMath<T>>{}, arguments, d, before, now);
  }
  template <typename Gate>
  void advance(const Gate& bound, const ForwardArguments& arguments, int64_t d, const Row& before, Row now) const {
    const int64_t H = s_.hidden;
    const T* const weight = values(arguments.parameters[s_.hidden_weight(d)]);
    const T* const bias = values(arguments.parameters[s_.hidden_bias(d)]);
    const auto gate = [&](int64_t index) { return now.gates + index * H; };
    switch (s_.cell) {
      case CellKind::kLstm: {
        add_product(weight, 4 * H, s_.features, before.h, now.gates);
        add(bias, 4 * H, now.gates);
        T* const m = s_.projects ? now.m : now.h;
        for (int64_t j = 0; j < H; ++j)
          LstmCell<ExactMath<T>>::forward(bound, gate(0)[j], gate(1)[j], gate(2)[j], gate(3)[j], before.c[j], now.c[j], m[j]);
        if (s_.projects) add_product(values(arguments.parameters[s_.projection(d)]), s_.features, H, now.m, now.h);
        return;
      }
      case CellKind::kGru: {
        T *const r = gate(0), *const z = gate(1), *const candidate = gate(2), *const extra = gate(3);
        add_product(weight, 2 * H, H, before.h, now.gates);
        add(bias, 2 * H, now.gates);
        if (s_.reset_after) {
          add_product(weight + 2 * H * H, H, H, before.h, extra);
          add(bias + 2 * H, H, extra);
          for (int64_t j = 0; j < H; ++j)
            GruCell<ExactMath<T>>::forward_reset_after(bound, candidate[j], r[j], z[j], extra[j], before.h[j], now.h[j]);
          return;
        }
        for (int64_t j = 0; j < H; ++j) GruCell<ExactMath<T>>::forward_gates(bound, r[j], z[j], before.h[j], extra[j]);
        add_product(weight + 2 * H * H, H, H, extra, candidate);
        add(bias + 2 * H, H, candidate);
        for (int64_t j = 0; j < H; ++j) GruCell<ExactMath<T>>::forward_state(candidate[j], z[j], before.h[j], now.h[j]);
        return;
      }
      case CellKind::kVanillaRelu:
      case CellKind::kVanillaTanh:
        add_product(weight, H, H, before.h, now.gates);
        add(bias, H, now.gates);
        for (int64_t j = 0; j < H; ++j)
          now.h[j] = s_.cell == CellKind::kVanillaRelu ? VanillaCell<ExactMath<T>>::forward_relu(now.gates[j])
                                                       : VanillaCell<ExactMath<T>>::forward_tanh(now.gates[j]);
    }
  }

  // dh and dc: of this step in, of the one before out.
  void go_back(const ErrorBackArguments& arguments, int64_t d, const Row& before, Row now, std::vector<T>& dh, std::vector<T>& dc) const {
    if (s_.hard_gates) return go_back(HardGate<T>{static_cast<T>(s_.gate_slope)}, arguments, d, before, now, dh, dc);
    go_back(SigmoidGate<ExactMath<T>>{}, arguments, d, before, now, dh, dc);
  }
  template <typename Gate>
  void go_back(const Gate& bound, const ErrorBackArguments& arguments, int64_t d, const Row& before, Row now, std::vector<T>& dh,
               std::vector<T>& dc) const {
    const int64_t H = s_.hidden;
    const T* const weight = values(arguments.parameters[s_.hidden_weight(d)]);
    const auto error = [&](int64_t index) { return now.errors + index * H; };
    switch (s_.cell) {
      case CellKind::kLstm: {
        std::vector<T> dm = dh;
        if (s_.projects) {
          std::ranges::copy(dh, now.dh);
          dm.assign(to_size(H), T{0});
          add_transposed_product(values(arguments.parameters[s_.projection(d)]), s_.features, H, now.dh, dm.data());
        }
        for (int64_t j = 0; j < H; ++j)
          LstmCell<ExactMath<T>>::back(bound, error(0)[j], error(1)[j], error(2)[j], error(3)[j], before.c[j], now.c[j], fast_item(dm, j),
                                       fast_item(dc, j));
        std::ranges::fill(dh, T{0});
        add_transposed_product(weight, 4 * H, s_.features, now.errors, dh.data());
        return;
      }
      case CellKind::kGru: {
        T *const r = error(0), *const z = error(1), *const candidate = error(2), *const extra = error(3);
        if (s_.reset_after) {
          for (int64_t j = 0; j < H; ++j)
            GruCell<ExactMath<T>>::back_reset_after(bound, candidate[j], r[j], z[j], extra[j], before.h[j], fast_item(dh, j));
          add_transposed_product(weight + 2 * H * H, H, H, extra, dh.data());
        } else {
          std::vector<T> dreset(to_size(H));
          for (int64_t j = 0; j < H; ++j) GruCell<ExactMath<T>>::back_state(bound, candidate[j], z[j], before.h[j], fast_item(dh, j));
          add_transposed_product(weight + 2 * H * H, H, H, candidate, dreset.data());
          for (int64_t j = 0; j < H; ++j)
            GruCell<ExactMath<T>>::back_gates(bound, r[j], before.h[j], fast_item(dreset, j), fast_item(dh, j));
        }
        add_transposed_product(weight, 2 * H, H, now.errors, dh.data());
        return;
      }
      case CellKind::kVanillaRelu:
      case CellKind::kVanillaTanh:
        for (int64_t j = 0; j < H; ++j) {
          const T through = fast_item(dh, j);
          now.errors[j] = s_.cell == CellKind::kVanillaRelu ? VanillaCell<ExactMath<T>>::back_relu(now.h[j], through)
                                                            : VanillaCell<ExactMath<T>>::back_tanh(now.h[j], through);
        }
        std::ranges::fill(dh, T{0});
        add_transposed_product(weight, H, H, now.errors, dh.data());
    }
  }

  // The candidate's product of gru does not take part in the same sum, or not with the same factor, as its input's.
  void hidden_gradients(const Row& before, const Row& now, T* weight, T* bias) const {
    const int64_t H = s_.hidden;
    const bool gru = s_.cell == CellKind::kGru;
    const int64_t plain = gru ? 2 * H : sum_rows();
    add_outer_product(now.errors, plain, before.h, s_.features, weight);
    add(now.errors, plain, bias);
    if (!gru) return;
    const T* const candidate_error = s_.reset_after ? now.errors + 3 * H : now.errors + 2 * H;
    const T* const factor = s_.reset_after ? before.h : now.gates + 3 * H;
    add_outer_product(candidate_error, H, factor, H, weight + 2 * H * H);
    add(candidate_error, H, bias + 2 * H);
  }

  RecurrentShape s_;
  RecurrentRecord record_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Recurrent& operation) {
  if (!spec.units.empty()) return make_shared_steps<T>(spec);
  return std::make_unique<RecurrentLayer<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Recurrent&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Recurrent&);

}  // namespace millrace::reference
