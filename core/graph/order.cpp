#include "core/graph/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/graph/graph.h"

namespace millrace {

namespace {

using Positions = std::unordered_map<std::string_view, size_t>;

// Names end up in file names, in "conv1:sum" and "conv1.weight", and between blanks in tables.
bool well_formed(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-' || c == '/';
  });
}

Positions positions_of(const Model& model) {
  Positions positions;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const std::string& name = model.layers[i].name;
    if (!well_formed(name))
      fail(ErrorCode::kMalformed, "layer {} is called \"{}\"; a name is made of letters, digits, and any of _ . - /", i, name);
    if (name == kInputName) fail(ErrorCode::kMalformed, "layer {} is called \"{}\", which means the network's input; rename it", i, name);
    if (const auto [known, added] = positions.emplace(name, i); !added)
      fail(ErrorCode::kMalformed, "layers {} and {} are both called \"{}\"; rename one", known->second, i, name);
  }
  return positions;
}

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names{std::string(kInputName)};
  for (const Layer& layer : model.layers) names.push_back(layer.name);
  return names;
}

// Per layer, the document positions of its inputs; kNetworkInput.
std::vector<std::vector<int64_t>> operands_of(const Model& model, const Positions& positions) {
  std::vector<std::vector<int64_t>> operands(model.layers.size());
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const Layer& layer = model.layers[i];
    for (const std::string& input : layer.inputs) {
      if (input == kInputName) {
        operands[i].push_back(kNetworkInput);
        continue;
      }
      const auto found = positions.find(input);
      if (found == positions.end())
        fail(ErrorCode::kNotFound, "layer \"{}\" ({}) reads \"{}\", which does not exist{}", layer.name, name_of(layer.operation), input,
             layer_suggestion(input, names_of(model)));
      operands[i].push_back(static_cast<int64_t>(found->second));
    }
  }
  return operands;
}

// Every layer left over has an operand that is left over too: walking from operand to operand must come back.
[[noreturn]] void fail_on_cycle(const Model& model, const std::vector<std::vector<int64_t>>& operands, const std::vector<bool>& placed) {
  const auto is_left = [&](int64_t operand) { return operand != kNetworkInput && !item(placed, operand); };
  size_t at = to_size(std::find(placed.begin(), placed.end(), false) - placed.begin());
  std::vector<size_t> walk;
  std::vector<bool> seen(placed.size(), false);
  while (!seen[at]) {
    seen[at] = true;
    walk.push_back(at);
    const auto next = std::find_if(operands[at].begin(), operands[at].end(), is_left);
    MILLRACE_CHECK(next != operands[at].end(), "layer {} waits for nothing", model.layers[at].name);
    at = to_size(*next);
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), at));
  std::reverse(walk.begin(), walk.end());  // from producer to consumer
  std::rotate(walk.begin(), std::min_element(walk.begin(), walk.end()), walk.end());

  constexpr size_t kMostNamed = 12;
  std::string path;
  for (size_t i = 0; i < std::min(walk.size(), kMostNamed); ++i) path += fmt::format("\"{}\" -> ", model.layers[walk[i]].name);
  if (walk.size() > kMostNamed) path += fmt::format("{} more -> ", walk.size() - kMostNamed);
  fail(ErrorCode::kMalformed, "the layers form a cycle: {}\"{}\"; data must flow one way, remove one of these inputs", path,
       model.layers[walk[0]].name);
}

}  // namespace

LinearOrder linear_order_of(const Model& model) {
  const size_t count = model.layers.size();
  if (count == 0) fail(ErrorCode::kMalformed, "it has no layers");
  const std::vector<std::vector<int64_t>> operands = operands_of(model, positions_of(model));

  std::vector<std::vector<size_t>> readers(count);
  std::vector<size_t> waits_for(count, 0);
  for (size_t i = 0; i < count; ++i)
    for (const int64_t operand : operands[i])
      if (operand != kNetworkInput) {
        item(readers, operand).push_back(i);
        ++waits_for[i];
      }

  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < count; ++i)
    if (waits_for[i] == 0) ready.push(i);
  LinearOrder order;
  std::vector<bool> placed(count, false);
  std::vector<int64_t> place(count, 0);
  while (!ready.empty()) {
    const size_t next = ready.top();
    ready.pop();
    placed[next] = true;
    place[next] = static_cast<int64_t>(order.layers.size());
    order.layers.push_back(next);
    for (const size_t reader : readers[next])
      if (--waits_for[reader] == 0) ready.push(reader);
  }
  if (order.layers.size() != count) fail_on_cycle(model, operands, placed);

  for (const size_t layer : order.layers) {
    std::vector<int64_t>& inputs = order.inputs.emplace_back();
    for (const int64_t operand : operands[layer]) inputs.push_back(operand == kNetworkInput ? kNetworkInput : item(place, operand));
  }
  return order;
}

std::string layer_suggestion(std::string_view given, const std::vector<std::string>& names) {
  constexpr size_t kMostListed = 24;
  const std::string text = suggestion(given, names);
  const bool lists_all = text.starts_with("; known");
  return lists_all && names.size() > kMostListed ? fmt::format("; the model has {} layers", names.size() - 1) : text;
}

}  // namespace millrace
