#include "core/device/step_record.h"

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/sequence.h"

namespace millrace {

RecordChannels::RecordChannels(const RecurrentShape& shape) {
  each = shape.features;
  if (shape.projects) {
    projected = each;
    projection_errors = each + shape.hidden;
    each += shape.hidden + shape.features;
  }
  if (shape.cell == CellKind::kGru) {
    candidate = each;
    each += shape.hidden;
  }
}

StepGradient::StepGradient(const KernelSpec& spec, ElementType type)
    : spec_(spec), shape_(spec, std::get<Recurrent>(spec.operation)), channels_(shape_), wide_(type == ElementType::kFloat64) {
  MILLRACE_CHECK(spec.finish, "{}: gradients of a record are those of steps", spec.layer);
  for (const Shape& parameter : shape_.parameter_shapes()) gradients_.emplace_back(to_size(parameter.elements()));
}

void StepGradient::make(std::span<const double> record, std::span<const double> sum_errors, const MicroBatch& batch) {
  const auto vectors = to_size(shape_.samples * shape_.directions * shape_.steps);
  MILLRACE_CHECK(record.size() == vectors * to_size(channels_.each) && sum_errors.size() == vectors * to_size(shape_.gates * shape_.hidden),
                 "{}: a record of {} and {} errors", spec_.layer, record.size(), sum_errors.size());
  if (wide_)
    make_as<double>(record, sum_errors, batch);
  else
    make_as<float>(record, sum_errors, batch);
}

template <typename T>
void StepGradient::make_as(std::span<const double> record, std::span<const double> sum_errors, const MicroBatch& batch) {
  const RecurrentShape& s = shape_;
  const int64_t hidden = s.hidden, rows = s.gates * hidden;
  const bool gru = s.cell == CellKind::kGru;
  const int64_t plain = gru ? 2 * hidden : rows;  // sums whose factor is h
  std::vector<std::vector<T>> sums;
  for (const std::vector<double>& gradient : gradients_) sums.emplace_back(gradient.size());
  const auto outer = [](const T* y, int64_t outputs, const T* x, int64_t inputs, T* to) {
    for (int64_t row = 0; row < outputs; ++row)
      for (int64_t column = 0; column < inputs; ++column) to[row * inputs + column] += y[row] * x[column];
  };
  const auto add = [](const T* from, int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  };
  std::vector<T> errors(to_size(rows)), row(to_size(channels_.each));
  for (int64_t d = 0; d < s.directions; ++d) {
    const auto gradient = [&](size_t index) { return sums[index].data(); };
    for (int64_t n = 0; n < s.samples; ++n)
      for (int64_t t = 0; t < valid_steps(spec_, batch, n); ++t) {
        for (int64_t g = 0; g < rows; ++g)
          fast_item(errors, g) = static_cast<T>(fast_item(sum_errors, ((n * s.directions + d) * rows + g) * s.steps + t));
        for (int64_t c = 0; c < channels_.each; ++c) fast_item(row, c) = static_cast<T>(record[channels_.at(s, d, n, c, t)]);
        add(errors.data(), rows, gradient(s.input_bias(d)));
        T* const weight = gradient(s.hidden_weight(d));
        T* const bias = gradient(s.hidden_bias(d));
        const T* const taken = row.data() + channels_.taken;
        outer(errors.data(), plain, taken, s.features, weight);
        add(errors.data(), plain, bias);
        if (gru) {
          const T* const candidate = row.data() + channels_.candidate;
          const T* const of_sum = errors.data() + plain;
          const T* const error = s.reset_after ? candidate : of_sum;
          outer(error, hidden, s.reset_after ? taken : candidate, hidden, weight + plain * hidden);
          add(error, hidden, bias + plain);
        }
        if (s.projects)
          outer(row.data() + channels_.projection_errors, s.features, row.data() + channels_.projected, hidden, gradient(s.projection(d)));
      }
  }
  for (size_t p = 0; p < sums.size(); ++p) gradients_[p].assign(sums[p].begin(), sums[p].end());
}

}  // namespace millrace
