#include "core/drawing/colour.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numbers>

namespace millrace {
namespace {

struct Hue {
  double degrees;
  double lightness;  // on light paper
  double chroma;
};
// Found by search: the smallest difference between neighbours, under normal and red- or green-blind vision, is largest,
// with at least 3:1 against both papers.
constexpr std::array<Hue, kHues> kPalette = {{
    {225, .44, .12},   // deep teal
    {240, .665, .09},  // sky
    {120, .44, .15},   // moss
    {75, .64, .12},    // gold
    {285, .44, .15},   // violet
    {345, .665, .15},  // pink
    {30, .48, .15},    // brick
    {150, .64, .15},   // green
}};
constexpr double kDarkThemeLift = .14;
constexpr double kShadeRange = .09;

bool is_dark(const Hue& hue) { return hue.lightness < .55; }

double linear(double channel) { return channel <= .04045 ? channel / 12.92 : std::pow((channel + .055) / 1.055, 2.4); }
double encoded(double channel) { return channel <= .0031308 ? 12.92 * channel : 1.055 * std::pow(channel, 1 / 2.4) - .055; }
double luminance(const Colour& c) { return .2126 * linear(c.red) + .7152 * linear(c.green) + .0722 * linear(c.blue); }

std::array<double, 3> linear_from(double lightness, double chroma, double hue) {
  const double angle = hue * std::numbers::pi / 180;
  const double a = chroma * std::cos(angle), b = chroma * std::sin(angle);
  const double l = std::pow(lightness + .3963377774 * a + .2158037573 * b, 3);
  const double m = std::pow(lightness - .1055613458 * a - .0638541728 * b, 3);
  const double s = std::pow(lightness - .0894841775 * a - 1.2914855480 * b, 3);
  return {4.0767416621 * l - 3.3077115913 * m + .2309699292 * s, -1.2684380046 * l + 2.6097574011 * m - .3413193965 * s,
          -.0041960863 * l - .7034186147 * m + 1.7076147010 * s};
}

std::string rules(std::string_view name, const Colour& colour) {
  return fmt::format(".{0}{{fill:{1};color:{1}}}", name, hexadecimal(colour));
}

std::string stage_name(std::string_view layer) { return std::string(layer.substr(0, layer.find_first_of("_./"))); }

}  // namespace

std::string hexadecimal(const Colour& colour) {
  const auto byte = [](double channel) { return static_cast<int>(std::lround(std::clamp(channel, 0.0, 1.0) * 255)); };
  return fmt::format("#{:02x}{:02x}{:02x}", byte(colour.red), byte(colour.green), byte(colour.blue));
}

Colour colour_from(double lightness, double chroma, double hue) {
  constexpr double kTolerance = 1e-4;
  std::array<double, 3> channels = linear_from(lightness, chroma, hue);
  const auto shown = [](double channel) { return channel >= -kTolerance && channel <= 1 + kTolerance; };
  while (chroma > 0 && !std::all_of(channels.begin(), channels.end(), shown)) {
    chroma = std::max(0.0, chroma - .002);
    channels = linear_from(lightness, chroma, hue);
  }
  const auto channel = [&](size_t i) { return encoded(std::clamp(channels[i], 0.0, 1.0)); };
  return {channel(0), channel(1), channel(2)};
}

double contrast(const Colour& a, const Colour& b) {
  const double first = luminance(a), second = luminance(b);
  return (std::max(first, second) + .05) / (std::min(first, second) + .05);
}

Colour paper(Theme theme) {
  if (theme == Theme::kLight) return {1, 1, 1};
  return {0x15 / 255.0, 0x1b / 255.0, 0x23 / 255.0};
}

Colour hue_colour(size_t index, Theme theme, double shade) {
  const Hue& hue = kPalette[index % kHues];
  const double lift = theme == Theme::kDark ? kDarkThemeLift : 0;
  // To the side that keeps the contrast: the dark hues become lighter, the light ones darker.
  const double moved = std::clamp(shade, 0.0, 1.0) * (is_dark(hue) ? kShadeRange : -kShadeRange);
  return colour_from(hue.lightness + lift + moved, hue.chroma, hue.degrees);
}

std::string series_class(size_t index) { return fmt::format("s{}", index % kHues); }

std::vector<ColourStage> stages_of(const std::vector<std::string>& layers) {
  std::vector<ColourStage> stages;
  size_t longest = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const std::string name = stage_name(layers[i]);
    const bool numbered = std::any_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    if (!stages.empty() && numbered && stages.back().name == name) {
      stages.back().last = i;
    } else {
      stages.push_back({numbered ? name : layers[i], i, i});
    }
    longest = std::max(longest, stages.back().last - stages.back().first + 1);
  }
  // A stage that is most of the network tells little ("conv2d_1" ... "conv2d_17"): it falls into equal runs.
  if (layers.size() < 5 || longest * 5 <= layers.size() * 3) return stages;
  const size_t run = (layers.size() + kHues - 1) / kHues;
  std::vector<ColourStage> divided;
  for (const ColourStage& stage : stages) {
    const size_t size = stage.last - stage.first + 1, runs = size == longest ? (size + run - 1) / run : 1;
    for (size_t i = 0; i < runs; ++i) {
      const size_t first = stage.first + size * i / runs, last = stage.first + size * (i + 1) / runs - 1;
      divided.push_back({runs == 1 ? stage.name : first == last ? layers[first] : layers[first] + " to " + layers[last], first, last});
    }
  }
  return divided;
}

LayerColours::LayerColours(std::vector<std::string> layers) : layers_(std::move(layers)), stages_(stages_of(layers_)) {
  for (size_t s = 0; s < stages_.size(); ++s) stage_of_.insert(stage_of_.end(), stages_[s].last - stages_[s].first + 1, s);
}

std::string LayerColours::class_of(size_t index) const { return fmt::format("l{}", index); }

Colour LayerColours::colour_of(size_t index, Theme theme) const {
  const size_t s = stage_of_[index];
  const ColourStage& stage = stages_[s];
  const double span = static_cast<double>(stage.last - stage.first);
  const double shade = span == 0 ? 0 : static_cast<double>(index - stage.first) / span;
  return hue_colour(s, theme, shade);
}

std::string LayerColours::style_sheet() const {
  std::string light, dark;
  for (size_t i = 0; i < layers_.size(); ++i) {
    light += rules(class_of(i), colour_of(i, Theme::kLight));
    dark += rules(class_of(i), colour_of(i, Theme::kDark));
  }
  if (light.empty()) return light;
  return light + "\n@media screen and (prefers-color-scheme:dark){" + dark + "}\n";
}

std::string series_style_sheet() {
  std::string light, dark;
  for (size_t i = 0; i < kHues; ++i) {
    light += rules(series_class(i), hue_colour(i, Theme::kLight));
    dark += rules(series_class(i), hue_colour(i, Theme::kDark));
  }
  return light + "\n@media screen and (prefers-color-scheme:dark){" + dark + "}\n";
}

}  // namespace millrace
