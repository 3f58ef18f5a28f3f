// Plans for inference: the batches that their recurrent layers' engines take, the best of those that are left open, and engines in words.
//
//   CostModels models;
//   Outcome outcome = plan_inference({.streams = 2}, catalogue, task, models);      // task.options and models are then those of the plan
//   for (const std::string& words : engines_in_words(*outcome.plan, graph)) ...
//
// The graph's layers are frozen (core/graph/frozen_model.h). Fails with kUsage, naming layer and number, on steps that do not divide a
// layer's, and on what has no effect because no layer is recurrent. Nothing is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/catalogue.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "deploy/session/cost_models.h"
#include "partitioner/choice/planner.h"

namespace millrace {

struct InferenceRequest {
  std::optional<int64_t> streams;         // sequences side by side; nothing: the fastest of 1, 2 and 4
  std::optional<int64_t> steps_per_pass;  // of each sequence; nothing: what is best
  std::optional<int64_t> blocks;          // of streamed weights; nothing: what is best
};

// Whether engines can follow it. Fails with kMalformed, naming layer and setting; a plan that trains has none of these.
void check_engines(const Plan& plan, const Graph& graph);

Outcome plan_inference(const InferenceRequest& request, const Catalogue& catalogue, PlanTask& task, CostModels& models);

// A line for each engine of a recurrent layer.
std::vector<std::string> engines_in_words(const Plan& plan, const Graph& graph);

// What else would do, layer by layer: the ways to build each engine that nothing beats, fastest first.
std::vector<std::string> fronts_in_words(const InferenceRequest& request, const PlanTask& task, const Catalogue& catalogue,
                                         const Plan& plan);

}  // namespace millrace
