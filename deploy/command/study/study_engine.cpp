// `millrace study --engine`: every way to build an engine for a model's recurrent layers on one board, and the best ones.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/drawing/chart.h"
#include "core/drawing/colour.h"
#include "core/drawing/page.h"
#include "core/graph/graph.h"
#include "core/graph/zoo.h"
#include "deploy/command/line/command_words.h"
#include "deploy/command/line/csv.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"
#include "deploy/command/study/study_flags.h"
#include "deploy/devices/hardware.h"
#include "deploy/session/catalogue_registry.h"
#include "fpga/cost/blocked_engines.h"
#include "fpga/sbe/exploration.h"
#include "fpga/sbe/joint_exploration.h"

namespace millrace {
namespace {

constexpr size_t kFrontShown = 12;
constexpr double kMilli = 1e3;

struct LayerStudy {
  std::string layer;
  GateMatrix shape;
  int64_t steps = 0;
  Exploration found;
};

SbeBoard board_of(const CatalogueDevice& device) {
  if (hardware_of(device) != Hardware::kFpga) fail(ErrorCode::kUsage, "--engine sbe is an FPGA's, and {} is none", device.name);
  return sbe_board_of(fpga_resources_of(device, 16));
}

// "bram36=300": less than the board has, or more; "seconds" bounds a batch.
void apply_limit(const std::string& text, SbeBoard& board, SbeGoal& goal) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  double amount = 0;
  const char* begin = equals == std::string::npos ? text.data() + text.size() : text.data() + equals + 1;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(begin, end, amount);
  if (begin == end || error != std::errc{} || stopped != end || !(amount > 0) || !std::isfinite(amount))
    fail(ErrorCode::kUsage, "--limit \"{}\" must be a resource and an amount above 0, as in bram36=300", text);
  static const std::vector<std::string> kNames = {"dsp", "lut", "lutram_lut", "bram36", "uram", "bytes_per_second", "bus_bits", "seconds"};
  if (name == "dsp") board.dsp = amount;
  if (name == "lut") board.lut = amount;
  if (name == "lutram_lut") board.lutram_lut = amount;
  if (name == "bram36") board.bram36 = amount;
  if (name == "uram") board.uram = amount;
  if (name == "bytes_per_second") board.bytes_per_second = amount;
  if (name == "seconds") goal.most_seconds = amount;
  if (name == "bus_bits") {
    board.bus_bits = static_cast<int64_t>(amount);
    if (board.bus_bits < 64 || board.bus_bits > 512 || (board.bus_bits & (board.bus_bits - 1)) != 0)
      fail(ErrorCode::kUsage, "--limit bus_bits={}: buses have 64, 128, 256 or 512 bits", amount);
  }
  if (std::ranges::find(kNames, name) == kNames.end())
    fail(ErrorCode::kUsage, "--limit \"{}\": {} is no limit that is known{}", text, name, suggestion(name, kNames));
}

std::string point_text(const SbePoint& point) {
  return fmt::format("{:.0f} steps/s, {:.3f} ms a batch, {:.1f} BRAM36, {:.0f} DSP: {}", point.steps_per_second, kMilli * point.seconds,
                     point.use.bram36, point.use.dsp, text_of(point.config));
}

std::string remedy_text(const Remedy& remedy) {
  if (remedy.limit == "steps_per_second")
    return fmt::format("{:.0f} steps/s are wanted, and {:.0f} are the most there is room for: {}", remedy.is, remedy.needed,
                       text_of(remedy.then.config));
  if (remedy.limit == "seconds")
    return fmt::format("a batch in {:.6f} ms is wanted, and the quickest takes {:.6f}: {}", kMilli * remedy.is, kMilli * remedy.needed,
                       text_of(remedy.then.config));
  return fmt::format("{:.1f} {} too few: {:.1f} of {:.1f} would do with {}", remedy.needed - remedy.is, remedy.limit, remedy.needed,
                     remedy.is, text_of(remedy.then.config));
}

std::string text_of(const std::vector<LayerStudy>& layers, const SbeBoard& board, const std::string& model) {
  std::string text = fmt::format("{} on {} with the engine sbe (modelled, at {:.0f} MHz, {} words a cycle from outside)\n", model,
                                 board.name, board.clock_hz / 1e6, board.words_per_cycle());
  for (const LayerStudy& layer : layers) {
    text += fmt::format("\n{}: {} inputs, {} hidden units, {} gates, {} steps; {} ways to build it, {} of which fit\n", layer.layer,
                        layer.shape.inputs, layer.shape.hidden, layer.shape.gates, layer.steps, grouped(layer.found.points),
                        grouped(layer.found.feasible));
    if (!layer.found.fastest) {
      text += "none does what is asked\n";
      for (const Remedy& remedy : layer.found.remedies) text += "  " + remedy_text(remedy) + "\n";
      if (layer.found.remedies.empty()) text += "  more than one limit stands in the way of every way to build it\n";
      continue;
    }
    text += fmt::format("fastest   {}\nsmallest  {}\n\n", point_text(*layer.found.fastest), point_text(*layer.found.smallest));
    TextTable table({"built as", "steps/s", "ms a batch", "BRAM36", "DSP", "B a step"}, 1);
    for (size_t i = 0; i < std::min(kFrontShown, layer.found.front.size()); ++i) {
      const SbePoint& point = layer.found.front[i];
      table.add({text_of(point.config), fmt::format("{:.0f}", point.steps_per_second), fmt::format("{:.3f}", kMilli * point.seconds),
                 fmt::format("{:.1f}", point.use.bram36), fmt::format("{:.0f}", point.use.dsp),
                 fmt::format("{:.0f}", point.bytes_per_step)});
    }
    text += table.text();
    if (layer.found.front.size() > kFrontShown)
      text += fmt::format("and {} more that nothing beats (--json, --out)\n", layer.found.front.size() - kFrontShown);
  }
  return text +
         "\nx and h cross the memory's bus here, as in the paper; in plans and in generated engines they have streams of their own\n";
}

// The engines of all layers at once, where there are several; nothing that is kept for a single layer's goal.
JointExploration together_of(const std::vector<LayerStudy>& layers, const SbeBoard& board, int64_t most_streams) {
  constexpr size_t kMost = 12;
  JointExploration best;
  for (int64_t streams = 1; layers.size() > 1 && streams <= most_streams; streams *= 2) {
    std::vector<SbeSpace> spaces;
    for (const LayerStudy& layer : layers)
      spaces.push_back({.shape = layer.shape, .steps = layer.steps, .least_streams = streams, .most_streams = streams});
    JointExploration found = JointExplorer(spaces, board).within({}, kMost);
    if (found.fastest && (!best.fastest || found.fastest->seconds < best.fastest->seconds)) best = std::move(found);
  }
  return best;
}

std::string text_of(const JointExploration& together, const std::vector<LayerStudy>& layers) {
  if (layers.size() < 2) return "";
  if (!together.fastest) return "\nall layers together do not fit this board\n";
  std::string text = "\nall layers together on the board, every combination looked at\n";
  TextTable table({"sequences/s", "BRAM36", "multipliers"}, 0);
  for (const JointChoice& choice : together.front)
    table.add({fmt::format("{:.4g}", 1 / choice.seconds), fmt::format("{:.1f}", choice.bram36), fmt::format("{:.0f}", choice.slices)});
  text += table.text();
  for (size_t i = 0; i < layers.size(); ++i)
    text += fmt::format("fastest, {}: {}\n", layers[i].layer, text_of(together.fastest->configs[i]));
  return text;
}

const char* name_of(Pinned pinned) { return pinned == Pinned::kNone ? "none" : pinned == Pinned::kHidden ? "hidden" : "all"; }

Json json_of(const SbePoint& point) {
  const SbeConfig& c = point.config;
  return {{"row_lanes", c.row_lanes},
          {"columns", c.columns},
          {"tail_units", c.tail_units},
          {"blocks", blocks_of(c).size()},
          {"block_chunks", c.block_chunks},
          {"slots", c.slots},
          {"pinned", name_of(c.pinned)},
          {"streams", c.streams},
          {"steps", c.steps},
          {"steps_per_second", point.steps_per_second},
          {"batch_seconds", point.seconds},
          {"cycles_per_batch", point.timing.cycles},
          {"first_batch_cycles", point.timing.first_cycles},
          {"words_from_memory", point.timing.words},
          {"weight_words", point.timing.weight_words},
          {"bram36", point.use.bram36},
          {"uram", point.use.uram},
          {"dsp", point.use.dsp},
          {"lut", point.use.lut},
          {"lutram_lut", point.use.lutram_lut},
          {"bytes_per_step", point.bytes_per_step},
          {"bytes_per_second", point.bytes_per_step * point.steps_per_second}};
}

Json json_of(const JointExploration& together, const std::vector<LayerStudy>& layers) {
  Json all = Json::array();
  for (const JointChoice& choice : together.front) {
    Json engines = Json::object();
    for (size_t i = 0; i < layers.size(); ++i) engines[layers[i].layer] = text_of(choice.configs[i]);
    all.push_back({{"sequences_per_second", 1 / choice.seconds},
                   {"bram36", choice.bram36},
                   {"multipliers_and_tails", choice.slices},
                   {"streams", choice.configs.front().streams},
                   {"engines", engines}});
  }
  return all;
}

std::string json_of(const std::vector<LayerStudy>& layers, const JointExploration& together, const SbeBoard& board, const SbeGoal& goal,
                    const std::string& model) {
  Json json = {{"engine", "sbe"},
               {"model", model},
               {"device", board.name},
               {"origin", "modelled"},
               {"limits",
                {{"dsp", board.dsp},
                 {"lut", board.lut},
                 {"usable_luts", kUsableLuts},
                 {"lutram_lut", board.lutram_lut},
                 {"bram36", board.bram36},
                 {"uram", board.uram},
                 {"bytes_per_second", board.bytes_per_second},
                 {"bus_bits", board.bus_bits},
                 {"clock_hz", board.clock_hz},
                 {"words_per_cycle", board.words_per_cycle()}}},
               {"target_steps_per_second", goal.least_steps_per_second > 0 ? Json(goal.least_steps_per_second) : Json(nullptr)},
               {"limit_seconds", goal.most_seconds > 0 ? Json(goal.most_seconds) : Json(nullptr)},
               {"layers", Json::array()},
               {"together", json_of(together, layers)},
               {"constants", Json::array()}};
  for (const LayerStudy& layer : layers) {
    Json& added = json["layers"].emplace_back();
    added = {{"layer", layer.layer},
             {"inputs", layer.shape.inputs},
             {"hidden", layer.shape.hidden},
             {"gates", layer.shape.gates},
             {"steps", layer.steps},
             {"points", layer.found.points},
             {"fitting", layer.found.feasible},
             {"timed", layer.found.timed},
             {"feasible", layer.found.fastest.has_value()},
             {"fastest", layer.found.fastest ? json_of(*layer.found.fastest) : Json(nullptr)},
             {"smallest", layer.found.smallest ? json_of(*layer.found.smallest) : Json(nullptr)},
             {"front", Json::array()},
             {"remedies", Json::array()}};
    for (const SbePoint& point : layer.found.front) added["front"].push_back(json_of(point));
    for (const Remedy& remedy : layer.found.remedies)
      added["remedies"].push_back({{"limit", remedy.limit},
                                   {"is", remedy.is},
                                   {"needed", remedy.needed},
                                   {"text", remedy_text(remedy)},
                                   {"then", json_of(remedy.then)}});
  }
  for (const Constant& constant : sbe_constants())
    json["constants"].push_back({{"name", constant.name}, {"value", constant.value}, {"origin", constant.origin}});
  return json_text(json);
}

std::string csv_of(const std::vector<LayerStudy>& layers) {
  std::string text =
      "layer,row_lanes,columns,tail_units,block_chunks,slots,pinned,streams,steps,steps_per_second,batch_seconds,bram36,dsp,bytes_per_"
      "step\n";
  for (const LayerStudy& layer : layers)
    for (const SbePoint& p : layer.found.front)
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_text(layer.layer), p.config.row_lanes, p.config.columns,
                          p.config.tail_units, p.config.block_chunks, p.config.slots, name_of(p.config.pinned), p.config.streams,
                          p.config.steps, csv_number(p.steps_per_second), csv_number(p.seconds), csv_number(p.use.bram36),
                          csv_number(p.use.dsp), csv_number(p.bytes_per_step));
  return text;
}

