#include "deploy/command/plan/plan_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/drawing/quantity.h"
#include "core/plan/recomputation.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/plan/resource_output.h"
#include "deploy/session/accounting.h"
#include "partitioner/planning/sample_word.h"

namespace millrace {
namespace {

// A channel count, with its fraction where the cut falls inside a channel.
std::string channel_text(double channel, int digits) {
  return channel == std::floor(channel) ? fmt::format("{:.0f}", channel) : fmt::format("{:.{}f}", channel, digits);
}

// As many digits as it takes to tell the ends from each other and from whole channels.
std::string range_text(double begin, double end) {
  constexpr int kMostDigits = 9;
  const auto plain = [](double channel, int digits) {
    return channel == std::floor(channel) || std::round(channel) != std::stod(channel_text(channel, digits));
  };
  int digits = 2;
  while (digits < kMostDigits && (channel_text(begin, digits) == channel_text(end, digits) || !plain(begin, digits) || !plain(end, digits)))
    ++digits;
  return fmt::format("[{}, {})", channel_text(begin, digits), channel_text(end, digits));
}

std::string part_text(const SegmentPart& part) {
  const std::string layer = part.products.empty() ? part.layer : fmt::format("{} ({})", part.layer, part.products);
  if (part.cells) return fmt::format("{} cells {}", layer, range_text(part.begin, part.end));
  if (part.split == Split::kWhole || part.products == "steps" || part.products == "after") return layer;
  return fmt::format("{} {}{}", layer, part.split == Split::kOutputChannels ? "out" : "in", range_text(part.begin, part.end));
}

// Devices that have something so that none goes without: a part of one channel of one layer, with next to no arithmetic.
int64_t devices_with_crumbs(const PlanSummary& summary) {
  return std::ranges::count_if(summary.devices, [](const DeviceFigures& device) {
    return device.segment.size() == 1 && device.segment.front().split == Split::kInputChannels &&
           device.segment.front().end - device.segment.front().begin < 1;
  });
}

std::string segment_text(const DeviceFigures& device) {
  if (device.segment.empty()) return "(nothing)";
  if (device.segment.size() == 1) return part_text(device.segment.front());
  const char* between = device.segment.size() > 2 ? " .. " : ", ";
  return fmt::format("{}{}{}", part_text(device.segment.front()), between, part_text(device.segment.back()));
}

// Integers stay integers in JSON.
Json channel_json(double channel) { return channel == std::floor(channel) ? Json(static_cast<int64_t>(channel)) : Json(channel); }

// What a mini-batch takes beyond a period for each of its samples.
std::string updates_text(const Plan& plan, const PlanSummary& summary, std::string_view samples) {
  const double steady = static_cast<double>(plan.mini_batch) * summary.seconds_per_image;
  const double update = summary.mini_batch_seconds - steady;  // below what sums of times round to: nothing
  std::string origin;
  for (const Constant& constant : plan.constants)
    if (constant.name == kMiniBatchSeconds) origin = constant.origin;
  return fmt::format("{} for a mini-batch of {}: {:.4g} {}/s between updates, and {} for an update ({})",
                     duration(summary.mini_batch_seconds), plan.mini_batch, 1 / summary.seconds_per_image, samples,
                     update > 1e-9 * steady ? duration(update) : "nothing", origin);
}

std::string recomputation_text(const Plan& plan, const Graph& graph) {
  const RecomputationFigures figures = figures_of_recomputation(plan, graph);
  return fmt::format("what recurrent layers keep takes {} in place of {}, for up to {} more of a device's time per {}",
                     quantity(figures.bytes_shared, "B"), quantity(figures.bytes_kept, "B"), duration(figures.seconds_per_sample),
                     sample_word(graph).one);
}

Json json_of(const DeviceFigures& device) {
  Json segment = Json::array();
  for (const SegmentPart& part : device.segment) {
    segment.push_back(
        {{"layer", part.layer}, {"split", name_of(part.split)}, {"begin", channel_json(part.begin)}, {"end", channel_json(part.end)}});
    if (!part.products.empty()) segment.back()["products"] = part.products;
    if (part.cells) segment.back()["cells"] = {channel_json(part.begin), channel_json(part.end)};
  }
  return {{"index", device.index},
          {"name", device.name},
          {"device", device.device},
          {"segment", std::move(segment)},
          {"dsp", number_or_null(device.dsp)},
          {"dsp_capacity", number_or_null(device.dsp_capacity)},
          {"lut", number_or_null(device.lut)},
          {"lut_capacity", number_or_null(device.lut_capacity)},
          {"ff", number_or_null(device.ff)},
          {"ff_capacity", number_or_null(device.ff_capacity)},
          {"bram_bits", number_or_null(device.bram_bits)},
          {"bram_capacity_bits", number_or_null(device.bram_capacity_bits)},
          {"memory_bytes", number_or_null(device.memory)},
          {"memory_capacity_bytes", number_or_null(device.memory_capacity)},
          {"off_chip_bytes", number_or_null(device.off_chip_bytes)},
          {"memory_fraction", number_or_null(device.memory_fraction)},
          {"seconds_per_image", number_or_null(device.seconds_per_image)},
          {"idle_fraction", number_or_null(device.idle_fraction)}};
}

// Where a batch norm is trained with the statistics of a micro-batch, its size is part of what is computed.
bool norms_by_micro_batch(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    const auto* norm = std::get_if<BatchNorm>(&node.layer.operation);
    return norm != nullptr && norm->statistics == Statistics::kExact;
  });
}

