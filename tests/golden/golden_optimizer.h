// The optimizer a golden file was made with, from its metadata.
//
//   const OptimizerSettings settings = settings_of(GoldenFile("optimizer_adam_decay"));
#pragma once

#include "core/documents/plan.h"
#include "tests/golden/golden_file.h"

namespace millrace::testing {

inline OptimizerSettings settings_of(const GoldenFile& golden) {
  OptimizerSettings settings{.kind = optimizer_from(golden.setting("kind"))};
  settings.momentum = golden.number("momentum", settings.momentum);
  settings.beta1 = golden.number("beta1", settings.beta1);
  settings.beta2 = golden.number("beta2", settings.beta2);
  settings.epsilon = golden.number("epsilon", settings.epsilon);
  settings.weight_decay = golden.number("weight_decay", 0);
  return settings;
}

}  // namespace millrace::testing
