// Which elements dropout keeps: a pure function of (seed, layer; epoch, sample id, element), so that E recomputes what
// F drew, and every device, rank count and micro-batch size agrees to the bit.
//
//   const DropoutMask<float> mask(dropout, batch.seed, "drop6", shape.elements());
//   y[e] = x[e] * mask.factor(batch.epoch, batch.sample_ids[n], e);
//
// The draw is Philox(seed, stream + epoch) at counter `sample id * stride + element`, where stream is
// stream_id("dropout", layer), element is the canonical index in the sample's whole tensor, and stride is the
// elements per sample rounded up to a multiple of four: the four words of one Philox block never span two samples.
// No two elements of a run share a draw as long as sample id * stride stays below 2^64.
// Kept elements are scaled by 1 / (1 - probability), so evaluation is the identity.
// Limits: 0 <= probability < 1.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/index.h"
#include "core/base/random.h"
#include "core/documents/model.h"

namespace millrace {

template <typename T>
class DropoutMask {
 public:
  DropoutMask(const Dropout& dropout, uint64_t seed, std::string_view layer, int64_t elements_per_sample)
      : seed_(seed),
        stream_(stream_id("dropout", layer)),
        stride_((static_cast<uint64_t>(elements_per_sample) + 3) / 4 * 4),
        threshold_(static_cast<uint64_t>(dropout.probability * 0x1p32)),
        scale_(static_cast<T>(1.0 / (1.0 - dropout.probability))) {}

  // 0 for a dropped element, 1 / (1 - probability) for a kept one.
  T factor(int64_t epoch, int64_t sample_id, int64_t element) const {
    const Philox draw(seed_, stream_ + static_cast<uint64_t>(epoch));
    return factor_of(draw.bits(static_cast<uint64_t>(sample_id) * stride_ + static_cast<uint64_t>(element)));
  }

  // factor() of a whole sample, one Philox block for four elements.
  void fill(int64_t epoch, int64_t sample_id, T* factors, int64_t elements) const {
    const Philox draw(seed_, stream_ + static_cast<uint64_t>(epoch));
    const uint64_t first_block = static_cast<uint64_t>(sample_id) * stride_ / 4;
    for (int64_t begin = 0; begin < elements; begin += 4) {
      const auto words = draw.block(first_block + static_cast<uint64_t>(begin) / 4);
      for (int64_t i = begin; i < elements && i < begin + 4; ++i) factors[i] = factor_of(fast_item(words, i - begin));
    }
  }

 private:
  T factor_of(uint32_t bits) const { return bits < threshold_ ? T{0} : scale_; }

  uint64_t seed_;
  uint64_t stream_;
  uint64_t stride_;
  uint64_t threshold_;  // of 2^32: draws below it are dropped
  T scale_;
};

}  // namespace millrace