// A plan says itself who made it, in a word that need not be a strategy of this program: nothing that reads a plan goes by it.
std::string planner_of(const PlanTask& task, const Outcome& outcome) {
  return outcome.plan ? outcome.plan->strategy : std::string(name_of(task.options.strategy));
}

}  // namespace

std::string choices_text(const PlanTask& task, const Outcome& outcome) {
  if (outcome.choices.empty()) return "";
  const SampleWord sample = sample_word(*task.graph);
  const double rate = outcome.summary.images_per_second;
  std::string text = "\nwhat was chosen\n";
  for (const Choice& choice : outcome.choices) {
    text += fmt::format("  - {}: {}", choice.what, choice.chosen);
    if (choice.next_best.empty()) {
      text += "; nothing else is possible\n";
      continue;
    }
    text += fmt::format("; next best {}, {:.4g} {}/s ({:+.1f}%)", choice.next_best, choice.samples_per_second, sample.many,
                        100 * (choice.samples_per_second / rate - 1));
    // Where devices are fast this is what decides, and a figure that looks odd without it.
    if (choice.what == "replicas") text += fmt::format("; rings agree on an update over {:g} Gb/s (assumed)", kReplicaGbps);
    text += '\n';
  }
  return text;
}

std::string plan_table(const PlanTask& task, const Outcome& outcome, double epoch_images, const RingCheck& built) {
  const PlanSummary& summary = outcome.summary;
  const bool fpga = std::any_of(summary.devices.begin(), summary.devices.end(), [](const auto& device) { return device.dsp_capacity > 0; });
  std::string text = fmt::format("{} on {} device{}, {} parallelism{} (all figures modelled, {} accounting)\n\n", task.graph->model().name,
                                 task.cluster.devices.size(), task.cluster.devices.size() == 1 ? "" : "s", planner_of(task, outcome),
                                 task.options.pair_mode == PairMode::kOverlap ? "" : fmt::format(", {}", name_of(task.options.pair_mode)),
                                 name_of(summary.accounting));
  const auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("  {:<18}{}\n", name, value); };
  const SampleWord sample = sample_word(*task.graph);
  std::string throughput =
      fmt::format("{:.4g} {}/s, {} per {}", summary.images_per_second, sample.many, duration(summary.seconds_per_image), sample.one);
  if (epoch_images > 0)
    throughput += fmt::format(", {:.3g} h per epoch of {} {}", summary.hours_per_epoch(epoch_images), counted(epoch_images), sample.many);
  line("throughput", throughput);
  if (outcome.replicas > 1)
    line("side by side", fmt::format("{} rings of {} device{}, each with {} of a mini-batch of {}; figures below are of one ring",
                                     outcome.replicas, task.cluster.devices.size(), task.cluster.devices.size() == 1 ? "" : "s",
                                     task.options.mini_batch, outcome.replicas * task.options.mini_batch));
  const bool inference = outcome.plan && outcome.plan->purpose == Purpose::kInference;
  if (summary.mini_batch_seconds > 0 && outcome.plan && !inference) line("updates", updates_text(*outcome.plan, summary, sample.many));
  const bool by_link = summary.bottleneck.kind == "link";
  const SeatFigures* const card = by_link ? nullptr : card_of(summary, summary.bottleneck.index);
  line("limited by", by_link ? fmt::format("the link from device {} to {}", summary.bottleneck.index, summary.bottleneck.index + 1)
                     : card  ? fmt::format("card {} ({}), all its {} places", card->name, card->device, card->places.size())
                             : fmt::format("device {}", summary.bottleneck.index));
  line("work", fmt::format("{:.4g} GOPS per device{}, {} of the engines' capacity idle", summary.gops_per_device,
                           summary.gops_per_joule > 0 ? fmt::format(", {:.2f} GOPS/J", summary.gops_per_joule) : "",
                           percent(summary.idle_fraction)));
  if (!summary.links.empty())
    line("fullest link", fmt::format("{:.4g} Gb/s one way, {:.4g} both together", summary.max_link_gbps, summary.max_link_gbps_both));
  if (inference) {
    line("schedule", fmt::format("forward passes alone, {} {} side by side, at most {} in flight", outcome.plan->micro_batch,
                                 outcome.plan->micro_batch == 1 ? sample.one : sample.many, summary.in_flight_samples));
  } else if (outcome.plan) {
    const int64_t chunks = outcome.plan->time_chunks;
    line("schedule",
         fmt::format("{}, mini-batch {}, micro-batch {}{}, at most {} samples in flight, optimizer {}", name_of(outcome.plan->alignment),
                     outcome.plan->mini_batch, outcome.plan->micro_batch, chunks > 1 ? fmt::format(" in {} chunks of time", chunks) : "",
                     summary.in_flight_samples, name_of(outcome.plan->optimizer.kind)));
  }
  if (outcome.plan && recomputes(*outcome.plan)) line("recomputed", recomputation_text(*outcome.plan, *task.graph));
  if (outcome.plan) {
    for (const Choice& choice : outcome.choices) {
      if (choice.what == "micro-batch" && norms_by_micro_batch(*task.graph))
        line("batch norms", fmt::format("take their statistics of micro-batches of {}, chosen for speed; --micro-batch states another",
                                        outcome.plan->micro_batch));
      if (choice.what == "devices without work" && choice.chosen != "none") line("without work", "device " + choice.chosen);
      if (choice.what == "order" && choice.chosen != "as given") line("order", choice.chosen);
    }
    const std::string no_gap = no_gap_text(summary, sample.many);
    line("optimality", !no_gap.empty() ? "-: " + no_gap
                       : meets_bound(*outcome.plan, summary.optimality_gap)
                           ? fmt::format("{} {}", bound_is_proven(*outcome.plan) ? "no cuts are faster" : "no faster cuts found",
                                         bound_counts(*outcome.plan))
                           : fmt::format("within {:.2f}% of the bound of {:.4g} {}/s {}", 100 * summary.optimality_gap,
                                         summary.lower_bound_images_per_second, sample.many, bound_counts(*outcome.plan)));
  }
  for (const SeatFigures& seat : summary.seats)
    line(&seat == &summary.seats.front() ? "cards" : "",
         fmt::format("{} fills {} places: {} per {}, {} of its time idle", seat.name, seat.places.size(), duration(seat.seconds_per_image),
                     sample.one, percent(seat.idle_fraction)));
  if (const int64_t crumbs = devices_with_crumbs(summary); crumbs > 1)
    line("spread thin", fmt::format("{} of {} devices have less than one channel of a layer: so many are more than the model has use for",
                                    crumbs, summary.devices.size()));
  // Slices are what is counted; multipliers may be built of LUTs beside them.
  const char* const more = summary.flop_utilisation > 1 ? " of what DSP slices alone can do" : "";
  line("four metrics", fmt::format("FLOP utilisation {}{}, storage {:.4g} Mb, {:.4g} Gb moved per mini-batch at {:.4g} Gb/s",
                                   summary.flop_utilisation > 0 ? percent(summary.flop_utilisation) : "-", more, summary.storage_bits / 1e6,
                                   summary.communication_bits / 1e9, summary.communication_gbps));
  if (const std::string pace = built_text(built); !pace.empty()) line("built hardware", pace);
  if (const std::string waiting = waiting_text(built); !waiting.empty()) line("its memories", waiting);
  line("planned in", duration(outcome.solve_seconds));
  if (summary.devices.empty()) return text;

  std::vector<std::string> head{"", "device", "segment", fmt::format("time/{}", sample.one), "idle"};
  if (fpga) head.insert(head.end(), {"DSP", "LUT", "FF"});
  head.insert(head.end(), {"memory", "link out Gb/s", "back"});
  TextTable table(std::move(head), 3);
  const size_t rows = summary.devices.size();
  for (size_t d = 0; d < rows; ++d) {
    if (rows > kMostTableRows && d == kTableRowsAtEachEnd) {
      table.add({"", "...", fmt::format("{} devices more (--json and --report show all)", rows - 2 * kTableRowsAtEachEnd)});
      d = rows - kTableRowsAtEachEnd;
    }
    const DeviceFigures& device = summary.devices[d];
    std::vector<std::string> row{fmt::format("{}", d), device.device, segment_text(device), duration(device.seconds_per_image),
                                 percent(device.idle_fraction)};
    const auto used = [](double amount, double capacity) {
      return capacity > 0 && amount > 0 ? percent(amount / capacity) : std::string("-");
    };
    if (fpga)
      row.insert(row.end(),
                 {used(device.dsp, device.dsp_capacity), used(device.lut, device.lut_capacity), used(device.ff, device.ff_capacity)});
    row.push_back(percent(device.memory_fraction));
    if (d < summary.links.size()) {
      const LinkFigures& link = summary.links[d];
      row.push_back(fmt::format("{:.3g}", 1e-9 * link.forward_bits_per_image * summary.images_per_second));
      row.push_back(fmt::format("{:.3g}", 1e-9 * link.backward_bits_per_image * summary.images_per_second));
    }
    table.add(std::move(row));
  }
  text += fmt::format("\n{}", table.text());
  if (!summary.homes.empty()) {
    double bits = 0;
    for (const HomeFigures& home : summary.homes) bits += home.bits;
    text += fmt::format("\n{} slices of parameters ({:.4g} Mb with gradients) are stored upstream of the device that uses them\n",
                        summary.homes.size(), bits / 1e6);
  }
  return text;
}

