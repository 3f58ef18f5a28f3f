#include "partitioner/hybrid/lifetimes.h"

#include <algorithm>

#include "core/base/index.h"
#include "core/graph/row_needs.h"

namespace millrace {
namespace {

// Whole, a dense layer of a full pipeline works an image period on the way there and one on the way back.
constexpr double kPeriodsOfDense = 2;

// As shares of a sample.
struct Lag {
  double forward = 0;  // of a layer's output behind its input
  double release = 0;  // of PG's last use of an input row behind the error of the output row in its place
  double back = 0;     // of its input's error behind its output's
};

// Rows of error come evenly; of the rows that wait for the same one each takes its time after the one before.
double stride_lag(const SlidingWindow& window, int64_t input_rows, int64_t output_rows) {
  const double each = 1 / static_cast<double>(input_rows);
  double end = 0;
  double lag = 0;
  for (int64_t row = 0; row < input_rows; ++row) {
    const int64_t errors = std::clamp<int64_t>(window.begun_outputs(row), 1, output_rows);
    end = std::max(end + each, static_cast<double>(errors) / static_cast<double>(output_rows));
    lag = std::max(lag, end - static_cast<double>(row + 1) * each);
  }
  return lag;
}

// Rows of error come evenly, and PG lets go of an input row with the last one that reads it.
double release_lag(const SlidingWindow& window, int64_t input_rows, int64_t output_rows) {
  double lag = 0;
  for (int64_t row = 0; row < input_rows; ++row) {
    const int64_t errors = std::clamp<int64_t>(window.begun_outputs(row), 1, output_rows);
    lag = std::max(lag, static_cast<double>(errors) / static_cast<double>(output_rows) -
                            static_cast<double>(row + 1) / static_cast<double>(input_rows));
  }
  return lag;
}

Lag lag_of_window(const Node& node, SlidingWindow window, const LifetimeRules& rules) {
  window.pad = std::min(window.pad, window.reach() - 1);
  const int64_t rows = std::max<int64_t>(node.input_shapes[0].height, 1);
  const double all = static_cast<double>(rows);
  const double forward = static_cast<double>(std::max<int64_t>(window.reach() - 1 - window.pad, 0)) / all;
  const bool pools = role_of(node.layer.operation) == Role::kPooling;
  const double padding = pools ? 0 : static_cast<double>(window.pad) / all;
  const int64_t errors = std::max<int64_t>(node.output.height, 1);
  const double release =
      pools || window.stride > 1 || !rules.unpadded_ends ? padding : std::max(padding, release_lag(window, rows, errors));
  if (rules.instant_unpooling) return {forward, padding, padding};
  return {forward, release, stride_lag(window, rows, errors)};
}

Lag lag_of(const Node& node, const LifetimeRules& rules) {
  const Traits traits = traits_of(node.layer.operation);
  const double all = static_cast<double>(std::max<int64_t>(node.input_shapes[0].height, 1));
  switch (traits.rows) {
    case Rows::kWindow: return lag_of_window(node, *traits.row_window, rules);
    case Rows::kEarlier: return {1 / all, 1 / all, 1 / all};
    case Rows::kEvery: return {1, 1, 1};
    case Rows::kOwn:
    case Rows::kAll:
    case Rows::kLast: break;
  }
  return {};
}

void merge(RowTable& into, const RowTable& table) {
  if (into.empty()) into.assign(table.size(), 0);
  for (size_t r = 0; r < table.size(); ++r) into[r] = std::max(into[r], table[r]);
}

// Of every node but the loss: how many rows of its output go forward before each position of their error can be made. Where all ways from a
// node go through one behind it, that one's table says what lies farther on.
class TurningRows {
 public:
  TurningRows(const Graph& graph, const RowCounts& rows) : graph_(graph), rows_(rows), turns_(graph.nodes().size()) {
    for (int64_t i = graph.loss(); i-- > 0;)
      if (!graph.node(i).consumers.empty()) item(turns_, i) = turn_of(i);
  }
  const RowTable& of(int64_t node) const { return item(turns_, node); }

