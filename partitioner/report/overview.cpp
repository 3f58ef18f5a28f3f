#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/drawing/ring.h"
#include "core/plan/rings_side_by_side.h"
#include "partitioner/planning/sample_word.h"
#include "partitioner/report/sections.h"

namespace millrace {
namespace {

// A value and its unit apart, for a tile: "18.6" and "Gb/s".
Tile tile_of(std::string name, const std::string& text, std::string note, std::string origin = "modelled") {
  const size_t space = text == kNotKnown ? std::string::npos : text.find(' ');
  Tile tile{.name = std::move(name), .value = text.substr(0, space), .note = std::move(note), .origin = std::move(origin)};
  if (space != std::string::npos) tile.unit = text.substr(space + 1);
  return tile;
}

// Where the constants of a figure come from, when those that bear on it are of one kind.
std::string origin_with(const Plan& plan, std::string_view word, std::string_view what) {
  std::set<std::string> origins;
  for (const Constant& constant : plan.constants)
    if (constant.name.find(word) != std::string::npos && !constant.origin.empty()) origins.insert(constant.origin);
  if (origins.empty()) return "modelled";
  std::string text;
  for (const std::string& origin : origins) text += (text.empty() ? "" : ", ") + origin;
  return fmt::format("modelled; {}: {}", what, text);
}

std::string slowest_text(const PlanView& view) {
  const Bottleneck& slowest = view.summary.bottleneck;
  const auto index = to_size(std::max<int64_t>(0, slowest.index));
  if (slowest.kind == "link" && index < view.summary.links.size())
    return fmt::format("link {} \xE2\x86\x92 {}", view.summary.links[index].from, view.summary.links[index].to);
  if (const SeatFigures* const card = card_of(view.summary, slowest.index)) return "card " + card->name;
  return fmt::format("device {}", index);
}

std::vector<std::string> layers_of(const DeviceFigures& device) {
  std::vector<std::string> layers;
  for (const SegmentPart& part : device.segment) layers.push_back(part.layer);
  return layers;
}

std::string list_of(const std::vector<std::string>& names, size_t most) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i == most) return fmt::format("{} and {} more", text, names.size() - most);
    text += (text.empty() ? "" : i + 1 == names.size() && names.size() <= most ? " and " : ", ") + names[i];
  }
  return text;
}

std::string device_pace(const PlanView& view, size_t index) {
  const DeviceFigures& device = view.summary.devices[index];
  return fmt::format("{} needs {} per {} for {}", view.device_text(index), duration(device.seconds_per_image), view.sample(),
                     device.segment.empty() ? "nothing" : list_of(layers_of(device), 3));
}

std::string card_pace(const PlanView& view, const SeatFigures& card) {
  return fmt::format("card {} ({}) needs {} per {} for its {} places of the ring", card.name, card.device, duration(card.seconds_per_image),
                     view.sample(), card.places.size());
}

std::string link_pace(const PlanView& view, size_t index) {
  const LinkFigures& link = view.summary.links[index];
  return fmt::format("the link from device {} to device {} needs {} per {} for {} forward and {} back", link.from, link.to,
                     duration(link.seconds_per_image), view.sample(), quantity(link.forward_bits_per_image, "b"),
                     quantity(link.backward_bits_per_image, "b"));
}

std::string capital(std::string_view text) {
  std::string capitalised;
  for (const char letter : text)
    capitalised += capitalised.empty() && letter >= 'a' && letter <= 'z' ? static_cast<char>(letter - 'a' + 'A') : letter;
  return capitalised;
}

// With a capital and a full stop, whoever wrote it.
std::string sentence(std::string_view text) {
  const bool stopped = text.empty() || std::string_view(".!?:").find(text.back()) != std::string_view::npos;
  return fmt::format("{}{}", capital(text), stopped ? "" : ".");
}

std::string headline(const PlanView& view) {
  const Bottleneck& slowest = view.summary.bottleneck;
  const auto index = to_size(std::max<int64_t>(0, slowest.index));
  if (slowest.kind == "link" && index < view.summary.links.size()) return fmt::format("A link sets the pace: {}.", link_pace(view, index));
  if (index >= view.summary.devices.size()) return "What sets the pace is not known.";
  if (const SeatFigures* const card = card_of(view.summary, slowest.index))
    return fmt::format("Card {} ({}) sets the pace: {} per {} for its {} places of the ring.", card->name, card->device,
                       duration(card->seconds_per_image), view.sample(), card->places.size());
  return fmt::format("{} sets the pace: {} per {} for {}.", capital(view.device_text(index)),
                     duration(view.summary.devices[index].seconds_per_image), view.sample(),
                     view.summary.devices[index].segment.empty() ? "nothing" : list_of(layers_of(view.summary.devices[index]), 3));
}

