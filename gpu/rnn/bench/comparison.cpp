#include "gpu/rnn/bench/comparison.h"

#include <cmath>

namespace millrace::rnn {
namespace {

constexpr double kKinkAllowance = 100;  // of the rectifier's gradients

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double here = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(here <= worst)) worst = std::isnan(here) ? INFINITY : here;
  }
  return worst;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& expected) {
  double largest = 0;
  for (const float value : expected) largest = std::fmax(largest, std::fabs(static_cast<double>(value)));
  const double difference = largest_difference(a, expected);
  return difference == 0 ? 0 : difference / largest;  // infinite where nothing but zero was expected
}

}  // namespace

double output_tolerance(Precision precision) {
  switch (precision) {
    case Precision::kFloat: return 1e-4;
    case Precision::kHalf: return 1e-2;
    case Precision::kBFloat16: return 8e-2;
  }
  return 0;
}

double gradient_tolerance(Precision precision, Recurrence recurrence) {
  return output_tolerance(precision) * (recurrence == Recurrence::kRelu ? kKinkAllowance : 1);
}

Comparison compare(const RnnShape& shape, const Results& results, const Results& expected) {
  Comparison found;
  found.output = largest_difference(results.output, expected.output);
  found.correct = found.output <= output_tolerance(shape.precision);
  if (!shape.training) return found;
  const auto add = [&](const char* name, const std::vector<float>& got, const std::vector<float>& wanted) {
    if (got.empty() && wanted.empty()) return;  // not a part of this kind of layer
    const double error = relative_error(got, wanted);
    found.gradients.emplace_back(name, error);
    if (found.worst_gradient.first.empty() || !(error <= found.worst_gradient.second)) found.worst_gradient = {name, error};
  };
  add("dX", results.input_gradient, expected.input_gradient);
  add("dW", results.gradients.input, expected.gradients.input);
  add("dR", results.gradients.recurrent, expected.gradients.recurrent);
  add("db", results.gradients.bias, expected.gradients.bias);
  add("db of the candidate", results.gradients.candidate_bias, expected.gradients.candidate_bias);
  add("dh0", results.first_state_gradient, expected.first_state_gradient);
  add("dc0", results.first_cell_gradient, expected.first_cell_gradient);
  found.correct =
      found.correct && !found.gradients.empty() && found.worst_gradient.second <= gradient_tolerance(shape.precision, shape.recurrence);
  return found;
}

}  // namespace millrace::rnn
