// What the batch norms of a model are trained with, for all of them at once.
//
//   const Graph graph(with_choice(model, batch_norm_from("running")));
//
// Pure functions. Fail with kUsage: a word nobody knows; running statistics for a model that trains no batch norm.
#pragma once

#include <string_view>

#include "core/documents/job.h"
#include "core/documents/model.h"

namespace millrace {

// "exact" or "running", as --batch-norm has it.
BatchNormChoice batch_norm_from(std::string_view word);
Model with_choice(Model model, BatchNormChoice choice);

}  // namespace millrace
