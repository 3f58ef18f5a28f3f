// parse_pipedream_graph of profile.h: text, then the checks that only the whole graph allows, then what PipeDream leaves out.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "core/base/index.h"
#include "partitioner/profile/linearise.h"
#include "partitioner/profile/profile.h"
#include "partitioner/profile/profile_text.h"

namespace millrace {
namespace {

constexpr std::string_view kSeparator = " -- ";
constexpr std::string_view kNodeForm =
    "node1 -- description -- forward_compute_time=ms, backward_compute_time=ms, activation_size=bytes, parameter_size=bytes";

struct RawEdge {
  std::string from, to;
  int64_t line = 0;
};

// The file as it stands, with the lines things were found on.
struct RawGraph {
  std::vector<ProfileNode> nodes;
  std::vector<int64_t> lines;
  std::map<std::string, int64_t, std::less<>> index;
  std::vector<RawEdge> named_edges;
  std::vector<ProfileEdge> edges;  // ascending
};

// "key=value" off the front of `metrics`, with the comma behind it.
std::string_view take_metric(const LineReader& lines, std::string_view& metrics, std::string_view key, bool last) {
  const std::string_view given = metrics;
  if (!metrics.starts_with(key) || !metrics.substr(key.size()).starts_with('='))
    fail(ErrorCode::kMalformed, "{}: {} is missing where {} stands; a node is written {}", lines.where(), key, in_quotes(given), kNodeForm);
  metrics.remove_prefix(key.size() + 1);
  const size_t comma = metrics.find(", ");
  if (last != (comma == std::string_view::npos))
    fail(ErrorCode::kMalformed, "{}: {} {}; a node is written {}", lines.where(), in_quotes(given),
         last ? "says more than one amount" : "ends too early", kNodeForm);
  const std::string_view value = metrics.substr(0, comma);
  metrics = last ? std::string_view() : metrics.substr(comma + 2);
  return value;
}

double bytes_from(const LineReader& lines, std::string_view text, std::string_view key) {
  if (!text.starts_with('[')) return lines.whole_number(text, key, kMostNodeBytes);
  if (!text.ends_with(']')) fail(ErrorCode::kMalformed, "{}: {} is {}: the list is not closed", lines.where(), key, in_quotes(text));
  std::string_view list = text.substr(1, text.size() - 2);
  double sum = 0;
  for (bool more = true; more;) {
    const size_t semicolon = list.find(';');
    sum += lines.whole_number(list.substr(0, semicolon), key, kMostNodeBytes);
    more = semicolon != std::string_view::npos;
    if (more) list.remove_prefix(semicolon + 1);
  }
  if (sum > kMostNodeBytes)
    fail(ErrorCode::kMalformed, "{}: {} is {}, in sum at most {:g} is believed", lines.where(), key, in_quotes(text), kMostNodeBytes);
  return sum;
}

std::string_view checked_name(const LineReader& lines, std::string_view text) {
  const std::string_view name = lines.name(text);
  if (name.find(' ') != std::string_view::npos)
    fail(ErrorCode::kMalformed, "{}: {} is no node's name: it has a blank in it", lines.where(), in_quotes(name));
  return name;
}

// `-- stage_id=2`, which PipeDream's optimizer adds.
void drop_stage(const LineReader& lines, std::string_view& rest) {
  const size_t separator = rest.rfind(kSeparator);
  if (separator == std::string_view::npos) return;
  std::string_view last = trimmed(rest.substr(separator + kSeparator.size()));
  constexpr std::string_view kKey = "stage_id=";
  if (!last.starts_with(kKey)) return;
  lines.whole_number(last.substr(kKey.size()), "stage_id", 1e6);
  rest = rest.substr(0, separator);
}

ProfileNode node_from(const LineReader& lines) {
  std::string_view rest = lines.line();
  const size_t first = rest.find(kSeparator);
  if (first == std::string_view::npos)
    fail(ErrorCode::kMalformed, "{}: {} is neither a node ({}) nor an edge (a tab and node1 -- node2)", lines.where(), in_quotes(rest),
         kNodeForm);
  ProfileNode node;
  node.name = checked_name(lines, rest.substr(0, first));
  rest = rest.substr(first + kSeparator.size());
  drop_stage(lines, rest);
  const size_t last = rest.rfind(kSeparator);
  if (last == std::string_view::npos)
    fail(ErrorCode::kMalformed, "{}: node \"{}\" ends behind {}; a node is written {}", lines.where(), node.name, in_quotes(rest),
         kNodeForm);
  node.description = trimmed(rest.substr(0, last));
  std::string_view metrics = trimmed(rest.substr(last + kSeparator.size()));
  const auto milliseconds = [&](std::string_view key) {
    return lines.number(take_metric(lines, metrics, key, false), key, kMostNodeSeconds * 1e3) / 1e3;
  };
  node.forward_seconds = milliseconds("forward_compute_time");
  node.backward_seconds = milliseconds("backward_compute_time");
  node.activation_bytes = bytes_from(lines, take_metric(lines, metrics, "activation_size", false), "activation_size");
  node.parameter_bytes = lines.whole_number(take_metric(lines, metrics, "parameter_size", true), "parameter_size", kMostNodeBytes);
  node.out_bytes = node.activation_bytes;
  return node;
}

RawEdge edge_from(const LineReader& lines) {
  const std::string_view line = trimmed(lines.line());
  const size_t separator = line.find(kSeparator);
  if (separator == std::string_view::npos || line.find(kSeparator, separator + kSeparator.size()) != std::string_view::npos)
    fail(ErrorCode::kMalformed, "{}: {} is no edge; one is written with a tab and node1 -- node2", lines.where(), in_quotes(line));
  return {std::string(checked_name(lines, line.substr(0, separator))),
          std::string(checked_name(lines, line.substr(separator + kSeparator.size()))), lines.number_of_line()};
}

RawGraph read_lines(LineReader& lines) {
  RawGraph graph;
  while (lines.next()) {
    if (lines.line().starts_with('\t') || lines.line().starts_with(' ')) {
      if (graph.named_edges.size() == kMostProfileEdges)
        fail(ErrorCode::kMalformed, "{}: more than {} edges", lines.where(), kMostProfileEdges);
      graph.named_edges.push_back(edge_from(lines));
      continue;
    }
    if (graph.nodes.size() == kMostProfileNodes) fail(ErrorCode::kMalformed, "{}: more than {} nodes", lines.where(), kMostProfileNodes);
    ProfileNode node = node_from(lines);
    const auto [place, fresh] = graph.index.try_emplace(node.name, static_cast<int64_t>(graph.nodes.size()));
    if (!fresh)
      fail(ErrorCode::kMalformed, "{}: node \"{}\" is given a second time, the first is on line {}", lines.where(), node.name,
           item(graph.lines, place->second));
    graph.nodes.push_back(std::move(node));
    graph.lines.push_back(lines.number_of_line());
  }
  return graph;
}

void resolve_edges(const LineReader& lines, RawGraph& graph) {
  std::map<std::pair<int64_t, int64_t>, int64_t> seen;  // edge -> line
  for (const RawEdge& edge : graph.named_edges) {
    const auto end = [&](const std::string& name) {
      const auto found = graph.index.find(name);
      if (found == graph.index.end())
        fail(ErrorCode::kMalformed, "{}: the edge {} -- {} names {}, and no line describes that node", lines.where(edge.line), edge.from,
             edge.to, in_quotes(name));
      return found->second;
    };
    const std::pair<int64_t, int64_t> ends(end(edge.from), end(edge.to));
    if (ends.first == ends.second)
      fail(ErrorCode::kMalformed, "{}: the edge {} -- {} leads from a node to itself", lines.where(edge.line), edge.from, edge.to);
    const auto [place, fresh] = seen.try_emplace(ends, edge.line);
    if (!fresh)
      fail(ErrorCode::kMalformed, "{}: the edge {} -- {} is given a second time, the first is on line {}", lines.where(edge.line),
           edge.from, edge.to, place->second);
  }
  for (const auto& [ends, line] : seen) graph.edges.push_back({ends.first, ends.second});
}

// Sources that only read data.
std::vector<bool> inputs_of(const RawGraph& graph) {
  std::vector<bool> source(graph.nodes.size(), true);
  for (const ProfileEdge& edge : graph.edges) item(source, edge.to) = false;
  for (size_t i = 0; i < source.size(); ++i) source[i] = source[i] && graph.nodes[i].description.starts_with("Input");
  return source;
}

void refuse_cycle(const LineReader& lines, const RawGraph& graph, const std::vector<int64_t>& order) {
  if (order.size() == graph.nodes.size()) return;
  std::vector<bool> placed(graph.nodes.size(), false);
  for (const int64_t node : order) item(placed, node) = true;
  // Every node left waits for another one that is left; following that leads round.
  std::vector<int64_t> waits_for(graph.nodes.size(), -1);
  for (const ProfileEdge& edge : graph.edges)
    if (!item(placed, edge.from)) item(waits_for, edge.to) = edge.from;
  auto at = static_cast<int64_t>(std::find(placed.begin(), placed.end(), false) - placed.begin());
  std::vector<bool> visited(graph.nodes.size(), false);
  while (!item(visited, at)) {
    item(visited, at) = true;
    at = item(waits_for, at);
  }
  std::vector<std::string> names;
  const int64_t start = at;
  do {
    names.push_back(item(graph.nodes, at).name);
    at = item(waits_for, at);
  } while (at != start);
  std::reverse(names.begin(), names.end());
  std::rotate(names.begin(), std::min_element(names.begin(), names.end(), natural_less), names.end());
  const size_t length = names.size();
  constexpr size_t kShown = 50;
  if (length > kShown) {
    names.resize(kShown);
    names.emplace_back("...");
  }
  names.push_back(names.front());
  fail(ErrorCode::kMalformed, "{}: {} nodes depend on each other in a cycle: {}", lines.where(item(graph.lines, start)), length,
       fmt::join(names, " -> "));
}

void refuse_parts(const LineReader& lines, const RawGraph& graph, const std::vector<bool>& inputs) {
  std::vector<size_t> above(graph.nodes.size());
  std::iota(above.begin(), above.end(), size_t{0});
  const auto top = [&](size_t node) {
    while (above[node] != node) node = above[node] = above[above[node]];
    return node;
  };
  std::vector<bool> has_edge(graph.nodes.size(), false);
  for (const ProfileEdge& edge : graph.edges) {
    const auto from = to_size(edge.from);
    const auto to = to_size(edge.to);
    has_edge[from] = has_edge[to] = true;
    above[top(from)] = top(to);
  }
  size_t first = graph.nodes.size();
  for (size_t node = 0; node < graph.nodes.size(); ++node) {
    if (inputs[node] && !has_edge[node]) continue;  // data that nobody reads
    if (first == graph.nodes.size()) first = node;
    if (top(node) == top(first)) continue;
    fail(ErrorCode::kMalformed, "{}: no edges connect node \"{}\" with \"{}\" of line {}{}; the file may be cut short",
         lines.where(graph.lines[node]), graph.nodes[node].name, graph.nodes[first].name, graph.lines[first],
         graph.edges.empty() ? ", there are none" : "");
  }
}

// Sinks called __getitem__, until there are no more of them.
std::vector<bool> unused_of(const RawGraph& graph, const std::vector<int64_t>& order) {
  std::vector<std::vector<int64_t>> takers(graph.nodes.size());
  for (const ProfileEdge& edge : graph.edges) item(takers, edge.from).push_back(edge.to);
  std::vector<bool> unused(graph.nodes.size(), false);
  for (auto node = order.rbegin(); node != order.rend(); ++node) {
    const auto i = to_size(*node);
    unused[i] = graph.nodes[i].description.starts_with("__getitem__") &&
                std::all_of(takers[i].begin(), takers[i].end(), [&](int64_t taker) { return item(unused, taker); });
  }
  return unused;
}

}  // namespace

Profile parse_pipedream_graph(std::string_view text, std::string_view origin) {
  LineReader lines(text, origin);
  RawGraph graph = read_lines(lines);
  if (graph.nodes.empty()) fail(ErrorCode::kMalformed, "{}: there is no node in this file; one is written {}", origin, kNodeForm);
  resolve_edges(lines, graph);
  const std::vector<int64_t> order = topological_order(graph.nodes, graph.edges);
  refuse_cycle(lines, graph, order);
  const std::vector<bool> inputs = inputs_of(graph);
  refuse_parts(lines, graph, inputs);
  const std::vector<bool> unused = unused_of(graph, order);

  Profile profile;
  profile.origin = origin;
  // Ordered anew: without the inputs, other nodes may come first.
  std::vector<ProfileNode> kept;
  std::vector<int64_t> place(graph.nodes.size(), -1);
  for (const int64_t node : order) {
    const auto i = to_size(node);
    if (inputs[i]) {
      profile.inputs.push_back(graph.nodes[i].name);
      profile.input_seconds += graph.nodes[i].seconds();
    } else if (unused[i]) {
      profile.unused.push_back(graph.nodes[i].name);
    } else {
      place[i] = static_cast<int64_t>(kept.size());
      kept.push_back(std::move(graph.nodes[i]));
    }
  }
  if (kept.empty()) fail(ErrorCode::kMalformed, "{}: all nodes are inputs or unused results, so there is nothing to plan", origin);
  std::vector<ProfileEdge> edges;
  for (const ProfileEdge& edge : graph.edges) {
    const ProfileEdge moved{item(place, edge.from), item(place, edge.to)};
    if (moved.from >= 0 && moved.to >= 0) edges.push_back(moved);
  }
  const std::vector<int64_t> final_order = topological_order(kept, edges);
  std::vector<int64_t> final_place(kept.size());
  for (const int64_t node : final_order) {
    item(final_place, node) = profile.size();
    profile.nodes.push_back(std::move(item(kept, node)));
  }
  for (const ProfileEdge& edge : edges) profile.edges.push_back({item(final_place, edge.from), item(final_place, edge.to)});
  std::sort(profile.edges.begin(), profile.edges.end(),
            [](const ProfileEdge& a, const ProfileEdge& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  return profile;
}

}  // namespace millrace
