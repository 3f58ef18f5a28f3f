#include "tests/gpu/rnn/layer_case.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "gpu/rnn/dispatch.h"

namespace millrace::rnn {
namespace {

std::vector<float> random_values(std::mt19937& random, int count, float size, Precision precision) {
  std::uniform_real_distribution<float> any(-size, size);
  std::vector<float> values(static_cast<std::size_t>(count));
  // Values that the layer's format holds exactly, so that its rounding of weights is no part of the difference.
  for (float& value : values) with_format(precision, [&]<class S>(S) { value = to_float(from_float<S>(any(random))); });
  return values;
}

std::vector<unsigned char> in_format(const Numbers& values, Precision precision) {
  std::vector<unsigned char> bytes(values.size() * static_cast<std::size_t>(bytes_of(precision)));
  with_format(precision, [&]<class S>(S) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const S value = from_float<S>(static_cast<float>(values[i]));
      std::copy_n(reinterpret_cast<const unsigned char*>(&value), sizeof(S), bytes.data() + i * sizeof(S));
    }
  });
  return bytes;
}

double largest_difference(const std::vector<float>& got, const Numbers& expected) {
  if (got.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(got[i]) - expected[i]);
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
  }
  return worst;
}

double relative_difference(const std::vector<float>& got, const Numbers& expected) {
  double largest = 1e-3;
  for (const double value : expected) largest = std::fmax(largest, std::fabs(value));
  return largest_difference(got, expected) / largest;
}

}  // namespace

LayerCase::LayerCase(const RnnShape& shape, unsigned seed, bool with_first_state) : shape_(shape), reference_(shape, {}) {
  std::mt19937 random(seed);
  const int rows = shape.gates() * shape.hidden;
  const float size = 1.0F / std::sqrt(static_cast<float>(shape.hidden));
  const auto numbers = [&](int count, float range) {
    const std::vector<float> values = random_values(random, count, range, shape.precision);
    return Numbers(values.begin(), values.end());
  };
  for (int side = 0; side < shape.sides(); ++side) {
    Weights weights;
    weights.input = random_values(random, rows * shape.inputs, size, shape.precision);
    weights.recurrent = random_values(random, rows * shape.state(), size, shape.precision);
    weights.bias = random_values(random, rows, size, shape.precision);
    if (shape.recurrence == Recurrence::kGru) weights.candidate_bias = random_values(random, shape.hidden, size, shape.precision);
    if (shape.projection > 0) weights.projection = random_values(random, shape.projection * shape.hidden, size, shape.precision);
    weights_.push_back(weights);
  }
  input_ = numbers(shape.steps * shape.batch * shape.inputs, 1);
  output_gradient_ = numbers(shape.steps * shape.batch * shape.outputs(), 1);
  reference_ = Reference(shape, weights_);
  for (int side = 0; side < shape.sides() && with_first_state; ++side) {
    reference_.first_state[static_cast<std::size_t>(side)] = numbers(shape.batch * shape.hidden, 1);
    if (shape.recurrence == Recurrence::kLstm)
      reference_.first_cell[static_cast<std::size_t>(side)] = numbers(shape.batch * shape.hidden, 1);
  }
  reference_.forward(input_);
  if (shape.training) reference_.backward(output_gradient_);
}

Differences LayerCase::run(Machine& machine, const std::function<void(RnnLayer&)>& prepare, const std::optional<Runner>& runner) const {
  RnnLayer layer(machine, shape_, runner ? *runner : runner_by_rule(machine, shape_, titan_v()));
  prepare(layer);
  const auto floats = [](const Numbers& values) { return std::vector<float>(values.begin(), values.end()); };
  for (int side = 0; side < shape_.sides(); ++side) {
    const auto s = static_cast<std::size_t>(side);
    layer.set_weights(side, weights_[s]);
    if (reference_.first_state[s].empty()) continue;
    const std::vector<float> cell = floats(reference_.first_cell[s]);
    layer.set_first_state(side, in_format(reference_.first_state[s], shape_.precision).data(), cell.empty() ? nullptr : cell.data());
  }
  const std::vector<unsigned char> x = in_format(input_, shape_.precision);
  machine.copy_to(layer.input(), x.data(), x.size());
  layer.forward();
  layer.check();
  Differences found;
  found.persistent_forward = layer.layout(false).has_value();
  found.persistent_backward = layer.layout(true).has_value();
  std::vector<unsigned char> bytes(reference_.output.size() * static_cast<std::size_t>(bytes_of(shape_.precision)));
  machine.copy_from(bytes.data(), layer.output(), bytes.size());
  std::vector<float> output;
  with_format(shape_.precision, [&]<class S>(S) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(S)) {
      S value;
      std::copy_n(bytes.data() + i, sizeof(S), reinterpret_cast<unsigned char*>(&value));
      output.push_back(to_float(value));
    }
  });
  found.output = largest_difference(output, reference_.output);
  if (!shape_.training) return found;

  const std::vector<float> dy = floats(output_gradient_);
  machine.copy_to(layer.output_gradient(), dy.data(), dy.size() * sizeof(float));
  layer.backward();
  layer.check();
  const auto compare = [&](const std::vector<float>& got, const Numbers& expected) {
    if (!expected.empty()) found.gradients = std::fmax(found.gradients, relative_difference(got, expected));
  };
  for (int side = 0; side < shape_.sides(); ++side) {
    const ReferenceGradients& expected = reference_.gradients[static_cast<std::size_t>(side)];
    const Weights got = layer.gradients(side);
    compare(got.input, expected.input);
    compare(got.recurrent, expected.recurrent);
    compare(got.bias, expected.bias);
    compare(got.candidate_bias, expected.candidate_bias);
    compare(got.projection, expected.projection);
    if (shape_.projection == 0) compare(layer.first_state_gradient(side), expected.first_state);
    if (shape_.recurrence == Recurrence::kLstm) compare(layer.first_cell_gradient(side), expected.first_cell);
  }
  std::vector<float> dx(reference_.input_gradient.size());
  machine.copy_from(dx.data(), layer.input_gradient(), dx.size() * sizeof(float));
  compare(dx, reference_.input_gradient);
  return found;
}

}  // namespace millrace::rnn
