#include "partitioner/hybrid/lifetimes.h"

#include <algorithm>

namespace millrace {
namespace {

// Whole, a dense layer of a full pipeline works an image period on the way there and one on the way back.
constexpr double kPeriodsOfDense = 2;

struct Lag {
  double forward = 0;
  double back = 0;
};

// How much later than its input a layer's output comes, and how much later its error, as shares of a sample.
Lag lag_of(const Node& node) {
  const auto rows = static_cast<double>(std::max<int64_t>(node.input_shapes[0].height, 1));
  if (const auto* conv = std::get_if<Conv2d>(&node.layer.operation)) {
    const auto reach = static_cast<double>((conv->kernel_h - 1) * conv->dilation_h);
    const double padding = std::min(static_cast<double>(conv->pad_h), reach);
    return {(reach - padding) / rows, padding / rows};
  }
  if (const auto* pool = std::get_if<Pool2d>(&node.layer.operation))
    return {static_cast<double>(std::max<int64_t>(pool->kernel_h - 1 - pool->pad_h, 0)) / rows, 0};
  if (const auto* recurrent = std::get_if<Recurrent>(&node.layer.operation)) {
    const double step = recurrent->bidirectional ? 1 : 1 / rows;
    return {step, step};
  }
  return {};
}

}  // namespace

std::vector<double> activation_lifetimes(const Graph& graph, bool fc_barrier) {
  std::vector<double> lag_from(graph.nodes().size(), 0);  // of the node and all that follows it
  std::vector<bool> turns(graph.nodes().size(), false);   // a recurrent layer follows, or is here
  std::vector<double> dense_from(graph.nodes().size(), 0);
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const Lag lag = lag_of(node);
    double following = 0;
    turns[i] = std::holds_alternative<Recurrent>(node.layer.operation);
    for (const int64_t consumer : node.consumers) {
      following = std::max(following, lag_from[static_cast<size_t>(consumer)]);
      dense_from[i] = std::max(dense_from[i], dense_from[static_cast<size_t>(consumer)]);
      turns[i] = turns[i] || turns[static_cast<size_t>(consumer)];
    }
    lag_from[i] = lag.forward + lag.back + following;
    if (std::holds_alternative<Dense>(node.layer.operation)) dense_from[i] += kPeriodsOfDense;
  }
  std::vector<double> lifetimes;
  for (const LayerGroup& group : graph.groups()) {
    const auto head = static_cast<size_t>(group.head);
    lifetimes.push_back(lag_from[head] + (fc_barrier ? 1 + dense_from[head] : 0) + (turns[head] && !fc_barrier ? 1 : 0));
  }
  return lifetimes;
}

}  // namespace millrace
