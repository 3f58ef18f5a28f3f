#include "core/train/initialize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

#include "core/base/check.h"

namespace millrace {
namespace {

// A draw of 24 bits in [0, 1), spread over [-bound, bound) and rounded as single precision would hold it.
float symmetric(uint32_t bits, double bound) {
  const double unit = static_cast<double>(bits >> 8) * 0x1p-24;
  return static_cast<float>((2.0 * unit - 1.0) * bound);
}

}  // namespace

Fans fans_of(const ParameterSpec& weight) {
  const auto& dimensions = weight.dimensions;
  MILLRACE_CHECK(dimensions.size() >= 2, "{} has {} dimensions; only a weight [out][in]... has fans", weight.tensor, dimensions.size());
  int64_t kernel = 1;
  for (size_t i = 2; i < dimensions.size(); ++i) kernel *= dimensions[i];
  return {dimensions[1] * kernel, dimensions[0] * kernel};
}

InitialValues::InitialValues(const Layer& layer, const ParameterSpec& parameter, const Fans& fans, uint64_t seed)
    : draw_(seed, stream_id("initialize", layer.name + "." + parameter.tensor)) {
  MILLRACE_CHECK(fans.in > 0 && fans.out > 0, "{}.{}: fans {} and {}", layer.name, parameter.tensor, fans.in, fans.out);
  choose(layer, parameter, fans);
}

void InitialValues::choose(const Layer& layer, const ParameterSpec& parameter, const Fans& fans) {
  const auto set = [this](Distribution distribution, double scale) {
    distribution_ = distribution;
    scale_ = scale;
  };
  const auto in = static_cast<double>(fans.in);
  const auto both = static_cast<double>(fans.in + fans.out);
  if (std::holds_alternative<BatchNorm>(layer.operation)) {
    const bool starts_at_one = parameter.tensor == "weight" || parameter.tensor == "running_var";
    return set(Distribution::kConstant, starts_at_one ? 1.0 : 0.0);
  }
  const bool torch = layer.initializer == Initializer::kTorchUniform;
  if (parameter.tensor.starts_with("bias") && !torch) return set(Distribution::kConstant, 0);
  switch (layer.initializer) {
    case Initializer::kHeNormal: return set(Distribution::kNormal, std::sqrt(2.0 / in));
    case Initializer::kHeUniform: return set(Distribution::kUniform, std::sqrt(6.0 / in));
    case Initializer::kXavierNormal: return set(Distribution::kNormal, std::sqrt(2.0 / both));
    case Initializer::kXavierUniform: return set(Distribution::kUniform, std::sqrt(6.0 / both));
    case Initializer::kTorchUniform:
      if (std::holds_alternative<Embedding>(layer.operation)) return set(Distribution::kNormal, 1);
      if (const auto* cell = std::get_if<Recurrent>(&layer.operation))
        return set(Distribution::kUniform, 1.0 / std::sqrt(static_cast<double>(cell->hidden)));
      return set(Distribution::kUniform, 1.0 / std::sqrt(in));
    case Initializer::kZero: return set(Distribution::kConstant, 0);
  }
  MILLRACE_CHECK(false, "{}: initializer {} is unknown", layer.name, static_cast<int>(layer.initializer));
}

double InitialValues::at(int64_t element) const {
  const auto index = static_cast<uint64_t>(element);
  switch (distribution_) {
    case Distribution::kConstant: return scale_;
    case Distribution::kUniform: return static_cast<double>(symmetric(draw_.bits(index), scale_));
    case Distribution::kNormal: return static_cast<double>(static_cast<float>(draw_.normal(index) * scale_));
  }
  return 0;
}

template <typename Value>
void InitialValues::fill_values(std::span<Value> host, uint64_t first) const {
  switch (distribution_) {
    case Distribution::kConstant: std::ranges::fill(host, static_cast<Value>(scale_)); return;
    case Distribution::kNormal:
      for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<Value>(at(static_cast<int64_t>(first + i)));
      return;
    case Distribution::kUniform: break;
  }
  // Four neighbours share a block of the generator: one block per four elements instead of one each.
  std::array<uint32_t, 4> block{};
  for (size_t i = 0; i < host.size(); ++i) {
    const uint64_t element = first + i;
    if (i == 0 || element % 4 == 0) block = draw_.block(element / 4);
    host[i] = static_cast<Value>(symmetric(block[element % 4], scale_));
  }
}

void InitialValues::fill(std::span<float> host, int64_t first_element) const { fill_values(host, static_cast<uint64_t>(first_element)); }
void InitialValues::fill(std::span<double> host, int64_t first_element) const { fill_values(host, static_cast<uint64_t>(first_element)); }

}  // namespace millrace
