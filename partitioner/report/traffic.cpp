// Links and what parameter homes send over them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/index.h"
#include "core/drawing/arcs.h"
#include "core/drawing/quantity.h"
#include "core/plan/flow_load.h"
#include "partitioner/report/sections.h"

namespace millrace {
namespace {

constexpr size_t kMostArcs = 600;
// A capacity farther than this above the fullest link would flatten what there is to see.
constexpr double kCapacityInSight = 2.5;

constexpr std::array<Stream, 7> kStreams = {Stream::kActivation, Stream::kPartial, Stream::kError, Stream::kParameter,
                                            Stream::kGradient,   Stream::kRecord,  Stream::kState};

// Records go back, where partial sums never do; states are drawn with them.
std::string class_of(Stream stream) {
  return std::string(name_of(stream == Stream::kRecord || stream == Stream::kState ? Stream::kPartial : stream));
}

// Bits per image, by stream, for each direction of a link.
struct LinkParts {
  std::array<std::array<double, kStreams.size()>, 2> bits{};
};

std::vector<LinkParts> parts_of_links(const PlanView& view) {
  std::vector<LinkParts> links(view.plan.links.size());
  for (const Flow& flow : view.plan.flows) {
    const auto stream = std::find(kStreams.begin(), kStreams.end(), flow.stream);
    if (stream == kStreams.end() || flow.link < 0 || flow.link >= static_cast<int64_t>(links.size())) continue;
    const double bits = bits_per_sample(flow, view.plan);
    item(item(links, flow.link).bits[flow.direction == Direction::kForward ? 0 : 1], stream - kStreams.begin()) += bits;
  }
  return links;
}

bool carries_parameters(const LinkParts& parts) { return parts.bits[0][3] + parts.bits[0][4] + parts.bits[1][3] + parts.bits[1][4] > 0; }

struct Capacities {
  bool all_alike = true, shared = false;
  double least = 0;  // one direction, bits per second
  double least_shared = 0;
};
Capacities capacities_of(const Plan& plan) {
  Capacities found;
  for (const Link& link : plan.links) {
    const auto forward = static_cast<double>(link.forward_bits_per_second), backward = static_cast<double>(link.backward_bits_per_second);
    const double least = std::min(forward, backward);
    found.all_alike = found.all_alike && forward == backward && (found.least == 0 || least == found.least);
    found.least = found.least == 0 ? least : std::min(found.least, least);
    if (link.shared_bits_per_second > 0) {
      const auto both = static_cast<double>(link.shared_bits_per_second);
      found.least_shared = found.shared ? std::min(found.least_shared, both) : both;
      found.shared = true;
    }
  }
  return found;
}

std::string link_tooltip(const PlanView& view, size_t index) {
  const LinkFigures& link = view.summary.links[index];
  const Link& capacity = view.plan.links[index];
  const double rate = view.summary.images_per_second;
  const double forward = link.forward_bits_per_image * rate, backward = link.backward_bits_per_image * rate;
  const auto direction = [&](double load, int64_t most) {
    return fmt::format(
        "{}{}", quantity(load, "b/s"),
        most > 0 ? fmt::format(" of {} ({})", quantity(static_cast<double>(most), "b/s"), percent(load / static_cast<double>(most))) : "");
  };
  std::string text =
      fmt::format("link {} to {}: forward {}, back {}", link.from, link.to, direction(forward, capacity.forward_bits_per_second),
                  direction(backward, capacity.backward_bits_per_second));
  if (capacity.shared_bits_per_second > 0) text += fmt::format(", both {}", direction(forward + backward, capacity.shared_bits_per_second));
  return text;
}

}  // namespace

void add_links(Page& page, const PlanView& view) {
  const PlanSummary& summary = view.summary;
  if (summary.links.empty()) return;
  const double rate = summary.images_per_second;
  const std::vector<LinkParts> parts = parts_of_links(view);
  const auto load = [&](size_t i) {
    return rate * std::max(summary.links[i].forward_bits_per_image, summary.links[i].backward_bits_per_image);
  };
  double fullest = 0, total = 0, parameters = 0;
  size_t fullest_link = 0;
  for (size_t i = 0; i < summary.links.size(); ++i) {
    if (load(i) > fullest) {
      fullest = load(i);
      fullest_link = i;
    }
    total += summary.links[i].forward_bits_per_image + summary.links[i].backward_bits_per_image;
    parameters += summary.links[i].parameter_bits_per_image;
  }
  const auto [divisor, unit] = fullest >= 5e8 ? std::pair(1e9, "Gb/s") : fullest >= 5e5 ? std::pair(1e6, "Mb/s") : std::pair(1e3, "kb/s");

  StackedColumns chart{
      .y = {.label = unit}, .x_label = "link, by the device it leaves", .above = "forward", .under = "back", .height = 230};
  const Capacities capacities = capacities_of(view.plan);
  const bool capacity_in_sight = capacities.least > 0 && capacities.least <= kCapacityInSight * fullest;
  bool any_parameters = false;
  std::array<bool, kStreams.size()> seen{};
  for (const size_t i : view.columns(summary.links.size(), load)) {
    Column column{.name = PlanView::column_name(summary.links.size(), i), .tooltip = link_tooltip(view, i)};
    for (size_t direction = 0; direction < 2; ++direction) {
      std::vector<BarPart>& stack = direction == 0 ? column.parts : column.below;
      for (size_t s = 0; s < kStreams.size(); ++s) {
        const double bits = parts[i].bits[direction][s];
        if (bits <= 0) continue;
        seen[s] = true;
        const std::string tooltip =
            view.detailed() ? fmt::format("link {} to {}, {}: {}, {} per {}", summary.links[i].from, summary.links[i].to,
                                          name_of(kStreams[s]), quantity(bits * rate, "b/s"), quantity(bits, "b"), view.sample())
                            : "";
        stack.push_back({.amount = bits * rate / divisor, .classes = class_of(kStreams[s]), .tooltip = tooltip});
      }
    }
    any_parameters = any_parameters || carries_parameters(parts[i]);
    if (capacity_in_sight)
      column.limit =
          static_cast<double>(std::min(view.plan.links[i].forward_bits_per_second, view.plan.links[i].backward_bits_per_second)) / divisor;
    column.emphasised = summary.bottleneck.kind == "link" && summary.bottleneck.index == static_cast<int64_t>(i);
    chart.columns.push_back(std::move(column));
  }
  std::string note = fullest > 0 ? fmt::format("Fullest: {}.", link_tooltip(view, fullest_link)) : "Nothing crosses them.";
  if (capacity_in_sight) {
    note += " The solid line is what a link carries in one direction.";
  } else if (capacities.least > 0) {
    note += fmt::format(" {} {} in each direction, far above what is drawn.", capacities.all_alike ? "All carry" : "The slowest carries",
                        quantity(capacities.least, "b/s"));
  }
  if (capacities.shared) note += fmt::format(" Both directions together may take {}.", quantity(capacities.least_shared, "b/s"));
  note += view.grouping_note(summary.links.size(), "the fullest");
  chart.label = "Link loads. " + note;
  Figure figure{.title = "Load by link and stream", .note = note, .drawing = draw(chart)};
  for (size_t s = 0; s < kStreams.size(); ++s) {
    if (!seen[s] || (kStreams[s] == Stream::kGradient && seen[3])) continue;
    const bool balanced = kStreams[s] == Stream::kParameter || kStreams[s] == Stream::kGradient;
    figure.drawing.legend.push_back(
        {.name = balanced ? "balanced parameters and their gradients" : fmt::format("{}s", name_of(kStreams[s])),
         .classes = {class_of(kStreams[s])}});
  }
  std::string lead = "What crosses each link at the plan's pace, modelled from the plan's flows.";
  if (any_parameters && total > 0)
    lead += fmt::format(" Balanced parameters and their gradients are {} of all traffic.", percent(parameters / total));
  page.section("Links", lead);
  page.figure(figure);
}

void add_homes(Page& page, const PlanView& view) {
  const PlanSummary& summary = view.summary;
  if (summary.homes.empty()) return;
  struct Stored {
    double bits = 0;
    int64_t elements = 0;
  };
  std::map<std::tuple<int64_t, int64_t, std::string>, Stored> by_route;
  double bits = 0;
  int64_t farthest = 0;
  for (const HomeFigures& home : summary.homes) {
    Stored& stored = by_route[{home.home, home.user, home.layer}];
    stored.bits += std::isfinite(home.bits) ? home.bits : 0;
    stored.elements += home.end - home.begin;
    bits += std::isfinite(home.bits) ? home.bits : 0;
    farthest = std::max(farthest, std::abs(home.user - home.home));
  }
  ArcDiagram diagram{.label = "", .x_label = "device"};
  for (const auto& [route, stored] : by_route) {
    const auto& [home, user, layer] = route;
    // Storage may not be known (a bias, say): its elements then tell how heavy it is.
    diagram.arcs.push_back(
        {.from = static_cast<double>(home),
         .to = static_cast<double>(user),
         .weight = stored.bits > 0 ? stored.bits : static_cast<double>(stored.elements),
         .classes = view.class_of(layer),
         .tooltip = fmt::format("{}: {} elements{} of {} live on device {} and serve device {}", layer, separated(stored.elements),
                                stored.bits > 0 ? fmt::format(" ({} with gradients and optimizer slots)", quantity(stored.bits, "b")) : "",
                                layer, home, user)});
  }
  const size_t routes = diagram.arcs.size();
  if (routes > kMostArcs) {
    std::stable_sort(diagram.arcs.begin(), diagram.arcs.end(), [](const Arc& a, const Arc& b) { return a.weight > b.weight; });
    diagram.arcs.resize(kMostArcs);
  }
  for (size_t i = 0; i < summary.devices.size(); ++i) {
    const DeviceFigures& device = summary.devices[i];
    Place place{.name = std::to_string(i), .tooltip = view.device_text(i)};
    for (size_t s = 0; s < device.shards.size(); ++s)
      place.parts.push_back({.amount = view.time(i).shards[s], .classes = view.class_of(device.shards[s].layer)});
    diagram.places.push_back(std::move(place));
  }
  std::string note = fmt::format("{} of parameters with their gradients and optimizer slots live away from their user, up to {} {} away.",
                                 quantity(bits, "b"), farthest, farthest == 1 ? "link" : "links");
  if (routes > kMostArcs)
    note += fmt::format(" Drawn are the {} largest of {} routes.", kMostArcs, separated(static_cast<int64_t>(routes)));
  diagram.label = "Parameter homes. " + note;
  page.section("Parameter homes",
               "Parameters stored on one device (dot) for another (arrowhead), in the colour of their layer; the wider, the more. They "
               "stream to their user "
               "with every pass, and their gradients return.");
  Figure figure{.title = "From home to user", .note = std::move(note), .drawing = draw(diagram)};
  figure.drawing.legend = view.layer_legend();
  page.figure(figure);
}

}  // namespace millrace