std::string plan_json(const PlanTask& task, const Outcome& outcome, double epoch_images, const std::vector<std::string>& explanation,
                      const RingCheck& built, bool resources) {
  const PlanSummary& summary = outcome.summary;
  Json json;
  json["model"] = task.graph->model().name;
  json["cluster"] = task.cluster.name;
  json["strategy"] = planner_of(task, outcome);
  if (planner_of(task, outcome) == name_of(Strategy::kKind)) json["mode"] = name_of(task.options.pair_mode);
  json["accounting"] = name_of(outcome.plan ? summary.accounting : task.options.accounting);
  json["feasible"] = outcome.feasible;
  json["reason"] = outcome.reason.text;
  json["sample"] = sample_word(*task.graph).one;
  json["images_per_second"] = number_or_null(summary.images_per_second);
  json["samples_per_second"] = number_or_null(summary.images_per_second);
  json["mini_batch_seconds"] = summary.mini_batch_seconds > 0 ? number_or_null(summary.mini_batch_seconds) : Json(nullptr);
  json["bottleneck"] = {{"kind", summary.bottleneck.kind}, {"index", summary.bottleneck.index}};
  json["hours_per_epoch"] = epoch_images > 0 ? number_or_null(summary.hours_per_epoch(epoch_images)) : Json(nullptr);
  json["idle_fraction"] = number_or_null(summary.idle_fraction);
  json["gops_per_device"] = number_or_null(summary.gops_per_device);
  json["gops_per_joule"] =
      summary.gops_per_joule > 0 || summary.gops_per_device <= 0 ? number_or_null(summary.gops_per_joule) : Json(nullptr);
  json["max_link_gbps"] = number_or_null(summary.max_link_gbps);
  json["max_link_gbps_both"] = number_or_null(summary.max_link_gbps_both);
  json["lower_bound_images_per_second"] = number_or_null(summary.lower_bound_images_per_second);
  json["optimality_gap"] = summary.faster_between_updates > 0 ? Json(nullptr) : number_or_null(summary.optimality_gap);
  json["solve_seconds"] = number_or_null(outcome.solve_seconds);
  json["alignment"] = name_of(task.options.alignment);
  json["mini_batch"] = task.options.mini_batch;
  json["micro_batch"] = outcome.plan ? outcome.plan->micro_batch : task.options.micro_batch;
  json["time_chunks"] = outcome.plan ? outcome.plan->time_chunks : std::max<int64_t>(1, task.options.time_chunks);
  json["replicas"] = outcome.replicas;
  json["choices"] = Json::array();
  for (const Choice& choice : outcome.choices)
    json["choices"].push_back(
        {{"what", choice.what},
         {"chosen", choice.chosen},
         {"next_best", choice.next_best.empty() ? Json(nullptr) : Json(choice.next_best)},
         {"images_per_second", choice.next_best.empty() ? Json(nullptr) : number_or_null(choice.samples_per_second)}});
  json["in_flight_samples"] = summary.in_flight_samples;
  json["flop_utilisation"] = summary.flop_utilisation > 0 ? number_or_null(summary.flop_utilisation) : Json(nullptr);
  json["storage_bits"] = number_or_null(summary.storage_bits);
  json["communication_bits"] = number_or_null(summary.communication_bits);
  json["communication_gbps"] = number_or_null(summary.communication_gbps);
  json["pace_ratio"] = built.pace_ratio ? number_or_null(*built.pace_ratio) : Json(nullptr);
  json["waiting_pace_ratio"] = built.waiting_pace_ratio ? number_or_null(*built.waiting_pace_ratio) : Json(nullptr);
  if (outcome.plan && recomputes(*outcome.plan)) {
    const RecomputationFigures figures = figures_of_recomputation(*outcome.plan, *task.graph);
    json["recomputed"] = {{"bytes_kept_without", number_or_null(figures.bytes_kept)},
                          {"bytes_kept", number_or_null(figures.bytes_shared)},
                          {"most_seconds_per_image", number_or_null(figures.seconds_per_sample)}};
  }
  json["origin"] = "modelled";
  if (!outcome.feasible)
    json["shortage"] = {{"device", outcome.reason.device},
                        {"resource", outcome.reason.resource},
                        {"missing", number_or_null(outcome.reason.missing)},
                        {"smallest_count", outcome.reason.smallest_count}};
  if (!explanation.empty()) json["explanation"] = explanation;
  json["devices"] = Json::array();
  for (const DeviceFigures& device : summary.devices) json["devices"].push_back(json_of(device));
  if (!summary.seats.empty()) json["seats"] = Json::array();
  for (const SeatFigures& seat : summary.seats)
    json["seats"].push_back({{"name", seat.name},
                             {"device", seat.device},
                             {"places", seat.places},
                             {"seconds_per_image", number_or_null(seat.seconds_per_image)},
                             {"idle_fraction", number_or_null(seat.idle_fraction)}});
  json["links"] = Json::array();
  for (const LinkFigures& link : summary.links)
    json["links"].push_back({{"from", link.from},
                             {"to", link.to},
                             {"forward_bits_per_image", number_or_null(link.forward_bits_per_image)},
                             {"backward_bits_per_image", number_or_null(link.backward_bits_per_image)},
                             {"gbps", number_or_null(link.gbps)}});
  json["homes"] = Json::array();
  for (const HomeFigures& home : summary.homes)
    json["homes"].push_back({{"layer", home.layer}, {"begin", home.begin}, {"end", home.end}, {"home", home.home}, {"user", home.user}});
  if (resources && outcome.plan) json["resources"] = resource_json(*outcome.plan, summary);
  return json_text(json);
}

}  // namespace millrace
