#include "core/device/unit_steps.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/sequence.h"
#include "core/plan/parts.h"

namespace millrace {

namespace {

using Values = std::vector<double>;
using Kept = UnitArithmetic::Kept;

// What F leaves for E and for the record, [direction][sample][step in the order it was taken].
class UnitKeep final : public Tensor {
 public:
  UnitKeep(const TensorSpec& spec, int64_t word_bytes) : Tensor(spec), word_bytes_(word_bytes) {}
  int64_t bytes() const override { return word_bytes_ * elements(); }

  std::vector<std::unique_ptr<Kept>> kept;
  std::vector<Values> taken;       // h as each step took it
  std::vector<Values> candidates;  // gru: errors of all cells' u
  std::vector<Values> projected;   // what all cells gave out, of a layer that projects
  std::vector<Values> features;    // there: errors of h
  Values end_hidden, end_cell;     // [direction][sample][cell]

 private:
  int64_t word_bytes_;
};

class UnitStepsKernel final : public Kernel, public StepRecorder, public UnitSteps {
 public:
  UnitStepsKernel(const KernelSpec& spec, std::unique_ptr<UnitArithmetic> arithmetic, TensorAccess access, std::string name,
                  int64_t word_bytes)
      : spec_(spec),
        shape_(spec, std::get<Recurrent>(spec.operation)),
        units_(spec.units),
        features_(features_of(std::get<Recurrent>(spec.operation), spec.units)),
        vectors_(error_vectors_of(std::get<Recurrent>(spec.operation))),
        arithmetic_(std::move(arithmetic)),
        access_(std::move(access)),
        name_(std::move(name)),
        word_bytes_(word_bytes) {
    MILLRACE_CHECK(!units_.empty() && units_.end <= shape_.hidden, "{}: cells {} of {}", spec.layer, text_of(units_), shape_.hidden);
    if (spec.activation) fail(ErrorCode::kUnavailable, "layer \"{}\": no activation is fused behind shared steps", spec.layer);
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> made;
    const int64_t rows = shape_.gates * units_.size();
    for (int64_t d = 0; d < shape_.directions; ++d) {
      for (const int64_t columns : {shape_.features, int64_t{1}, int64_t{1}}) made.push_back(access_.make({{rows, columns, 1}, 1}));
      if (shape_.projects) made.push_back(access_.make({{features_.size(), shape_.hidden, 1}, 1}));
    }
    return made;
  }
  std::vector<std::unique_ptr<Tensor>> make_state() override {
    std::vector<std::unique_ptr<Tensor>> made;
    for (const Shape& shape : shape_.state_shapes()) made.push_back(access_.make({shape, 1}));
    return made;
  }
  std::unique_ptr<Tensor> make_keep() override {
    const int64_t projected = shape_.projects ? shape_.hidden + shape_.features : 0;
    const int64_t words = shape_.directions * ((shape_.record + 2) * units_.size() + shape_.features + projected);
    return std::make_unique<UnitKeep>(TensorSpec{{words, shape_.steps, 1}, shape_.samples}, word_bytes_);
  }
  std::string implementation() const override { return name_; }

  void forward(const ForwardArguments&) override { MILLRACE_CHECK(false, "{}: shared steps are taken one by one", spec_.layer); }
  void error_back(const ErrorBackArguments&) override { MILLRACE_CHECK(false, "{}: shared steps are taken one by one", spec_.layer); }

  // Nothing but the state to carry on.
  void parameter_gradient(const GradientArguments& arguments) override {
    MILLRACE_CHECK(arguments.gradients.empty(), "{}: gradients of shared steps are another device's", spec_.layer);
    if (!shape_.stateful || !arguments.batch->training) return;
    const UnitKeep& keep = keep_of(arguments.keep);
    const int64_t first = shape_.first_sample(*arguments.batch);
    Values hidden = access_.read(*arguments.state[0]);
    std::ranges::copy(keep.end_hidden, hidden.begin() + first * shape_.features);
    access_.write(*arguments.state[0], hidden);
    if (!shape_.has_cell_state()) return;
    Values cell = access_.read(*arguments.state[1]);
    for (int64_t n = 0; n < shape_.samples; ++n)
      std::copy_n(keep.end_cell.begin() + n * units_.size(), units_.size(), cell.begin() + (first + n) * shape_.hidden + units_.begin);
    access_.write(*arguments.state[1], cell);
  }

