#include "deploy/command/simulate/simulate_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/plan/seats.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/simulate/scenario_flags.h"

namespace millrace {
namespace {

// Whether the plan speaks of whole mini-batches, and the run has some.
bool over_mini_batches(const PlanSummary& summary, const Plan& plan, int64_t samples) {
  return summary.mini_batch_seconds > 0 && samples >= 2 * plan.mini_batch;
}

// Between updates, where the run is too short for whole mini-batches.
double planned_pace(const SimulationView& view) {
  const PlanSummary& summary = *view.summary;
  const bool between = summary.mini_batch_seconds > 0 && !over_mini_batches(summary, *view.plan, view.result->samples);
  return between ? 1 / summary.seconds_per_image : summary.images_per_second;
}

double simulated_pace(const SimulationView& view) {
  const bool whole = over_mini_batches(*view.summary, *view.plan, view.result->samples);
  return whole ? mini_batch_rate(*view.plan, *view.result) : view.result->images_per_second;
}

// Samples that it takes for the steady pace, where a run of whole mini-batches has fewer: its pace is one of a ring that fills and ends.
int64_t steady_from(const SimulationView& view) {
  const int64_t settles = samples_to_settle(*view.plan, *view.result);
  return over_mini_batches(*view.summary, *view.plan, view.result->samples) && view.result->samples < settles ? settles : 0;
}

double difference_of(const SimulationView& view) {
  const double planned = planned_pace(view);
  return planned > 0 ? simulated_pace(view) / planned - 1 : 0;
}

// The slowest of the stragglers.
struct Slowed {
  int64_t devices = 0;
  int64_t slowest = 0;
  double factor = 1;
};
Slowed slowed(const SimulationView& view) {
  Slowed found;
  const std::vector<int64_t> slowness = slowness_of(view.options.scenario, view.plan->devices());
  for (size_t d = 0; d < slowness.size(); ++d) {
    const double factor = 1e-3 * static_cast<double>(slowness[d]);
    if (slowness[d] != 1000) ++found.devices;
    if (slowness[d] == 1000 || (found.devices > 1 && factor <= found.factor)) continue;
    found.slowest = static_cast<int64_t>(d);
    found.factor = factor;
  }
  return found;
}

// Of the fullest column, all its shards one after the other at worst.
double all_reduce_seconds(const SimulationView& view) {
  const std::vector<int64_t> bits = column_bits(*view.plan);
  return 1e-12 * static_cast<double>(all_reduce_picoseconds(view.options.scenario.replicas, *std::max_element(bits.begin(), bits.end())));
}

void add_scenario_lines(const SimulationView& view, std::string& text) {
  const SimulationScenario& scenario = view.options.scenario;
  const auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("  {:<18}{}\n", name, value); };
  if (const Slowed found = slowed(view); found.devices > 0)
    line("stragglers", fmt::format("{} of {} devices are not as planned, at worst device {}, {:.4g} times as long", found.devices,
                                   view.plan->devices(), found.slowest, found.factor));
  if (scenario.jitter_picoseconds > 0)
    line("jitter", fmt::format("messages come up to {} later than the latency (seed {})",
                               duration(1e-12 * static_cast<double>(scenario.jitter_picoseconds)), scenario.seed));
  const Replicas& replicas = scenario.replicas;
  if (replicas.count < 2) return;
  line("replicas", fmt::format("{} rings{}, {} all-reduce after each mini-batch: up to {} a column (modelled); all together {:.4g} {}/s",
                               replicas.count, replicas.group_size > 0 ? fmt::format(" in groups of {}", replicas.group_size) : "",
                               name_of(replicas.method), duration(all_reduce_seconds(view)),
                               static_cast<double>(replicas.count) * view.result->images_per_second, view.sample.many));
}

Json scenario_json(const SimulationView& view) {
  const SimulationScenario& scenario = view.options.scenario;
  Json json = Json::object();
  if (const Slowed found = slowed(view); found.devices > 0)
    json["stragglers"] = {{"slowed", found.devices}, {"slowest_device", found.slowest}, {"slowest_factor", found.factor}};
  if (scenario.jitter_picoseconds > 0) json["jitter_seconds"] = 1e-12 * static_cast<double>(scenario.jitter_picoseconds);
  if (scenario.jitter_picoseconds > 0 || scenario.straggler_share > 0) json["seed"] = scenario.seed;
  if (const Replicas& replicas = scenario.replicas; replicas.count > 1)
    json["replicas"] = {{"count", replicas.count},
                        {"all_reduce", name_of(replicas.method)},
                        {"group", replicas.group_size > 0 ? Json(replicas.group_size) : Json(nullptr)},
                        {"all_reduce_seconds", all_reduce_seconds(view)},
                        {"all_images_per_second", static_cast<double>(replicas.count) * view.result->images_per_second}};
  return json;
}

std::string memory_text(const SimulatedDevice& device) {
  if (device.act_ram_plan_bits <= 0) return "-";
  return fmt::format("{:.0f}%", 100 * static_cast<double>(device.act_ram_peak_bits) / static_cast<double>(device.act_ram_plan_bits));
}

double all_reduce_share(const SimulationView& view) {
  if (view.options.scenario.replicas.count < 2) return 0;
  return all_reduce_seconds(view) * simulated_pace(view) / static_cast<double>(view.plan->mini_batch);
}

int64_t ranks_of(const SimulationView& view) { return view.options.trainer_ranks > 0 ? view.options.trainer_ranks : view.plan->devices(); }
int64_t cores_of(const SimulationView& view) { return view.options.cores > 0 ? view.options.cores : ranks_of(view); }
double core_share(const SimulationResult& result) {
  double sum = 0;
  for (const SimulatedDevice& device : result.devices) sum += device.idle.core;
  return sum / static_cast<double>(result.devices.size());
}

}  // namespace