// The slowest device or link but the one that sets the pace.
std::string next_limit(const PlanView& view) {
  const PlanSummary& summary = view.summary;
  double best = 0;
  bool is_link = false;
  size_t found = 0;
  const auto look = [&](size_t index, double seconds, bool link, bool slowest) {
    if (slowest || !(seconds > best)) return;
    best = seconds;
    is_link = link;
    found = index;
  };
  const auto slowest = [&summary](size_t index, bool link) {
    return summary.bottleneck.kind == (link ? "link" : "device") && summary.bottleneck.index == static_cast<int64_t>(index);
  };
  const bool folded = !summary.seats.empty();
  const SeatFigures* const card = summary.bottleneck.kind == "device" ? card_of(summary, summary.bottleneck.index) : nullptr;
  for (size_t i = 0; i < summary.seats.size(); ++i) look(i, summary.seats[i].seconds_per_image, false, &summary.seats[i] == card);
  for (size_t i = 0; i < summary.devices.size() && !folded; ++i) look(i, summary.devices[i].seconds_per_image, false, slowest(i, false));
  for (size_t i = 0; i < summary.links.size(); ++i) look(i, summary.links[i].seconds_per_image, true, slowest(i, true));
  if (!(best > 0) || !(summary.seconds_per_image > 0)) return "";
  const double gain = summary.seconds_per_image / best - 1;
  return fmt::format("Were it lifted, the next limit is {}: {}.",
                     gain < 0.0005 ? "level with it" : fmt::format("{} further on", percent(gain)),
                     is_link  ? link_pace(view, found)
                     : folded ? card_pace(view, summary.seats[found])
                              : device_pace(view, found));
}

Wheel wheel_of(const PlanView& view, size_t index, double largest_load) {
  const PlanSummary& summary = view.summary;
  const DeviceFigures& device = summary.devices[index];
  const TimeShares& time = view.time(index);
  Wheel wheel;
  wheel.name = device.name.empty() ? device.device : device.name;
  wheel.emphasised = summary.bottleneck.kind == "device" && summary.bottleneck.index == static_cast<int64_t>(index);
  for (size_t s = 0; s < device.shards.size(); ++s)
    wheel.parts.push_back({.amount = time.shards[s],
                           .classes = view.class_of(device.shards[s].layer),
                           .tooltip = summary.devices.size() > kLargeWheels
                                          ? ""
                                          : fmt::format("{}: {} of the time", device.shards[s].layer, percent(time.shards[s]))});
  const std::vector<std::string> layers = layers_of(device);
  if (layers.empty()) {
    wheel.lines = {"nothing to do"};
  } else if (layers.size() == 1) {
    wheel.lines = {layers.front()};
  } else {
    wheel.lines = {layers.front(), fmt::format("to {}", layers.back())};
  }
  wheel.tooltip = fmt::format("{}, {}: {}; busy {}", view.device_text(index), device.device,
                              layers.empty() ? "nothing to do" : list_of(layers, 6), percent(1 - time.idle));
  if (device.memory_fraction > 0) wheel.tooltip += fmt::format(", memory {} full", percent(device.memory_fraction));
  if (wheel.emphasised) wheel.tooltip += "; sets the pace";
  if (index >= summary.links.size()) return wheel;

  const LinkFigures& link = summary.links[index];
  const Link& capacity = view.plan.links[index];
  const double forward = link.forward_bits_per_image * summary.images_per_second;
  const double backward = link.backward_bits_per_image * summary.images_per_second;
  const auto use = [&](double load, int64_t most) {
    const double own = most > 0 ? load / static_cast<double>(most) : 0;
    const double shared =
        capacity.shared_bits_per_second > 0 ? (forward + backward) / static_cast<double>(capacity.shared_bits_per_second) : 0;
    return std::max(own, shared);
  };
  Race race;
  race.forward = tick(std::round(forward / 1e9 * 100) / 100);
  race.backward = tick(std::round(backward / 1e9 * 100) / 100);
  if (forward >= 1e9) race.forward = significant(forward / 1e9);
  if (backward >= 1e9) race.backward = significant(backward / 1e9);
  race.forward_load = largest_load > 0 ? forward / largest_load : 0;
  race.backward_load = largest_load > 0 ? backward / largest_load : 0;
  race.forward_use = use(forward, capacity.forward_bits_per_second);
  race.backward_use = use(backward, capacity.backward_bits_per_second);
  race.emphasised = summary.bottleneck.kind == "link" && summary.bottleneck.index == static_cast<int64_t>(index);
  race.tooltip = fmt::format("link {} to {}: {} forward ({} of what it carries), {} back ({}){}", link.from, link.to,
                             quantity(forward, "b/s"), percent(race.forward_use), quantity(backward, "b/s"), percent(race.backward_use),
                             race.emphasised ? "; sets the pace" : "");
  wheel.race = std::move(race);
  return wheel;
}