 private:
  RowTable turn_of(int64_t from) const {
    // Rows of `from` before each row of those behind it, as far as the first that all ways go through; then back.
    std::vector<RowTable> forward{identity_rows(rows_.of(from))};
    int64_t farthest = graph_.node(from).consumers.back(), end = from;
    const auto there = [&](int64_t node) -> RowTable& { return item(forward, node - from); };
    while (end < farthest) {
      const Node& node = graph_.node(++end);
      forward.emplace_back();
      if (end == graph_.loss()) break;
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] >= from && !there(node.inputs[i]).empty())
          merge(there(end), compose(forward_needs(rows_, end, i), there(node.inputs[i])));
      if (end < farthest && !there(end).empty()) farthest = std::max(farthest, node.consumers.back());
    }
    std::vector<RowTable> errors(forward.size());
    const auto back = [&](int64_t node) -> RowTable& { return item(errors, node - from); };
    if (end != graph_.loss()) back(end) = compose(of(end), there(end));
    for (int64_t node = end; node-- > from;) {
      if (there(node).empty()) continue;
      for (const int64_t consumer : graph_.node(node).consumers) {
        const Node& reader = graph_.node(consumer);
        for (size_t i = 0; i < reader.inputs.size(); ++i) {
          if (reader.inputs[i] != node) continue;
          if (consumer == graph_.loss())
            merge(back(node), compose(turning_needs(rows_, consumer), there(node)));
          else
            merge(back(node), compose(backward_needs(rows_, consumer, i), back(consumer)));
        }
      }
    }
    return back(from);
  }

  const Graph& graph_;
  const RowCounts& rows_;
  std::vector<RowTable> turns_;
};

}  // namespace

std::vector<int64_t> least_rows_held(const Graph& graph, bool fc_barrier) {
  const RowCounts rows(graph, fc_barrier);
  const TurningRows turning(graph, rows);
  std::vector<int64_t> held;
  for (const LayerGroup& group : graph.groups()) {
    int64_t most = 1;
    if (group.head < graph.loss() && graph.node(group.head).error_needed) {
      const RowTable used = forward_needs(rows, group.head, 0), released = released_rows(rows, group.head, rows.errors_descend());
      const RowTable& turns = turning.of(group.head);
      for (size_t row = 0; row < turns.size(); ++row)
        most = std::max<int64_t>(most, item(used, turns[row] - 1) - (row == 0 ? 0 : released[row - 1]));
    }
    held.push_back(most);
  }
  return held;
}

std::vector<double> activation_lifetimes(const Graph& graph, const LifetimeRules& rules) {
  const size_t count = graph.nodes().size();
  std::vector<Lag> lags;
  // When, in samples after the network's input, a node has what it reads and its output is there: where ways join, one waits for
  // the other.
  std::vector<double> reads(count, 0), made(count, 0);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    lags.push_back(lag_of(node, rules));
    for (const int64_t input : node.inputs)
      if (input != kNetworkInput) reads[i] = std::max(reads[i], fast_item(made, input));
    made[i] = reads[i] + lags[i].forward;
  }
  std::vector<double> error(count, 0), error_back(count, 0);  // when its output's error is there, and its input's
  std::vector<bool> turns(count, false);                      // its errors come when the sequence has ended
  std::vector<double> dense_from(count, 0);
  const bool recurs =
      std::ranges::any_of(graph.nodes(), [](const Node& node) { return role_of(node.layer.operation) == Role::kRecurrence; });
  for (size_t i = count; i-- > 0;) {
    const Node& node = graph.nodes()[i];
    // Before a recurrent layer, in it, and step by step behind it: the last step's error is the first that it takes.
    turns[i] = role_of(node.layer.operation) == Role::kRecurrence || (recurs && node.input_shapes[0].height > 1);
    error[i] = made[i];
    for (const int64_t consumer : node.consumers) {
      const auto c = to_size(consumer);
      error[i] = std::max(error[i], error_back[c]);
      dense_from[i] = std::max(dense_from[i], dense_from[c]);
      turns[i] = turns[i] || turns[c];
    }
    error_back[i] = error[i] + lags[i].back;
    if (role_of(node.layer.operation) == Role::kProduct) dense_from[i] += kPeriodsOfDense;
  }
  std::vector<double> lifetimes;
  for (const LayerGroup& group : graph.groups()) {
    const auto head = to_size(group.head);
    lifetimes.push_back(error[head] + lags[head].release - reads[head] + (rules.fc_barrier ? 1 + dense_from[head] : 0) +
                        (turns[head] && !rules.fc_barrier ? 1 : 0));
  }
  if (!rules.least_rows) return lifetimes;
  const std::vector<int64_t> least = least_rows_held(graph, rules.fc_barrier);
  for (size_t g = 0; g < lifetimes.size(); ++g) {
    // The row that is being filled comes on top of a lifetime.
    const int64_t rows = std::max<int64_t>(graph.node(graph.groups()[g].head).input_shapes[0].height, 1);
    lifetimes[g] = std::max(lifetimes[g], static_cast<double>(least[g] - 1) / static_cast<double>(rows));
  }
  return lifetimes;
}

}  // namespace millrace
