#include "core/cpu/convolution_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {
extern const char* const kShippedConvolutionRates;  // generated from convolution_rates.csv
}

namespace millrace::cpu {

namespace {

constexpr std::string_view kPrefix = "efficiency_conv_";
constexpr std::string_view kForward = "_forward";

// Six times six numbers for three times three.
constexpr double kWinogradGrowth = 4;

}  // namespace

std::string name_of(const MeasuredConvolution& c) {
  return fmt::format("{}{}to{}_{}x{}_k{}s{}_b{}", kPrefix, c.in_channels, c.out_channels, c.height, c.width, c.kernel, c.stride,
                     c.micro_batch);
}

std::string weight_copies_name_of(const MeasuredConvolution& convolution) {
  return "weight_copies" + name_of(convolution).substr(std::string_view("efficiency").size());
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
    MeasuredConvolution c{n[0], n[1], n[2], n[3], n[4], n[5], n[6], {}, 0};
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
                             {},
                             0};
}

NearestConvolution::Place NearestConvolution::place_of(const MeasuredConvolution& shape) {
  return {{shape.kernel, shape.stride}, logs_of(shape.in_channels, shape.out_channels, shape.height * shape.width, shape.micro_batch)};
}

NearestConvolution::NearestConvolution(const std::vector<MeasuredConvolution>& measured) {
  for (const MeasuredConvolution& one : measured) places_.push_back(place_of(one));
}

std::optional<size_t> NearestConvolution::of(const MeasuredConvolution& shape) const {
  constexpr double kFarthest = 2;
  const auto found = nearest_shape(places_, place_of(shape), kFarthest, std::identity());
  if (found == places_.end()) return {};
  return to_size(found - places_.begin());
}

double weight_copies(const MeasuredConvolution& shape, const KernelTable& table, const std::string& isa) {
  if (shape.kernel != 3 || shape.stride != 1) return 0;
  ConvKey key;
  key.conv = {.out_channels = shape.out_channels, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  key.input = {shape.in_channels, shape.height, shape.width};
  key.micro_batch = shape.micro_batch;
  key.isa = isa;
  double copies = 0;
  for (const Phase phase : {Phase::kForward, Phase::kErrorBack}) {
    key.phase = phase;
    if (table.choice(key) == ConvAlgorithm::kWinograd) copies += kWinogradGrowth;
  }
  return copies;
}

std::vector<MeasuredConvolution> parse_convolutions(std::string_view text, std::string_view isa, std::string_view origin) {
  std::vector<MeasuredConvolution> found;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty() || line.starts_with('#') || line.starts_with("isa,")) continue;
    const size_t comma = line.find(',');
    std::array<long long, 7> n{};
    std::array<double, 3> shares{};
    int used = 0;
    const int read = comma == std::string::npos
                         ? 0
                         : std::sscanf(line.c_str() + comma + 1, "%lldto%lld_%lldx%lld_k%llds%lld_b%lld,%lf,%lf,%lf%n", &n[0], &n[1], &n[2],
                                       &n[3], &n[4], &n[5], &n[6], &shares[0], &shares[1], &shares[2], &used);
    const auto sound = [](auto value) { return value > 0 && value < 1'000'000'000; };
    if (read != 10 || comma + 1 + static_cast<size_t>(used) != line.size() || !std::ranges::all_of(n, sound) ||
        !std::ranges::all_of(shares, sound))
      fail(ErrorCode::kMalformed, "{}, line {}: expected isa,128to256_8x8_k3s1_b32 and three shares of the peak: {}", origin, number, line);
    if (line.substr(0, comma) != isa) continue;
    found.push_back({n[0], n[1], n[2], n[3], n[4], n[5], n[6], {shares[0], shares[1], shares[2]}, 0});
    found.back().weight_copies = weight_copies(found.back(), KernelTable::shipped(), std::string(isa));
  }
  return found;
}

const std::vector<MeasuredConvolution>& shipped_convolutions(int avx) {
  static const auto of = [](const char* isa) { return parse_convolutions(kShippedConvolutionRates, isa, "the shipped convolution rates"); };
  static const std::vector<MeasuredConvolution> avx512 = of("avx512_core");
  static const std::vector<MeasuredConvolution> avx2 = of("avx2");
  return avx == 512 ? avx512 : avx2;
}

// The file's first line, behind its "# ".
std::string shipped_convolutions_origin() {
  const std::string_view text = kShippedConvolutionRates;
  return std::string(text.substr(2, text.find('\n') - 2));
}

}  // namespace millrace::cpu
