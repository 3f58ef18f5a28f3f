// Draws what tests/benchmarks/recurrent_learning.py found: one figure per task, the loss of training by epoch.
//
//   build/release/bin/draw_learning tests/benchmarks/results/recurrent_learning.json curves.html
//   build/release/bin/draw_learning results.json depth.svg --task depth
//
// And what ring_training.py found of FPDeep's Figure 16, and how the simulator's time grows by simulation.py, which call this
// themselves. Losses are means over the samples since the last point, on a logarithmic axis, as measured; a task with axes of its
// own ("x" and "y": label, logarithmic) is drawn on those, and its points are marked.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/drawing/chart.h"
#include "core/drawing/colour.h"
#include "core/drawing/page.h"

namespace millrace {
namespace {

std::string title_of(const nlohmann::json& task) {
  if (task.contains("title")) return task["title"];
  return fmt::format("{}: {}", task.at("task").get<std::string>(),
                     task.at("passed").get<bool>() ? "learnt as expected" : "not as expected");
}

Axis axis_of(const nlohmann::json& axis) { return {.label = axis.at("label"), .logarithmic = axis.value("logarithmic", false)}; }

Drawing curves_of(const nlohmann::json& task) {
  LineChart chart;
  chart.label = fmt::format("Loss by epoch, task {}", task.at("task").get<std::string>());
  chart.x.label = "epochs";
  chart.y = {.label = "loss per sample", .logarithmic = true};
  const bool own_axes = task.contains("x") && task.contains("y");
  if (own_axes) {
    chart.x = axis_of(task["x"]);
    chart.y = axis_of(task["y"]);
    chart.label = title_of(task);
  }
  size_t index = 0;
  for (const nlohmann::json& run : task.at("runs")) {
    Series series{.name = run.at("name"), .classes = series_class(index++)};
    if (own_axes) series.mark = Mark::kCircle;
    for (const nlohmann::json& point : run.at("curve")) series.points.push_back({point.at(0), point.at(1)});
    chart.series.push_back(std::move(series));
  }
  if (task.contains("baseline") && task["baseline"].contains("loss"))
    chart.references.push_back({.at = task["baseline"]["loss"], .vertical = false, .label = "baseline"});
  return draw(chart);
}

void draw_results(const std::string& results, const std::string& picture, const std::string& wanted) {
  const nlohmann::json document = nlohmann::json::parse(read_text(results), nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("tasks"))
    fail(ErrorCode::kMalformed, "{}: no results of recurrent_learning.py; run that with --json first", results);
  Page page("What recurrent networks learn", "tests/benchmarks/recurrent_learning.py, measured");
  bool found = false;
  for (const nlohmann::json& task : document["tasks"]) {
    if (!wanted.empty() && task.at("task") != wanted) continue;
    found = true;
    const Drawing drawing = curves_of(task);
    const std::string note = fmt::format("Measured. Criterion: {}.", task.at("criterion").get<std::string>());
    if (picture.ends_with(".svg"))
      write_atomically(picture, std::string_view(standalone_svg(drawing, {.title = title_of(task), .note = note})));
    else
      page.figure({.title = title_of(task), .note = note, .drawing = drawing});
  }
  if (!found) fail(ErrorCode::kNotFound, "{}: no task \"{}\" in it", results, wanted);
  if (!picture.ends_with(".svg")) write_atomically(picture, std::string_view(std::move(page).html(series_style_sheet())));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  CLI::App app{"Draws the curves of recurrent_learning.py"};
  std::string results, picture, task;
  app.add_option("results", results, "JSON of recurrent_learning.py")->required();
  app.add_option("picture", picture, "file to write: .html with every task, or .svg with one")->required();
  app.add_option("--task", task, "one task");
  CLI11_PARSE(app, argc, argv);
  try {
    if (picture.ends_with(".svg") && task.empty())
      millrace::fail(millrace::ErrorCode::kUsage, "an .svg holds one task; name it with --task");
    millrace::draw_results(results, picture, task);
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "draw_learning: {}\n", error.what());
    return millrace::exit_status_of(error.code());
  }
  return 0;
}