SimulationForecast forecast_of(const SimulationView& view) {
  const PlanSummary& summary = *view.summary;
  return {.images_per_second = planned_pace(view),
          .over_mini_batches = over_mini_batches(summary, *view.plan, view.result->samples) ? simulated_pace(view) : 0,
          .in_flight_samples = summary.in_flight_samples,
          .all_reduce_share = all_reduce_share(view),
          .one = std::string(view.sample.one),
          .many = std::string(view.sample.many)};
}

std::string simulation_table(const SimulationView& view) {
  const SimulationResult& result = *view.result;
  const Plan& plan = *view.plan;
  std::string text = fmt::format("{} on {} device{}: {} {} in virtual time (simulated, where nothing else is said)\n\n", plan.model.name,
                                 plan.devices(), plan.devices() == 1 ? "" : "s", result.samples, view.sample.many);
  const auto line = [&](std::string_view name, const std::string& value) { text += fmt::format("  {:<18}{}\n", name, value); };
  const bool whole = over_mini_batches(*view.summary, plan, result.samples);
  std::string where = whole ? plan.purpose == Purpose::kInference ? "over the steady part" : "over whole mini-batches"
                      : view.summary->mini_batch_seconds > 0 ? "between updates"
                                                             : "in the steady half";
  if (const int64_t enough = steady_from(view); enough > 0)
    where += fmt::format(" while the ring fills and ends, of {} {} or more at its steady pace", enough, view.sample.many);
  line("throughput",
       fmt::format("{:.4g} {}/s {}; the plan predicts {:.4g} ({} accounting, modelled): {:+.2f}%", simulated_pace(view), view.sample.many,
                   where, planned_pace(view), name_of(view.summary->accounting), 100 * difference_of(view)));
  line("time", fmt::format("{} for all {}, {} until the first is done", duration(1e-12 * static_cast<double>(result.picoseconds)),
                           view.sample.many, duration(1e-12 * static_cast<double>(result.fill_picoseconds))));
  if (plan.purpose == Purpose::kInference)
    line("schedule", fmt::format("forward passes alone, {} {} side by side; at most {} in flight", plan.micro_batch,
                                 plan.micro_batch == 1 ? view.sample.one : view.sample.many, result.in_flight_samples));
  else
    line("schedule",
         fmt::format("{}, mini-batch {}, micro-batch {}{}; at most {} samples in flight", name_of(plan.alignment), plan.mini_batch,
                     plan.micro_batch, plan.time_chunks > 1 ? fmt::format(" in {} chunks of time", plan.time_chunks) : "",
                     result.in_flight_samples));
  line("waiting", fmt::format("{} of the engines' time, on average over the {}", percent(result.idle_fraction),
                              folds(plan.cluster) ? "cards" : "devices"));
  if (const PaceSetter pace = pace_setter(plan, result, forecast_of(view)); !pace.who.empty())
    line("pace set by", fmt::format("{}, at work for {} of the time", pace.who, percent(pace.share)));
  if (!view.options.measured.empty()) line("devices", "take turns at the measured times of their actions, updates included");
  if (view.options.cores + view.options.trainer_ranks > 0)
    line("cores", fmt::format("{} for {} ranks; a device waits for one for {} of the time, on average", cores_of(view), ranks_of(view),
                              percent(core_share(result))));
  if (view.rows_stream)
    line("dense layers", view.options.fc_barrier ? "wait for the whole map before them"
                                                 : "stream with the map's rows, as the plan's formulas have it (--fc-barrier: they wait)");
  add_scenario_lines(view, text);
  line("simulated in", fmt::format("{} on {} rank{} (measured): {} events, {:.3g} million a second", duration(result.wall_seconds),
                                   view.ranks, view.ranks == 1 ? "" : "s", separated(result.events),
                                   result.wall_seconds > 0 ? 1e-6 * static_cast<double>(result.events) / result.wall_seconds : 0));
  const std::vector<SimulationFinding> found = findings(plan, result, forecast_of(view));
  if (!found.empty()) text += "\nagainst the plan\n";
  for (const SimulationFinding& finding : found) text += fmt::format("  - {}: {}\n", finding.reason, finding.text);

  TextTable table(
      {"", "device", "waiting", "for input", "output", "parameters", "update", "Act-RAM of plan's", "link out Gb/s", "back", "used"}, 2);
  const size_t rows = result.devices.size();
  for (size_t d = 0; d < rows; ++d) {
    if (rows > kMostTableRows && d == kTableRowsAtEachEnd) {
      table.add({"", fmt::format("... {} more (--json shows all)", rows - 2 * kTableRowsAtEachEnd)});
      d = rows - kTableRowsAtEachEnd;
    }
    const SimulatedDevice& device = result.devices[d];
    std::vector<std::string> row{
        fmt::format("{}", d),        plan.cluster.devices[d].device,  percent(device.idle_fraction), percent(device.idle.input),
        percent(device.idle.output), percent(device.idle.parameters), percent(device.idle.update),   memory_text(device)};
    if (d < result.links.size()) {
      const SimulatedLink& link = result.links[d];
      row.push_back(fmt::format("{:.3g}", 1e-9 * link.forward_bits_per_image * result.images_per_second));
      row.push_back(fmt::format("{:.3g}", 1e-9 * link.backward_bits_per_image * result.images_per_second));
      row.push_back(percent(link.utilisation));
    }
    table.add(std::move(row));
  }
  text += fmt::format("\n{}", table.text());
  if (view.failures) text += fmt::format("\n{}", failure_table(*view.failures, view.sample.many));
  return text;
}

