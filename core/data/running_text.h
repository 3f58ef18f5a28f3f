// Part of a text as samples of equal length, each with the characters behind its own as labels. Internal to core/data.
//
//   data.sequences = std::make_shared<RunningText>(ids, 0, ids->size(), "faust.txt", 100);
//
// Shares the ids with every other cut of the same text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/sequences.h"
#include "core/data/utf8.h"

namespace millrace {

class RunningText : public Sequences {
 public:
  using Ids = std::shared_ptr<const std::vector<uint16_t>>;

  // Characters [begin, end); `origin` names them in messages. Fails with kMalformed when they make no sample.
  RunningText(Ids ids, size_t begin, size_t end, std::string origin, int64_t steps);

  int64_t size() const override { return size_; }
  int64_t features() const override { return 1; }
  int64_t steps(int64_t) const override { return steps_; }
  void read(int64_t sample, std::span<float> values) const override;
  void read_labels(int64_t sample, std::span<int32_t> labels) const override;
  std::shared_ptr<const Sequences> cut(int64_t steps) const override;

  const std::string& origin() const { return origin_; }
  struct Place {
    uint16_t id = 0;
    TextPlace place;  // in the whole text
  };
  // The first character of this part whose id is not below `tokens`.
  std::optional<Place> first_beyond(int64_t tokens) const;

 private:
  // The characters of a sample, and the one behind its last.
  std::span<const uint16_t> characters(int64_t sample) const;

  Ids ids_;
  size_t begin_, end_;
  std::string origin_;
  int64_t steps_;
  int64_t size_;
};

}  // namespace millrace
