// What a segment tells: scores, outputs, what is not finite, the memory it takes and the kernels it runs.
#include <fmt/format.h>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/train/segment_parts.h"

namespace millrace {
namespace {

int64_t bytes_of(const std::vector<TensorPointer>& tensors) {
  int64_t bytes = 0;
  for (const TensorPointer& tensor : tensors)
    if (tensor) bytes += tensor->bytes();
  return bytes;
}

}  // namespace

void SegmentExecutor::read_scores(bool training, std::span<float> scores) {
  const std::unique_ptr<Slot>& slot = training ? slots_.front() : evaluation_;
  MILLRACE_CHECK(slot != nullptr, "no forward has run");
  for (size_t v = 0; v < program_.values.size(); ++v)
    if (program_.values[v].node == graph_.scores() && !program_.values[v].sum)
      return device_.read(*slot->values[v], whole(*slot->values[v]), scores);
  fail(ErrorCode::kUsage, "the network's scores are computed on another device");
}

std::string SegmentExecutor::first_non_finite(int64_t s) {
  const Slot* slot = slots_[to_size(s) % slots_.size()].get();
  if (slot == nullptr) return "";
  for (const Step& step : program_.steps)
    if (step.output >= 0 && !device_.all_finite(*item(slot->values, step.output)))
      return graph_.name_of(item(program_.values, step.output).node);
  return "";
}

bool SegmentExecutor::read_output(int64_t s, std::string_view layer, std::span<double> full) {
  const Slot* slot = slots_[to_size(s) % slots_.size()].get();
  for (size_t v = 0; slot != nullptr && v < program_.values.size(); ++v) {
    const Value& value = program_.values[v];
    if (value.sum || value.node == kNetworkInput || graph_.name_of(value.node) != layer) continue;
    device_.read(*slot->values[v], whole(*slot->values[v]), full);
    return true;
  }
  return false;
}

SegmentMemory SegmentExecutor::memory() const {
  SegmentMemory memory;
  for (const StepRun& run : runs_) {
    memory.parameter_bytes += bytes_of(run.state);
    for (const StepRun::Version& version : run.versions) memory.parameter_bytes += bytes_of(version.parameters);
    memory.gradient_bytes += bytes_of(run.gradients);
    for (const auto& slots : run.optimizer) memory.optimizer_bytes += bytes_of(slots);
  }
  // All slots are alike; measure one that exists, or make one for the purpose.
  const std::unique_ptr<Slot> made = slots_.front() ? nullptr : make_slot();
  const Slot& slot = made ? *made : *slots_.front();
  memory.activation_bytes = (bytes_of(slot.values) + bytes_of(slot.keeps) + bytes_of(slot.input_slices) + bytes_of(slot.output_slices)) *
                                static_cast<int64_t>(slots_.size()) +
                            bytes_of(shared_keeps_);
  const std::unique_ptr<ErrorSet> made_errors = errors_.front() ? nullptr : make_errors();
  const ErrorSet& set = made_errors ? *made_errors : *errors_.front();
  memory.error_bytes =
      (bytes_of(set.errors) + bytes_of(set.input_slices) + bytes_of(set.output_slices)) * static_cast<int64_t>(errors_.size());
  return memory;
}

std::vector<std::string> SegmentExecutor::implementations() const {
  std::vector<std::string> lines;
  for (size_t i = 0; i < runs_.size(); ++i)
    if (runs_[i].runs()) lines.push_back(fmt::format("{}: {}", graph_.name_of(program_.steps[i].node), runs_[i].kernel().implementation()));
  return lines;
}

}  // namespace millrace
