// Which recurrent layers a plan of strategy `kind` divides and which it leaves whole, and what the other way would take there, in
// sentences.
//
//   for (const std::string& sentence : divisions_in_words(task, *outcome.plan)) fmt::print("- {}\n", sentence);
//
// Seconds are modelled, of a sample, all phases together. Of other strategies there is nothing to say.
#pragma once

#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// One for each recurrent layer. The plan is of the task's devices.
std::vector<std::string> divisions_in_words(const PlanTask& task, const Plan& plan);

}  // namespace millrace