std::string simulation_json(const SimulationView& view) {
  const SimulationResult& result = *view.result;
  const Plan& plan = *view.plan;
  Json json;
  json["model"] = plan.model.name;
  json["cluster"] = plan.cluster.name;
  json["alignment"] = name_of(plan.alignment);
  json["mini_batch"] = plan.mini_batch;
  json["micro_batch"] = plan.micro_batch;
  json["images"] = result.samples;
  json["fc_barrier"] = view.options.fc_barrier;
  json["times"] = view.options.measured.empty() ? "modelled" : "measured";
  json["origin"] = "simulated";
  json["images_per_second"] = number_or_null(result.images_per_second);
  const double rate = mini_batch_rate(plan, result);
  json["sample"] = view.sample.one;
  json["mini_batch_images_per_second"] = rate > 0 ? number_or_null(rate) : Json(nullptr);
  // The figures above are of one ring.
  const int64_t rings = std::max<int64_t>(1, view.options.scenario.replicas.count);
  json["rings"] = rings;
  json["all_images_per_second"] = number_or_null(static_cast<double>(rings) * result.images_per_second);
  json["planned"] = {{"accounting", name_of(view.summary->accounting)},
                     {"images_per_second", number_or_null(planned_pace(view))},
                     {"over", over_mini_batches(*view.summary, plan, result.samples) ? "mini-batches" : "steady"},
                     {"steady_from_images", steady_from(view) > 0 ? Json(steady_from(view)) : Json(nullptr)},
                     {"difference", number_or_null(difference_of(view))},
                     {"in_flight_samples", view.summary->in_flight_samples},
                     {"origin", "modelled"}};
  json["reasons"] = Json::array();
  for (const SimulationFinding& finding : findings(plan, result, forecast_of(view)))
    json["reasons"].push_back({{"reason", finding.reason}, {"text", finding.text}});
  json["idle_fraction"] = number_or_null(result.idle_fraction);
  json["in_flight_samples"] = result.in_flight_samples;
  json["simulated_seconds"] = number_or_null(1e-12 * static_cast<double>(result.picoseconds));
  json["fill_seconds"] = number_or_null(1e-12 * static_cast<double>(result.fill_picoseconds));
  json["wall_seconds"] = number_or_null(result.wall_seconds);
  json["events"] = result.events;
  json["ranks"] = view.ranks;
  json["state_bytes"] = result.state_bytes;
  json["work_of_ranks"] = Json::array();
  for (const SimulatedRank& rank : result.ranks)
    json["work_of_ranks"].push_back({{"first_device", rank.first_device},
                                     {"events", rank.events},
                                     {"messages", rank.messages},
                                     {"seconds", number_or_null(rank.seconds)},
                                     {"waiting_seconds", number_or_null(rank.waiting_seconds)},
                                     {"processor_seconds", number_or_null(rank.processor_seconds)}});
  json["devices"] = Json::array();
  for (const SimulatedDevice& device : result.devices)
    json["devices"].push_back({{"index", device.index},
                               {"name", item(plan.cluster.devices, device.index).name},
                               {"idle_fraction", number_or_null(device.idle_fraction)},
                               {"waiting",
                                {{"input", number_or_null(device.idle.input)},
                                 {"output", number_or_null(device.idle.output)},
                                 {"parameters", number_or_null(device.idle.parameters)},
                                 {"update", number_or_null(device.idle.update)},
                                 {"core", number_or_null(device.idle.core)}}},
                               {"buffer_peak_bits", device.buffer_peak_bits()},
                               {"act_ram_peak_bits", device.act_ram_peak_bits},
                               {"act_ram_plan_bits", device.act_ram_plan_bits},
                               {"fifo_peak_bits", device.fifo_peak_bits}});
  for (const SimulatedStage& stage : result.stages)
    if (stage.weight_words > 0)
      json["weight_words"].push_back(
          {{"layer", item(plan.shards, stage.shard).layer}, {"device", stage.device}, {"words", stage.weight_words}});
  json["links"] = Json::array();
  for (const SimulatedLink& link : result.links)
    json["links"].push_back({{"from", link.from},
                             {"to", link.to},
                             {"forward_bits_per_image", number_or_null(link.forward_bits_per_image)},
                             {"backward_bits_per_image", number_or_null(link.backward_bits_per_image)},
                             {"utilisation", number_or_null(link.utilisation)}});
  if (const Json scenario = scenario_json(view); !scenario.empty()) json["scenario"] = scenario;
  if (view.failures) json["failures"] = Json::parse(failure_json(*view.failures));
  return json_text(json);
}

}  // namespace millrace
