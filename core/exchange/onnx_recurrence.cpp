// LSTM, GRU, RNN, and Gather as an embedding.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/index.h"
#include "core/exchange/onnx_graph.h"

namespace millrace {
namespace {

struct CellFacts {
  int gates;
  std::vector<int> order;  // ours, block by block, out of the file's
  const char* transform;
  std::vector<std::string> activations;
};

const CellFacts& facts_of(const std::string& type) {
  static const CellFacts lstm{4, {0, 2, 3, 1}, "gates i o f c to i f g o", {"sigmoid", "tanh", "tanh"}};
  static const CellFacts gru{3, {1, 0, 2}, "gates z r h to r z n", {"sigmoid", "tanh"}};
  static const CellFacts rnn{1, {0}, "as it is", {"tanh"}};
  return type == "LSTM" ? lstm : type == "GRU" ? gru : rnn;
}

void expect_zeros(const OnnxNode& node, const OnnxGraph& graph, int index, std::string_view what) {
  if (node.input(index).empty()) return;
  if (const auto found = graph.filled.find(node.input(index)); found != graph.filled.end() && found->second == 0) return;
  const OnnxConstant& constant = graph.weights(node, index);
  if (std::ranges::any_of(constant.floats, [](float value) { return value != 0; }))
    node.refuse("{} other than zeros (input {})", what, index);
}

// A number as short as it was written: 0.2, not what fp32 makes of it.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

// What the file says of the gates' hard sigmoids. A list has a number for each activation that takes one, as ONNX's text has it, or for
// each activation.
double hard_number(OnnxNode& node, const char* name, float otherwise, size_t directions, size_t activations) {
  const std::vector<float> values = node.numbers(name);
  const size_t step = values.size() == directions * activations ? activations : 1;
  if (step == 1 && values.size() > directions) node.refuse("{} of {} numbers for {} hard sigmoids", name, values.size(), directions);
  const auto of = [&](size_t d) { return d * step < values.size() ? values[d * step] : otherwise; };
  if (directions == 2 && of(0) != of(1)) node.refuse("{} {} and {}: both directions have one", name, of(0), of(1));
  return shortest(of(0));
}

// The activations are those that the cell always has, or a hard sigmoid for its gates; RNN's is tanh or relu.
void set_cell(OnnxNode& node, int directions, Recurrent& cell) {
  std::vector<std::string> words = node.words("activations");
  for (std::string& word : words)
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::vector<std::string>& usual = facts_of(node.type()).activations;
  std::vector<std::string> expected, relu, hard;
  for (int d = 0; d < directions; ++d) {
    expected.insert(expected.end(), usual.begin(), usual.end());
    relu.emplace_back("relu");
    hard.insert(hard.end(), usual.begin(), usual.end());
    hard[to_size(d) * usual.size()] = "hardsigmoid";
  }
  const bool gated = node.type() != "RNN";
  cell.cell = node.type() == "LSTM" ? CellKind::kLstm : node.type() == "GRU" ? CellKind::kGru : CellKind::kVanillaTanh;
  if (!gated && words == relu) {
    cell.cell = CellKind::kVanillaRelu;
  } else if (gated && words == hard) {
    const auto each = to_size(directions);
    cell.gate_activation = GateActivation::kHardSigmoid;
    cell.gate_slope = hard_number(node, "activation_alpha", 0.2F, each, usual.size());
    const double middle = hard_number(node, "activation_beta", 0.5F, each, usual.size());
    if (middle != 0.5) node.refuse("activation_beta {}: hard sigmoids are 0.5 at 0 here", middle);
    if (!(cell.gate_slope > 0) || !std::isfinite(cell.gate_slope)) node.refuse("activation_alpha {}", cell.gate_slope);
  } else if (!words.empty() && words != expected) {
    node.refuse("activations {}, only {}{} are computed", fmt::join(words, ", "), fmt::join(expected, ", "),
                gated ? fmt::format(" and {}", fmt::join(hard, ", ")) : "");
  }
  if (cell.gate_activation == GateActivation::kSigmoid && (node.has("activation_alpha") || node.has("activation_beta")))
    node.refuse("activation_alpha and activation_beta");
}

void set_weights(const OnnxNode& node, OnnxGraph& graph, const std::string& layer, int directions, int64_t hidden, int64_t features) {
  const CellFacts& facts = facts_of(node.type());
  const OnnxConstant &w = graph.weights(node, 1), &r = graph.weights(node, 2);
  const int64_t rows = facts.gates * hidden;
  const std::vector<int64_t> w_wanted = {directions, rows, features}, r_wanted = {directions, rows, hidden},
                             b_wanted = {directions, 2 * rows};
  const auto expect = [&](const OnnxConstant& found, const std::vector<int64_t>& wanted) {
    if (found.dimensions != wanted)
      node.refuse("weights \"{}\" of [{}], [{}] were expected", found.name, fmt::join(found.dimensions, ", "), fmt::join(wanted, ", "));
  };
  expect(w, w_wanted);
  expect(r, r_wanted);
  const bool biased = !node.input(3).empty();
  if (biased) expect(graph.weights(node, 3), b_wanted);
  const auto part = [](const std::vector<float>& values, int64_t begin, int64_t count) {
    const auto from = values.begin() + static_cast<ptrdiff_t>(begin);
    return std::vector<float>(from, from + static_cast<ptrdiff_t>(count));
  };
  for (int d = 0; d < directions; ++d) {
    const std::string suffix = d == 0 ? "" : "_reverse";
    const auto set = [&](const char* tensor, std::vector<int64_t> dimensions, const std::vector<float>& values, const std::string& source) {
      const int64_t columns = dimensions.size() > 1 ? dimensions[1] : 1;
      graph.net.set_weight(layer, tensor + suffix, std::move(dimensions), reorder_blocks(values, columns, facts.order), source,
                           facts.transform);
    };
    set("weight_ih", {rows, features}, part(w.floats, d * rows * features, rows * features), w.name);
    set("weight_hh", {rows, hidden}, part(r.floats, d * rows * hidden, rows * hidden), r.name);
    const std::vector<float> zeros(to_size(2 * rows));
    const std::vector<float> bias = biased ? part(graph.weights(node, 3).floats, d * 2 * rows, 2 * rows) : zeros;
    const std::string source = biased ? graph.weights(node, 3).name : "none";
    set("bias_ih", {rows}, part(bias, 0, rows), source);
    set("bias_hh", {rows}, part(bias, rows, rows), source);
  }
}

void convert_recurrent(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  const std::string direction = node.word("direction", "forward");
  if (direction != "forward" && direction != "bidirectional") node.refuse("direction {} alone", direction);
  const int directions = direction == "forward" ? 1 : 2;
  const bool samples_first = node.whole("layout", 0) != 0;
  const std::string wanted = samples_first ? "NHC" : "HNC";
  if (x.axes != wanted)
    node.refuse("its input has axes {}, {} were expected", x.axes, samples_first ? "samples, steps, features" : "steps, samples, features");
  Recurrent cell{.hidden = node.whole("hidden_size", 0), .bidirectional = directions == 2};
  set_cell(node, directions, cell);
  if (node.has("clip")) node.refuse("clip");
  if (node.whole("input_forget", 0) != 0) node.refuse("input_forget, which couples two gates");
  cell.reset_after = node.type() == "GRU" && node.whole("linear_before_reset", 0) != 0;
  node.ignore("output_sequence");  // says which outputs are wanted; the graph says that too
  node.no_more();
  constexpr int64_t kMostHidden = 1 << 20;
  if (cell.hidden == 0 && graph.constant(node, 2).dimensions.size() == 3) cell.hidden = graph.constant(node, 2).dimensions[2];
  if (cell.hidden < 1 || cell.hidden > kMostHidden) node.refuse("hidden_size {}", cell.hidden);
  if (!node.input(4).empty()) node.refuse("lengths of its samples (sequence_lens)");
  expect_zeros(node, graph, 5, "initial states");
  expect_zeros(node, graph, 6, "initial cells");
  if (!node.input(7).empty()) node.refuse("peepholes (P)");

  const NetworkValue y = graph.net.add(node.layer_name(), cell, {x.value});
  set_weights(node, graph, y.layer, directions, cell.hidden, x.value.shape.channels);
  graph.refuse_outputs_from(node, 2);
  const std::string side = directions == 2 ? "D" : "1", units = directions == 2 ? "c" : "C";
  graph.set(node, 0, {y, samples_first ? "NH" + side + units : "H" + side + "N" + units});
  const auto last = graph.readers.find(node.output(1));
  if (node.output(1).empty() || last == graph.readers.end() || last->second == 0) return;
  if (directions == 2)
    node.refuse("its last states (Y_h) of both directions: the backward one's stands at the first step, which has no counterpart here");
  graph.last_states.emplace(node.output(1), OnnxGraph::LastState{{y, samples_first ? "N1C" : "1NC"}, node.layer_name() + ".last"});
}

// The last of all steps.
void convert_last_step(OnnxNode& node, OnnxGraph& graph, const OnnxActivation& x) {
  const auto rank = static_cast<int64_t>(x.axes.size());
  int64_t axis = node.whole("axis", 0);
  node.no_more();
  axis += axis < 0 ? rank : 0;
  const OnnxConstant& index = graph.constant(node, 1);
  const bool only = axis >= 0 && axis < rank && item(x.axes, axis) == '1' && index.wholes.size() == 1 && index.dimensions.empty() &&
                    (index.wholes[0] == 0 || index.wholes[0] == -1);
  if (only) {
    std::string axes = x.axes;
    axes.erase(to_size(axis), 1);
    return graph.set(node, 0, {x.value, axes});
  }
  const bool last =
      index.wholes.size() == 1 && index.dimensions.empty() && (index.wholes[0] == -1 || index.wholes[0] == x.value.shape.height - 1);
  if (axis < 0 || axis >= rank || item(x.axes, axis) != 'H' || !last || x.value.shape.width != 1)
    node.refuse("something else than the last step is taken from axes {}", x.axes);
  std::string axes = x.axes;
  axes.erase(to_size(axis), 1);
  if (axes.find_first_of("Dc") != std::string::npos) node.refuse("the last step of two directions that are not joined");
  graph.set(node, 0, {graph.net.add(node.layer_name(), LastStep{}, {x.value}), axes});
}

void convert_embedding(OnnxNode& node, OnnxGraph& graph) {
  if (!graph.is_constant(node.input(0)) && graph.is_constant(node.input(1))) {
    const OnnxActivation x = graph.activation(node, 0);
    return convert_last_step(node, graph, x);
  }
  if (node.whole("axis", 0) != 0 || !graph.is_constant(node.input(0)))
    node.refuse("anything but rows of a constant, as an embedding takes them");
  node.no_more();
  const OnnxConstant& table = graph.weights(node, 0);
  const OnnxActivation ids = graph.activation(node, 1);
  if (table.dimensions.size() != 2) node.refuse("rows of [{}]", fmt::join(table.dimensions, ", "));
  if (ids.axes != "NH" && ids.axes != "HN") node.refuse("ids with axes {}, samples x steps were expected", ids.axes);
  const NetworkValue y =
      graph.net.add(node.layer_name(), Embedding{.vocabulary = table.dimensions[0], .dimension = table.dimensions[1]}, {ids.value});
  graph.net.set_weight(y.layer, "weight", table.dimensions, table.floats, table.name, "as it is");
  graph.set(node, 0, {y, ids.axes + "C"});
}

}  // namespace

bool convert_onnx_recurrence(OnnxNode& node, OnnxGraph& graph) {
  const std::string& type = node.type();
  if (type == "LSTM" || type == "GRU" || type == "RNN") return convert_recurrent(node, graph), true;
  if (type == "Gather") return convert_embedding(node, graph), true;
  return false;
}

}  // namespace millrace
