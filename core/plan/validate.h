// The one place that decides whether a plan means something: complete coverage of every layer, contiguous segments in
// ring order, homes that cover every parameter once, windows an alignment allows, flows equal to flows_of(plan).
//
//   validate(plan, graph, "plan.textproto");     // throws Error(kMalformed) naming file, field and value
//   Plan plan = load_plan("plan.textproto");
#pragma once

#include <filesystem>
#include <string_view>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

void validate(const Plan& plan, const Graph& graph, std::string_view origin);
Plan load_plan(const std::filesystem::path& path);

}  // namespace millrace
