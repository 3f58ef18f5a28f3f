// What travelled in a run beside what the plan predicted, flow by flow: RUN_DIR/flows.json. Internal to node/ring.
//
//   const std::vector<FlowCount> counts = flow_counts(plan, first, mini_batches, evaluations, micro_batches_each);
//   write_flow_report(path, plan, counts, moved);
//
// Elements are exact on both sides; a difference is a mistake of the program and is said aloud.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

// What the schedule makes of the plan's flows: elements, by flow, of a training from scratch over so many mini-batches, whose
// evaluations take `evaluation_micro_batches` in all.
std::vector<int64_t> planned_elements(const Plan& plan, int64_t mini_batches, int64_t evaluation_micro_batches);

// False when they differ anywhere.
bool write_flow_report(const std::filesystem::path& path, const Plan& plan, int64_t mini_batches, const std::vector<int64_t>& planned,
                       const std::vector<int64_t>& moved);

}  // namespace millrace
