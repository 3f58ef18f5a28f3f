#include "deploy/command/information/models_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/zoo.h"
#include "deploy/command/line/json_text.h"
#include "deploy/command/line/text_table.h"

namespace millrace {

namespace {

Json json_of(const Shape& shape) { return Json::array({shape.channels, shape.height, shape.width}); }
Json json_of(const Graph::Macs& macs) { return {{"conv", macs.conv}, {"dense", macs.dense}, {"rnn", macs.rnn}}; }

Json json_of(const Graph& graph) {
  Json layers = Json::array();
  for (const Node& node : graph.nodes())
    layers.push_back({{"name", node.layer.name},
                      {"op", name_of(node.layer.operation)},
                      {"macs", node.work.forward_macs},
                      {"parameters", node.work.parameters},
                      {"output", json_of(node.output)}});
  return {{"name", graph.model().name},
          {"input", json_of(graph.model().input)},
          {"parameters", graph.parameter_count()},
          {"layers", std::move(layers)},
          {"macs", json_of(graph.macs())}};
}

std::string table_of(const Graph& graph) {
  TextTable table({"layer", "operation", "output", "parameters", "FP MACs", "EB MACs  ", "PG MACs"}, 3);
  Work total;
  bool error_without_reader = false;
  for (const Node& node : graph.nodes()) {
    const Work& work = node.work;
    // The first layers' EB would make the error of the network's input, which nobody reads.
    const bool unread = work.error_back_macs > 0 && !node.input_error_needed;
    error_without_reader |= unread;
    table.add({node.layer.name, std::string(name_of(node.layer.operation)), text_of(node.output), grouped(work.parameters),
               grouped(work.forward_macs), grouped(work.error_back_macs) + (unread ? " *" : "  "), grouped(work.parameter_gradient_macs)});
    total.forward_macs += work.forward_macs;
    total.error_back_macs += work.error_back_macs;
    total.parameter_gradient_macs += work.parameter_gradient_macs;
  }
  table.rule();
  table.add({"total", "", "", grouped(graph.parameter_count()), grouped(total.forward_macs), grouped(total.error_back_macs) + "  ",
             grouped(total.parameter_gradient_macs)});
  const Graph::Macs macs = graph.macs();
  std::string text = fmt::format("{}, input {}\n\n{}\nFP MACs: convolution {}, dense {}, recurrent {}\n", graph.model().name,
                                 text_of(graph.model().input), table.text(), grouped(macs.conv), grouped(macs.dense), grouped(macs.rnn));
  if (error_without_reader) text += "* counted as if computed; nobody reads this error, and CPU and GPU leave it out\n";
  return text;
}

}  // namespace

int list_models(bool json) {
  Json models = Json::array();
  TextTable table({"model", "input", "what it is", "parameters", "FP MACs"}, 3);
  for (const std::string& name : zoo_names()) {
    const Graph graph(zoo_model(name));
    const Graph::Macs macs = graph.macs();
    models.push_back({{"name", name},
                      {"summary", zoo_summary(name)},
                      {"input", json_of(graph.model().input)},
                      {"parameters", graph.parameter_count()},
                      {"macs", json_of(macs)}});
    table.add({name, text_of(graph.model().input), zoo_summary(name), grouped(graph.parameter_count()),
               grouped(macs.conv + macs.dense + macs.rnn)});
  }
  if (json)
    write_out(json_text({{"models", std::move(models)}}));
  else
    write_out(table.text() + "\n`millrace models NAME` shows one layer by layer; NAME may be the path of a .textproto.\n");
  return 0;
}

int show_model(const std::string& name_or_path, bool json) {
  const Graph graph(find_model(name_or_path));
  write_out(json ? json_text(json_of(graph)) : table_of(graph));
  return 0;
}

}  // namespace millrace
