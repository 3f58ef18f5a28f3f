// What a resumed run does otherwise than the one that wrote its checkpoint, in words. Internal to node/ring.
//
//   const std::string changes = text_of_changes(checkpoint.facts, run / "plan.textproto", task.plan, task.job.data);
//   // "weight decay 0.001 (was 0), mini-batch 64 (was 32)"; empty: plan and data are the same
//
// The run's folder holds the plan of the checkpoint until the first update under another one; without it, what the checkpoint says of
// itself (optimizer, alignment) is compared. What has no word here is "the plan".
#pragma once

#include <filesystem>
#include <string>

#include "core/documents/plan.h"
#include "core/train/checkpoint_manifest.h"

namespace millrace {

std::string text_of_changes(const CheckpointFacts& facts, const std::filesystem::path& plan_of_run, const Plan& now,
                            const std::string& data);

}  // namespace millrace
