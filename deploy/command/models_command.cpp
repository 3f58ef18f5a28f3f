#include "deploy/command/models_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/zoo.h"

namespace millrace {

namespace {

using Json = nlohmann::ordered_json;

// Columns as wide as their widest cell; the first `left` columns are text and lean left, the others are numbers.
class Table {
 public:
  Table(std::vector<std::string> head, size_t left) : left_(left) { rows_.push_back(std::move(head)); }

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // A line of dashes before the next row.
  void rule() { rules_.push_back(rows_.size()); }

  std::string text() const {
    std::vector<size_t> widths(rows_[0].size(), 0);
    for (const auto& row : rows_)
      for (size_t column = 0; column < row.size(); ++column) widths[column] = std::max(widths[column], row[column].size());
    std::string text;
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (i == 1 || std::find(rules_.begin(), rules_.end(), i) != rules_.end()) text += ruler(widths);
      std::string line;
      for (size_t column = 0; column < rows_[i].size(); ++column)
        line += column < left_ ? fmt::format("{:<{}}  ", rows_[i][column], widths[column])
                               : fmt::format("{:>{}}  ", rows_[i][column], widths[column]);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  static std::string ruler(const std::vector<size_t>& widths) {
    size_t length = 2 * (widths.size() - 1);
    for (const size_t width : widths) length += width;
    return std::string(length, '-') + "\n";
  }

  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> rules_;
  size_t left_;
};

// 1076634144 -> "1,076,634,144"; nothing for 0, so that what costs stands out.
std::string grouped(int64_t number) {
  if (number == 0) return "-";
  std::string digits = fmt::format("{}", number);
  for (size_t i = digits.size(); i > 3;) digits.insert(i -= 3, 1, ',');
  return digits;
}

void write_out(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }
std::string json_text(const Json& json) { return json.dump(2) + "\n"; }

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
  Table table({"layer", "operation", "output", "parameters", "FP MACs", "EB MACs  ", "PG MACs"}, 3);
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
  Table table({"model", "input", "what it is", "parameters", "FP MACs"}, 3);
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