std::string built_note(const ReportContext& context) {
  if (!context.pace_ratio) return "boards are generated";
  const std::string note = "pace_ratio: its engines' pace over the plan's";
  return context.waiting_pace_ratio ? fmt::format("{}; the ring's with the room of its memories: {:.3f}", note, *context.waiting_pace_ratio)
                                    : note;
}

// Of cards that fill several places: who is where, a row for each card, the ring from left to right.
Table places_of_cards(const PlanView& view) {
  Table table{.columns = {{.name = "Card", .unbroken = true}, {.name = "Time", .number = true}}, .label = "The ring by card and place"};
  for (size_t place = 0; place < view.summary.devices.size(); ++place) table.columns.push_back({.name = std::to_string(place)});
  for (const SeatFigures& card : view.summary.seats) {
    Table::Row row;
    row.cells.push_back({.text = fmt::format("{} {}", card.name, card.device)});
    row.cells.push_back({.text = duration(card.seconds_per_image)});
    row.cells.resize(table.columns.size());
    for (const int64_t place : card.places) {
      Cell& cell = row.cells[2 + to_size(place)];
      for (const SegmentPart& part : item(view.summary.devices, place).segment)
        cell.text +=
            fmt::format("{}{}{}", cell.text.empty() ? "" : ", ", part.layer, part.products.empty() ? "" : " (" + part.products + ")");
      if (cell.text.empty()) cell.text = "nothing to do";
      cell.tooltip = fmt::format("{}: {} per {}", view.device_text(to_size(place)),
                                 duration(item(view.summary.devices, place).seconds_per_image), view.sample());
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

void add_key_figures(Page& page, const PlanView& view) {
  const PlanSummary& summary = view.summary;
  std::vector<Tile> tiles;
  const SampleWord sample = sample_word(view.graph);
  const std::string rate = fmt::format("{}/s", sample.many);
  tiles.push_back(tile_of("Throughput", plain(summary.images_per_second, rate),
                          fmt::format("one {} every {}", sample.one, duration(1 / summary.images_per_second))));
  if (view.context.epoch_images > 0)
    tiles.push_back(tile_of("Epoch", duration(3600 * summary.hours_per_epoch(view.context.epoch_images)),
                            fmt::format("{} {}", counted(view.context.epoch_images), sample.many)));
  tiles.push_back({.name = "Limited by",
                   .value = slowest_text(view),
                   .note = fmt::format("{} per {}", duration(summary.seconds_per_image), sample.one),
                   .origin = "modelled"});
  tiles.push_back({.name = "Idle", .value = percent(summary.idle_fraction), .note = "of the engines' capacity", .origin = "modelled"});
  tiles.push_back(tile_of("Arithmetic per device", plain(summary.gops_per_device, "GOPS"), "convolutions and recurrent layers only"));
  if (summary.gops_per_joule > 0)
    tiles.push_back(tile_of("Energy", plain(summary.gops_per_joule, "GOPS/J"), "of whole boards", origin_with(view.plan, "watt", "power")));
  if (!summary.links.empty())
    tiles.push_back(tile_of("Fullest link", quantity(1e9 * summary.max_link_gbps, "b/s"),
                            view.plan.purpose == Purpose::kInference
                                ? std::string("forward; nothing goes back")
                                : fmt::format("one direction; {} in both", quantity(1e9 * summary.max_link_gbps_both, "b/s"))));
  // The pace that trains is lower by what updates take, which the bound leaves out.
  const std::string between = view.plan.purpose == Purpose::kInference ? "" : fmt::format("between updates, {}; ", bound_counts(view.plan));
  if (summary.lower_bound_images_per_second > 0)
    tiles.push_back(tile_of(!bound_is_proven(view.plan)                ? "Search rules out above"
                            : view.plan.purpose == Purpose::kInference ? "No cuts can pass"
                                                                       : "No plan can pass",
                            plain(summary.lower_bound_images_per_second, rate),
                            summary.faster_between_updates > 0 ? between + no_gap_text(summary, sample.many)
                            : summary.optimality_gap > 0 ? fmt::format("{}this one is within {}", between, percent(summary.optimality_gap))
                                                         : fmt::format("{}this one reaches it", between),
                            "modelled bound"));
  if (!view.context.built_text.empty())
    tiles.push_back({.name = "Built hardware",
                     .value = view.context.pace_ratio ? fmt::format("{:.3f}", *view.context.pace_ratio) : std::string("not all"),
                     .note = built_note(view.context),
                     .origin = "modelled"});
  tiles.push_back({.name = "In flight",
                   .value = separated(summary.in_flight_samples),
                   .unit = std::string(summary.in_flight_samples == 1 ? sample.one : sample.many),
                   .note = "under way at once",
                   .origin = "modelled"});
  page.tiles(tiles);
}

void add_verdict(Page& page, const PlanView& view) {
  page.section("What limits this plan");
  std::vector<std::string> sentences;
  for (const std::string& given : view.context.explanation) sentences.push_back(sentence(given));
  const std::string next = next_limit(view);
  if (!next.empty()) sentences.push_back(next);
  const double of_one_ring = view.summary.images_per_second / static_cast<double>(rings_side_by_side(view.plan));
  const double pace = of_one_ring * view.summary.seconds_per_image;
  const bool trains = view.plan.purpose == Purpose::kTraining;
  if (trains && view.summary.mini_batch_seconds > 0)
    sentences.push_back(fmt::format("Updates cost {} of the throughput between them ({} alignment, mini-batches of {}; full accounting).",
                                    percent(std::max(0.0, 1 - pace)), name_of(view.plan.alignment), view.plan.mini_batch));
  else if (trains && pace > 0 && pace < 0.9995)
    sentences.push_back(fmt::format("Draining the pipeline at every update ({} alignment) costs {} of the throughput of a full one.",
                                    name_of(view.plan.alignment), percent(1 - pace)));
  page.verdict(headline(view), sentences);
}

void add_ring(Page& page, const PlanView& view) {
  const PlanSummary& summary = view.summary;
  const size_t count = summary.devices.size();
  double largest = 0;
  for (const LinkFigures& link : summary.links)
    largest = std::max(
        {largest, link.forward_bits_per_image * summary.images_per_second, link.backward_bits_per_image * summary.images_per_second});
  std::vector<Wheel> wheels;
  for (size_t i = 0; i < count; ++i) wheels.push_back(wheel_of(view, i, largest));

  std::string note;
  if (count <= kLargeWheels) {
    note = count == 1 ? "One device holds the whole network. The rim shows its time by layer, and is open where it idles."
                      : "A wheel is a device: its rim shows its time by layer, and is open where it idles. Between the wheels, what "
                        "crosses each link: "
                        "above forward, below back, in Gb/s.";
  } else if (count <= kSmallWheels) {
    note =
        "A wheel is a device: its rim shows its time by layer, and is open where it idles. Between the wheels, each link's load in both "
        "directions.";
  } else {
    note = fmt::format(
        "Each row is {} devices. Above, what a device works on; in the middle, how much of its time it is busy; below, the load of its "
        "link to the next, forward upwards and back downwards.",
        kStripDevices);
  }
  if (count > 1) note += " Control alone closes the ring.";
  std::vector<LegendEntry> legend = view.layer_legend();
  if (count > kSmallWheels) legend.push_back({.name = "busy", .classes = {"muted"}});
  legend.push_back({.name = "idle", .classes = {"idle"}});
  if (summary.bottleneck.kind == "device")
    legend.push_back({.name = "sets the pace",
                      .classes = {"accent"},
                      .mark = count <= kSmallWheels ? "<circle class=\"arc\" r=\"4.5\" stroke-width=\"2.5\"/>" : ""});
  if (!summary.links.empty()) {
    const auto lane = [](std::string_view style) { return fmt::format("<path class=\"{}\" d=\"M-7-2H2V-5L7 0L2 5V2H-7z\"/>", style); };
    legend.push_back({.name = "link", .classes = {}, .mark = lane("calm")});
    legend.push_back({.name = "over 75% of what it carries", .classes = {}, .mark = lane("busy")});
    legend.push_back({.name = "over 90%", .classes = {}, .mark = lane("full")});
  }
  page.section("The ring",
               count == 1 ? "" : "The network in order along the devices. Cuts may fall inside a layer, so neighbours often share one.");
  page.figure_of("", note, ring_markup(wheels), legend);
  if (summary.seats.empty()) return;
  page.paragraph(
      "The same ring folded: its places from left to right, each in the row of the card that fills it, which acts for one of them "
      "at a time.");
  page.table(places_of_cards(view));
}

}  // namespace millrace
