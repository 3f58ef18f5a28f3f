// What any GPU device must get right, on whatever engine: each check returns what went wrong, "" for nothing. No test framework, so that
// a plain program can run the same on a machine that has a driver and nothing else.
//
//   const std::string wrong = operations_match(*device, {.per_kind = 20, .seed = 3}, 1e-5);
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/reference/reference_device.h"
#include "tests/core/chunk_runner.h"

namespace millrace::testing {

inline std::string difference_of(const CaseResult& mine, const CaseResult& oracle, double tolerance) {
  std::string wrong;
  const auto compare = [&](std::span<const double> a, std::span<const double> b, std::string_view what) {
    const double difference = normwise_difference(a, b);
    if (!(difference < tolerance)) wrong += fmt::format("{}: off by {:.3g}; ", what, difference);
  };
  compare(mine.output, oracle.output, "output");
  compare(mine.output_error, oracle.output_error, "output error");
  for (size_t i = 0; i < oracle.input_errors.size(); ++i) compare(mine.input_errors[i], oracle.input_errors[i], "input error");
  for (size_t i = 0; i < oracle.gradients.size(); ++i) compare(mine.gradients[i], oracle.gradients[i], "gradient");
  for (size_t i = 0; i < oracle.state.size(); ++i) compare(mine.state[i], oracle.state[i], "state");
  if (!(std::abs(mine.score.loss - oracle.score.loss) <= tolerance * (1 + std::abs(oracle.score.loss))))
    wrong += fmt::format("loss {} instead of {}; ", mine.score.loss, oracle.score.loss);
  if (mine.score.correct != oracle.score.correct || mine.score.samples != oracle.score.samples) wrong += "another score; ";
  return wrong;
}

// Normalising a handful of values leaves the difference of equals.
inline bool well_conditioned(const OperationCase& c) {
  return !std::holds_alternative<BatchNorm>(c.spec.operation) || c.spec.micro_batch * c.spec.output.plane() >= (c.short_samples ? 60 : 8);
}

// GPUs refuse them.
inline CaseLimits without_hard_gates(CaseLimits limits) {
  limits.hard_gates = false;
  return limits;
}

template <typename Wanted>
std::string operations_match(Device& device, const CaseLimits& limits, double tolerance, Wanted wanted, int64_t* compared = nullptr) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  for (OperationCase c : operation_cases(without_hard_gates(limits))) {
    if (!well_conditioned(c) || !wanted(c.spec)) continue;
    for (const bool training : {true, false}) {
      if (!training && std::holds_alternative<BatchNorm>(c.spec.operation)) continue;  // E and G belong to training
      c.training = training;
      const CaseData data = data_of(c);
      const std::string wrong = difference_of(run_case(device, c, data), run_case(*oracle, c, data), tolerance);
      if (!wrong.empty()) return fmt::format("{}{}: {}", c.name, training ? "" : ", evaluation", wrong);
      if (compared != nullptr) ++*compared;
    }
  }
  return "";
}
inline std::string operations_match(Device& device, const CaseLimits& limits, double tolerance, int64_t* compared = nullptr) {
  return operations_match(
      device, limits, tolerance, [](const KernelSpec&) { return true; }, compared);
}

// What can be taken in chunks of time: what a processor makes of the whole, whatever the chunks. `hidden` units.
inline std::string chunks_match(Device& device, int64_t hidden, double tolerance) {
  const auto processor = make_cpu_device();
  const int64_t some = (hidden + 1) / 2;
  const std::vector<Operation> layers = {
      Recurrent{.cell = CellKind::kLstm, .hidden = hidden},
      Recurrent{.cell = CellKind::kLstm, .hidden = hidden, .stateful = true, .truncation = 4},
      Recurrent{.cell = CellKind::kLstm, .hidden = hidden, .projection = some, .stateful = true},
      Recurrent{.cell = CellKind::kLstm, .hidden = hidden, .projection = some, .truncation = 3},
      Recurrent{.cell = CellKind::kGru, .hidden = hidden, .truncation = 4},
      Recurrent{.cell = CellKind::kGru, .hidden = hidden, .stateful = true},
      Recurrent{.cell = CellKind::kGru, .hidden = hidden, .reset_after = true, .stateful = true},
      Recurrent{.cell = CellKind::kGru, .hidden = hidden, .reset_after = true, .truncation = 5},
      Recurrent{.cell = CellKind::kVanillaRelu, .hidden = hidden},
      Recurrent{.cell = CellKind::kVanillaTanh, .hidden = hidden, .truncation = 3},
      Embedding{.vocabulary = 9, .dimension = hidden},
      Dropout{.probability = 0.3},
      Activation{ActivationKind::kTanh},
  };
  for (const Operation& layer : layers)
    for (const bool short_samples : {false, true}) {
      OperationCase c = case_of(layer, {std::holds_alternative<Embedding>(layer) ? 1 : hidden + 3, 11, 1}, 3);
      c.adds = {short_samples ? uint8_t{1} : uint8_t{0}};
      c.short_samples = short_samples && detail::knows_lengths(layer);
      const CaseData data = data_of(c);
      CaseResult whole = run_case(*processor, c, data);
      whole.output_error.clear();
      for (const int32_t chunks : {1, 2, 3, 5, 16})
        if (const std::string wrong = difference_of(run_in_chunks(device, c, data, chunks), whole, tolerance); !wrong.empty())
          return fmt::format("{}{} in {} chunks: {}", name_of(layer), short_samples ? " of short samples" : "", chunks, wrong);
    }
  return "";
}

