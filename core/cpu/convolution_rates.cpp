#include "core/cpu/convolution_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/base/error.h"

namespace millrace::cpu {

namespace {

constexpr std::string_view kPrefix = "efficiency_conv_";
constexpr std::string_view kForward = "_forward";

// Factors of two between them, over everything that may differ.
double distance(const MeasuredConvolution& a, const MeasuredConvolution& b) {
  const auto factor = [](int64_t x, int64_t y) { return std::abs(std::log2(static_cast<double>(x) / static_cast<double>(y))); };
  return factor(a.in_channels, b.in_channels) + factor(a.out_channels, b.out_channels) + factor(a.height * a.width, b.height * b.width) +
         factor(a.micro_batch, b.micro_batch);
}

}  // namespace

std::string name_of(const MeasuredConvolution& c) {
  return fmt::format("{}{}to{}_{}x{}_k{}s{}_b{}", kPrefix, c.in_channels, c.out_channels, c.height, c.width, c.kernel, c.stride,
                     c.micro_batch);
}

std::vector<MeasuredConvolution> convolutions_of(const CatalogueDevice& device) {
  std::vector<MeasuredConvolution> found;
  for (const CatalogueValue& value : device.values) {
    const std::string& name = value.name;
    if (!name.starts_with(kPrefix) || name.size() == kPrefix.size() || name[kPrefix.size()] < '0' || name[kPrefix.size()] > '9') continue;
    std::array<long long, 7> n{};
    int end = 0;
    const int read = std::sscanf(name.c_str() + kPrefix.size(), "%lldto%lld_%lldx%lld_k%llds%lld_b%lld%n", &n[0], &n[1], &n[2], &n[3],
                                 &n[4], &n[5], &n[6], &end);
    MeasuredConvolution c{n[0], n[1], n[2], n[3], n[4], n[5], n[6], {}};
    const bool whole = read == 7 && std::ranges::all_of(n, [](long long number) { return number > 0 && number < (1LL << 31); }) &&
                       name.starts_with(name_of(c));
    const std::string_view phase = whole ? std::string_view(name).substr(name_of(c).size()) : std::string_view();
    if (phase != kForward && phase != "_error_back" && phase != "_parameter_gradient")
      fail(ErrorCode::kMalformed,
           "the catalogue's device \"{}\": {} names no convolution; efficiency_conv_128to256_8x8_k3s1_b32_forward does", device.name, name);
    if (!device.has(name_of(c) + std::string(kForward)))
      fail(ErrorCode::kMalformed, "the catalogue's device \"{}\" has {}, but not the phase forward of it; add it", device.name, name);
    if (phase == kForward) found.push_back(c);
  }
  return found;
}

std::optional<MeasuredConvolution> shape_of(const Node& node, int64_t micro_batch) {
  const auto* const conv = std::get_if<Conv2d>(&node.layer.operation);
  if (conv == nullptr || conv->groups != 1 || conv->kernel_h != conv->kernel_w || conv->stride_h != conv->stride_w ||
      conv->dilation_h != 1 || conv->dilation_w != 1)
    return {};
  return MeasuredConvolution{node.input_shapes[0].channels,
                             conv->out_channels,
                             node.output.height,
                             node.output.width,
                             conv->kernel_h,
                             conv->stride_h,
                             micro_batch,
                             {}};
}

std::optional<size_t> nearest(const std::vector<MeasuredConvolution>& measured, const MeasuredConvolution& shape) {
  constexpr double kFarthest = 2;  // factors of two
  std::optional<size_t> best;
  double least = kFarthest;
  for (size_t i = 0; i < measured.size(); ++i) {
    if (measured[i].kernel != shape.kernel || measured[i].stride != shape.stride) continue;
    const double away = distance(measured[i], shape);
    if (away > least || (best && away == least)) continue;
    best = i;
    least = away;
  }
  return best;
}

}  // namespace millrace::cpu
