#include "core/cpu/convolution_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

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

namespace {

constexpr std::array<double PhaseEfficiency::*, 3> kShares = {&PhaseEfficiency::forward, &PhaseEfficiency::error_back,
                                                              &PhaseEfficiency::parameter_gradient};

// The share of the peak at a micro-batch, of points that ascend in it. Samples of a small micro-batch never take less than those of the
// smallest that was measured.
double share_at(const std::vector<MeasuredConvolution>& points, double PhaseEfficiency::*share, int64_t micro_batch) {
  const auto m = static_cast<double>(micro_batch);
  const auto batch = [](const MeasuredConvolution& point) { return static_cast<double>(point.micro_batch); };
  const auto time = [&](const MeasuredConvolution& point) { return batch(point) / (point.efficiency.*share); };
  if (points.size() == 1 || micro_batch >= points.back().micro_batch) return points.back().efficiency.*share;
  const size_t above = to_size(std::ranges::upper_bound(points, micro_batch, {}, &MeasuredConvolution::micro_batch) - points.begin());
  const MeasuredConvolution& low = points[above == 0 ? 0 : above - 1];
  const MeasuredConvolution& high = points[above == 0 ? 1 : above];
  const double slope = (time(high) - time(low)) / (batch(high) - batch(low));
  if (above == 0) return m / std::max(time(low) - slope * (batch(low) - m), time(low) * m / batch(low));
  return m / (time(low) + slope * (m - batch(low)));
}

PhaseEfficiency efficiency_at(const std::vector<MeasuredConvolution>& points, int64_t micro_batch) {
  PhaseEfficiency efficiency;
  for (double PhaseEfficiency::*share : kShares) efficiency.*share = share_at(points, share, micro_batch);
  return efficiency;
}

}  // namespace

ConvolutionRates::Place ConvolutionRates::place_of(const MeasuredConvolution& shape) {
  return {{shape.kernel, shape.stride}, logs_of(shape.in_channels, shape.out_channels, shape.height * shape.width)};
}

std::vector<ConvolutionRates::Curve> ConvolutionRates::curves_of(const std::vector<MeasuredConvolution>& measured) {
  std::vector<Curve> curves;
  for (const MeasuredConvolution& one : measured) {
    const Place place = place_of(one);
    auto found = std::ranges::find(curves, place, &Curve::place);
    if (found == curves.end()) found = curves.insert(found, {place, {}});
    const auto at = std::ranges::lower_bound(found->points, one.micro_batch, {}, &MeasuredConvolution::micro_batch);
    if (at == found->points.end() || at->micro_batch != one.micro_batch) found->points.insert(at, one);
  }
  return curves;
}

const ConvolutionRates::Curve* ConvolutionRates::nearest(const std::vector<Curve>& curves, const Place& place) {
  constexpr double kFarthest = 2;
  const auto found = nearest_shape(curves, place, kFarthest, &Curve::place);
  return found == curves.end() ? nullptr : &*found;
}

// Behind either end as the other curve goes on from there.
void ConvolutionRates::extend(Curve& curve, const Curve& like) {
  const std::vector<MeasuredConvolution> own = curve.points;
  const auto add = [&](const MeasuredConvolution& there, const MeasuredConvolution& end) {
    const PhaseEfficiency at_end = efficiency_at(like.points, end.micro_batch);
    MeasuredConvolution point = there;
    for (double PhaseEfficiency::*share : kShares) point.efficiency.*share *= end.efficiency.*share / at_end.*share;
    const auto at = std::ranges::lower_bound(curve.points, point.micro_batch, {}, &MeasuredConvolution::micro_batch);
    curve.points.insert(at, point);
  };
  for (const MeasuredConvolution& there : like.points) {
    if (there.micro_batch < own.front().micro_batch) add(there, own.front());
    if (there.micro_batch > own.back().micro_batch) add(there, own.back());
  }
}

ConvolutionRates::ConvolutionRates(const std::vector<MeasuredConvolution>& own, const std::vector<MeasuredConvolution>& others)
    : curves_(curves_of(own)) {
  const std::vector<Curve> known = curves_of(others);
  for (Curve& curve : curves_)
    if (const Curve* like = nearest(known, curve.place)) extend(curve, *like);
  curves_.insert(curves_.end(), known.begin(), known.end());  // behind the device's own, which win where they are as near
}

std::optional<ConvolutionRate> ConvolutionRates::of(const MeasuredConvolution& shape) const {
  const Curve* curve = nearest(curves_, place_of(shape));
  if (curve == nullptr) return {};
  const auto away = [&](const MeasuredConvolution& point) {
    return std::abs(std::log2(static_cast<double>(point.micro_batch) / static_cast<double>(shape.micro_batch)));
  };
  return ConvolutionRate{efficiency_at(curve->points, shape.micro_batch), std::ranges::min_element(curve->points, {}, away)->weight_copies};
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
    if (read != 10 || comma + 1 + to_size(used) != line.size() || !std::ranges::all_of(n, sound) || !std::ranges::all_of(shares, sound))
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
