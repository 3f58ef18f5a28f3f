#include "core/train/initialize.h"

#include <array>
#include <cmath>

#include "core/base/check.h"
#include "core/train/normal_quantile.h"

namespace millrace {
namespace {

// 32 random bits as the middle of one of 2^32 equal parts of (0, 1): symmetric about 1/2, never 0 or 1.
double unit_from(uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; }

}  // namespace

Fans fans_of(const ParameterSpec& weight) {
  const auto& dimensions = weight.dimensions;
  if (dimensions.size() < 2) return {};
  int64_t kernel = 1;
  for (size_t i = 2; i < dimensions.size(); ++i) kernel *= dimensions[i];
  return {dimensions[1] * kernel, dimensions[0] * kernel};
}

InitialValues::InitialValues(const Layer& layer, const ParameterSpec& parameter, const Fans& fans, uint64_t seed)
    : draw_(seed, stream_id("initialize", layer.name + "." + parameter.tensor)) {
  MILLRACE_CHECK(fans.in > 0 && fans.out > 0, "{}.{}: fans {} and {}", layer.name, parameter.tensor, fans.in, fans.out);
  choose(layer, parameter, parameter.dimensions.size() < 2 ? fans : fans_of(parameter));
}

void InitialValues::choose(const Layer& layer, const ParameterSpec& parameter, const Fans& fans) {
  const auto set = [this](Distribution distribution, double scale) {
    distribution_ = distribution;
    scale_ = scale;
  };
  const auto in = static_cast<double>(fans.in);
  const auto both = static_cast<double>(fans.in + fans.out);
  if (parameter.start != Start::kByInitializer) return set(Distribution::kConstant, parameter.start == Start::kOne ? 1.0 : 0.0);
  const bool torch = layer.initializer == Initializer::kTorchUniform;
  if (parameter.tensor.starts_with("bias") && !torch) return set(Distribution::kConstant, 0);
  switch (layer.initializer) {
    case Initializer::kHeNormal: return set(Distribution::kNormal, std::sqrt(2.0 / in));
    case Initializer::kHeUniform: return set(Distribution::kUniform, std::sqrt(6.0 / in));
    case Initializer::kXavierNormal: return set(Distribution::kNormal, std::sqrt(2.0 / both));
    case Initializer::kXavierUniform: return set(Distribution::kUniform, std::sqrt(6.0 / both));
    case Initializer::kTorchUniform:
      return set(parameter.torch.normal ? Distribution::kNormal : Distribution::kUniform,
                 parameter.torch.scale > 0 ? parameter.torch.scale : 1.0 / std::sqrt(in));
    case Initializer::kZero: return set(Distribution::kConstant, 0);
  }
  MILLRACE_CHECK(false, "{}: initializer {} is unknown", layer.name, static_cast<int>(layer.initializer));
}

float InitialValues::value_from(uint32_t bits) const {
  switch (distribution_) {
    case Distribution::kConstant: break;
    case Distribution::kUniform: return static_cast<float>((2.0 * unit_from(bits) - 1.0) * scale_);
    case Distribution::kNormal: return static_cast<float>(normal_quantile(unit_from(bits)) * scale_);
  }
  return static_cast<float>(scale_);
}

double InitialValues::at(int64_t element) const { return static_cast<double>(value_from(draw_.bits(static_cast<uint64_t>(element)))); }

template <typename Value>
void InitialValues::fill_values(std::span<Value> host, uint64_t first) const {
  // Four neighbours share a block of the generator: one block per four elements instead of one each.
  std::array<uint32_t, 4> block{};
  for (size_t i = 0; i < host.size(); ++i) {
    const uint64_t element = first + i;
    if (i == 0 || element % 4 == 0) block = draw_.block(element / 4);
    host[i] = static_cast<Value>(value_from(block[element % 4]));
  }
}

void InitialValues::fill(std::span<float> host, int64_t first_element) const { fill_values(host, static_cast<uint64_t>(first_element)); }
void InitialValues::fill(std::span<double> host, int64_t first_element) const { fill_values(host, static_cast<uint64_t>(first_element)); }

}  // namespace millrace
