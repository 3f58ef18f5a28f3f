#include "partitioner/hybrid/lifetimes.h"

#include <algorithm>

#include "core/base/index.h"

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

}  // namespace

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
  return lifetimes;
}

}  // namespace millrace
