// Recurrent layers of one size on two cards that meet layer after layer, as FARNN's pair does: the plan of times that are given.
//
//   const PairNetwork network{.cell = {.hidden = 1024}, .inputs = 1024, .layers = 5, .steps = 1600};
//   const Graph graph(pair_model(network));
//   const Plan plan = pair_plan(graph, network, {.steps_forward = 0.017, .steps_back = 0.016, .input = 0.0016, .gradient = 0.0032}, 60);
//   const double seconds = mini_batch_pace(plan, graph).seconds;
//
// The first card multiplies the inputs, keeps the steps' parameters and makes all gradients, the second makes the steps and loads those
// parameters for every F and E. Behind the layers the scores of the last step, which take next to nothing. One micro-batch between updates,
// all at single precision. Pure functions.
#pragma once

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

struct PairNetwork {
  Recurrent cell;      // of one direction
  int64_t inputs = 0;  // as many as a layer gives out, where there are several layers
  int64_t layers = 1;
  int64_t steps = 1;
  int64_t batch = 1;
};

// Seconds of a layer and a micro-batch.
struct PairTimes {
  double steps_forward = 0, steps_back = 0;
  double input = 0;     // products with the inputs, forward and as much back
  double gradient = 0;  // and the update
  double on_board = 0;  // those products on the second card instead: what in_mode() takes (pair_modes.h)
};

Model pair_model(const PairNetwork& network);
Plan pair_plan(const Graph& graph, const PairNetwork& network, const PairTimes& times, double link_gbps);

}  // namespace millrace
