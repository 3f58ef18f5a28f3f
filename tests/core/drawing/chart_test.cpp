#include "core/drawing/chart.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "core/drawing/arcs.h"
#include "core/drawing/page.h"
#include "core/drawing/ring.h"
#include "core/drawing/scale.h"
#include "core/drawing/spans.h"
#include "tests/core/drawing/well_formed.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing_support::count_of;
using testing_support::well_formed;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_sound(const Drawing& drawing) {
  const std::string alone = standalone_svg(drawing, {.width = 600, .title = "Title <1>", .note = "modelled"});
  EXPECT_EQ(well_formed(inline_svg(drawing)), "");
  EXPECT_EQ(well_formed(alone), "");
  EXPECT_THAT(drawing.body, Not(HasSubstr("nan")));
  EXPECT_THAT(drawing.body, Not(HasSubstr("inf")));
  EXPECT_THAT(alone, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
}

// What is longer than the picture is wide goes on in the next line, and the picture grows.
TEST(Standalone, LongTitlesAndNotesWrap) {
  const Drawing drawing{.label = "empty", .height = 100};
  const std::string words = "a title of more words than fit into one line of a picture that is three hundred pixels wide";
  const std::string one = standalone_svg(drawing, {.width = 300, .title = "short", .note = "short"});
  const std::string more = standalone_svg(drawing, {.width = 300, .title = words, .note = words});
  EXPECT_EQ(well_formed(more), "");
  EXPECT_THAT(more, Not(HasSubstr(words)));
  const auto count = [](const std::string& text, std::string_view part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(one, "<text"), 2U);
  EXPECT_GT(count(more, "<text"), 5U);
  const auto height = [](const std::string& svg) { return std::stod(svg.substr(svg.find(" height=\"") + 9)); };
  EXPECT_GT(height(more), height(one) + 18 * 3);
}

TEST(Scale, HasRoundTicksAroundTheData) {
  const Scale scale(Axis{}, 0, 18.6);
  EXPECT_EQ(scale.least(), 0);
  EXPECT_EQ(scale.most(), 20);
  ASSERT_EQ(scale.ticks().size(), 5u);
  EXPECT_EQ(scale.ticks()[1].text, "5");
  EXPECT_DOUBLE_EQ(scale.position(5), .25);
}

TEST(Scale, StartsAtZeroWhenTheDataNearlyDo) {
  EXPECT_EQ(Scale(Axis{}, 10, 100).least(), 0);
  EXPECT_EQ(Scale(Axis{}, 95, 100).least(), 95);
  EXPECT_LT(Scale(Axis{}, -5, 100).least(), 0);
}

TEST(Scale, TakesWhatItIsTold) {
  const Scale scale(Axis{.least = 0, .most = 100, .suffix = "%"}, 3, 7);
  EXPECT_EQ(scale.most(), 100);
  EXPECT_EQ(scale.ticks().back().text, "100%");
  EXPECT_EQ(Scale(Axis{.least = 0, .most = 1000, .suffix = "%"}, 3, 7).ticks().back().text, "1,000%");
  EXPECT_EQ(Scale(Axis{.logarithmic = true, .least = 10, .most = 10'000, .suffix = "%"}, 10, 10'000).ticks().back().text, "10,000%");
  EXPECT_FALSE(scale.shows(101));
  EXPECT_TRUE(scale.shows(100));
}

TEST(Scale, IsLogarithmicWhenAsked) {
  const Scale decades(Axis{.logarithmic = true}, 3, 5000);
  EXPECT_DOUBLE_EQ(decades.least(), 1);
  EXPECT_DOUBLE_EQ(decades.most(), 10000);
  EXPECT_DOUBLE_EQ(decades.position(100), .5);
  EXPECT_FALSE(decades.shows(0));
  EXPECT_FALSE(decades.shows(-1));
  ASSERT_EQ(decades.ticks().size(), 5u);
  EXPECT_EQ(decades.ticks()[3].text, "1k");
  EXPECT_GE(Scale(Axis{.logarithmic = true}, 40, 60).ticks().size(), 1u);
}

TEST(Scale, NeverIsEmptyOrStrange) {
  std::mt19937_64 random(11);
  const std::vector<double> odd = {0, -0.0, 1, -1, 1e-320, 1e308, -1e308, kNaN, kInfinity, -kInfinity, 5e-5, 7};
  for (int round = 0; round < 4000; ++round) {
    std::vector<double> values;
    for (size_t i = random() % 4; i-- > 0;) values.push_back(odd[random() % odd.size()] * (random() % 3 == 0 ? 0.7 : 1));
    Axis axis{.logarithmic = random() % 2 == 0};
    if (random() % 4 == 0) axis.least = odd[random() % odd.size()];
    if (random() % 4 == 0) axis.most = odd[random() % odd.size()];
    const Scale scale = Scale::of(axis, values);
    ASSERT_TRUE(std::isfinite(scale.least()) && std::isfinite(scale.most())) << round;
    ASSERT_LT(scale.least(), scale.most()) << round;
    ASSERT_LE(scale.ticks().size(), 30u);
    for (const Tick& tick : scale.ticks()) ASSERT_TRUE(scale.shows(tick.value)) << round;
    for (const double value : odd) ASSERT_TRUE(std::isfinite(scale.position(value)));
  }
}

TEST(RoundStep, IsOneTwoOrFive) {
  EXPECT_DOUBLE_EQ(round_step(0.9), 1);
  EXPECT_DOUBLE_EQ(round_step(1.1), 2);
  EXPECT_DOUBLE_EQ(round_step(3), 5);
  EXPECT_DOUBLE_EQ(round_step(6), 10);
  EXPECT_DOUBLE_EQ(round_step(kNaN), 1);
  EXPECT_DOUBLE_EQ(round_step(0), 1);
}

TEST(LineChart, DrawsLinesPointsAndReferences) {
  const LineChart chart{
      .label = "Throughput",
      .x = {.label = "boards"},
      .y = {.label = "images/s", .logarithmic = true},
      .series = {{.name = "model <1>", .points = {{1, 10}, {2, 20}, {3, kNaN}, {4, 40}, {5, 50}}, .classes = "s0", .mark = Mark::kCircle},
                 {.name = "paper", .points = {{3, 25}}, .classes = "s1", .line = false, .mark = Mark::kDiamond}},
      .references = {{.at = 2.5, .vertical = true, .label = "150 Gb/s"}, {.at = 30, .label = "bound"}}};
  const Drawing drawing = draw(chart);
  expect_sound(drawing);
  EXPECT_EQ(count_of(drawing.body, "<circle"), 4u);
  EXPECT_THAT(drawing.body, HasSubstr("150 Gb/s"));
  EXPECT_THAT(drawing.body, HasSubstr("model &lt;1&gt;: 1.00 boards, 10.0 images/s"));
  const size_t path = drawing.body.find("d=\"M200 ");
  ASSERT_NE(path, std::string::npos);
  EXPECT_EQ(count_of(drawing.body.substr(path, drawing.body.find('"', path + 3) - path), "M"), 2u)
      << "the line breaks where there is no point";
  ASSERT_EQ(drawing.legend.size(), 2u);
}

TEST(LineChart, SurvivesAnything) {
  for (const bool logarithmic : {false, true}) {
    LineChart chart{.label = "x", .x = {.logarithmic = logarithmic}, .y = {.logarithmic = logarithmic}, .series = {}};
    expect_sound(draw(chart));
    chart.series = {{.name = "s", .points = {{kNaN, 1}, {1, kInfinity}, {0, 0}, {-1, -1}, {1e308, -1e308}}, .mark = Mark::kSquare}};
    expect_sound(draw(chart));
  }
}

TEST(StackedColumns, StackUpwardsAndDownwards) {
  StackedColumns chart{.label = "Links", .y = {.label = "Gb/s"}, .x_label = "link", .above = "forward", .under = "back", .height = 200};
  chart.columns = {
      {.name = "0", .parts = {{10, "activation", "a"}, {10, "partial", ""}}, .below = {{20, "error", ""}}, .tooltip = "link 0"}};
  const Drawing drawing = draw(chart);
  expect_sound(drawing);
  // Twenty both ways on 200 pixels: zero lies at 100, each part is as high as its amount.
  EXPECT_THAT(drawing.body, HasSubstr("class=\"activation\" x=\"44%\" y=\"50\" width=\"12%\" height=\"50\""));
  EXPECT_THAT(drawing.body, HasSubstr("class=\"partial\" x=\"44%\" y=\"0\" width=\"12%\" height=\"50\""));
  EXPECT_THAT(drawing.body, HasSubstr("class=\"error\" x=\"44%\" y=\"100\" width=\"12%\" height=\"100\""));
  EXPECT_THAT(drawing.body, HasSubstr(">forward<"));
  EXPECT_THAT(drawing.body, Not(HasSubstr(">-20<"))) << "below zero is the other direction, not less than nothing";
}

TEST(StackedColumns, LeaveOutWhatIsNoAmount) {
  StackedColumns chart{.label = "x",
                       .columns = {{.parts = {{kNaN, "a", ""}, {-5, "b", ""}, {kInfinity, "c", ""}, {0, "d", ""}, {3, "e", ""}}}}};
  const Drawing drawing = draw(chart);
  expect_sound(drawing);
  for (const char* gone : {"\"a\"", "\"b\"", "\"c\"", "\"d\""}) EXPECT_THAT(drawing.body, Not(HasSubstr(gone)));
  EXPECT_THAT(drawing.body, HasSubstr("class=\"e\""));
  expect_sound(draw(StackedColumns{.label = "nothing", .columns = {}}));
}

TEST(StackedColumns, DrawOneLineForEqualLimits) {
  StackedColumns chart{.label = "x", .columns = {}};
  for (int i = 0; i < 5; ++i) chart.columns.push_back({.parts = {{1, "a", ""}}, .limit = i < 3 ? 2 : 1.5});
  EXPECT_EQ(count_of(draw(chart).body, "class=\"limit\""), 2u);
}

TEST(StackedColumns, NameAsManyColumnsAsFit) {
  StackedColumns chart{.label = "x", .columns = {}};
  for (int i = 0; i < 250; ++i) chart.columns.push_back({.name = std::to_string(4 * i), .parts = {{1, "a", ""}}});
  const Drawing drawing = draw(chart);
  EXPECT_LT(count_of(drawing.body, "class=\"middle"), 16u);
  EXPECT_GT(count_of(drawing.body, "class=\"middle"), 5u);
}

TEST(GroupedColumns, StandSideBySide) {
  const GroupedColumns chart{
      .label = "Strategies",
      .y = {.label = "images/s"},
      .groups = {"5", "10"},
      .members = {{.name = "hybrid", .values = {5, 10}, .classes = "s0"}, {.name = "layer", .values = {3, kNaN}, .classes = "s1"}}};
  const Drawing drawing = draw(chart);
  expect_sound(drawing);
  EXPECT_EQ(count_of(drawing.body, "<rect"), 3u);
  EXPECT_THAT(drawing.body, HasSubstr("5, hybrid: 5.00 images/s"));
  expect_sound(draw(GroupedColumns{.label = "none"}));
}

TEST(Arcs, ReachFromPlaceToPlace) {
  ArcDiagram diagram{.label = "homes", .x_label = "device", .places = {}, .arcs = {}};
  for (int i = 0; i < 4; ++i) diagram.places.push_back({.name = std::to_string(i), .parts = {{1, "l0", ""}, {1, "l1", ""}}});
  diagram.arcs = {{.from = 0, .to = 3, .weight = 4, .classes = "l1", .tooltip = "conv"},
                  {.from = 1, .to = 3, .weight = 1, .classes = "l0"},
                  {.from = 0, .to = 9, .weight = 1},
                  {.from = 0, .to = 1, .weight = kNaN}};
  const Drawing drawing = draw(diagram);
  expect_sound(drawing);
  EXPECT_EQ(count_of(drawing.body, "<circle"), 2u) << "one outside and one without weight are left out";
  EXPECT_THAT(drawing.body, HasSubstr("<title>conv</title>"));
  // The far one ends to the right of the near one, so that they do not cross.
  EXPECT_THAT(drawing.body, HasSubstr("stroke-width=\"7\" d=\"M125 150C125"));
  EXPECT_THAT(drawing.body, HasSubstr(" 915 150"));
  EXPECT_THAT(drawing.body, HasSubstr(" 835 150"));
  expect_sound(draw(ArcDiagram{.label = "none"}));
}

std::vector<Wheel> wheels(size_t count) {
  std::vector<Wheel> all;
  for (size_t i = 0; i < count; ++i) {
    Wheel wheel{.name = "d<" + std::to_string(i) + ">",
                .lines = {"conv1", "to conv2"},
                .parts = {{.5, "l0", "a"}, {kNaN, "l1", ""}, {.7, "l2", ""}}};
    wheel.tooltip = "device " + std::to_string(i) + ".";
    if (i + 1 < count)
      wheel.race = Race{.forward = "1.5",
                        .backward = "1.4",
                        .forward_load = 1,
                        .backward_load = kNaN,
                        .forward_use = .95,
                        .backward_use = .8,
                        .tooltip = "link"};
    all.push_back(std::move(wheel));
  }
  return all;
}

TEST(Ring, DrawsEveryDeviceAtAnyCount) {
  for (const size_t count : {1u, 2u, 32u, 33u, 160u, 161u, 1000u}) {
    const std::string markup = ring_markup(wheels(count));
    EXPECT_EQ(well_formed("<div>" + markup + "</div>"), "") << count;
    for (size_t i = 0; i < count; ++i) EXPECT_THAT(markup, HasSubstr("device " + std::to_string(i) + ".")) << count;
    EXPECT_THAT(markup, Not(HasSubstr("nan")));
    EXPECT_LT(markup.size(), 5000 + 2600 * count);
  }
  EXPECT_EQ(well_formed(ring_markup({}) + "<a/>"), "not one root");
}

TEST(Ring, ColoursLinksByWhatTheyHaveLeft) {
  EXPECT_EQ(load_class(.5), "calm");
  EXPECT_EQ(load_class(.75), "busy");
  EXPECT_EQ(load_class(.9), "full");
  EXPECT_EQ(load_class(kNaN), "calm");
}

TEST(Text, IsCutToItsRoom) {
  EXPECT_EQ(shortened("conv1_1", 200, 11), "conv1_1");
  const std::string cut = shortened("a_rather_long_layer_name", 60, 11);
  EXPECT_LE(text_width(cut, 11), 60);
  EXPECT_TRUE(cut.ends_with("\xE2\x80\xA6"));
  EXPECT_EQ(escaped(shortened("caf\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 40, 11)),
            shortened("caf\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 40, 11))
      << "never in the middle of a character";
  EXPECT_EQ(shortened("abc", 0, 11), "\xE2\x80\xA6");
}

TEST(Page, IsWholeAndEscaped) {
  Page page("A <title>", "with & without");
  page.tiles({{.name = "T", .value = "1", .unit = "s", .note = "n", .origin = "modelled"}});
  page.section("One", "lead");
  page.verdict("<b>", {"a", "b"});
  page.figures({{.title = "F", .note = "n", .drawing = draw(StackedColumns{.label = "\"quoted\"", .columns = {}})}});
  page.legend({{.name = "l", .classes = {"s0", "s1"}}, {.name = "m", .classes = {"s0"}, .mark = svg_of(Mark::kTriangle, true)}});
  page.section("Two");
  page.table({.columns = {{.name = "A"}, {.name = "B", .number = true}},
              .rows = {{.cells = {{.text = "<x>", .chip = "s1"}, {.text = "2"}, {.text = "left out"}}, .starts = true},
                       {.cells = {{.text = "short"}}}},
              .label = "t"},
             "folded");
  page.preformatted("a && b");
  page.facts({{"name", "value"}});
  page.paragraph("p");
  page.footer("end");
  const std::string html = std::move(page).html();
  EXPECT_EQ(well_formed(html), "");
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("<title>A &lt;title&gt;</title>"));
  EXPECT_THAT(html, Not(HasSubstr("left out"))) << "no more cells than columns";
  EXPECT_EQ(count_of(html, "<section>"), 2u);
}

TEST(SpanChart, DrawsEachSpanWhereItLies) {
  SpanChart chart{.label = "who works", .x = {.label = "ms", .least = 0, .most = 10}};
  chart.rows = {
      {.name = "first <1>", .spans = {{.from = 0, .to = 2.5, .classes = "s0", .tooltip = "FP"}, {.from = 5, .to = 10, .classes = "s3"}}},
      {.name = "second", .spans = {{.from = 2.5, .to = 2.5001, .classes = "s4"}, {.from = 9, .to = 12, .classes = "s4"}}}};
  const Drawing drawing = draw(chart);
  expect_sound(drawing);
  EXPECT_EQ(count_of(drawing.body, "<rect"), 4u);
  EXPECT_THAT(drawing.body, HasSubstr("x=\"0%\" y=\"4\" width=\"25%\" height=\"14\"><title>FP</title>"));
  EXPECT_THAT(drawing.body, HasSubstr("x=\"50%\" y=\"4\" width=\"50%\""));
  EXPECT_THAT(drawing.body, HasSubstr("x=\"25%\" y=\"26\" width=\"0.025%\""));  // too short to be seen
  EXPECT_THAT(drawing.body, HasSubstr("x=\"90%\" y=\"26\" width=\"10%\""));     // up to the end of the axis
  EXPECT_THAT(drawing.body, HasSubstr("first &lt;1&gt;"));
  // No time, or none that can be drawn.
  chart.rows[1].spans = {
      {.from = 3, .to = 3, .classes = "s0"}, {.from = 4, .to = 3, .classes = "s0"}, {.from = kNaN, .to = kInfinity, .classes = "s0"}};
  const Drawing less = draw(chart);
  expect_sound(less);
  EXPECT_EQ(count_of(less.body, "<rect"), 2u);
  expect_sound(draw(SpanChart{.label = "nobody"}));
}

}  // namespace
}  // namespace millrace
