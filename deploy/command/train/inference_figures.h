// What a plan for inference promises, for those who run it: its engines' pace, the weights they fetch, and how long a result takes.
//
//   const InferenceFigures figures = inference_figures(plan, graph, /*frames_per_second=*/30);
//   fmt::print("{}", text_of(figures));
//   line["modelled"] = json_of(figures);
//
// Frames are steps of sequences. A batch is streams x steps as the slowest engine takes them; its latency has three parts: waiting until
// its steps are there, which takes steps / frames_per_second where each stream brings so many (0: all are there at once, as in a file),
// the passes of all layers, and the links between devices. All figures are modelled; `clock` says at how many MHz.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

struct EngineFigures {
  std::string layer;
  int64_t device = 0;
  int64_t streams = 0, steps = 0;  // of a batch
  double cycles_per_batch = 0;
  double batch_seconds = 0;
  int64_t words_from_memory = 0;  // of weights, for a batch

  double frames_per_second() const { return static_cast<double>(streams * steps) / batch_seconds; }
};

struct InferenceFigures {
  std::vector<EngineFigures> engines;  // of recurrent layers
  double sequences_per_second = 0;
  int64_t batch_streams = 1, batch_steps = 1;
  double waiting_seconds = 0, pass_seconds = 0, link_seconds = 0;

  double first_result_seconds() const { return waiting_seconds + pass_seconds + link_seconds; }
};

// Nothing for plans that train, and for those whose layers have no engines.
std::optional<InferenceFigures> inference_figures(const Plan& plan, const Graph& graph, double frames_per_second);

// Lines for people; with the origin of all figures.
std::string text_of(const InferenceFigures& figures);
nlohmann::ordered_json json_of(const InferenceFigures& figures);

}  // namespace millrace
