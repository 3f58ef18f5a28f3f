// Contents for checkpoint tests: a pure function of the step, so that a reader can tell what must be there.
#pragma once

#include <string>
#include <vector>

#include "core/train/checkpoint.h"

namespace millrace::testing_support {

inline HostTensor ramp(int64_t elements, int64_t start) {
  std::vector<float> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(static_cast<float>(start + i) * 0.5F);
  return host_tensor({elements}, std::span<const float>(values));
}

inline CheckpointContent content_at(int64_t step, int64_t elements = 100) {
  CheckpointContent content;
  content.facts = {.step = step,
                   .epoch = step / 10,
                   .samples_into_epoch = step % 10 * 32,
                   .seed = 0xfedcba9876543210U,
                   .alignment = Alignment::kFpdeep,
                   .optimizer = {.kind = OptimizerKind::kAdam, .beta1 = 0.8, .weight_decay = 1e-4},
                   .model_digest = "0123",
                   .plan_digest = "4567",
                   .attributes = {{"data", "digits"}}};
  content.weights = {{"conv1.weight", ramp(elements, step)}, {"conv1.bias", ramp(3, step + 1)}, {"bn1.running_mean", ramp(3, step + 2)}};
  content.optimizer = {{"conv1.weight#slot0", ramp(elements, -step)}, {"conv1.weight#slot1", ramp(elements, 2 * step)}};
  content.previous_weights = {{"conv1.weight", ramp(elements, step - 1)}};
  content.model_text = "name: \"tiny\"\n";
  return content;
}

}  // namespace millrace::testing_support
