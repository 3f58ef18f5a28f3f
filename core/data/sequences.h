// Samples that are rows of steps: characters, frames of sound, numbers; a label each, one per step, or a row of them.
//
//   const Sequences& text = *data.sequences;
//   std::vector<float> values(to_size(text.steps(17) * text.features()));
//   text.read(17, values);                                   // [step][feature]
//
// Immutable after loading: reading from several threads is safe, and data sets share one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace {

class Sequences {
 public:
  virtual ~Sequences() = default;

  virtual int64_t size() const = 0;
  virtual int64_t features() const = 0;
  // Of one sample, at least 1.
  virtual int64_t steps(int64_t sample) const = 0;
  // [step][feature]; `values` holds steps(sample) * features().
  virtual void read(int64_t sample, std::span<float> values) const = 0;
  // `labels` is as long as Dataset::labels_each; what the sample does not fill becomes kNoLabel.
  virtual void read_labels(int64_t sample, std::span<int32_t> labels) const = 0;
  // What people call the sample, for messages: "agent-pass".
  virtual std::string name_of(int64_t sample) const { return std::to_string(sample); }
  // The same data in samples of so many steps; null when samples have lengths of their own. Fails with kMalformed when there is
  // not enough for one sample.
  virtual std::shared_ptr<const Sequences> cut(int64_t steps) const {
    (void)steps;
    return nullptr;
  }
};

}  // namespace millrace