  // ---- forward

  void begin_forward(const ForwardArguments& a) override {
    take_parameters(a.parameters, false);
    sums_ = access_.read(*a.inputs[0]);
    lengths_of(*a.batch);
    const auto sequences = to_size(shape_.directions * shape_.samples);
    hidden_.assign(sequences * size(shape_.features), 0.0);
    cell_.assign(sequences * size(units_.size()), 0.0);
    output_.assign(size(spec_.output.elements() * shape_.samples), 0.0);
    kept_ = UnitsOfRun(sequences * size(shape_.steps));
    taken_.assign(sequences * size(shape_.steps), {});
    projected_.assign(shape_.projects ? sequences * size(shape_.steps) : 0, Values(size(shape_.hidden)));
    if (!shape_.stateful || !a.batch->training) return;
    const Values hidden = access_.read(*a.state[0]), cell = shape_.has_cell_state() ? access_.read(*a.state[1]) : Values{};
    for (int64_t n = 0; n < shape_.samples; ++n) {
      if (!a.batch->fresh.empty() && a.batch->fresh[size(n)] != 0) continue;
      const int64_t sample = shape_.first_sample(*a.batch) + n;
      for (int64_t j = 0; j < shape_.features; ++j)
        hidden_[size(n * shape_.features + j)] = arithmetic_->held(hidden[size(sample * shape_.features + j)]);
      if (!cell.empty())
        std::copy_n(cell.begin() + sample * shape_.hidden + units_.begin, units_.size(), cell_.begin() + n * units_.size());
    }
  }

  void forward_row(int64_t index, std::span<double> row) override {
    if (of_second(index)) return project(index / 2, row);
    const int64_t step = step_of(index);
    if (step > 0) store_output(step - 1);
    Values sums(size(shape_.gates * units_.size()));
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const int64_t t = time_of(d, step);
      const std::span<double> state(hidden_.data() + sequence * shape_.features, size(shape_.features));
      const std::span<double> made = row.subspan(size((n * shape_.directions + d) * units_.size()), size(units_.size()));
      taken_[place(sequence, step)].assign(state.begin(), state.end());
      if (t < valid_[size(n)]) {
        for (int64_t g = 0; g < shape_.gates; ++g)
          for (int64_t j = 0; j < units_.size(); ++j) sums[size(g * units_.size() + j)] = sums_[sum_place(d, n, g, units_.begin + j, t)];
        const std::span<double> cell(cell_.data() + sequence * units_.size(), size(units_.size()));
        kept_[place(sequence, step)] = arithmetic_->forward(d, sums, taken_[place(sequence, step)], cell, made);
      } else if (shape_.projects) {
        std::ranges::fill(made, 0.0);
      } else {
        std::copy_n(state.begin() + units_.begin, units_.size(), made.begin());
      }
      const std::span<double> all = shape_.projects ? std::span<double>(projected_[place(sequence, step)]) : state;
      std::ranges::copy(made, all.begin() + units_.begin);
    });
  }