// The same case twice gives the same bits.
inline std::string operations_repeat(Device& one, Device& other, const CaseLimits& limits) {
  for (const OperationCase& c : operation_cases(without_hard_gates(limits))) {
    const CaseData data = data_of(c);
    const CaseResult a = run_case(one, c, data), b = run_case(other, c, data);
    const bool same = a.output == b.output && a.output_error == b.output_error && a.input_errors == b.input_errors &&
                      a.gradients == b.gradients && a.state == b.state && a.score.loss == b.score.loss;
    if (!same) return c.name + ": other bits the second time";
  }
  return "";
}

// Updates by every optimizer, norms, and the search for what is not finite.
inline std::string updates_match(Device& device, double tolerance) {
  const auto oracle = make_reference_device(ElementType::kFloat32);
  CaseDraw draw(5, "updates");
  constexpr int64_t kElements = 70'001;  // more than one piece of a norm
  const Shape shape{kElements, 1, 1};
  for (const auto kind :
       {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const std::vector<double> weights = draw.values(kElements), gradients = draw.values(kElements), slots = draw.values(kElements);
    UpdateArguments arguments;
    arguments.optimizer.kind = kind;
    arguments.optimizer.weight_decay = 0.01;
    arguments.learning_rate = 0.1;
    arguments.gradient_scale = 0.5;
    arguments.value_limit = 0.7;
    std::vector<std::vector<double>> results;
    for (Device* on : {&device, oracle.get()}) {
      const auto w = tensor_with(*on, shape, 1, weights), g = tensor_with(*on, shape, 1, gradients);
      const auto a = tensor_with(*on, shape, 1, slots), b = tensor_with(*on, shape, 1, slots);
      std::vector<double> positive = slots;
      for (double& value : positive) value = std::abs(value);
      on->write(*b, whole(*b), std::span<const double>(positive));
      Tensor* const both[] = {a.get(), b.get()};
      for (arguments.step = 1; arguments.step <= 3; ++arguments.step) on->update(arguments, *w, *g, both);
      results.push_back(values_of(*on, *w));
      results.push_back({on->squared_norm(*g), on->all_finite(*g) ? 1.0 : 0.0});
      std::vector<double> broken = gradients;
      broken[kElements - 2] = kind == OptimizerKind::kSgd ? INFINITY : NAN;
      on->write(*g, whole(*g), std::span<const double>(broken));
      results.back().push_back(on->all_finite(*g) ? 1.0 : 0.0);
    }
    if (!(normwise_difference(results[0], results[2]) < tolerance)) return fmt::format("{}: other weights", name_of(kind));
    if (!(normwise_difference(results[1], results[3]) < tolerance)) return fmt::format("{}: other norms", name_of(kind));
  }
  return "";
}

// Channels, rows and whole tensors to the device, about it and back.
inline std::string moves_match(Device& device) {
  CaseDraw draw(6, "moves");
  const auto oracle = make_reference_device(ElementType::kFloat32);
  for (int64_t i = 0; i < 40; ++i) {
    const Shape shape{draw.between(1, 9), draw.between(1, 6), draw.between(1, 6)};
    const int64_t batch = draw.between(1, 4);
    ChannelRange channels{draw.between(0, shape.channels - 1), 0};
    channels.end = draw.between(channels.begin + 1, shape.channels);
    const StepRange rows{draw.between(0, shape.height - 1), shape.height};
    const Shape other{channels.size() + 2, shape.height, shape.width};
    const std::vector<double> all = draw.values(batch * shape.elements()), target = draw.values(batch * other.elements());
    const std::vector<double> some = draw.values(batch * channels.size() * shape.plane());
    const std::vector<double> few = draw.values(batch * channels.size() * rows.size() * shape.width);
    const bool adds = draw.one_in(2);
    std::vector<std::vector<double>> results;
    for (Device* on : {&device, oracle.get()}) {
      const auto x = tensor_with(*on, shape, batch, all), y = tensor_with(*on, other, batch, target), z = on->make_tensor({shape, batch});
      on->write(*x, channels, std::span<const double>(some));
      on->write_rows(*x, channels, rows, std::span<const double>(few));
      on->copy_channels(*x, channels, *y, 1, adds);
      on->copy(*x, *z);
      on->zero(*x);
      std::vector<double> part(few.size());
      on->read_rows(*z, channels, rows, std::span<double>(part));
      results.push_back(values_of(*on, *y));
      results.back().insert(results.back().end(), part.begin(), part.end());
      for (const auto* tensor : {x.get(), z.get()}) {
        const std::vector<double> values = values_of(*on, *tensor, channels);
        results.back().insert(results.back().end(), values.begin(), values.end());
      }
    }
    if (results[0] != results[1]) return fmt::format("{} x {}: other numbers", batch, text_of(shape));
  }
  return "";
}

}  // namespace millrace::testing
