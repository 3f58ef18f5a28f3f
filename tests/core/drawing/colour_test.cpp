#include "core/drawing/colour.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <set>

namespace millrace {
namespace {

using Matrix = std::array<std::array<double, 3>, 3>;
// Machado, Oliveira and Fernandes 2009, severity 1: what red-blind and green-blind eyes see, on linear light.
constexpr Matrix kNormal = {{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr Matrix kRedBlind = {{{.152286, 1.052583, -.204868}, {.114503, .786281, .099216}, {-.003882, -.048116, 1.051998}}};
constexpr Matrix kGreenBlind = {{{.367322, .860646, -.227968}, {.280085, .672501, .047413}, {-.011820, .042940, .968881}}};

double linear(double c) { return c <= .04045 ? c / 12.92 : std::pow((c + .055) / 1.055, 2.4); }

// In OKLab, where distance is difference as seen.
std::array<double, 3> seen(const Colour& colour, const Matrix& eye) {
  const std::array<double, 3> light = {linear(colour.red), linear(colour.green), linear(colour.blue)};
  std::array<double, 3> r{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) r[i] += eye[i][j] * light[j];
    r[i] = std::min(1.0, std::max(0.0, r[i]));
  }
  const double l = std::cbrt(.4122214708 * r[0] + .5363325363 * r[1] + .0514459929 * r[2]);
  const double m = std::cbrt(.2119034982 * r[0] + .6806995451 * r[1] + .1073969566 * r[2]);
  const double s = std::cbrt(.0883024619 * r[0] + .2817188376 * r[1] + .6299787005 * r[2]);
  return {.2104542553 * l + .7936177850 * m - .0040720468 * s, 1.9779984951 * l - 2.4285922050 * m + .4505937099 * s,
          .0259040371 * l + .7827717662 * m - .8086757660 * s};
}

double difference(const Colour& a, const Colour& b, const Matrix& eye) {
  const auto x = seen(a, eye), y = seen(b, eye);
  return std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

TEST(Hues, NeighboursDifferForEveryEye) {
  for (const Theme theme : {Theme::kLight, Theme::kDark}) {
    for (size_t i = 0; i < kHues; ++i) {
      const Colour a = hue_colour(i, theme), b = hue_colour(i + 1, theme);
      EXPECT_GT(difference(a, b, kNormal), .2) << i;
      EXPECT_GT(difference(a, b, kRedBlind), .14) << i;
      EXPECT_GT(difference(a, b, kGreenBlind), .14) << i;
    }
  }
}

TEST(Hues, AllDifferForMostEyes) {
  for (const Theme theme : {Theme::kLight, Theme::kDark})
    for (size_t i = 0; i < kHues; ++i)
      for (size_t j = 0; j < i; ++j) EXPECT_GT(difference(hue_colour(i, theme), hue_colour(j, theme), kNormal), .12) << i << " " << j;
}

TEST(Hues, StandOutFromThePaper) {
  for (const Theme theme : {Theme::kLight, Theme::kDark})
    for (size_t i = 0; i < kHues; ++i)
      for (const double shade : {0.0, 0.5, 1.0}) EXPECT_GE(contrast(hue_colour(i, theme, shade), paper(theme)), 3) << i << " " << shade;
}

TEST(Colour, ConvertsAsItsDefinitionSays) {
  EXPECT_EQ(hexadecimal(colour_from(1, 0, 0)), "#ffffff");
  EXPECT_EQ(hexadecimal(colour_from(0, 0, 0)), "#000000");
  EXPECT_EQ(hexadecimal(colour_from(.627955, .257683, 29.2339)), "#ff0000");
  EXPECT_EQ(hexadecimal({std::nan(""), 2, -1}).size(), 7u);
  EXPECT_NEAR(contrast({1, 1, 1}, {0, 0, 0}), 21, 1e-9);
  EXPECT_NEAR(contrast({0, 0, 0}, {1, 1, 1}), 21, 1e-9);
}

std::vector<std::string> names_of(const std::vector<ColourStage>& stages) {
  std::vector<std::string> names;
  for (const ColourStage& stage : stages) names.push_back(stage.name);
  return names;
}

TEST(Stages, FollowTheNames) {
  EXPECT_THAT(names_of(stages_of({"conv1_1", "conv1_2", "conv2_1", "conv2_2", "fc6", "fc7"})),
              testing::ElementsAre("conv1", "conv2", "fc6", "fc7"));
  EXPECT_THAT(names_of(stages_of({"conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1", "fc"})),
              testing::ElementsAre("conv1", "layer1", "layer2", "fc"));
  EXPECT_TRUE(stages_of({}).empty());
  EXPECT_THAT(names_of(stages_of({"only"})), testing::ElementsAre("only"));
}

TEST(Stages, DivideWhatIsAllAlike) {
  std::vector<std::string> layers;
  for (int i = 0; i < 17; ++i) layers.push_back(fmt::format("conv2d_{}", i));
  const std::vector<ColourStage> stages = stages_of(layers);
  EXPECT_GE(stages.size(), 5u);
  size_t next = 0;
  for (const ColourStage& stage : stages) {
    EXPECT_EQ(stage.first, next);
    EXPECT_LE(stage.first, stage.last);
    next = stage.last + 1;
  }
  EXPECT_EQ(next, layers.size());
}

TEST(LayerColours, TellManyLayersApart) {
  std::vector<std::string> layers;
  for (int stage = 0; stage < 10; ++stage)
    for (int i = 0; i < 15; ++i) layers.push_back(fmt::format("stage{}.{}.conv", stage, i));
  const LayerColours colours(layers);
  std::set<std::string> fills;
  for (size_t i = 0; i < layers.size(); ++i) fills.insert(hexadecimal(colours.colour_of(i, Theme::kLight)));
  EXPECT_GE(fills.size(), 110u) << "stages eight apart may share colours";
  const std::string sheet = colours.style_sheet();
  EXPECT_THAT(sheet, testing::HasSubstr(".l0{fill:"));
  EXPECT_THAT(sheet, testing::HasSubstr(".l149{fill:"));
  EXPECT_THAT(sheet, testing::HasSubstr("@media screen and (prefers-color-scheme:dark)"));
}

TEST(LayerColours, GetLighterOrDarkerAlongAStage) {
  const LayerColours colours({"conv1_1", "conv1_2", "conv1_3", "conv2_1"});
  const auto distance = [&](size_t i) { return contrast(colours.colour_of(i, Theme::kLight), paper(Theme::kLight)); };
  EXPECT_GT(distance(0), distance(1));
  EXPECT_GT(distance(1), distance(2));
}

}  // namespace
}  // namespace millrace