  void take_states(int64_t index, const ChannelRange& channels, std::span<const double> row) override {
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const auto to = shape_.projects && !of_second(index) ? projected_[place(sequence, step_of(index))].begin()
                                                           : hidden_.begin() + sequence * shape_.features;
      std::copy_n(row.begin() + (n * shape_.directions + d) * channels.size(), channels.size(), to + channels.begin);
    });
  }

  void end_forward(const ForwardArguments& a) override {
    store_output(shape_.steps - 1);
    access_.write(*a.output, output_);
    if (a.keep == nullptr) return;
    UnitKeep& keep = keep_of(a.keep);
    keep.kept = std::move(kept_);
    keep.taken = std::move(taken_);
    keep.projected = std::move(projected_);
    keep.end_hidden = hidden_;
    keep.end_cell = cell_;
  }

  // ---- back

  void begin_back(const ErrorBackArguments& a) override {
    take_parameters(a.parameters, true);
    output_errors_ = access_.read(*a.output_error);
    lengths_of(*a.batch);
    error_scale_ = a.batch->error_scale;
    UnitKeep& keep = keep_of(a.keep);
    running_ = &keep;
    const auto sequences = to_size(shape_.directions * shape_.samples);
    errors_.assign(sequences * size(vectors_ * shape_.hidden), 0.0);
    carried_.assign(sequences * size(units_.size()), 0.0);
    reaches_.assign(sequences, 0);
    sum_errors_.assign(size(spec_.inputs[0].elements() * shape_.samples), 0.0);
    keep.candidates.assign(shape_.cell == CellKind::kGru ? sequences * size(shape_.steps) : 0, Values(size(shape_.hidden)));
    keep.features.assign(shape_.projects ? sequences * size(shape_.steps) : 0, Values(size(shape_.features)));
  }

  void back_row(int64_t index, std::span<double> row) override {
    if (of_second(index)) return back_through_projection(index / 2, row);
    const int64_t step = step_of(index);
    if (step > 0) store_errors(step - 1);
    if (shape_.projects) return back_features(step, row);
    Values output_errors(size(units_.size()));
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const int64_t taken = shape_.steps - 1 - step, t = time_of(d, taken);
      const std::span<double> errors(errors_.data() + sequence * vectors_ * shape_.hidden, size(vectors_ * shape_.hidden));
      const std::span<double> made =
          row.subspan(size((n * shape_.directions + d) * vectors_ * units_.size()), size(vectors_ * units_.size()));
      std::ranges::fill(made, 0.0);
      if (t < valid_[size(n)]) {
        for (int64_t j = 0; j < units_.size(); ++j) output_errors[size(j)] = output_errors_[output_place(d, n, units_.begin + j, t)];
        const std::span<double> carried(carried_.data() + sequence * units_.size(), size(units_.size()));
        arithmetic_->back(d, *running_->kept[place(sequence, taken)], output_errors, errors, reaches_[size(sequence)] != 0, carried,
                          error_scale_, made);
        cut_before(d, t, sequence);
      }
      own_errors(sequence, made);
    });
  }

  void take_errors(int64_t index, const ChannelRange& channels, std::span<const double> row) override {
    const bool of_features = shape_.projects && !of_second(index);
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      if (of_features) {
        std::copy_n(row.begin() + (n * shape_.directions + d) * channels.size(), channels.size(),
                    running_->features[place(sequence, shape_.steps - 1 - step_of(index))].begin() + channels.begin);
        return;
      }
      for (int64_t v = 0; v < vectors_; ++v)
        std::copy_n(row.begin() + ((n * shape_.directions + d) * vectors_ + v) * channels.size(), channels.size(),
                    errors_.begin() + (sequence * vectors_ + v) * shape_.hidden + channels.begin);
    });
  }

  void end_back(const ErrorBackArguments& a) override {
    store_errors(shape_.steps - 1);
    Tensor* const target = a.input_errors[0];
    if (target == nullptr) return;
    if (a.adds[0] != 0) {
      const Values before = access_.read(*target);
      for (size_t i = 0; i < before.size(); ++i) sum_errors_[i] += before[i];
    }
    access_.write(*target, sum_errors_);
  }

  void read_record(Tensor& kept, const MicroBatch&, std::span<double> record) override {
    const UnitKeep& keep = keep_of(&kept);
    const RecordChannels channels(shape_);
    std::ranges::fill(record, 0.0);
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      for (int64_t step = 0; step < shape_.steps; ++step) {
        const int64_t t = time_of(d, step);
        if (t >= valid_[size(n)]) continue;
        const size_t from = place(sequence, step);
        const auto write = [&](int64_t channel, const Values& values) {
          for (size_t j = 0; j < values.size(); ++j) record[channels.at(shape_, d, n, channel + static_cast<int64_t>(j), t)] = values[j];
        };
        write(channels.taken, keep.taken[from]);
        if (shape_.cell == CellKind::kGru) write(channels.candidate, keep.candidates[from]);
        if (!shape_.projects) continue;
        write(channels.projected, keep.projected[from]);
        write(channels.projection_errors, keep.features[from]);
      }
    });
  }

 private:
  using UnitsOfRun = std::vector<std::unique_ptr<Kept>>;

  static size_t size(int64_t count) { return to_size(count); }
  static UnitKeep& keep_of(Tensor* tensor) { return static_cast<UnitKeep&>(*tensor); }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int64_t d = 0; d < shape_.directions; ++d)
      for (int64_t n = 0; n < shape_.samples; ++n) visit(d, n, d * shape_.samples + n);
  }
  int64_t time_of(int64_t direction, int64_t step) const { return direction == 0 ? step : shape_.steps - 1 - step; }
  size_t place(int64_t sequence, int64_t step) const { return size(sequence * shape_.steps + step); }
  size_t sum_place(int64_t d, int64_t n, int64_t gate, int64_t cell, int64_t t) const {
    return size((n * shape_.inputs + (d * shape_.gates + gate) * shape_.hidden + cell) * shape_.steps + t);
  }
  size_t output_place(int64_t d, int64_t n, int64_t feature, int64_t t) const {
    return size((n * shape_.directions * shape_.features + d * shape_.features + feature) * shape_.steps + t);
  }
  void lengths_of(const MicroBatch& batch) {
    valid_.clear();
    for (int64_t n = 0; n < shape_.samples; ++n) valid_.push_back(valid_steps(spec_, batch, n));
  }
  // A step's rows: one, of a layer that projects two.
  bool of_second(int64_t index) const { return shape_.projects && index % 2 == 1; }
  int64_t step_of(int64_t index) const { return shape_.projects ? index / 2 : index; }

  // Once what all cells gave out is here.
  void project(int64_t step, std::span<double> row) {
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const auto own = hidden_.begin() + sequence * shape_.features + features_.begin;
      const std::span<double> made = row.subspan(size((n * shape_.directions + d) * features_.size()), size(features_.size()));
      if (time_of(d, step) < valid_[size(n)])
        arithmetic_->project(d, projected_[place(sequence, step)], made);
      else
        std::copy_n(own, features_.size(), made.begin());
      std::ranges::copy(made, own);
    });
  }
  void back_features(int64_t step, std::span<double> row) {
    const int64_t taken = shape_.steps - 1 - step;
    Values output_errors(size(features_.size()));
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const int64_t t = time_of(d, taken);
      const std::span<double> made = row.subspan(size((n * shape_.directions + d) * features_.size()), size(features_.size()));
      std::ranges::fill(made, 0.0);
      if (t < valid_[size(n)]) {
        for (int64_t j = 0; j < features_.size(); ++j) output_errors[size(j)] = output_errors_[output_place(d, n, features_.begin + j, t)];
        const std::span<const double> errors(errors_.data() + sequence * vectors_ * shape_.hidden, size(vectors_ * shape_.hidden));
        arithmetic_->back_features(d, output_errors, errors, reaches_[size(sequence)] != 0, error_scale_, made);
      }
      std::ranges::copy(made, running_->features[place(sequence, taken)].begin() + features_.begin);
    });
  }
  // Once errors of all features are here.
  void back_through_projection(int64_t step, std::span<double> row) {
    const int64_t taken = shape_.steps - 1 - step;
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const std::span<double> made =
          row.subspan(size((n * shape_.directions + d) * vectors_ * units_.size()), size(vectors_ * units_.size()));
      std::ranges::fill(made, 0.0);
      if (const int64_t t = time_of(d, taken); t < valid_[size(n)]) {
        const size_t at = place(sequence, taken);
        const std::span<double> carried(carried_.data() + sequence * units_.size(), size(units_.size()));
        arithmetic_->back_units(d, *running_->kept[at], running_->features[at], carried, error_scale_, made);
        cut_before(d, t, sequence);
      }
      own_errors(sequence, made);
    });
  }
  void cut_before(int64_t direction, int64_t t, int64_t sequence) {
    const bool cut = shape_.cuts_before(direction, t);
    reaches_[size(sequence)] = cut ? 0 : 1;
    if (cut) std::fill_n(carried_.begin() + sequence * units_.size(), units_.size(), 0.0);
  }
  void own_errors(int64_t sequence, std::span<const double> made) {
    const auto errors = errors_.begin() + sequence * vectors_ * shape_.hidden;
    for (int64_t v = 0; v < vectors_; ++v)
      std::copy_n(made.begin() + v * units_.size(), units_.size(), errors + v * shape_.hidden + units_.begin);
  }

  void take_parameters(std::span<const Tensor* const> parameters, bool back) {
    for (int64_t d = 0; d < shape_.directions; ++d) {
      const Values hidden = access_.read(*parameters[shape_.hidden_weight(d)]),
                   input_bias = access_.read(*parameters[shape_.input_bias(d)]),
                   hidden_bias = access_.read(*parameters[shape_.hidden_bias(d)]),
                   projection = shape_.projects ? access_.read(*parameters[shape_.projection(d)]) : Values{};
      arithmetic_->take(d, back, {hidden, input_bias, hidden_bias, projection});
    }
  }
  // Once all cells of a step are here.
  void store_output(int64_t step) {
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const int64_t t = time_of(d, step);
      if (t >= valid_[size(n)]) return;
      for (int64_t j = 0; j < shape_.features; ++j) output_[output_place(d, n, j, t)] = hidden_[size(sequence * shape_.features + j)];
    });
  }
  void store_errors(int64_t step) {
    for_each([&](int64_t d, int64_t n, int64_t sequence) {
      const int64_t taken = shape_.steps - 1 - step, t = time_of(d, taken);
      if (t >= valid_[size(n)]) return;
      const auto errors = errors_.begin() + sequence * vectors_ * shape_.hidden;
      for (int64_t g = 0; g < shape_.gates; ++g)
        for (int64_t j = 0; j < shape_.hidden; ++j) sum_errors_[sum_place(d, n, g, j, t)] = errors[g * shape_.hidden + j];
      if (shape_.cell == CellKind::kGru)
        std::copy_n(errors + shape_.gates * shape_.hidden, shape_.hidden, running_->candidates[place(sequence, taken)].begin());
    });
  }

  KernelSpec spec_;
  RecurrentShape shape_;
  ChannelRange units_;
  ChannelRange features_;  // of h, that this device makes
  int64_t vectors_;
  std::unique_ptr<UnitArithmetic> arithmetic_;
  TensorAccess access_;
  std::string name_;
  int64_t word_bytes_;
  std::vector<int64_t> valid_;  // steps of each sample
  // Of the run under way.
  Values sums_, hidden_, cell_, output_;
  UnitsOfRun kept_;
  std::vector<Values> taken_, projected_;
  Values output_errors_, errors_, carried_, sum_errors_;
  std::vector<uint8_t> reaches_;  // by sequence: errors of the step behind reach this one
  double error_scale_ = 1;
  UnitKeep* running_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_unit_steps(const KernelSpec& spec, std::unique_ptr<UnitArithmetic> arithmetic, TensorAccess access,
                                        std::string name, int64_t word_bytes) {
  return std::make_unique<UnitStepsKernel>(spec, std::move(arithmetic), std::move(access), std::move(name), word_bytes);
}

}  // namespace millrace
