// Numbers in a host's memory, in single or double precision: what devices and hosts hand each other, with a tag that says which it is.
//
//   void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override {
//     host.visit([&](auto values) { take(tensor, channels, values); });      // a std::span<const float> or <const double>
//   }
//   device.write(tensor, whole(tensor), values);                               // values: a vector or a span of either
//
//   HostBuffer buffer;
//   device.read(tensor, whole(tensor), buffer.of(device.compute_type(), tensor.elements()));
//
// Views own nothing, like std::span. A HostBuffer owns its memory; what of() returned before is no longer valid after the next call.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/index.h"
#include "core/documents/plan.h"

namespace millrace {

template <typename Float, typename Double>
class TaggedSpan {
 public:
  template <typename Range>
  requires(std::convertible_to<Range, std::span<Float>> || std::convertible_to<Range, std::span<Double>>) TaggedSpan(Range&& values)
      : spans_(std::forward<Range>(values)) {}

  // Of numbers that may be written.
  template <typename F, typename D>
  requires(std::same_as<const F, Float>&& std::same_as<const D, Double>) TaggedSpan(const TaggedSpan<F, D>& numbers)
      : spans_(numbers.visit([](auto values) { return Spans(values); })) {}

  // visit(std::span) of the one or the other.
  template <typename Visit>
  decltype(auto) visit(Visit visit) const {
    return std::visit(visit, spans_);
  }

  size_t size() const {
    return visit([](auto values) { return values.size(); });
  }
  TaggedSpan subspan(int64_t begin, int64_t count) const {
    return visit([&](auto values) { return TaggedSpan(values.subspan(to_size(begin), to_size(count))); });
  }
  TaggedSpan first(int64_t count) const { return subspan(0, count); }
  TaggedSpan behind(int64_t count) const { return subspan(count, static_cast<int64_t>(size()) - count); }

  // As many numbers as there are, rounded where these are single.
  void assign(std::span<const double> from) const requires(!std::is_const_v<Float>) {
    visit([&]<typename Number>(std::span<Number> values) {
      std::transform(from.begin(), from.end(), values.begin(), [](double value) { return static_cast<Number>(value); });
    });
  }

 private:
  using Spans = std::variant<std::span<Float>, std::span<Double>>;

  Spans spans_;
};

using HostNumbers = TaggedSpan<float, double>;
using ConstHostNumbers = TaggedSpan<const float, const double>;

class HostBuffer {
 public:
  // So many numbers: double for what computes in double, else single. Contents are those of before, or zero.
  HostNumbers of(ElementType type, int64_t count) {
    if (type == ElementType::kFloat64) return sized(wide_, count);
    return sized(narrow_, count);
  }

 private:
  template <typename Number>
  static HostNumbers sized(std::vector<Number>& numbers, int64_t count) {
    numbers.resize(to_size(count));
    return numbers;
  }

  std::vector<float> narrow_;
  std::vector<double> wide_;
};

}  // namespace millrace
