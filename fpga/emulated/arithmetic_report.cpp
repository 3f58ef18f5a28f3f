#include "fpga/emulated/arithmetic_report.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fpga/recurrence/arithmetic/cell_arithmetic.h"

namespace millrace {

namespace {

constexpr std::array<const char*, 8> kTensors = {"inputs", "weights", "sums", "cells", "outputs", "errors", "gradients", "updates"};

ArithmeticCounters total_of(std::span<const TensorArithmetic> arithmetic) {
  ArithmeticCounters total;
  for (const TensorArithmetic& one : arithmetic) total += one.counted;
  return total;
}

}  // namespace

std::string text_of(const std::map<std::string, LayerArithmetic>& counters) {
  std::string text;
  for (const auto& [layer, numbers] : counters) {
    const EngineFormats& f = numbers.formats;
    const std::array<std::pair<const ArithmeticCounters*, int>, kTensors.size()> tensors = {
        {{&numbers.inputs, f.activation.fraction_bits},
         {&numbers.weights, f.weight.fraction_bits},
         {&numbers.sums, f.sum.fraction_bits},
         {&numbers.cells, kCellFraction},
         {&numbers.outputs, f.sum.fraction_bits},
         {&numbers.errors, f.error.fraction_bits},
         {&numbers.gradients, f.gradient_fraction_bits()},
         {&numbers.updates, f.weight.fraction_bits}}};
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ArithmeticCounters& c = *tensors[i].first;
      if (c.rounded == 0 && c.accumulator_overflows == 0) continue;
      text += fmt::format("{} {} {} {} {} {} {:.17g} {:.17g}\n", layer, kTensors[i], tensors[i].second, c.rounded, c.saturated,
                          c.accumulator_overflows, c.error_squares, c.largest_error);
    }
  }
  return text;
}

std::vector<TensorArithmetic> merged_arithmetic(std::span<const std::string> texts) {
  std::map<std::string, std::map<std::string, TensorArithmetic>> by_layer;
  for (const std::string& text : texts) {
    std::istringstream stream(text);
    TensorArithmetic one;
    ArithmeticCounters& c = one.counted;
    while (stream >> one.layer >> one.tensor >> one.fraction_bits >> c.rounded >> c.saturated >> c.accumulator_overflows >>
           c.error_squares >> c.largest_error) {
      TensorArithmetic& sum = by_layer[one.layer].try_emplace(one.tensor, TensorArithmetic{one.layer, one.tensor, 0, {}}).first->second;
      sum.fraction_bits = one.fraction_bits;
      sum.counted += c;
    }
  }
  std::vector<TensorArithmetic> all;
  for (const auto& [layer, tensors] : by_layer)
    for (const char* tensor : kTensors)
      if (const auto found = tensors.find(tensor); found != tensors.end()) all.push_back(found->second);
  return all;
}

std::string arithmetic_json(std::span<const TensorArithmetic> arithmetic) {
  using json = nlohmann::ordered_json;
  const auto counts = [](const ArithmeticCounters& c) {
    return json{{"elements", c.rounded}, {"saturated", c.saturated}, {"accumulator_overflows", c.accumulator_overflows}};
  };
  json report = counts(total_of(arithmetic));
  json tensors = json::array();
  for (const TensorArithmetic& one : arithmetic) {
    json line = {{"layer", one.layer}, {"tensor", one.tensor}, {"fraction_bits", one.fraction_bits}};
    line.update(counts(one.counted));
    line["rms_error_steps"] = one.counted.root_mean_square_error();
    line["largest_error_steps"] = one.counted.largest_error;
    tensors.push_back(std::move(line));
  }
  report["tensors"] = std::move(tensors);
  return report.dump(1) + "\n";
}

std::string arithmetic_summary(std::span<const TensorArithmetic> arithmetic) {
  const ArithmeticCounters total = total_of(arithmetic);
  const TensorArithmetic* worst = nullptr;
  for (const TensorArithmetic& one : arithmetic)
    if (one.counted.saturated > 0 && (worst == nullptr || one.counted.saturated_fraction() > worst->counted.saturated_fraction()))
      worst = &one;
  std::string text = fmt::format("16-bit fixed point: {} of {} numbers saturated", total.saturated, total.rounded);
  if (worst != nullptr)
    text += fmt::format(" (most: {:.4f}% of the {} of {})", 100 * worst->counted.saturated_fraction(), worst->tensor, worst->layer);
  return text + fmt::format(", {} accumulators wrapped (counted, evaluations included)", total.accumulator_overflows);
}

}  // namespace millrace
