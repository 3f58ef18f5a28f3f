// A tensor on the host of which some channels may not have arrived yet. Used by the interpreter only. Internal to core/reference.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/documents/plan.h"

namespace millrace {

class Patch {
 public:
  Patch() = default;
  Patch(const Shape& shape, int64_t batch)
      : shape_(shape), batch_(batch), values_(to_size(shape.elements() * batch)), present_(to_size(shape.channels), 0) {}

  const Shape& shape() const { return shape_; }
  int64_t batch() const { return batch_; }
  Shape shape_of(const ChannelRange& channels) const { return {channels.size(), shape_.height, shape_.width}; }
  ChannelRange whole() const { return {0, shape_.channels}; }

  // [sample][channel of the range][row][column]; fails when a channel never arrived.
  std::vector<double> take(const ChannelRange& channels, std::string_view what) const {
    std::vector<double> values;
    values.reserve(to_size(channels.size() * shape_.plane() * batch_));
    for (int64_t c = channels.begin; c < channels.end; ++c)
      if (fast_item(present_, c) == 0)
        fail(ErrorCode::kMismatch, "channel {} of {} is used and no flow or shard of the plan provides it", c, what);
    for (int64_t n = 0; n < batch_; ++n) {
      const auto from = values_.begin() + at(n, channels.begin);
      values.insert(values.end(), from, from + channels.size() * shape_.plane());
    }
    return values;
  }

  // Channels that are there already are added to, rounding each sum to `round`; others are set.
  template <typename Round>
  void put(const ChannelRange& channels, std::span<const double> values, Round round) {
    const int64_t plane = shape_.plane();
    for (int64_t c = channels.begin; c < channels.end; ++c) {
      for (int64_t n = 0; n < batch_; ++n)
        for (int64_t i = 0; i < plane; ++i) {
          double& held = fast_item(values_, at(n, c) + i);
          const double value = fast_item(values, (n * channels.size() + c - channels.begin) * plane + i);
          held = fast_item(present_, c) != 0 ? round(held + value) : value;
        }
      fast_item(present_, c) = 1;
    }
  }

 private:
  int64_t at(int64_t sample, int64_t channel) const { return (sample * shape_.channels + channel) * shape_.plane(); }

  Shape shape_;
  int64_t batch_ = 0;
  std::vector<double> values_;
  std::vector<uint8_t> present_;
};

}  // namespace millrace
