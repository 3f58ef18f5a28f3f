#include "core/data/running_text.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

RunningText::RunningText(Ids ids, size_t begin, size_t end, std::string origin, int64_t steps)
    : ids_(std::move(ids)), begin_(begin), end_(end), origin_(std::move(origin)), steps_(steps) {
  MILLRACE_CHECK(steps > 0 && begin <= end && end <= ids_->size(), "{} steps of characters {} to {}", steps, begin, end);
  // The last character of all is a label only.
  const auto usable = static_cast<int64_t>(end - begin) - 1;
  size_ = std::max<int64_t>(0, usable / steps);
  if (size_ == 0)
    fail(ErrorCode::kMalformed, "{}: {} characters do not make one sample of {} steps and the character behind it; give a longer text{}",
         origin_, end - begin, steps, steps > 1 ? ", or a model with fewer steps" : "");
}

std::span<const uint16_t> RunningText::characters(int64_t sample) const {
  MILLRACE_CHECK(0 <= sample && sample < size_, "sample {} of {}", sample, size_);
  return std::span(*ids_).subspan(begin_ + to_size(sample * steps_), to_size(steps_) + 1);
}

void RunningText::read(int64_t sample, std::span<float> values) const {
  const std::span<const uint16_t> own = characters(sample);
  std::transform(own.begin(), own.end() - 1, values.begin(), [](uint16_t id) { return static_cast<float>(id); });
}

void RunningText::read_labels(int64_t sample, std::span<int32_t> labels) const {
  const std::span<const uint16_t> own = characters(sample);
  std::copy(own.begin() + 1, own.end(), labels.begin());
}

std::shared_ptr<const Sequences> RunningText::cut(int64_t steps) const {
  return std::make_shared<RunningText>(ids_, begin_, end_, origin_, steps);
}

std::optional<RunningText::Place> RunningText::first_beyond(int64_t tokens) const {
  constexpr uint16_t kLineBreak = 1;  // its place in every vocabulary
  TextPlace place;
  for (size_t i = 0; i < end_; ++i) {
    const uint16_t id = (*ids_)[i];
    if (i >= begin_ && id >= tokens) return Place{id, place};
    place.pass(id == kLineBreak ? U'\n' : U'x');
  }
  return std::nullopt;
}

}  // namespace millrace
