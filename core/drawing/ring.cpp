#include "core/drawing/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/drawing/drawing.h"
#include "core/drawing/markup.h"

namespace millrace {
namespace {

constexpr double kBusyFrom = .75, kFullFrom = .9;
constexpr double kNameFont = 12, kLineFont = 10.5;

double share_of(double amount) { return std::isfinite(amount) ? std::clamp(amount, 0.0, 1.0) : 0; }

std::string spoken(const Wheel& wheel) {
  std::string text = wheel.tooltip.empty() ? wheel.name : wheel.tooltip;
  if (wheel.race && !wheel.race->tooltip.empty()) text = fmt::format("{}\n{}", text, wheel.race->tooltip);
  return text;
}

// The rim as one circle per part, drawn with a dash that covers its share; it starts at the top.
void draw_rim(Markup& out, const Wheel& wheel, double x, double y, double radius, double width) {
  const double around = 2 * 3.14159265358979 * radius;
  out.shape("circle", {{"class", "arc idle"}, {"cx", x}, {"cy", y}, {"r", radius}, {"stroke-width", width}});
  double from = 0;
  for (const BarPart& part : wheel.parts) {
    const double share = std::min(share_of(part.amount), 1 - from);
    if (share * around < .3) continue;
    out.shape("circle",
              {{"class", fmt::format("arc {}", part.classes)},
               {"cx", x},
               {"cy", y},
               {"r", radius},
               {"stroke-width", width},
               {"stroke-dasharray", fmt::format("{} {}", coordinate(share * around), coordinate(around))},
               {"transform", fmt::format("rotate({} {} {})", coordinate(360 * from - 90), coordinate(x), coordinate(y))}},
              part.tooltip);
    from += share;
  }
}

struct Lane {
  double left, right, y;
  double most;  // width of the fullest
  double head;
};

void draw_lane(Markup& out, const Lane& lane, double load, double use, bool forward) {
  const double width = 1.2 + (lane.most - 1.2) * share_of(load), head = std::max(lane.head, width * .5 + 2);
  const double tip = forward ? lane.right : lane.left, tail = forward ? lane.left : lane.right, sign = forward ? 1 : -1;
  const double neck = tip - sign * head, half = width / 2;
  out.shape("path", {{"class", load_class(use)},
                     {"d", fmt::format("M{} {}H{}V{}L{} {}L{} {}V{}H{}z", coordinate(tail), coordinate(lane.y - half), coordinate(neck),
                                       coordinate(lane.y - head), coordinate(tip), coordinate(lane.y), coordinate(neck),
                                       coordinate(lane.y + head), coordinate(lane.y + half), coordinate(tail))}});
}

std::string large_wheel(const Wheel& wheel, size_t index) {
  constexpr double kX = 45, kY = 46, kLeft = 90, kRight = 129;
  Markup out;
  out.open("svg", {{"width", 130}, {"height", 146}, {"role", "img"}, {"aria-label", spoken(wheel)}});
  out.open("g").leaf("title", {}, wheel.tooltip);
  for (int paddle = 0; paddle < 12; ++paddle) {
    const double angle = paddle * 3.14159265358979 / 6;
    out.shape("line", {{"class", "paddle"},
                       {"x1", kX + 34 * std::sin(angle)},
                       {"y1", kY - 34 * std::cos(angle)},
                       {"x2", kX + 40 * std::sin(angle)},
                       {"y2", kY - 40 * std::cos(angle)}});
  }
  draw_rim(out, wheel, kX, kY, 27, 15);
  if (wheel.emphasised) out.shape("circle", {{"class", "arc accent"}, {"cx", kX}, {"cy", kY}, {"r", 36.5}, {"stroke-width", 3}});
  out.leaf("text", {{"class", index < 10000 ? "hub middle" : "hub small middle"}, {"x", kX}, {"y", kY + 5}}, std::to_string(index));
  out.leaf("text", {{"class", "strong middle"}, {"x", kX}, {"y", 103}}, shortened(wheel.name, 104, kNameFont));
  for (size_t i = 0; i < wheel.lines.size() && i < 2; ++i)
    out.leaf("text", {{"class", "middle"}, {"x", kX}, {"y", 118 + 14 * i}, {"style", "font-size:10.5px"}},
             shortened(wheel.lines[i], 118, kLineFont));
  out.close();
  if (wheel.race) {
    const Race& race = *wheel.race;
    const double middle = (kLeft + kRight) / 2;
    const auto number = [&](double y, const std::string& text, double use) {
      out.leaf("text",
               {{"class", race.emphasised || use >= kFullFrom ? "bad middle" : "middle"},
                {"x", middle},
                {"y", y},
                {"style", "font-size:10.5px"}},
               text);
    };
    out.open("g");
    if (!race.tooltip.empty()) out.leaf("title", {}, race.tooltip);
    draw_lane(out, {kLeft, kRight, kY - 7, 9, 4}, race.forward_load, race.forward_use, true);
    draw_lane(out, {kLeft, kRight, kY + 7, 9, 4}, race.backward_load, race.backward_use, false);
    number(kY - 18, race.forward, race.forward_use);
    number(kY + 26, race.backward, race.backward_use);
    out.close();
  }
  out.close();
  return std::move(out).str();
}

std::string small_wheel(const Wheel& wheel, size_t index) {
  constexpr double kX = 18, kY = 19;
  Markup out;
  out.open("svg", {{"width", 52}, {"height", 40}, {"role", "img"}, {"aria-label", spoken(wheel)}});
  out.leaf("title", {}, spoken(wheel));
  draw_rim(out, wheel, kX, kY, 13.5, 7);
  if (wheel.emphasised) out.shape("circle", {{"class", "arc accent"}, {"cx", kX}, {"cy", kY}, {"r", 17.5}, {"stroke-width", 2}});
  out.leaf("text", {{"class", index < 100 ? "hub small middle" : "hub tiny middle"}, {"x", kX}, {"y", kY + 3.3}}, std::to_string(index));
  if (wheel.race) {
    draw_lane(out, {37, 52, kY - 4, 4.5, 2.6}, wheel.race->forward_load, wheel.race->forward_use, true);
    draw_lane(out, {37, 52, kY + 4, 4.5, 2.6}, wheel.race->backward_load, wheel.race->backward_use, false);
  }
  out.close();
  return std::move(out).str();
}

// A hundred devices: what each works on, how busy it is, and the race.
std::string strip(const std::vector<Wheel>& wheels, size_t first, size_t last) {
  constexpr double kBand = 13, kBusy = 12, kRace = 7, kTop = kBand + 1, kMiddle = kTop + kBusy + 3 + kRace;
  const auto slots = static_cast<double>(kStripDevices);
  Markup out;
  out.open("svg", {{"height", kMiddle + 1 + kRace},
                   {"style", "margin-left:46px;width:calc(100% - 46px)"},
                   {"role", "img"},
                   {"aria-label", fmt::format("devices {} to {}", first, last - 1)}});
  out.leaf("text", {{"class", "end"}, {"x", -8}, {"y", 11}}, std::to_string(first));
  out.open("g", {{"class", "crisp"}});
  for (size_t i = first; i < last; ++i) {
    const Wheel& wheel = wheels[i];
    const double slot = static_cast<double>(i - first) / slots;
    const std::string x = percent_of(slot), width = percent_of(1 / slots);
    out.open("g").leaf("title", {}, spoken(wheel));
    double busy = 0;
    for (const BarPart& part : wheel.parts) busy += share_of(part.amount);
    double left = slot;
    for (const BarPart& part : wheel.parts) {
      const double share = share_of(part.amount);
      if (share <= 0) continue;
      const double wide = share / busy / slots;
      out.shape("rect", {{"class", part.classes}, {"x", percent_of(left)}, {"y", 0}, {"width", percent_of(wide)}, {"height", kBand}});
      left += wide;
    }
    const double height = kBusy * std::min(1.0, busy);
    if (height < kBusy) out.shape("rect", {{"class", "idle"}, {"x", x}, {"y", kTop}, {"width", width}, {"height", kBusy - height}});
    out.shape(
        "rect",
        {{"class", wheel.emphasised ? "accent" : "muted"}, {"x", x}, {"y", kTop + kBusy - height}, {"width", width}, {"height", height}});
    if (wheel.race) {
      const double forward = kRace * share_of(wheel.race->forward_load), backward = kRace * share_of(wheel.race->backward_load);
      out.shape(
          "rect",
          {{"class", load_class(wheel.race->forward_use)}, {"x", x}, {"y", kMiddle - forward}, {"width", width}, {"height", forward}});
      out.shape("rect",
                {{"class", load_class(wheel.race->backward_use)}, {"x", x}, {"y", kMiddle + 1}, {"width", width}, {"height", backward}});
    }
    out.close();
  }
  out.close().close();
  return std::move(out).str();
}

}  // namespace

std::string load_class(double use) { return use >= kFullFrom ? "full" : use >= kBusyFrom ? "busy" : "calm"; }

std::string ring_markup(const std::vector<Wheel>& wheels) {
  Markup out;
  if (wheels.size() > kSmallWheels) {
    for (size_t first = 0; first < wheels.size(); first += kStripDevices)
      out.open("div", {{"class", "plot strip"}}).raw(strip(wheels, first, std::min(first + kStripDevices, wheels.size()))).close();
    return std::move(out).str();
  }
  out.open("ol", {{"class", wheels.size() <= kLargeWheels ? "wheels" : "wheels small"}});
  for (size_t i = 0; i < wheels.size(); ++i)
    out.open("li").raw(wheels.size() <= kLargeWheels ? large_wheel(wheels[i], i) : small_wheel(wheels[i], i)).close();
  out.close();
  return std::move(out).str();
}

}  // namespace millrace