std::string page_of(const std::vector<LayerStudy>& layers, const SbeBoard& board, const std::string& model, const std::string& command) {
  Page page(fmt::format("{} on {}", model, board.name), "the engine sbe: every way to build it, and those that nothing beats");
  for (const LayerStudy& layer : layers) {
    page.section(layer.layer, fmt::format("{} inputs, {} hidden units, {} gates, {} steps. Modelled at {:.0f} MHz.", layer.shape.inputs,
                                          layer.shape.hidden, layer.shape.gates, layer.steps, board.clock_hz / 1e6));
    if (!layer.found.fastest) {
      std::vector<std::string> sentences;
      for (const Remedy& remedy : layer.found.remedies) sentences.push_back(remedy_text(remedy));
      page.verdict("None does what is asked", sentences);
      continue;
    }
    page.tiles(
        {{.name = "Fastest",
          .value = fmt::format("{:.0f}", layer.found.fastest->steps_per_second),
          .unit = "steps/s",
          .origin = "modelled"},
         {.name = "Smallest", .value = fmt::format("{:.1f}", layer.found.smallest->use.bram36), .unit = "BRAM36", .origin = "modelled"},
         {.name = "Ways to build it", .value = grouped(layer.found.points), .unit = "", .origin = "counted"}});
    LineChart chart{
        .label = "Steps a second by block RAM", .x = {.label = "BRAM36"}, .y = {.label = "steps/s", .logarithmic = true}, .series = {}};
    Series series{.name = "the front", .classes = series_class(0), .line = false, .mark = Mark::kCircle};
    for (const SbePoint& point : layer.found.front) series.points.push_back({point.use.bram36, point.steps_per_second});
    chart.series.push_back(std::move(series));
    page.figure({.title = "The front",
                 .note = "Five measures: speed, latency, block RAM, slices, bytes from outside. Two of them are drawn.",
                 .drawing = draw(chart)});
    Table table{
        .columns = {{.name = "built as"}, {"steps/s", true}, {"ms a batch", true}, {"BRAM36", true}, {"DSP", true}, {"B a step", true}}};
    for (const SbePoint& p : layer.found.front)
      table.rows.push_back({.cells = {{.text = text_of(p.config)},
                                      {.text = fmt::format("{:.0f}", p.steps_per_second)},
                                      {.text = fmt::format("{:.3f}", kMilli * p.seconds)},
                                      {.text = fmt::format("{:.1f}", p.use.bram36)},
                                      {.text = fmt::format("{:.0f}", p.use.dsp)},
                                      {.text = fmt::format("{:.0f}", p.bytes_per_step)}}});
    table.label = "the front of " + layer.layer;
    page.table(table, fmt::format("All {} points of the front", layer.found.front.size()));
  }
  page.footer(command);
  return std::move(page).html(series_style_sheet());
}

}  // namespace

