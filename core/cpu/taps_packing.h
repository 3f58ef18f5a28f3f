// The weight of convolutions that take one product per tap, as [tap][input][output]. Internal to core/cpu.
//
//   make_parameter({outputs, inputs, taps}, std::make_shared<TapsPacking>(outputs, inputs, taps))
#pragma once

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
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int64_t tap = 0; tap < taps_; ++tap)
      for (int64_t input = 0; input < inputs_; ++input)
        for (int64_t output = 0; output < outputs_; ++output)
          visit((output * inputs_ + input) * taps_ + tap, (tap * inputs_ + input) * outputs_ + output);
  }

  int64_t outputs_, inputs_, taps_;
};

}  // namespace millrace::cpu
