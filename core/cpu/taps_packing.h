// The weight of convolutions that take one product per tap, as [tap][input][output]. Internal to core/cpu.
//
//   make_parameter({outputs, inputs, taps}, std::make_shared<TapsPacking>(outputs, inputs, taps))
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu/tensor.h"

namespace millrace::cpu {

class TapsPacking final : public Packing {
 public:
  TapsPacking(int64_t outputs, int64_t inputs, int64_t taps) : outputs_(outputs), inputs_(inputs), taps_(taps) {}

  int64_t stored() const override { return outputs_ * inputs_ * taps_; }
  void pack(const float* canonical, float* stored) const override {
    for_each([=](int64_t in_canonical, int64_t in_stored) { stored[in_stored] = canonical[in_canonical]; });
  }
  void unpack(const float* stored, float* canonical) const override {
    for_each([=](int64_t in_canonical, int64_t in_stored) { canonical[in_canonical] = stored[in_stored]; });
  }

 private:
  // Outputs in blocks of a cache line: rows of the canonical form are far apart, and each element's line would be read anew.
  template <typename Visit>
  void for_each(Visit visit) const {
    constexpr int64_t kLine = 16;
    for (int64_t first = 0; first < outputs_; first += kLine) {
      const int64_t end = std::min(first + kLine, outputs_);
      for (int64_t input = 0; input < inputs_; ++input)
        for (int64_t tap = 0; tap < taps_; ++tap)
          for (int64_t output = first; output < end; ++output)
            visit((output * inputs_ + input) * taps_ + tap, (tap * inputs_ + input) * outputs_ + output);
    }
  }

  int64_t outputs_, inputs_, taps_;
};

}  // namespace millrace::cpu