int run_study_engine(const StudyFlags& flags) {
  static const std::vector<std::string> kEngines = {"sbe", "pe_chain"};
  if (std::ranges::find(kEngines, flags.engine) == kEngines.end())
    fail(ErrorCode::kUsage, "--engine \"{}\" is not one that is known{}", flags.engine, suggestion(flags.engine, kEngines));
  if (flags.engine == "pe_chain") return run_study_pe_chain(flags);
  static const std::vector<std::string> kWith = {"--engine",  "--model", "--device", "--limit",    "--target",
                                                 "--streams", "--json",  "--out",    "--catalogue"};
  for (const std::string& name : flags.given)
    if (std::ranges::find(kWith, name) == kWith.end())
      fail(ErrorCode::kUsage, "{} has no effect with --engine, which looks at one board; leave one of the two out", name);
  if (flags.model.empty() || flags.device.empty()) fail(ErrorCode::kUsage, "--engine wants --model and --device too");
  const Catalogue catalogue = catalogue_with(flags.catalogues);
  SbeBoard board = board_of(catalogue.find(flags.device));
  SbeGoal goal{.least_steps_per_second = flags.target.value_or(0)};
  for (const std::string& limit : flags.limits) apply_limit(limit, board, goal);
  const Graph graph(find_model(flags.model));
  std::vector<LayerStudy> layers;
  for (const Node& node : graph.nodes()) {
    if (!std::holds_alternative<Recurrent>(node.layer.operation)) continue;
    LayerStudy study{.layer = node.layer.name, .shape = sbe_shape_of(node), .steps = node.input_shapes[0].height, .found = {}};
    const auto alike =
        std::ranges::find_if(layers, [&](const LayerStudy& other) { return other.shape == study.shape && other.steps == study.steps; });
    study.found = alike != layers.end()
                      ? alike->found
                      : explore({.shape = study.shape, .steps = study.steps, .most_streams = flags.streams.value_or(4)}, board, goal);
    layers.push_back(std::move(study));
  }
  if (layers.empty()) fail(ErrorCode::kUsage, "{} has no recurrent layer, and the engine sbe computes nothing else", flags.model);
  const JointExploration together = together_of(layers, board, flags.streams.value_or(4));
  const std::string json = json_of(layers, together, board, goal, flags.model);
  write_out(flags.json ? json : text_of(layers, board, flags.model) + text_of(together, layers));
  if (!flags.out.empty()) {
    make_folders(flags.out);
    write_study(flags.out,
                {{"front.csv", csv_of(layers)}, {"study.json", json}, {"index.html", page_of(layers, board, flags.model, flags.command)}});
  }
  bool all = true;
  for (const LayerStudy& layer : layers) {
    if (layer.found.fastest) continue;
    all = false;
    fmt::print(stderr, "millrace: infeasible: layer \"{}\": {}\n", layer.layer,
               layer.found.remedies.empty() ? "more than one limit stands in the way of every way to build it"
                                            : remedy_text(layer.found.remedies.front()));
  }
  return all ? 0 : exit_status_of(ErrorCode::kInfeasible);
}

}  // namespace millrace
